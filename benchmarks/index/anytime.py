"""What deciding after every feature gains, over whole plans and over Greedy.

python -m benchmarks anytime             one size per image, 3 minutes once recorded
python -m benchmarks anytime --rounds 4  all four sizes of every image

A simulation over real times: values and CPU seconds of every feature of every image are
recorded once, then plans are replayed against the recorded seconds, so that every
contender meets the same ones and a second run gives the same figures. Half of the
images fit the models and the cost curves, a quarter chooses sets and orders, and the
last quarter is used for nothing but this report. An answer counts if it is right and in
time; one that is late counts as wrong. --quick takes scikit-learn's digits.
"""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray

from polydom.indexer.building.project_tables.search import Search
from polydom.indexer.building.training.search.search_sets import LAMBDAS, search_sets
from polydom.indexer.index.next_feature import AnytimeRule, NodeCosts
from polydom.indexer.index.package import Package
from polydom.indexer.progress import Silence
from polydom.indexer.set_search.feature_order import prefixes
from polydom.indexer.set_search.greedy import search_greedy
from tests.support.builds.known_sets import KnownSets

from .. import report
from . import recorded_scenes
from .lookup_rivals import GreedyLookup
from .recorded_scenes import QUANTILE, RecordedScenes, Run

BUDGETS_MS = (
    *(0.3, 0.5, 0.7, 1, 1.3, 1.6, 2, 2.5, 3, 4, 5, 6.5, 8, 10, 12, 16, 20, 25, 30),
    *(40, 50, 70),
)
NOISES = {"recorded": 0.0, "noisy": 0.4}  # spread of the logarithm of a factor
NAMES = {"greedy": "Greedy", "greedy-acc": "Greedy-Acc", "greedy-cost": "Greedy-Cost"}
OURS, OWN_RISK = "any-time", "any-time, cut off"

# A contender answers an item under a budget with a set, or with none in time.
Contender = Callable[[int, float], int | None]
Table = list[dict[str, Any]]


def poly_dom(
    scenes: RecordedScenes, alpha: float
) -> tuple[dict[str, Contender], dict[str, int]]:
    """Poly-Dom: plain, any-time, and any-time where it may be cut off anywhere."""
    found = search_sets(
        Search(method="poly-dom", alpha=alpha, alpha_of="accuracy"),
        scenes.features,
        KnownSets(scenes.accuracy),
        Silence(),
        scenes.cost,
    )
    curves = scenes.curves(np.array(found.sets, np.uint64))
    kept = found.keep(curves, scenes.between)
    masks = [found.sets[row] for row in kept]
    orders, fallbacks = found.order(masks, scenes.cost)
    accuracies = np.array([found.qualities[mask] for mask in masks])
    package = Package(
        kind="image",
        labels=(),
        features=(),
        costs=scenes.costs,
        masks=np.array(masks, np.uint64),
        orders=orders,
        fallbacks=fallbacks,
        models=(),
        model_s=np.zeros(len(masks)),
        overhead_s=0.0,
        meta={},
        typical=scenes.typical,
    )
    rule = AnytimeRule.of(package, accuracies, QUANTILE)
    at = [rule.at(size) for size in scenes.sizes]
    of_rows = curves[kept] @ (scenes.sizes ** np.arange(curves.shape[1])[:, None])

    def plain(item: int, budget_s: float) -> int | None:
        fits = np.flatnonzero(of_rows[:, item] <= budget_s)
        if not len(fits):
            return 0
        row = int(fits[accuracies[fits].argmax()])
        run = Run(scenes, item, budget_s)
        return masks[row] if all(map(run.compute, orders[row])) else None

    contenders: dict[str, Contender] = {
        "plain": plain,
        OURS: anytime(scenes, rule, at, careful=True),
        OWN_RISK: anytime(scenes, rule, at, careful=False),
    }
    return contenders, {"expanded": len(found.qualities), "kept": len(masks)}


def anytime(
    scenes: RecordedScenes, rule: AnytimeRule, at: list[NodeCosts], *, careful: bool
) -> Contender:
    """As the server goes on: ask after every feature what to compute next."""

    def answer(item: int, budget_s: float) -> int | None:
        run = Run(scenes, item, budget_s)
        while True:
            row = rule.target(at[item], run.done, run.left, careful=careful)
            done = run.done
            if row < 0 or not run.compute(rule.next(row, done)):
                return int(rule.masks[rule.answer(done)])

    return answer


def greedy(
    scenes: RecordedScenes, method: str
) -> tuple[dict[str, Contender], dict[str, int]]:
    """Greedy as published, and where it only begins what is sure to be done in time.

    Published: the budget chooses a sequence by the typical costs at the middle size;
    features are added until the time is up, and the last set completed answers.
    """

    def cost_of(mask: int) -> float:
        return float(polyval(scenes.middle, scenes.typical_costs.of(mask)))

    search = search_greedy(
        scenes.features, scenes.accuracy, cost_of, lambdas=LAMBDAS[method]
    )
    lookup = GreedyLookup.build(search, scenes.typical_costs.of_many, scenes.middle)

    def sequence(budget_s: float) -> tuple[int, ...]:
        at = int(np.searchsorted(lookup.costs_s, budget_s, side="right")) - 1
        return search.sequences[int(lookup.chosen[max(at, 0)])].features

    def answer(item: int, budget_s: float, careful: bool = False) -> int:
        run, best = Run(scenes, item, budget_s), 0
        features = sequence(budget_s)
        size, passed = scenes.sizes[item], prefixes(features)
        high_s = np.diff([polyval(size, scenes.costs.of(mask)) for mask in passed])
        for feature, seconds in zip(features, high_s, strict=True):
            if (careful and seconds > run.left) or not run.compute(feature):
                break
            if scenes.accuracy(run.done) > scenes.accuracy(best):
                best = run.done
        return best

    contenders: dict[str, Contender] = {
        f"{NAMES[method]}, cut off": answer,
        NAMES[method]: lambda item, budget_s: answer(item, budget_s, careful=True),
    }
    return contenders, {"expanded": len(search.expanded)}


def replay(
    scenes: RecordedScenes, contenders: dict[str, Contender], budgets_ms: list[float]
) -> tuple[Table, Table]:
    """Share of right answers in time, by budget and contender; and where ours lose."""
    right = scenes.right
    items = range(right.shape[1])
    table: Table = []
    lost: Table = []
    for budget_ms in budgets_ms:
        row: dict[str, float] = {"budget ms": budget_ms}
        hits: dict[str, NDArray[np.bool_]] = {}
        for name, answer in contenders.items():
            given = [answer(item, budget_ms / 1e3) for item in items]
            hits[name] = np.array(
                [mask is not None and right[mask, i] for i, mask in enumerate(given)]
            )
            row[name] = float(hits[name].mean())
            if name == "plain":
                row["plain, late"] = sum(mask is None for mask in given) / len(given)
        table.append(row)
        lost += compare(budget_ms, hits)
    return table, lost


def compare(budget_ms: float, hits: dict[str, NDArray[np.bool_]]) -> Table:
    """Give the rivals that are ahead of ours, each against its like, and how surely."""
    lost: Table = []
    for name, theirs in hits.items():
        if name in (OURS, OWN_RISK):
            continue
        own = OWN_RISK if name.endswith("cut off") else OURS
        ahead = theirs.astype(float) - hits[own]
        if ahead.mean() > 0:
            error = ahead.std() / np.sqrt(len(ahead))
            lost.append(
                {
                    "budget ms": budget_ms,
                    "rival": name,
                    "ahead by": float(ahead.mean()),
                    "standard error": float(error),
                }
            )
    return lost


def measure(scenes: RecordedScenes, given: Namespace) -> dict[str, Any]:
    """Replay everything with these seconds."""
    contenders, facts = poly_dom(scenes, given.alpha)
    searches = {"Poly-Dom": facts}
    for method in LAMBDAS:
        more, searches[NAMES[method]] = greedy(scenes, method)
        contenders |= more
    budgets_ms = [*BUDGETS_MS[:: 7 if given.quick else 1]]
    table, lost = replay(scenes, contenders, budgets_ms)
    return {"sets trained": searches, "right in time": table, "where rivals win": lost}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--rounds", type=int, default=1, choices=(1, 2, 3, 4))
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--cache", type=Path, default=Path(".polydom-cache/scenes"))
    given = parser.parse_args(arguments)
    noises = [*NOISES.values()]
    if given.quick:
        replayed = recorded_scenes.load_digits(noises)
    else:
        report.need(given, "scene15")
        replayed = recorded_scenes.load(given.cache, given.rounds, noises)
    split = replayed[0].split
    found: dict[str, Any] = {
        "alpha": given.alpha,
        "rows": [
            {
                "fitted to": len(split.fit),
                "sets chosen by": len(split.choose),
                "reported on": len(split.report),
            }
        ],
    }
    for name, scenes in zip(NOISES, replayed, strict=True):
        facts = measure(scenes, given)
        found |= {f"{name}: {what}": fact for what, fact in facts.items()}
    report.tell(found, given)
