"""Poly-Dom and Greedy by ICSP's four metrics, on its synthetic workload.

python -m benchmarks.index.bench_polydom            prints tables
python -m benchmarks.index.bench_polydom --json     one JSON object, for the record
python -m benchmarks.index.bench_polydom --plot DIR writes the figures there too

Metrics: sets expanded, bytes of the index, nanoseconds of one look-up (in compiled
code, random sizes and budgets) and expected accuracy under a budget; then seconds and
memory of a build by number of candidates. The workload is in synthetic_sets.py.
"""

import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from polydom.indexer.index.lookup import Lookup
from polydom.indexer.set_search.poly_dom import search
from polydom.indexer.skyline.prune import prune

from .. import report
from ..new_process import forget_peak, in_new_process, memory_kb
from .lookup_rivals import (
    GreedyLookup,
    chosen_accuracy,
    index_all,
    size_of,
    time_lookups,
)
from .plot_polydom import plot
from .synthetic_sets import (
    ALPHAS,
    COMBINERS,
    GREEDY,
    SIZES,
    draw,
    draw_candidates,
    expand,
    greedy,
    mean_over_trials,
)

EXPANDED_FEATURES = range(1, 16)
INDEXED_FEATURES = (4, 6, 8, 10)
TIMED_CANDIDATES = {1_000: True, 30_000: False}  # whether Index-All can be built too
HARD = 0.2  # spread of costs by neighbours' distance: most are on every skyline
LARGE_FEATURES = 24
DECIDED_FEATURES, TRAINING_S = 16, 0.01
CANDIDATES = (100, 300, 1_000, 3_000, 10_000, 30_000)

Table = list[dict[str, Any]]


def count_expanded() -> Table:
    """Metric 1: sets that had to be trained, means over the trials."""
    table = []
    for combiner in COMBINERS:
        for m in EXPANDED_FEATURES:
            row: dict[str, Any] = {"combiner": combiner, "m": m, "all": 1 << m}
            for alpha in ALPHAS:
                row[f"alpha {alpha:g}"] = mean_over_trials(
                    lambda w, a=alpha: len(
                        search(len(w.single), w.accuracy, alpha=a).expanded
                    ),
                    m,
                    combiner,
                )
            for name, lambdas in GREEDY.items():
                row[name] = mean_over_trials(
                    lambda w, r=lambdas: len(greedy(w, r).expanded), m, combiner
                )
            table.append(row)
    return table


def measure_indexes() -> Table:
    """Metrics 2 and 3: bytes, and nanoseconds of a look-up beside its rivals."""
    table = []
    for combiner in COMBINERS:
        for m in INDEXED_FEATURES:
            candidates = expand(draw(m, combiner, 0), 1.0)
            lookup = Lookup.build(*candidates, SIZES)
            everything = index_all(candidates, lookup)
            row = {
                "combiner": combiner,
                "m": m,
                "candidates": len(candidates.accuracies),
                "crossings": len(everything[0]),
                "changes": len(lookup.breakpoints),
                "bytes": size_of(lookup),
                "bytes Index-All": sum(array.nbytes for array in everything),
            }
            table.append(row | time_lookups(candidates, lookup, everything))
    return table


def time_many_candidates() -> Table:
    """Metric 3 for candidates drawn as in `draw_candidates`."""
    table = []
    for count, feasible in TIMED_CANDIDATES.items():
        for spread in (0.5, HARD / count):
            table.append(time_candidates(count, spread, feasible))
    return table


def time_candidates(count: int, spread: float, feasible: bool) -> dict[str, float]:
    """With little spread nearly all candidates are on every skyline."""
    candidates = draw_candidates(count, spread)
    lookup = Lookup.build(*candidates, SIZES)
    everything = index_all(candidates, lookup) if feasible else None
    skyline = [len(lookup.skyline(n)) for n in np.linspace(*SIZES, 50)]
    stored = sum(a.nbytes for a in everything) if everything else math.nan
    row = {
        "candidates": count,
        "changes": len(lookup.breakpoints),
        "skyline": statistics.mean(skyline),
        "bytes": size_of(lookup),
        "bytes Index-All": stored,
        "ns Index-All": math.nan,
    }
    return row | time_lookups(candidates, lookup, everything)


def compare_accuracy(m: int = 10) -> Table:
    """Metric 4: mean accuracy of what is chosen, by budget, over random sizes."""
    table = []
    sizes = np.random.default_rng(1).uniform(*SIZES, 200).tolist()
    for combiner in COMBINERS:
        workload = draw(m, combiner, 0)
        choosers: dict[str, Callable[[float, float], float]] = {}
        for alpha in ALPHAS:
            candidates = expand(workload, alpha)
            lookup = Lookup.build(*candidates, SIZES)
            choosers[f"alpha {alpha:g}"] = chosen_accuracy(lookup, candidates[1])
        for name, lambdas in GREEDY.items():
            found = GreedyLookup.build(
                greedy(workload, lambdas), workload.curves, sum(SIZES) / 2
            )
            choosers[name] = chosen_accuracy(found, found.accuracies)
        whole = workload.cost_at_median((1 << m) - 1)
        for share in (0.05, 0.1, 0.2, 0.4, 0.8):
            row: dict[str, Any] = {"combiner": combiner, "budget": share * whole}
            for name, choose in choosers.items():
                row[name] = statistics.mean(choose(n, share * whole) for n in sizes)
            table.append(row)
    return table


def measure_builds() -> Table:
    """Seconds and added memory of pruning and indexing, each in a new process."""
    return [in_new_process(partial(measure_build, count)) for count in CANDIDATES]


def measure_build(count: int) -> dict[str, float]:
    """Cubic costs within 1 % of proportional to accuracy: thousands stay candidates."""
    costs, accuracies = draw_candidates(count, 0.01)
    Lookup.build(costs[:10], accuracies[:10], SIZES)
    before = forget_peak()
    start = time.perf_counter()
    kept = prune(costs, accuracies, SIZES)
    pruned = time.perf_counter()
    lookup = Lookup.build(costs, accuracies, SIZES)
    end = time.perf_counter()
    return {
        "candidates": count,
        "kept": len(kept),
        "changes": len(lookup.breakpoints),
        "bytes": size_of(lookup),
        "prune_s": pruned - start,
        "index_s": end - pruned,
        "added_MB": (memory_kb("VmHWM") - before) / 1024,
    }


def search_large() -> dict[str, float]:
    """Seconds and added memory of a search among all sets of many features, k = 1."""
    workload = draw(LARGE_FEATURES, "k=1", 0)
    search(4, workload.accuracy)
    before = forget_peak()
    start = time.perf_counter()
    found = search(LARGE_FEATURES, workload.accuracy)
    return {
        "features": LARGE_FEATURES,
        "sets": 1 << LARGE_FEATURES,
        "expanded": len(found.expanded),
        "seconds": time.perf_counter() - start,
        "added_MB": (memory_kb("VmHWM") - before) / 1024,
    }


def measure_deciding() -> dict[str, float]:
    """Share of a build that the search itself takes, were trainings so long."""
    workload = draw(DECIDED_FEATURES, "k=1", 0)
    start = time.process_time()
    found = search(DECIDED_FEATURES, workload.accuracy, alpha=1.05)
    deciding_s = time.process_time() - start
    count = len(found.expanded)
    start = time.process_time()
    for mask in found.expanded:
        workload.accuracy(mask)
    deciding_s -= time.process_time() - start
    return {
        "features": DECIDED_FEATURES,
        "expanded": count,
        "deciding_s": deciding_s,
        "training_s": TRAINING_S,
        "share": deciding_s / (deciding_s + TRAINING_S * count),
    }


def fit_exponent(builds: Table) -> float:
    """Slope of log seconds by log candidates, from 1,000 candidates on."""
    large = [row for row in builds if row["candidates"] >= 1_000]
    counts = np.log([row["candidates"] for row in large])
    seconds = np.log([row["prune_s"] + row["index_s"] for row in large])
    return float(np.polyfit(counts, seconds, 1)[0])


def main() -> None:
    parser = report.options(__doc__)
    parser.add_argument("--plot", type=Path, metavar="DIR")
    args = parser.parse_args()
    found: dict[str, Any] = {
        "expanded": count_expanded(),
        "indexes": measure_indexes(),
        "many": time_many_candidates(),
        "accuracy": compare_accuracy(),
        "builds": measure_builds(),
        "large": in_new_process(search_large),
        "deciding": in_new_process(measure_deciding),
    }
    found["exponent"] = fit_exponent(found["builds"])
    if args.plot:
        plot(found, args.plot)
    report.tell(found, args.json)


if __name__ == "__main__":
    main()
