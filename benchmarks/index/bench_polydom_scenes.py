"""Poly-Dom, Greedy and ICSP's baselines by its four metrics, on its scenes.

python -m benchmarks.index.bench_polydom_scenes             prints tables, about 3 minutes
python -m benchmarks.index.bench_polydom_scenes --rounds 4  all four sizes of every image
python -m benchmarks.index.bench_polydom_scenes --plot DIR  draws the figures there too

All 8,192 sets of 13 features are trained once (a linear discriminant, scene_sets.py)
and kept, so that every search only looks accuracies up. Costs are those recorded
(recording.py), without noise.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.indexer.building.cache import Cache
from polydom.indexer.index.lookup import Lookup
from polydom.indexer.set_search.greedy import search_greedy
from polydom.indexer.set_search.poly_dom import search
from polydom.indexer.set_search.violations import measure_violations
from polydom.indexer.skyline.prune import prune

from .. import report
from ..data.recording import record
from ..figures import figure_at
from .bench_anytime import BUDGETS_MS, World, make_world
from .bench_polydom import Table
from .lookup_rivals import (
    GreedyLookup,
    chosen_accuracy,
    index_all,
    size_of,
    time_lookups,
)
from .scene_sets import split_images, train_all
from .synthetic_sets import ALPHAS, GREEDY, Candidates

TOLERANCES = (0.0, 0.005, 0.01, 0.02, 0.04)
TOLERANCE = 0.01
FEW = 1_000  # candidates that Index-All is built for
FEW_SIZES = (0.05, 0.25, 0.5, 0.75, 0.95)  # quantiles


def poly_dom_masks(world: World, alpha: float, tolerance: float) -> NDArray[np.uint64]:
    m = len(world.recording.extractor.features)
    found = search(m, world.accuracy, alpha=alpha, tolerance=tolerance)
    return found.expanded.masks


def count_expanded(world: World) -> Table:
    """Metric 1: sets trained, by tolerance."""
    table = []
    m = len(world.recording.extractor.features)
    for tolerance in TOLERANCES:
        row: dict[str, Any] = {"tolerance": tolerance, "all": 1 << m}
        for alpha in ALPHAS:
            row[f"alpha {alpha:g}"] = len(poly_dom_masks(world, alpha, tolerance))
        for name, lambdas in GREEDY.items():
            row[name] = len(greedy(world, lambdas, world.costs)[1].expanded)
        table.append(row)
    return table


def greedy(
    world: World, lambdas: tuple[float, float], costs: CostTable
) -> tuple[GreedyLookup, Any]:
    """Greedy's sequences, and their retrieval by the budget."""
    powers = world.middle ** np.arange(len(costs.overhead))
    m = len(world.recording.extractor.features)
    search = search_greedy(
        m, world.accuracy, lambda mask: float(costs.of(mask) @ powers), lambdas=lambdas
    )
    return GreedyLookup.build(search, costs.of_many, world.middle), search


def candidates_of(world: World, masks: NDArray[np.uint64]) -> Candidates:
    curves = world.costs.of_many(masks)
    return Candidates(np.ascontiguousarray(curves), world.sets.accuracies[masks])


def size_range(world: World) -> tuple[float, float]:
    sizes = world.recording.sizes
    return float(sizes.min()), float(sizes.max())


def measure_indexes(world: World) -> Table:
    """Metrics 2 and 3, for what is kept, and for all that was trained.

    ICSP prunes candidates before it indexes; without that the index is larger, and the
    rivals grow faster than it does.
    """
    table, between = [], size_range(world)
    for alpha in (*ALPHAS, 0.0):
        masks = (
            poly_dom_masks(world, alpha, TOLERANCE)
            if alpha
            else np.arange(len(world.sets.accuracies), dtype=np.uint64)
        )
        trained = candidates_of(world, masks)
        kept = prune(*trained, between)
        pruned = Candidates(
            np.ascontiguousarray(trained.coefficients[kept]), trained.accuracies[kept]
        )
        for what, candidates in {"kept": pruned, "trained": trained}.items():
            lookup = Lookup.build(*candidates, between)
            few = len(candidates.accuracies) <= FEW
            everything = index_all(candidates, lookup, between) if few else None
            row = {
                "sets": f"alpha {alpha:g}, {what}" if alpha else f"all, {what}",
                "candidates": len(candidates.accuracies),
                "changes": len(lookup.breakpoints),
                "bytes": size_of(lookup),
                "bytes Naive": candidates.accuracies.nbytes,
                "bytes Index-All": sum(a.nbytes for a in everything)
                if everything
                else math.nan,
                "ns Index-All": math.nan,
            }
            table.append(row | time_lookups(candidates, lookup, everything, between))
    return table


def compare_accuracy(world: World) -> Table:
    """Metric 4: expected accuracy of what is chosen, mean over the report's items."""
    between = size_range(world)
    items = world.sizes[:: max(len(world.sizes) // 400, 1)].tolist()
    choosers = {}
    for alpha in ALPHAS:
        candidates = candidates_of(world, poly_dom_masks(world, alpha, TOLERANCE))
        lookup = Lookup.build(*candidates, between)
        choosers[f"alpha {alpha:g}"] = chosen_accuracy(lookup, candidates[1])
    for name, lambdas in GREEDY.items():
        found, _ = greedy(world, lambdas, world.costs)
        choosers[name] = chosen_accuracy(found, found.accuracies)
    return [
        {"budget_ms": budget_ms}
        | {
            name: float(np.mean([choose(n, budget_ms / 1e3) for n in items]))
            for name, choose in choosers.items()
        }
        for budget_ms in BUDGETS_MS
    ]


def accuracy_by_size(world: World) -> Table:
    """Metric 4 by item size, alpha 1."""
    candidates = candidates_of(world, poly_dom_masks(world, 1.0, TOLERANCE))
    lookup = Lookup.build(*candidates, size_range(world))
    choose = chosen_accuracy(lookup, candidates.accuracies)
    sizes = np.quantile(world.recording.sizes, FEW_SIZES).tolist()
    return [
        {"budget_ms": budget_ms}
        | {f"{size:.0f} pixels": choose(size, budget_ms / 1e3) for size in sizes}
        for budget_ms in BUDGETS_MS
    ]


def monotonicity(world: World) -> dict[str, float]:
    """How often more features hurt, among all pairs of a set and a larger one."""
    accuracies = world.sets.accuracies
    m = len(world.recording.extractor.features)
    found = measure_violations(
        m, np.arange(len(accuracies), dtype=np.uint64), accuracies
    )
    return {
        "pairs": int(found.pairs.sum()),
        "violations": found.count,
        "p95": found.quantile(0.95),
        "largest": found.tolerance,
    }


def cost_curves(world: World) -> Table:
    """Fitted milliseconds of each feature with its steps, by size."""
    costs = world.costs
    table = []
    for size in np.geomspace(*size_range(world), 12):
        powers = size ** np.arange(len(costs.overhead))
        row = {"pixels": float(size)}
        for at, feature in enumerate(world.recording.extractor.features):
            row[feature.name] = float(costs.of(1 << at) @ powers) * 1e3
        table.append(row)
    return table


def plot(found: dict[str, Any], folder: Path) -> None:
    """Draw the paper's figures."""
    figures = {
        "expanded": ("tolerance", "sets trained", "log", "linear"),
        "accuracy": ("budget_ms", "expected accuracy", "linear", "log"),
        "by_size": ("budget_ms", "expected accuracy, alpha 1", "linear", "log"),
        "curves": ("pixels", "fitted ms, with its steps", "log", "log"),
    }
    marks, colours = "os^vDxP+*<>hd", [f"C{at % 10}" for at in range(20)]
    colours[10:13] = "black", "gold", "navy"
    for name, (x, y, y_scale, x_scale) in figures.items():
        rows = found[name]
        with figure_at(folder / f"scenes_{name}.png", figsize=(9, 5)) as (_, axis):
            for at, line in enumerate(key for key in rows[0] if key != x):
                axis.plot(
                    [row[x] for row in rows],
                    [row[line] for row in rows],
                    marker=marks[at % len(marks)],
                    markersize=4,
                    color=colours[at],
                    linestyle=":" if line in GREEDY else "--" if line == "all" else "-",
                    label=line,
                )
            axis.set(xlabel=x.replace("_ms", ", ms"), ylabel=y)
            axis.set_xscale(x_scale)
            axis.set_yscale(y_scale)
            if name != "curves" and x_scale == "log":
                axis.set_xticks([0.3, 1, 3, 10, 30], ["0.3", "1", "3", "10", "30"])
            axis.grid(alpha=0.3)
            axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    plot_indexes(found["indexes"], folder)


def plot_indexes(rows: Table, folder: Path) -> None:
    """Bars of bytes and of nanoseconds for what each search keeps."""
    rows = [row for row in rows if row["sets"].endswith("kept")]
    drawn = figure_at(folder / "scenes_indexes.png", 1, 2, figsize=(10, 4))
    with drawn as (_, axes):
        for axis, unit in zip(axes, ("bytes", "ns"), strict=True):
            for at, rival in enumerate(("", " Index-All", " Naive")):
                places = np.arange(len(rows)) + 0.27 * (at - 1)
                values = [row[unit + rival] for row in rows]
                axis.bar(places, values, 0.27, label=rival.strip() or "polydom")
            names = [row["sets"].removesuffix(", kept") for row in rows]
            axis.set_xticks(range(len(rows)), names, fontsize=8)
            axis.set_ylabel(
                "bytes of the index" if unit == "bytes" else "ns per look-up"
            )
            axis.set_yscale("log" if unit == "bytes" else "linear")
            axis.legend(fontsize=8)


def main() -> None:
    parser = report.options(__doc__)
    parser.add_argument("--plot", type=Path, metavar="DIR")
    parser.add_argument("--rounds", type=int, default=1, choices=(1, 2, 3, 4))
    parser.add_argument("--cache", type=Path, default=Path(".polydom-cache/scenes"))
    arguments = parser.parse_args()
    cache = Cache(arguments.cache)
    recording = record(cache, arguments.rounds)
    split = split_images(recording)
    world = make_world(recording, split, train_all(recording, split, cache), 0.0)
    found: dict[str, Any] = {
        "images": len(recording.sizes),
        "expanded": count_expanded(world),
        "indexes": measure_indexes(world),
        "accuracy": compare_accuracy(world),
        "by_size": accuracy_by_size(world),
        "curves": cost_curves(world),
        "monotonicity": monotonicity(world),
    }
    if arguments.plot:
        plot(found, arguments.plot)
    report.tell(found, arguments.json)


if __name__ == "__main__":
    main()
