"""How many base models does an early exit take, at as many changed decisions as others?

python -m benchmarks qwyc                             all parts
python -m benchmarks qwyc --parts trees --sets adult  some of them
python -m benchmarks qwyc --parts rounds --untimed    counts alone
python -m benchmarks qwyc --plot FOLDER               three PNGs a data set

The parts, each of which says in its module how it is measured:

    trees   two classes, against QWYC*, Fan* and LightGBM's early stop (two_class_exits)
    rounds  more classes, against LightGBM's early stop (multiclass_exits)
    bounds  exits that change nothing, proved by bounds (exact_exits)
    fit     seconds and memory of `fit_schedule` (fitting_time)
    rivals  forests, against what was published since 2024 (forest_votes, forest_steps)

With --json all points of all curves are told besides.
"""

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import report
from ..data.bundled import load_digit_rows, load_tumours
from ..data.tables import SETS, Split, load_adult
from ..figures import figure_at
from ..peers.contender import ROUNDS as TIMED
from . import forest_steps, forest_votes, multiclass_exits, two_class_exits
from .curves import Points, by_method
from .exact_exits import exact
from .fitting_time import fits
from .forest_votes import MANY, TWO

PARTS = ("trees", "rounds", "bounds", "fit", "rivals")
MANY_FORESTS = 3
LARGE, LARGE_SETS = 500, {"adult": TWO, "higgs": TWO, "covtype20k": MANY, "mnist": MANY}
STYLES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("polydom", "polydom", {"color": "C3", "linewidth": 2.2}),
    ("qwyc*", "QWYC*", {"color": "C0"}),
    ("fan*", "Fan*", {"color": "C2"}),
    ("natural", "boosting order, Algorithm 2", {"color": "C1"}),
    ("individual mse", "individual MSE, Algorithm 2", {"color": "C4"}),
    ("greedy mse", "greedy MSE, Algorithm 2", {"color": "C5"}),
    ("random", "random orders, Algorithm 2", {"color": "0.6", "linewidth": 0.7}),
    ("lightgbm early stop", "LightGBM's early stop", {"color": "C9"}),
    ("fewer trees", "fewer trees, same rate", {"color": "k", "linestyle": ":"}),
    (
        "fewer trees, best rate",
        "fewer trees, best rate",
        {"color": "k", "linestyle": "--"},
    ),
)
SHOWN = 0.005  # changed decisions of the histograms, about
ACROSS = 4  # histograms in a row

Result = dict[str, Any]


@dataclass
class Told:
    """Tables by title, and the points that they are made of."""

    tables: Result = field(default_factory=dict)
    points: dict[str, Points] = field(default_factory=dict)

    def add(self, name: str, module: Any, result: Result) -> None:
        """Add one set's tables, as its module makes them."""
        self.tables |= module.tables(name, result)
        self.points[f"{module.__name__.rpartition('.')[2]}, {name}"] = result["points"]


def trees(args: argparse.Namespace, told: Told) -> None:
    """Two classes, set by set."""
    quick = {"tumours": lambda _: load_tumours()}
    effort = two_class_exits.QUICK if args.quick else two_class_exits.FULL
    for name, load in (quick if args.quick else SETS).items():
        if args.quick or name in args.sets:
            result = two_class_exits.measure(load(args.data_folder), effort)
            told.add(name, two_class_exits, result)
            if args.plot:
                draw(name, result, args.plot)


def rounds(args: argparse.Namespace, told: Told) -> None:
    """More classes, set by set."""
    if args.quick:
        result = multiclass_exits.run(multiclass_exits.load_digits(), 10, timed=1)
        told.add("digits", multiclass_exits, result)
        return
    for name, load in multiclass_exits.SETS.items():
        if name in args.sets:
            parts = load(args.data_folder)
            timed = 0 if args.untimed else TIMED
            result = multiclass_exits.run(parts, timed=timed)
            told.add(name, multiclass_exits, result)


def rivals(args: argparse.Namespace, told: Told) -> None:
    """Votes of forests, and their node steps, set by set."""
    if args.quick:
        X, y = load_digit_rows()
        for name, labels in (("odd digits", y % 2), ("digits", y)):
            result = forest_votes.measure(X, labels, 1, 9, (0.01, 0.1))
            told.add(name, forest_votes, result)
        steps = forest_steps.measure(X, y % 2, 3, 3, 1)
        told.tables["digits: orders of node steps"] = steps
        return
    folder = args.data_folder
    for name, load in TWO.items():
        if name in args.sets:
            told.add(name, forest_votes, forest_votes.measure(*load(folder)))
    for name, load in MANY.items():
        if name in args.sets:
            result = forest_votes.measure(*load(folder), MANY_FORESTS)
            told.add(f"{name}, all classes", forest_votes, result)
    for name, kind in LARGE_SETS.items():
        if name in args.sets:
            result = forest_votes.measure(*kind[name](folder), 1, LARGE)
            told.add(f"{name}, large forest", forest_votes, result)
    for name, kind in forest_steps.SETS.items():
        if name in args.sets:
            for size, depth in forest_steps.SHAPES:
                title = f"{name}, {size} trees of depth {depth}: orders of node steps"
                rows = kind[name](folder)
                told.tables[title] = forest_steps.measure(*rows, size, depth)


def lines_of(found: dict[str, Points], method: str) -> list[Points]:
    """Curves drawn alike: all of the random orders, else one, or none."""
    if method == "random":
        return [v for name, v in found.items() if name.startswith("random ")]
    return [found[method]] if method in found else []


def draw(name: str, result: Result, folder: Path) -> None:
    """Write three figures of a data set, like the paper's."""
    found = by_method(result["points"])
    whole = 100 * result["accuracy"]
    draw_curves(name, found, "changed", None, folder / f"{name}-changed.png")
    draw_curves(name, found, "accuracy", whole, folder / f"{name}-accuracy.png")
    draw_use(name, found, folder / f"{name}-used.png")


def draw_curves(
    name: str, found: dict[str, Points], what: str, whole: float | None, path: Path
) -> None:
    """Draw a percentage against mean trees, a line per method; `whole`: all trees'."""
    with figure_at(path, figsize=(9, 4.8)) as (_, panel):
        for method, label, style in STYLES:
            for k, points in enumerate(lines_of(found, method)):
                ordered = sorted(points, key=lambda p: float(p["mean"]))
                panel.plot(
                    [p["mean"] for p in ordered],
                    [100 * p[what] for p in ordered],
                    marker=".",
                    markersize=5,
                    label="_" if k else label,
                    **({"linewidth": 1.3} | style),
                )
        panel.set(title=name, xlabel="mean trees", xscale="log")
        ticks = (5, 10, 20, 50, 100, 200, 500)
        panel.set_xticks(ticks, [str(tick) for tick in ticks])
        panel.minorticks_off()
        panel.set_xlim(4, 550)
        if whole is None:
            panel.set(ylabel="changed decisions on test rows, %", ylim=(0, 3))
        else:
            panel.axhline(whole, color="0.4", linewidth=0.8, label="all 500 trees")
            panel.set(ylabel="accuracy on test rows, %", ylim=(whole - 3, whole + 0.5))
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))


def draw_use(name: str, found: dict[str, Points], path: Path) -> None:
    """Draw how many trees rows take (the paper's appendix D.4)."""
    shown = []
    for method, label, _ in STYLES:
        kept = [
            point
            for points in lines_of(found, method)[:1]
            for point in points
            if "used" in point and point["changed"] <= 2 * SHOWN
        ]
        if kept:
            shown.append((label, min(kept, key=lambda p: abs(p["changed"] - SHOWN))))
    if not shown:
        return
    down = -(-len(shown) // ACROSS)
    shape = {"figsize": (3 * ACROSS, 2.7 * down), "sharey": True, "squeeze": False}
    with figure_at(path, down, ACROSS, **shape) as (figure, panels):
        for panel in panels.flat[len(shown) :]:
            panel.set_axis_off()
        for panel, (label, point) in zip(panels.flat, shown, strict=False):
            counts = point["used"]
            width = 500 / len(counts)
            shares = [100 * count / sum(counts) for count in counts]
            panel.bar(
                [width * (k + 0.5) for k in range(len(counts))], shares, width * 0.9
            )
            title = f"{label}\nmean {point['mean']:.0f}, changed {point['changed']:.2%}"
            panel.set_title(title, fontsize=9)
            panel.set(xlabel="trees", xlim=(0, 500), yscale="log", ylim=(0.01, 100))
            panel.set_xticks((0, 100, 200, 300, 400, 500))
            panel.set_yticks((0.01, 0.1, 1, 10, 100), ("0.01", "0.1", "1", "10", "100"))
            panel.minorticks_off()
        for row in panels:
            row[0].set_ylabel("test rows, %")
        figure.suptitle(name)


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--untimed", action="store_true", help="count rounds alone")
    parser.add_argument("--plot", type=Path, help="folder to write PNGs to")
    args = parser.parse_args(arguments)
    by_set = {"trees": trees, "rounds": rounds, "rivals": rivals}
    of_adult = {"bounds", "fit"} & {*args.parts}
    told = Told()
    if not args.quick:
        names = args.sets if {*by_set} & {*args.parts} else ()
        report.need(args, *{*names, *(["adult"] if of_adult else [])})
    for part, run in by_set.items():
        if part in args.parts:
            run(args, told)
    if of_adult:
        rows: Split = load_tumours() if args.quick else load_adult(args.data_folder)
        if "bounds" in args.parts:
            told.tables |= exact(rows, args.quick)
        if "fit" in args.parts:
            told.tables["what fitting takes"] = fits(rows, args.quick)
    told.tables |= {"points": told.points} if args.json else {}
    report.tell(told.tables, args)


if __name__ == "__main__":
    main()
