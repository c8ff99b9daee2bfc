"""Poly-Dom and Greedy by ICSP's four metrics, on its synthetic workload.

python -m benchmarks.bench_polydom            prints tables
python -m benchmarks.bench_polydom --json     one JSON object, for the record
python -m benchmarks.bench_polydom --plot DIR writes the figures there too

Metrics: sets expanded, bytes of the index, nanoseconds of one look-up (in compiled
code, random sizes and budgets) and expected accuracy under a budget; then seconds and
memory of a build by number of candidates. Features cost k0 + k1 n + k2 n^2 for sizes n
of 1 to 500; a set is as accurate as its k best features together, k = 1 or all.
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.indexer._crossing_kernels import compare
from polydom.indexer.candidates import prune
from polydom.indexer.greedy import GreedyLookup, search_greedy
from polydom.indexer.lattice import search_lattice
from polydom.indexer.lookup import Lookup

from ._lookup_kernels import index_all_ranks, naive_ranks, polydom_ranks
from .machine import describe

SIZES = (1.0, 500.0)
HELPFUL = 0.5  # share of the features that are accurate alone
ALPHAS = (1.0, 1.05, 1.1, 1.2)
COMBINERS = {"k=1": 1, "k=all": 99}
EXPANDED_FEATURES = range(1, 16)
INDEXED_FEATURES = (4, 6, 8, 10)
QUERIES, REPEATS, TRIALS = 20_000, 7, 5
TIMED_CANDIDATES = {1_000: True, 30_000: False}  # whether Index-All can be built too
HARD = 0.2  # spread of costs by neighbours' distance: most are on every skyline
LARGE_FEATURES = 24
DECIDED_FEATURES, TRAINING_S = 16, 0.01
CANDIDATES = (100, 300, 1_000, 3_000, 10_000, 30_000)
GREEDY = {
    "Greedy": (0.0, math.inf),
    "Greedy-Acc": (0.0, 0.0),
    "Greedy-Cost": (math.inf, math.inf),
}

ALPHA_LINES = [f"alpha {alpha:g}" for alpha in ALPHAS]
# name of a figure: its x and y axes, the table that it is of, the lines
FIGURES = {
    "expanded": ("m", "sets trained", "expanded", ["all", *ALPHA_LINES, *GREEDY]),
    "accuracy": ("budget", "mean accuracy", "accuracy", [*ALPHA_LINES, *GREEDY]),
    "lookups": ("m", "ns per look-up", "indexes", ["ns", "ns Index-All", "ns Naive"]),
    "bytes": ("m", "bytes of the index", "indexes", ["bytes", "bytes Index-All"]),
}
AXES = {"m": "features", "budget": "budget"}
LABELS = {"ns": "polydom", "ns Index-All": "Index-All", "ns Naive": "Naive-Lookup"}
LABELS |= {"all": "all sets", "bytes": "polydom", "bytes Index-All": "Index-All"}
STYLES = dict(zip(ALPHA_LINES, ("C0o-", "C1s-", "C2^-", "C3v-"), strict=True))
STYLES |= dict(zip(GREEDY, ("C4x:", "C5+:", "C6.:"), strict=True)) | {"all": "k--"}
STYLES |= {"ns": "C3o-", "ns Index-All": "C0s-", "ns Naive": "C2^-"}
STYLES |= {"bytes": "C3o-", "bytes Index-All": "C0s-"}

Table = list[dict[str, Any]]


class Workload(NamedTuple):
    """One draw of ICSP's synthetic workload."""

    single: list[float]
    costs: NDArray[np.float64]
    best: int

    def accuracy(self, mask: int) -> float:
        """1 - the product of what its `best` most accurate features leave."""
        chosen = sorted(a for f, a in enumerate(self.single) if mask >> f & 1)
        return 1 - math.prod(1 - a for a in chosen[-self.best :])

    def curves(self, masks: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Cost polynomials of sets: the sums of their features'."""
        bits = np.arange(len(self.single), dtype=np.uint64)
        return ((masks[:, None] >> bits & np.uint64(1)) @ self.costs).astype(float)

    def cost_at_median(self, mask: int) -> float:
        """Cost at the size Greedy optimises for."""
        curve = self.curves(np.array([mask], np.uint64))[0]
        return float(np.polynomial.polynomial.polyval(sum(SIZES) / 2, curve))


def draw(m: int, combiner: str, seed: int) -> Workload:
    """Draw costs that cross often; a helpful feature is right in 0.7 to 1 of cases."""
    random = np.random.default_rng([seed, m])
    helpful = random.random(m) < HELPFUL
    single = np.where(helpful, random.uniform(0.7, 1, m), random.uniform(0, 0.5, m))
    costs = random.random((m, 3)) * [100, 1, 0.001]
    return Workload(single.tolist(), costs, COMBINERS[combiner])


def count_expanded() -> Table:
    """Metric 1: sets that had to be trained, means over the trials."""
    table = []
    for combiner in COMBINERS:
        for m in EXPANDED_FEATURES:
            row: dict[str, Any] = {"combiner": combiner, "m": m, "all": 1 << m}
            for alpha in ALPHAS:
                row[f"alpha {alpha:g}"] = mean_over_trials(
                    lambda w, a=alpha: len(
                        search_lattice(len(w.single), w.accuracy, alpha=a).expanded
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


def mean_over_trials(count: Callable[..., int], m: int, combiner: str) -> float:
    return statistics.mean(count(draw(m, combiner, t)) for t in range(TRIALS))


def greedy(workload: Workload, lambdas: tuple[float, float]) -> Any:
    return search_greedy(
        len(workload.single),
        workload.accuracy,
        workload.cost_at_median,
        lambdas=lambdas,
    )


class Candidates(NamedTuple):
    """What the lattice search left to be indexed."""

    coefficients: NDArray[np.float64]
    accuracies: NDArray[np.float64]


def expand(workload: Workload, alpha: float) -> Candidates:
    expanded = search_lattice(
        len(workload.single), workload.accuracy, alpha=alpha
    ).expanded
    curves, gains = workload.curves(expanded.masks), expanded.accuracies
    kept = prune(curves, gains, SIZES)
    return Candidates(np.ascontiguousarray(curves[kept]), gains[kept])


def index_all(
    candidates: Candidates, lookup: Lookup, sizes: tuple[float, float] = SIZES
) -> tuple[NDArray[Any], ...]:
    """Poly-Dom-Index-All: the skyline of every range between any two crossings."""
    curves = candidates.coefficients
    starts, signs = np.empty(curves.shape[1]), np.empty(curves.shape[1], np.int64)
    found = set[float]()
    for i in range(len(curves)):
        for j in range(i):
            count = compare(curves[i], curves[j], *sizes, starts, signs)
            found.update(starts[1:count].tolist())
    crossings = np.array(sorted(found))
    rank = np.zeros(len(curves), np.int32)
    rank[lookup.rows] = np.arange(len(lookup.rows))
    skylines = [rank[lookup.skyline(n)] for n in (sizes[0], *crossings)]
    offsets = np.cumsum([0, *map(len, skylines)])
    return crossings, offsets, np.concatenate(skylines)


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


def size_of(lookup: Lookup) -> int:
    """Bytes of the index without the candidates' curves, which all rivals need."""
    arrays = lookup.arrays()
    return sum(a.nbytes for n, a in arrays.items() if n not in ("coefficients", "rows"))


def time_lookups(
    candidates: Candidates,
    lookup: Lookup,
    everything: tuple[NDArray[Any], ...] | None,
    between: tuple[float, float] = SIZES,
) -> dict[str, float]:
    """Nanoseconds per look-up, interleaved; all must answer alike."""
    random = np.random.default_rng(0)
    sizes = random.uniform(*between, QUERIES)
    curves = candidates.coefficients[random.integers(len(candidates[1]), size=QUERIES)]
    powers = sizes[:, None] ** np.arange(curves.shape[1])
    budgets = (curves * powers).sum(axis=1) * random.uniform(0.9, 1.1, QUERIES)
    order = np.argsort(candidates.accuracies, kind="stable")
    ranked = np.ascontiguousarray(candidates.coefficients[order])
    arrays = [a for name, a in lookup.arrays().items() if name != "rows"]
    contenders: dict[str, tuple[Callable[..., None], list[Any]]] = {
        "ns": (polydom_ranks, arrays),
        "ns Naive": (naive_ranks, [ranked]),
    }
    if everything is not None:
        arguments = [*everything, lookup.coefficients]
        contenders["ns Index-All"] = index_all_ranks, arguments
    rows = {"ns Naive": order}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    answers = {}
    for _ in range(REPEATS):
        for name, (find, arguments) in contenders.items():
            out = np.empty(QUERIES, np.int64)
            # CPU time: one look-up is far shorter than being put off the processor.
            start = time.thread_time()
            find(*arguments, sizes, budgets, out)
            times[name].append((time.thread_time() - start) / QUERIES * 1e9)
            found = candidates.accuracies[rows.get(name, lookup.rows)[out]]
            answers[name] = np.where(out < 0, -1.0, found)
    for name, given in answers.items():
        if not np.array_equal(given, answers["ns"]):
            raise AssertionError(f"{name} answers differently")
    return {name: statistics.median(values) for name, values in times.items()}


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


def draw_candidates(count: int, spread: float) -> Candidates:
    """Cubic costs proportional to accuracy, give or take a share."""
    random = np.random.default_rng(0)
    accuracies = random.random(count)
    noise = random.uniform(1 - spread, 1 + spread, (count, 4))
    return Candidates(accuracies[:, None] * noise * [100, 1, 2e-3, 4e-6], accuracies)


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


def chosen_accuracy(
    lookup: Lookup | GreedyLookup, accuracies: NDArray[np.float64]
) -> Callable[[float, float], float]:
    return lambda size, budget: float(accuracies[lookup.best(size, budget)])


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
    search_lattice(4, workload.accuracy)
    before = forget_peak()
    start = time.perf_counter()
    search = search_lattice(LARGE_FEATURES, workload.accuracy)
    return {
        "features": LARGE_FEATURES,
        "sets": 1 << LARGE_FEATURES,
        "expanded": len(search.expanded),
        "seconds": time.perf_counter() - start,
        "added_MB": (memory_kb("VmHWM") - before) / 1024,
    }


def measure_deciding() -> dict[str, float]:
    """Share of a build that the search itself takes, were trainings so long."""
    workload = draw(DECIDED_FEATURES, "k=1", 0)
    start = time.process_time()
    search = search_lattice(DECIDED_FEATURES, workload.accuracy, alpha=1.05)
    deciding_s = time.process_time() - start
    count = len(search.expanded)
    start = time.process_time()
    for mask in search.expanded:
        workload.accuracy(mask)
    deciding_s -= time.process_time() - start
    return {
        "features": DECIDED_FEATURES,
        "expanded": count,
        "deciding_s": deciding_s,
        "training_s": TRAINING_S,
        "share": deciding_s / (deciding_s + TRAINING_S * count),
    }


def forget_peak() -> int:
    """Make the present memory the peak (Linux only), and give it in KiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory_kb("VmRSS")


def memory_kb(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def in_new_process(measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Measure where no earlier part has left memory behind."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(measure).result()


def fit_exponent(builds: Table) -> float:
    """Slope of log seconds by log candidates, from 1,000 candidates on."""
    large = [row for row in builds if row["candidates"] >= 1_000]
    counts = np.log([row["candidates"] for row in large])
    seconds = np.log([row["prune_s"] + row["index_s"] for row in large])
    return float(np.polyfit(counts, seconds, 1)[0])


def print_table(title: str, table: Table) -> None:
    print(f"\n{title}")
    print(" ".join(f"{name:>15}" for name in table[0]))
    for row in table:
        print(
            " ".join(
                f"{value:>15.4g}" if isinstance(value, int | float) else f"{value:>15}"
                for value in row.values()
            )
        )


def plot(report: dict[str, Any], folder: Path) -> None:
    """Draw the figures that ICSP has, and the build's scaling."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    for name, (x, y, source, lines) in FIGURES.items():
        figure, axes = pyplot.subplots(
            1, len(COMBINERS), figsize=(11, 4), layout="constrained", sharey=True
        )
        for axis, combiner in zip(axes, COMBINERS, strict=True):
            rows = [row for row in report[source] if row["combiner"] == combiner]
            for line in lines:
                axis.plot(
                    [row[x] for row in rows],
                    [row[line] for row in rows],
                    STYLES[line],
                    zorder=3 if line == "all" else 2,
                    markersize=4,
                    label=LABELS.get(line, line),
                )
            axis.set(title=f"combiner {combiner}", xlabel=AXES[x])
            axis.set_yscale("linear" if name == "accuracy" else "log")
            axis.grid(alpha=0.3)
        axes[0].set_ylabel(y)
        axes[0].legend(fontsize=7)
        figure.savefig(folder / f"{name}.png", dpi=110)
    figure, axis = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    counts = [row["candidates"] for row in report["builds"]]
    names = {
        "prune_s": "pruning, s",
        "index_s": "indexing, s",
        "added_MB": "memory, MB",
    }
    for line, label in names.items():
        values = [row[line] for row in report["builds"]]
        axis.plot(counts, values, marker="o", label=label)
    axis.set(xscale="log", yscale="log", xlabel="candidates")
    axis.set_title(f"build time grows as candidates ^ {report['exponent']:.2f}")
    axis.grid(alpha=0.3)
    axis.legend()
    figure.savefig(folder / "builds.png", dpi=110)
    pyplot.close("all")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path, metavar="DIR")
    args = parser.parse_args()
    report: dict[str, Any] = {
        "machine": describe(),
        "expanded": count_expanded(),
        "indexes": measure_indexes(),
        "many": time_many_candidates(),
        "accuracy": compare_accuracy(),
        "builds": measure_builds(),
        "large": in_new_process(search_large),
        "deciding": in_new_process(measure_deciding),
    }
    report["exponent"] = fit_exponent(report["builds"])
    if args.plot:
        plot(report, args.plot)
    if args.json:
        print(json.dumps(report))
        return 0
    print(report["machine"])
    print_table("Sets expanded", report["expanded"])
    print_table("Index and look-up", report["indexes"])
    print_table("Look-up among many candidates", report["many"])
    print_table("Mean accuracy by budget, 10 features", report["accuracy"])
    print_table("Build, cubic costs", report["builds"])
    print_table("Search among very many sets", [report["large"]])
    print_table("Deciding what to train, k = 1", [report["deciding"]])
    print(f"build time grows as candidates ^ {report['exponent']:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
