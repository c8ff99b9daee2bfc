"""What exits save: mean cost per answer against accuracy, on items kept for that.

python -m benchmarks.exits.bench_exits                                all parts
python -m benchmarks.exits.bench_exits --parts plans --sets thyroid   one set of one
python -m benchmarks.exits.bench_exits --parts staged --sets adult    of another
python -m benchmarks.exits.bench_exits --json                         one JSON object

Plans. An index is built of three quarters of the items, once without exits and once for
each share of changed answers. Every item of the rest passes all checkpoints of the most
accurate plan once, each feature and each model timed as it is computed. From that
follows what every rule takes and answers: the whole plan, its first features alone
without exits, and exits. Seconds are the processor's, as what else runs is not in them;
`--planner` answers some items with the planner itself, and says how that compares.
Thyroid records cost what their tests do, beside LightGBM's cost-efficient boosting
(CEGB), which pays for the tests that the paths of a row need.

Staged. Exits between models against slices of one model (staged_exits.py); on scenes and
films with milliseconds that are measured first.

Budgets. What exits buy at each budget, guaranteed or on average (staged_budgets.py).
"""

import tempfile
import time
from collections.abc import Iterable, Sequence
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
from polydom.server.engine import execution
from polydom.server.engine.budget import Allowance
from polydom.server.engine.planner import Planner
from polydom.server.engine.request import Request

from .. import report
from ..data.kept_items import KEPT, TEXT_FEATURES, thyroid_columns
from ..data.recording import FEATURES
from ..places import DATA, ROOT
from . import staged_budgets, staged_exits
from .cegb import CEGB_ROUNDS, cegb

PARTS = ("plans", "staged", "budgets")
ALPHAS = (None, 0.0, 0.001, 0.002, 0.005, 0.01, 0.02)
CHECKED = 0.005


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
            "features": {"columns": thyroid_columns()},
            "learner": {  # CEGB's own, and as it
                "name": "lightgbm:LGBMClassifier",
                "n_estimators": CEGB_ROUNDS,
                "n_jobs": 1,
                "verbose": -1,
            },
            "search": {"method": "greedy-acc", "folds": 5},
            "costs": {"weights": {"usd": 1.0}},
        },
    }
    return Project.from_mapping(
        {
            "data": {"items": f"benchmarks.data.kept_items:build_{name}"},
            **about[name],
            "exits": "off" if alpha is None else {"alpha": alpha, "confidence": 0.0},
        },
        folder=ROOT,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """N items past the K + 1 checkpoints of one plan.

    Attributes
    ----------
    costs : (N, K + 1)
        Of the features before each checkpoint.
    checks : (N, K + 1)
        Of the model that answers there.
    margins, choices : (N, K + 1)
        What it answers; choices are codes of labels.
    """

    costs: NDArray[np.float64]
    checks: NDArray[np.float64]
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


def run(name: str, cache: Path) -> list[dict[str, Any]]:
    """Build with each alpha, take what was kept along the plan, and compare."""
    indexes = [build(project(name, alpha), cache=cache) for alpha in ALPHAS]
    package = indexes[0].package
    assert package is not None
    given = list(KEPT[name]())
    items = [make_item(payload) for payload, *_ in given]
    truth = np.array([package.labels.index(label) for _, label, *_ in given])
    money = name == "thyroid"
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
    for share, index in zip(ALPHAS[1:], indexes[1:], strict=True):
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


def ask_planners(name: str, cache: Path, most: int) -> list[dict[str, Any]]:
    """Answer some items with a planner, whole and with exits, in turn."""
    indexes = [build(project(name, alpha), cache=cache) for alpha in (None, CHECKED)]
    planners = []
    for index in indexes:
        assert index.package is not None
        planners.append(Planner(index, index.package.extractor()))
    items = [make_item(payload) for payload, *_ in KEPT[name]()][: most + 5]
    seconds, early = np.zeros((2, len(items))), np.zeros((2, len(items)))
    with one_thread():
        for i, item in enumerate(items):
            for e, planner in enumerate(planners):
                start = time.thread_time()
                outcome = execution.execute(planner, Request(item, Allowance(1e9)))
                seconds[e, i] = time.thread_time() - start
                early[e, i] = outcome.reason == "sure"
    means = seconds[:, 5:].mean(axis=1) * 1e3  # the first warm up
    return [
        {
            "set": name,
            "rule": "planner, the first items",
            "items": most,
            "alpha": alpha,
            "early": float(early[e, 5:].mean()),
            "mean_cost": float(means[e]),
            "unit": "ms",
            "of_whole": float(means[e] / means[0]),
        }
        for e, alpha in enumerate((None, CHECKED))
    ]


def main() -> None:
    """Run the benchmark."""
    parser = report.options(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--sets", nargs="+", choices={*KEPT, *staged_exits.DIVISIONS})
    parser.add_argument(
        "--planner", type=int, default=0, metavar="N", help="items for the planner too"
    )
    parser.add_argument("--cache", type=Path, help="keep what was built and timed here")
    arguments = parser.parse_args()
    report.need(DATA)
    found: dict[str, list[dict[str, Any]]] = {part: [] for part in arguments.parts}

    def asked(sets: Iterable[str]) -> list[str]:
        return [name for name in sets if name in (arguments.sets or sets)]

    with tempfile.TemporaryDirectory() as folder:
        cache = arguments.cache or Path(folder)
        if "plans" in found:
            for name in asked(KEPT):
                found["plans"] += run(name, cache)
                if arguments.planner and name != "thyroid":
                    found["plans"] += ask_planners(name, cache, arguments.planner)
            if "thyroid" in asked(KEPT):
                found["plans"] += cegb()
        for name in asked(staged_exits.DIVISIONS):
            if "staged" in found:
                found["staged"] += staged_exits.run(name, cache)
            if "budgets" in found:
                found["budgets"] += staged_budgets.run(name, cache)
    if "staged" in found:
        found["equal change"] = staged_exits.at_equal_change(found["staged"])
    report.tell(found, arguments.json)


if __name__ == "__main__":
    main()
