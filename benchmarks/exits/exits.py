"""What do exits between a plan's features save, on items that no build has seen?

python -m benchmarks exits                   all sets
python -m benchmarks exits --sets thyroid    one of them

An index is built of three quarters of the items, once without exits and once for each
share of changed answers. Every item of the rest passes all checkpoints of the most
accurate plan once, each feature and each model timed as it is computed. From that
follows what every rule takes and answers: the whole plan, its first features alone
without exits, and exits. Seconds are the processor's, as what else runs is not in them.
Thyroid records cost what their tests do, beside LightGBM's cost-efficient boosting
(CEGB), which pays for the tests that the paths of a row need.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.items import Item, make_item
from polydom.features.threads import one_thread
from polydom.indexer import Index, build
from polydom.indexer.building.project import Project
from polydom.indexer.set_search.feature_order import prefixes
from polydom.server.engine.planning.planner import Planner

from .. import report
from ..data.kept_items import (
    FOLDERS,
    FTI_TESTS,
    KEPT,
    TEXT_FEATURES,
    thyroid_columns,
    thyroid_costs,
    thyroid_names,
    thyroid_rows,
)
from ..data.recording import FEATURES
from ..places import ROOT

SETS = ("scenes", "films", "thyroid")
ALPHAS, QUICK_ALPHAS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02), (0.02,)
TRADEOFFS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025)
CEGB_ROUNDS = 50


def about(name: str) -> dict[str, Any]:
    """What the project of one set says."""
    if name == "scenes":
        return {
            "features": {"use": list(FEATURES)},
            "learner": {"name": "lda"},
            "search": {"method": "greedy-acc", "held_out": 0.33},
        }
    if name == "films":
        return {
            "features": {"use": TEXT_FEATURES},
            "learner": {"name": "logistic", "C": 0.01},
            "search": {"alpha": 1.05, "held_out": 0.33},
        }
    if name == "tumours":
        groups = (("texture", (21,)), ("smoothness", (24,)), ("area", (23,)))
        return {
            "features": {
                "columns": [
                    {
                        "name": group,
                        "columns": [f"x{k}" for k in own],
                        "cost": {"usd": 1.0},
                    }
                    for group, own in groups
                ]
            },
            "learner": {"name": "lda"},
            "search": {"method": "greedy-acc", "held_out": 0.33},
            "costs": {"weights": {"usd": 1.0}},
            "workers": 1,
        }
    return {
        "features": {"columns": thyroid_columns()},
        "learner": {  # CEGB's own, and as it
            "name": "lightgbm:LGBMClassifier",
            "n_estimators": CEGB_ROUNDS,
            "n_jobs": 1,
            "verbose": -1,
        },
        "search": {"method": "greedy-acc", "folds": 5},
        "costs": {"weights": {"usd": 1.0}},
    }


def project(name: str, alpha: float | None) -> Project:
    """The project of one set with exits for `alpha`."""
    return Project.from_mapping(
        {
            "data": {"items": f"benchmarks.data.kept_items:build_{name}"},
            **about(name),
            "exits": "off" if alpha is None else {"alpha": alpha, "confidence": 0.0},
        },
        folder=ROOT,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """N items past the K + 1 checkpoints of one plan."""

    costs: NDArray[np.float64]  # Cost of the features before each checkpoint
    checks: NDArray[np.float64]  # Cost of the model of each checkpoint
    # Margin and class code of that model's answer, shape (N, K + 1)
    margins: NDArray[np.float64]
    choices: NDArray[np.int64]

    def paid(self, needed: NDArray[np.float64], at: NDArray[np.int64]) -> Any:
        """(N,) costs of stopping `at` these checkpoints, asked where one is needed."""
        places = np.arange(self.costs.shape[1])
        asked = (np.isfinite(needed) & (places <= at[:, None])) | (
            places == at[:, None]
        )
        rows = np.arange(len(at))
        return self.costs[rows, at] + np.where(asked, self.checks, 0).sum(axis=1)


def walk(index: Index, items: Sequence[Item], money: bool) -> Walks:
    """Take every item along the most accurate plan, and time each step of it."""
    package = index.package
    assert package is not None
    extractor = package.extractor()
    plan = Planner(index, extractor).plans[int(np.argmax(index.qualities))]
    shape = (len(items), len(plan.answers))
    costs, checks, margins = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    choices = np.zeros(shape, np.int64)
    for i, item in enumerate(items):
        row = np.empty(extractor.width, np.float32)
        extraction = extractor.begin(item, row)
        for k, answer in enumerate(plan.answers):
            start = time.thread_time()
            if k:
                extraction.compute(plan.features[k - 1])
            between = time.thread_time()
            model = package.models[answer]
            code, scores = model.answer(row)
            end = time.thread_time()
            costs[i, k], checks[i, k] = between - start, end - between
            second, best = sorted(scores)[-2:]
            margins[i, k], choices[i, k] = best - second, model.classes[code]
    if money:
        of_masks = [package.costs.of(mask)[0] for mask in prefixes(plan.features)]
        return Walks(
            np.tile(of_masks, (len(items), 1)), np.zeros(shape), margins, choices
        )
    return Walks(costs.cumsum(axis=1) * 1e3, checks * 1e3, margins, choices)


def run(name: str, alphas: Sequence[float], cache: Path) -> list[dict[str, Any]]:
    """Build with each alpha, take what was kept along the plan, and compare."""
    indexes = [build(project(name, alpha), cache=cache) for alpha in (None, *alphas)]
    package = indexes[0].package
    assert package is not None
    given = list(KEPT[name]())
    items = [make_item(payload) for payload, *_ in given]
    truth = np.array([package.labels.index(label) for _, label, *_ in given])
    money = "costs" in about(name)
    with one_thread():
        walk(indexes[0], items[:20], money)
        walks = walk(indexes[0], items, money)
    top = int(np.argmax(indexes[0].qualities))
    last = len(package.orders[top])
    never = np.full(last + 1, np.inf)
    rules: list[tuple[str, float | None, NDArray[np.float64], int]] = [
        ("whole plan", None, never, last)
    ]
    rules += [
        (f"{k} features, no exits", None, never, k)
        for k in range(1, last)
        if package.fallbacks[top][k] != package.fallbacks[top][k - 1]
    ]
    for share, index in zip(alphas, indexes[1:], strict=True):
        assert index.package is not None
        assert index.package.orders[top] == package.orders[top]
        own = index.package.margins
        rules.append(("exits", share, np.array(own[top]) if own else never, last))
    rows: list[dict[str, Any]] = []
    for rule, alpha, needed, end in rules:
        stops = walks.margins > needed
        stops[:, end] = True
        at = stops.argmax(axis=1)
        labels = walks.choices[np.arange(len(at)), at]
        costs = walks.paid(needed, at)
        rows.append(
            {
                "set": name,
                "rule": rule,
                "alpha": alpha,
                "accuracy": float(np.mean(labels == truth)),
                "changed": float(np.mean(labels != walks.choices[:, -1])),
                "early": float(np.mean(at < last)),
                "mean_cost": float(costs.mean()),
                "p99_cost": float(np.quantile(costs, 0.99)),
                "unit": "usd" if money else "ms",
                "of_whole": 0.0,
            }
        )
        rows[-1]["of_whole"] = rows[-1]["mean_cost"] / rows[0]["mean_cost"]
    return rows


def cegb() -> list[dict[str, Any]]:
    """LightGBM with lazy feature penalties: the tests that a row's own paths need cost.

    It is charged FTI by the tests that this is computed from, once, as our plans are.
    """
    import lightgbm

    names, costs = thyroid_names(), thyroid_costs()
    (X, y), (X_test, y_test) = (
        thyroid_table(names, part) for part in ("train", "test")
    )
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
            tests = {names[feature] for feature in tests_read(trees, row)}
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


def thyroid_table(names: list[str], part: str) -> tuple[Any, Any]:
    """Records of "train" or "test" as rows (N, d), and their classes (N,)."""
    rows = list(thyroid_rows(part))
    X = [[record[name] for name in names] for record, *_ in rows]
    return np.array(X, float), np.array([int(label) - 1 for _, label, *_ in rows])


def tests_read(trees: list[dict[str, Any]], row: NDArray[np.float64]) -> set[int]:
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


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--cache", type=Path, help="keep what was built and timed here")
    args = parser.parse_args(arguments)
    sets, alphas = args.sets, [*ALPHAS]
    if args.quick:
        sets, alphas = ["tumours"], [*QUICK_ALPHAS]
    else:
        report.need(args, *(FOLDERS[name] for name in sets))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        cache = args.cache or Path(folder)
        for name in sets:
            rows += run(name, alphas, cache)
            if name == "thyroid":
                rows += cegb()
    report.tell({"plans": rows}, args)


if __name__ == "__main__":
    main()
