"""How many sets Poly-Dom trains, and what its index and look-up cost beside rivals.

python -m benchmarks poly_dom                  all parts, about 4 minutes once recorded
python -m benchmarks poly_dom --parts drawn    one of them
python -m benchmarks poly_dom --rounds 4       all four sizes of every scene

ICSP's metrics: sets trained, bytes of the index (without the candidates' curves, which
all need), nanoseconds of one look-up in compiled code at random sizes and budgets, and
expected accuracy under a budget. Beside Poly-Dom at four alphas: Greedy and its two
extremes, Index-All and Naive-Lookup.

"synthetic": the paper's own workload, means of five draws where sets are counted.
"drawn": candidates in numbers that a search seldom leaves; how a build grows with them,
what a search of 2^24 sets takes, and what share of a build deciding is. "scenes":
ICSP's scenes, 13 features, all 8,192 sets trained once (a linear discriminant) and kept
with what was recorded in `--cache`; --quick takes scikit-learn's digits in their place.
"""

import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from polydom.indexer.index.size_lookup import SizeLookup
from polydom.indexer.set_search.monotonicity import measure_violations
from polydom.indexer.set_search.poly_dom import search
from polydom.indexer.skyline.prune import prune

from .. import report
from ..new_process import forget_peak, in_new_process, memory_kb
from . import recorded_scenes
from .anytime import BUDGETS_MS
from .lookup_rivals import (
    QUERIES,
    GreedyLookup,
    chosen_accuracy,
    index_all,
    size_of,
    time_lookups,
)
from .recorded_scenes import RecordedScenes
from .workloads import (
    ALPHAS,
    COMBINERS,
    GREEDY,
    SIZES,
    Candidates,
    Synthetic,
    Workload,
    candidates,
    draw_candidates,
    greedy,
    poly_dom,
)

TRIALS = 5
TRAINED_FEATURES = range(1, 16)
INDEXED_FEATURES = (4, 6, 8, 10)
CHOSEN_FEATURES = 10
SHARES = (0.05, 0.1, 0.2, 0.4, 0.8)  # of the whole set's cost
HARD = 0.2  # spread of costs by neighbours' distance: most are on every skyline
TIMED_CANDIDATES = (1_000, 30_000)
BUILT_CANDIDATES = (100, 300, 1_000, 3_000, 10_000, 30_000)
LARGE_FEATURES = 24
DECIDED_FEATURES, TRAINING_S = 16, 0.01
TOLERANCES = (0.0, 0.005, 0.01, 0.02, 0.04)
TOLERANCE = 0.01
FEW = 1_000  # candidates that Index-All is built for

Table = list[dict[str, Any]]
Facts = dict[str, Any]


def count_trained(workload: Workload, tolerance: float = 0.0) -> dict[str, int]:
    """Metric 1: sets that each search trains."""
    counts = {"all": 1 << workload.features}
    for alpha in ALPHAS:
        counts[f"alpha {alpha:g}"] = len(poly_dom(workload, alpha, tolerance))
    for name, lambdas in GREEDY.items():
        counts[name] = len(greedy(workload, lambdas).expanded)
    return counts


def measure_index(given: Candidates, between: tuple[float, float]) -> Facts:
    """Metrics 2 and 3: bytes, and nanoseconds of a look-up beside its rivals."""
    lookup = SizeLookup.build(*given, between)
    few = len(given.accuracies) <= FEW
    everything = index_all(given, lookup, between) if few else None
    found = time_lookups(given, lookup, everything, between)
    return {
        "candidates": len(given.accuracies),
        "mean skyline": statistics.mean(
            len(lookup.skyline(n)) for n in np.linspace(*between, 50)
        ),
        "changes": len(lookup.breakpoints),
        "ns polydom": found["ns"],
        "ns Index-All": found.get("ns Index-All"),
        "ns Naive": found["ns Naive"],
        "look-ups, all alike": QUERIES,
        "bytes polydom": size_of(lookup),
        "bytes Index-All": sum(a.nbytes for a in everything) if everything else None,
    }


def compare_accuracy(
    workload: Workload,
    sizes: list[float],
    budgets: Iterable[float],
    tolerance: float = 0.0,
) -> Table:
    """Metric 4: mean accuracy of what is chosen, over items of these sizes."""
    choosers: dict[str, Callable[[float, float], float]] = {}
    for alpha in ALPHAS:
        found = candidates(workload, poly_dom(workload, alpha, tolerance))
        lookup = SizeLookup.build(*found, workload.between)
        choosers[f"alpha {alpha:g}"] = chosen_accuracy(lookup, found.accuracies)
    for name, lambdas in GREEDY.items():
        own = GreedyLookup.build(
            greedy(workload, lambdas), workload.curves, workload.middle
        )
        choosers[name] = chosen_accuracy(own, own.accuracies)
    return [
        {
            name: statistics.mean(choose(n, budget) for n in sizes)
            for name, choose in choosers.items()
        }
        for budget in budgets
    ]


def measure_synthetic(given: Namespace) -> Facts:
    """All metrics on ICSP's synthetic workload."""
    counts, indexed = TRAINED_FEATURES, [*INDEXED_FEATURES]
    if given.quick:
        counts, indexed = range(4, 6), [4, 5]
    trained: Table = []
    indexes: Table = []
    chosen: Table = []
    sizes = np.random.default_rng(1).uniform(*SIZES, 200).tolist()
    for combiner in COMBINERS:
        for m in counts:
            draws = [
                count_trained(Synthetic.draw(m, combiner, t)) for t in range(TRIALS)
            ]
            means = {name: statistics.mean(d[name] for d in draws) for name in draws[0]}
            trained.append({"combiner": combiner, "features": m, **means})
        for m in indexed:
            own = Synthetic.draw(m, combiner, 0)
            found = measure_index(candidates(own, poly_dom(own, 1.0)), SIZES)
            indexes.append({"combiner": combiner, "features": m, **found})
        workload = Synthetic.draw(
            indexed[-1] if given.quick else CHOSEN_FEATURES, combiner, 0
        )
        whole = np.array([(1 << workload.features) - 1], np.uint64)
        powers = workload.middle ** np.arange(3)
        cost = float(workload.curves(whole)[0] @ powers)
        budgets = [share * cost for share in SHARES]
        rows = compare_accuracy(workload, sizes, budgets)
        chosen += [
            {"combiner": combiner, "budget": budget, **row}
            for budget, row in zip(budgets, rows, strict=True)
        ]
    return {
        "synthetic: sets trained": trained,
        "synthetic: index and look-up": indexes,
        "synthetic: expected accuracy": chosen,
    }


def measure_drawn(given: Namespace) -> Facts:
    """Index and look-up of many candidates, and what searches and builds take."""
    timed, built = [*TIMED_CANDIDATES], [*BUILT_CANDIDATES]
    features, decided = LARGE_FEATURES, DECIDED_FEATURES
    alone: Callable[[Callable[[], dict[str, float]]], dict[str, float]] = in_new_process
    if given.quick:
        timed, built, features, decided = [100], [1_000, 2_000], 8, 6
        alone = _at_once
    builds = [alone(partial(measure_build, count)) for count in built]
    return {
        "drawn: index and look-up": [
            measure_index(draw_candidates(count, spread), SIZES)
            for count in timed
            for spread in (0.5, HARD / count)
        ],
        "drawn: build": builds,
        "drawn: build time grows as candidates to the power": fit_exponent(builds),
        "drawn: large search": [alone(partial(search_large, features))],
        "drawn: deciding": [alone(partial(measure_deciding, decided))],
    }


def _at_once(measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    return measure()


def measure_build(count: int) -> dict[str, float]:
    """Cubic costs within 1 % of proportional to accuracy: thousands stay candidates."""
    costs, accuracies = draw_candidates(count, 0.01)
    SizeLookup.build(costs[:10], accuracies[:10], SIZES)
    before = forget_peak()
    start = time.perf_counter()
    kept = prune(costs, accuracies, SIZES)
    pruned = time.perf_counter()
    lookup = SizeLookup.build(costs, accuracies, SIZES)
    end = time.perf_counter()
    return {
        "candidates": count,
        "kept": len(kept),
        "changes": len(lookup.breakpoints),
        "bytes": size_of(lookup),
        "pruning s": pruned - start,
        "indexing s": end - pruned,
        "added MB": (memory_kb("VmHWM") - before) / 1024,
    }


def fit_exponent(builds: Table) -> float:
    """Slope of log seconds by log candidates, from 1,000 candidates on."""
    large = [row for row in builds if row["candidates"] >= 1_000]
    counts = np.log([row["candidates"] for row in large])
    seconds = np.log([row["pruning s"] + row["indexing s"] for row in large])
    return float(np.polyfit(counts, seconds, 1)[0])


def search_large(features: int) -> dict[str, float]:
    """Seconds and added memory of a search among all sets of many features, k = 1."""
    workload = Synthetic.draw(features, "k=1", 0)
    search(4, workload.accuracy)
    before = forget_peak()
    start = time.perf_counter()
    found = search(features, workload.accuracy)
    return {
        "features": features,
        "sets": 1 << features,
        "trained": len(found.expanded),
        "seconds": time.perf_counter() - start,
        "added MB": (memory_kb("VmHWM") - before) / 1024,
    }


def measure_deciding(features: int) -> dict[str, float]:
    """Share of a build that the search itself takes, were trainings so long."""
    workload = Synthetic.draw(features, "k=1", 0)
    start = time.process_time()
    found = search(features, workload.accuracy, alpha=1.05)
    deciding_s = time.process_time() - start
    start = time.process_time()
    for mask in found.expanded:
        workload.accuracy(mask)
    deciding_s -= time.process_time() - start
    count = len(found.expanded)
    return {
        "features": features,
        "trained": count,
        "deciding s": deciding_s,
        "one training s": TRAINING_S,
        "share": deciding_s / (deciding_s + TRAINING_S * count),
    }


def measure_scenes(given: Namespace) -> Facts:
    """All metrics on ICSP's scenes."""
    if given.quick:
        (scenes,) = recorded_scenes.load_digits([0.0])
    else:
        report.need(given, "scene15")
        (scenes,) = recorded_scenes.load(given.cache, given.rounds, [0.0])
    items = scenes.sizes[:: max(len(scenes.sizes) // 400, 1)].tolist()
    budgets_s = [budget_ms / 1e3 for budget_ms in BUDGETS_MS]
    chosen = compare_accuracy(scenes, items, budgets_s, TOLERANCE)
    return {
        "scenes: images": len(scenes.recording.sizes),
        "scenes: sets trained": [
            {"tolerance": tolerance, **count_trained(scenes, tolerance)}
            for tolerance in TOLERANCES
        ],
        "scenes: index and look-up": index_scenes(scenes),
        "scenes: expected accuracy": [
            {"budget ms": budget_ms, **row}
            for budget_ms, row in zip(BUDGETS_MS, chosen, strict=True)
        ],
        "scenes: where more features hurt": [count_violations(scenes)],
    }


def index_scenes(scenes: RecordedScenes) -> Table:
    """Index what is kept of what was trained, and all of it.

    ICSP prunes candidates before it indexes; without that the index is larger, and the
    rivals grow faster than it does.
    """
    everything = np.arange(1 << scenes.features, dtype=np.uint64)
    sets = {f"alpha {a:g}": poly_dom(scenes, a, TOLERANCE) for a in ALPHAS}
    return [
        {"sets": f"{name}, {'kept' if pruned else 'trained'}"}
        | measure_index(candidates(scenes, masks, pruned=pruned), scenes.between)
        for name, masks in (sets | {"all": everything}).items()
        for pruned in (True, False)
    ]


def count_violations(scenes: RecordedScenes) -> Facts:
    """How often more features hurt, among all pairs of a set and a larger one."""
    accuracies = scenes.sets.accuracies
    every = np.arange(len(accuracies), dtype=np.uint64)
    found = measure_violations(every, accuracies)
    return {
        "pairs": found.pairs,
        "violations": found.count,
        "95 % of them below": found.quantile(0.95),
        "largest": found.largest,
    }


PARTS: dict[str, Callable[[Namespace], Facts]] = {
    "synthetic": measure_synthetic,
    "drawn": measure_drawn,
    "scenes": measure_scenes,
}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--rounds", type=int, default=1, choices=(1, 2, 3, 4))
    parser.add_argument("--cache", type=Path, default=Path(".polydom-cache/scenes"))
    given = parser.parse_args(arguments)
    found: Facts = {}
    for part in given.parts:
        found |= PARTS[part](given)
    report.tell(found, given)
