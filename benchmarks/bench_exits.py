"""What exits save: mean cost per answer against accuracy, on items kept for that.

python -m benchmarks.bench_exits                     scenes, films, thyroid: tables
python -m benchmarks.bench_exits --sets thyroid      one of them
python -m benchmarks.bench_exits --json              one JSON object, for the record

An index is built of three quarters of the items, once without exits and once for each
share of changed answers; the rest is answered with the most accurate plan and no limit.
Scenes and films are timed, items in the same order with each index in turn; thyroid
records cost what their tests do, beside LightGBM's cost-efficient boosting (CEGB).
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from polydom.features.items import Item
from polydom.indexer import Index, build
from polydom.indexer.data import make_item
from polydom.indexer.project import Project
from polydom.server.budget import Allowance
from polydom.server.engine import Engine
from polydom.server.question import Question

from .kept_items import DATA, KEPT, thyroid_costs, thyroid_names, thyroid_rows
from .machine import describe
from .recording import FEATURES

ALPHAS = (None, 0.0, 0.001, 0.002, 0.005, 0.01, 0.02)
TEXT_FEATURES = [
    "text_length",
    "punctuation",
    "casing",
    "hashed_words",
    "type_token",
    "readability",
    "hashed_ngrams",
]
TRADEOFFS = (0.0, 0.002, 0.005, 0.01, 0.02)
CEGB_ROUNDS = 50
CEGB_ROWS = 600


def project(name: str, alpha: float | None) -> Project:
    """The project of one set with exits for `alpha`."""
    about: dict[str, dict[str, Any]] = {
        "scenes": {
            "features": {"use": list(FEATURES)},
            "learner": {"name": "lda"},
            "search": {"method": "greedy-acc", "held_out": 0.33},
        },
        "films": {
            "features": {"use": TEXT_FEATURES},
            "learner": {"name": "logistic", "C": 0.01},
            "search": {"alpha": 1.05, "held_out": 0.33},
        },
        "thyroid": {
            "features": {
                "columns": [
                    {"name": column, "columns": [column], "cost": {"usd": cost}}
                    for column, cost in thyroid_costs().items()
                ]
            },
            "learner": {"name": "forest", "n_estimators": 50},
            "search": {"method": "greedy", "held_out": 0.33},
            "costs": {"weights": {"usd": 1.0}},
        },
    }
    return Project.from_mapping(
        {
            "data": {"items": f"kept_items:build_{name}"},
            **about[name],
            **({} if alpha is None else {"exits": {"alpha": alpha}}),
        },
        folder=Path(__file__).resolve().parent,
    )


def answer_all(
    engines: Sequence[Engine], items: Sequence[Item]
) -> list[tuple[list[str], NDArray[np.float64], float]]:
    """Labels, seconds and share of early answers of each engine, items in turn."""
    labels: list[list[str]] = [[] for _ in engines]
    seconds = np.empty((len(engines), len(items)))
    early = np.zeros(len(engines))
    for i, item in enumerate(items):
        for e, engine in enumerate(engines):
            question = Question(item, Allowance(1e9))
            start = time.perf_counter()
            outcome = engine.answer(question)
            seconds[e, i] = time.perf_counter() - start
            labels[e].append(outcome.label)
            early[e] += outcome.reason == "sure"
    shares = early / len(items)
    return [
        (given, took, float(share))
        for given, took, share in zip(labels, seconds, shares, strict=True)
    ]


def declared_costs(index: Index, items: Sequence[Item]) -> NDArray[np.float64]:
    """Mean of what answering each item costs by the index's own declared costs."""
    package = index.package
    assert package is not None
    engine = Engine(index, package.extractor())
    paid = np.empty(len(items))
    for i, item in enumerate(items):
        outcome = engine.answer(Question(item, Allowance(1e9)))
        whole = engine.plans[int(np.argmax(index.accuracies))]
        done = whole.answers.index(outcome.row)
        mask = sum(1 << feature for feature in whole.features[:done])
        paid[i] = package.costs.of(mask)[0] if done else 0.0
    return paid


def run(name: str, cache: Path) -> list[dict[str, Any]]:
    """Build with each alpha, answer what was kept, and compare."""
    indexes = [build(project(name, alpha), cache=cache) for alpha in ALPHAS]
    engines = []
    for index in indexes:
        assert index.package is not None
        engines.append(Engine(index, index.package.extractor()))
    given = list(KEPT[name]())
    items = [make_item(payload) for payload, *_ in given]
    truth = np.array([label for _, label, *_ in given])
    with threadpool_limits(1):
        answer_all(engines, items[:20])
        answers = answer_all(engines, items)
    whole = np.array(answers[0][0])
    money = name == "thyroid"
    base = 0.0
    rows = []
    for alpha, index, (labels, seconds, early) in zip(
        ALPHAS, indexes, answers, strict=True
    ):
        costs = declared_costs(index, items) if money else seconds * 1e3
        base = base or float(costs.mean())
        rows.append(
            {
                "set": name,
                "alpha": alpha,
                "accuracy": float(np.mean(np.array(labels) == truth)),
                "changed": float(np.mean(np.array(labels) != whole)),
                "early": early,
                "mean_cost": float(costs.mean()),
                "p99_cost": float(np.quantile(costs, 0.99)),
                "unit": "usd" if money else "ms",
                "of_whole": float(costs.mean()) / base,
            }
        )
    return rows


def cegb() -> list[dict[str, Any]]:
    """LightGBM with lazy feature penalties: the features on a row's own paths cost."""
    import lightgbm

    names, costs = thyroid_names(), np.array(list(thyroid_costs().values()))
    (X, y), (X_test, y_test) = (_table(names, part) for part in ("train", "test"))
    rows = []
    for tradeoff in TRADEOFFS:
        booster = lightgbm.train(
            {
                "objective": "multiclass",
                "num_class": 3,
                "verbose": -1,
                "num_threads": 1,
                "cegb_tradeoff": tradeoff,
                "cegb_penalty_feature_lazy": costs.tolist(),
            },
            lightgbm.Dataset(X, y),
            CEGB_ROUNDS,
        )
        right = np.asarray(booster.predict(X_test)).argmax(axis=1) == y_test
        trees = booster.dump_model()["tree_info"]
        paid = [costs[sorted(_read(trees, row))].sum() for row in X_test[:CEGB_ROWS]]
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


def _table(
    names: list[str], part: str
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=KEPT, default=list(KEPT))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cache", type=Path, help="keep the builds' cache here")
    arguments = parser.parse_args()
    if not DATA.is_dir():
        print(f"the data are not here: {DATA} is no folder", file=sys.stderr)
        return 1
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.sets:
            rows += run(name, arguments.cache or Path(folder))
    if "thyroid" in arguments.sets:
        rows += cegb()
    if arguments.json:
        print(json.dumps({"machine": describe(), "rows": rows}))
        return 0
    print(describe())
    for row in rows:
        print(
            " | ".join(
                f"{value:.4g}" if isinstance(value, float) else str(value)
                for value in row.values()
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
