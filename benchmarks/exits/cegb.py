"""LightGBM's cost-efficient boosting (CEGB) on thyroid records, whose tests cost."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.kept_items import FTI_TESTS, thyroid_costs, thyroid_names, thyroid_rows

TRADEOFFS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025)
CEGB_ROUNDS = 50


def cegb() -> list[dict[str, Any]]:
    """LightGBM with lazy feature penalties: the tests that a row's own paths need cost.

    It is charged FTI by the tests that this is computed from, once, as our plans are.
    """
    import lightgbm

    names, costs = thyroid_names(), thyroid_costs()
    (X, y), (X_test, y_test) = (table(names, part) for part in ("train", "test"))
    rows = []
    for tradeoff in TRADEOFFS:
        booster = lightgbm.train(
            {
                "objective": "multiclass",
                "num_class": 3,
                "verbose": -1,
                "num_threads": 1,
                "cegb_tradeoff": tradeoff,
                "cegb_penalty_feature_lazy": list(costs.values()),
            },
            lightgbm.Dataset(X, y),
            CEGB_ROUNDS,
        )
        right = np.asarray(booster.predict(X_test)).argmax(axis=1) == y_test
        trees = booster.dump_model()["tree_info"]
        paid = []
        for row in X_test:
            tests = {names[feature] for feature in _read(trees, row)}
            if "FTI" in tests:
                tests = tests - {"FTI"} | set(FTI_TESTS)
            paid.append(sum(costs[test] for test in tests))
        rows.append(
            {
                "set": "thyroid, CEGB lazy",
                "tradeoff": tradeoff,
                "accuracy": float(right.mean()),
                "mean_cost": float(np.mean(paid)),
                "unit": "usd",
            }
        )
    return rows


def table(names: list[str], part: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rows = list(thyroid_rows(part))
    X = [[record[name] for name in names] for record, *_ in rows]
    return np.array(X, float), np.array([int(label) - 1 for _, label, _ in rows])


def _read(trees: list[dict[str, Any]], row: NDArray[np.float64]) -> set[int]:
    """Features that the trees look at on the way down for one row."""
    read: set[int] = set()
    for tree in trees:
        node = tree["tree_structure"]
        while "split_feature" in node:
            feature = node["split_feature"]
            read.add(feature)
            left = row[feature] <= node["threshold"]
            node = node["left_child" if left else "right_child"]
    return read
