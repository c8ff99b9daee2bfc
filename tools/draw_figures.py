"""Draw the figures of docs/explanation/how-it-works.md, by the code that they explain.

python -m tools.draw_figures [FOLDER]    docs/pictures, if none is named

Costs and accuracies are those of a worked example: four features of a photo. What is
searched, indexed, stopped and chosen is what polydom's own functions give for them.
"""

import sys
from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.indexer import Index, search
from polydom.indexer.index.next_feature import AnytimeRule
from polydom.indexer.set_search.poly_dom import PolyDomSearch
from polydom.models import fit_schedule
from polydom.models.qwyc.schedule import Schedule

Floats = NDArray[np.float64]

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
FEATURES = ("thumbnail", "histogram", "edges", "gradients")
LETTERS = "THEG"
ALL = (1 << len(FEATURES)) - 1
ALPHA = 1.1
SIZES = (10_000, 400_000)  # pixels
SIZE = 120_000
BUDGETS_MS = (1.5, 4.5)

# Seconds, and seconds a pixel: of each feature, of decoding for all, of a plan.
OWN = ([1.5e-4, 3e-10], [3e-5, 6e-9], [1.5e-4, 1.4e-8], [1.1e-3, 3e-9])
DECODING, OVERHEAD = [5e-5, 2e-9], [5e-5, 0.0]
COSTS = CostTable(OWN, [DECODING], [(0,)] * len(FEATURES), OVERHEAD)

# What a model on some of the features gets right of held-out photos.
ACCURACIES = {
    "": 0.20,
    "T": 0.45,
    "H": 0.60,
    "E": 0.68,
    "G": 0.76,
    "TH": 0.60,
    "TE": 0.69,
    "HE": 0.70,
    "TG": 0.775,
    "HG": 0.79,
    "EG": 0.80,
    "THE": 0.71,
    "THG": 0.795,
    "TEG": 0.79,
    "HEG": 0.82,
    "THEG": 0.83,
}

INK, FAINT = "#26303a", "#9aa5b1"
COLOURS = (
    *("#1f77b4", "#d95f02", "#1b9e77", "#7b4fb5", "#b8860b"),
    *("#c2185b", "#4d7c0f", "#0e7490", "#374151", "#92400e", "#0891b2"),
)


def mask_of(letters: str) -> int:
    """The bit mask of a set written as letters."""
    return sum(1 << LETTERS.index(letter) for letter in letters)


def letters_of(mask: int) -> str:
    """A bit mask as letters; the empty set as 0."""
    return "".join(c for k, c in enumerate(LETTERS) if mask >> k & 1) or "0"


def accuracy(mask: int) -> float:
    """What the worked example says of a set."""
    return ACCURACIES["" if not mask else letters_of(mask)]


@cache
def searched() -> PolyDomSearch:
    """The search among the sixteen sets (ICSP, algorithm 2)."""
    return search(len(FEATURES), accuracy, alpha=ALPHA)


@cache
def indexed() -> tuple[tuple[int, ...], Index]:
    """The trained sets in ascending order of mask, and their index."""
    masks = tuple(searched().expanded)
    coefficients = COSTS.of_many(np.array(masks, np.uint64))
    return masks, Index.from_candidates(coefficients, [*map(accuracy, masks)], SIZES)


class Exits(NamedTuple):
    """An ensemble that stops early, and what became of fresh rows."""

    schedule: Schedule
    sums: Floats  # (rows, base models), in the schedule's order
    stopped: NDArray[np.int64]  # (rows,), base models used
    changed: float


@cache
def early_exits() -> Exits:
    """200 boosted trees that tell odd digits from even ones, stopped early (QWYC)."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import GradientBoostingClassifier

    rows, digits = load_digits(return_X_y=True)
    mixed = np.random.default_rng(0).permutation(len(rows))
    rows, digits = rows[mixed], digits[mixed]
    trees = GradientBoostingClassifier(n_estimators=200, subsample=0.5, random_state=0)
    trees.fit(rows[:600], digits[:600] % 2)  # then 300 to fit, 400 to calibrate
    grown = [tree for (tree,) in trees.estimators_]
    steps = trees.learning_rate * np.column_stack([t.predict(rows) for t in grown])
    schedule = fit_schedule(
        steps[600:900],
        threshold=0.0,
        alpha=0.05,
        confidence=0.95,
        calibration=steps[900:1300],
    )
    sums = np.cumsum(steps[1300:, schedule.order], axis=1)
    out = (sums > schedule.upper) | (sums < schedule.lower)
    out[:, -1] = True
    stopped = out.argmax(axis=1)
    early = sums[np.arange(len(sums)), stopped] > 0
    changed = float((early != (sums[:, -1] > 0)).mean())
    return Exits(schedule, sums, stopped + 1, changed)


class Step(NamedTuple):
    """A feature that was computed while a request's time ran."""

    feature: int
    aim: int  # the set that was aimed at, a mask
    start_ms: float
    end_ms: float


def course(budget_ms: float, slow: dict[int, float]) -> tuple[list[Step], int]:
    """What is computed within a budget, and the set that answers.

    Features take their typical time, or so many times that where they are `slow`.
    """
    masks, index = indexed()
    kept = sorted(map(int, index.skyline(SIZE)), key=lambda row: masks[row])
    sets = [masks[row] for row in kept]
    order = [sorted(features(mask), key=cost_of) for mask in sets]
    longest = max(map(len, order))
    orders = np.full((len(sets), longest), -1, np.int32)
    gains = np.zeros((len(sets), longest + 1))
    for row, path in enumerate(order):
        orders[row, : len(path)] = path
        for done in range(longest + 1):
            within = sum(1 << k for k in path[:done])
            gains[row, done] = max(accuracy(s) for s in sets if s & ~within == 0)
    rule = AnytimeRule(
        COSTS,
        np.full(len(FEATURES), 0.6),
        np.full(1, 0.6),
        np.array(sets, np.int64),
        np.array([*map(accuracy, sets)]),
        orders,
        gains,
        np.ones(len(FEATURES), np.int64),
        np.full(len(sets), 2e-5),
        2.326,
    )
    at = rule.at(SIZE)
    now_s, done, steps = rule.overhead_s(SIZE), 0, []
    while (row := rule.target(at, done, budget_ms / 1e3 - now_s)) >= 0:
        feature = rule.next(row, done)
        took_s = rule.high_s(at, done, feature) * 0.6 * slow.get(feature, 1.0)
        steps.append(Step(feature, sets[row], now_s * 1e3, (now_s + took_s) * 1e3))
        now_s, done = now_s + took_s, done | 1 << feature
    return steps, sets[rule.answer(done)]


def features(mask: int) -> list[int]:
    """The features of a set."""
    return [k for k in range(len(FEATURES)) if mask >> k & 1]


def cost_of(feature: int) -> float:
    """Seconds of a feature at the size that most figures are of."""
    fixed, slope = OWN[feature]
    return fixed + SIZE * slope


def sandwich_of(found: PolyDomSearch, mask: int) -> tuple[int, int]:
    """Return the trained sets between which an untrained set needs no training."""
    trained = found.expanded
    lower = max((s for s in trained if s & ~mask == 0), key=trained.__getitem__)
    return lower, min((s for s in trained if mask & ~s == 0), key=trained.__getitem__)


def draw_lattice(figure: Any) -> None:
    """All sets by inclusion: those that were trained, and those that need not be."""
    found, axes = searched(), figure.subplots()
    place = {}
    for count in range(len(FEATURES) + 1):
        sets = [sum(1 << k for k in s) for s in combinations(range(4), count)]
        for position, mask in enumerate(sorted(sets)):
            place[mask] = (position - (len(sets) - 1) / 2, count)
    for mask, (x, y) in place.items():
        for k in features(ALL & ~mask):
            above = place[mask | 1 << k]
            axes.plot([x, above[0]], [y, above[1]], color=FAINT, lw=0.7, zorder=1)
    for mask, (x, y) in place.items():
        trained = mask in found.expanded
        style: dict[str, Any] = {
            "facecolor": "#dbeafe" if trained else "white",
            "edgecolor": INK,
        }
        style |= {"linestyle": "-" if trained else (0, (3, 2)), "boxstyle": "round"}
        text = f"{letters_of(mask) if mask else 'none'}\n"
        if trained:
            text += f"{found.expanded[mask]:.3g}"
        else:
            lower, upper = sandwich_of(found, mask)
            low = letters_of(lower) if lower else "none"
            text += f"{low} .. {letters_of(upper)}"
        middle = {"ha": "center", "va": "center", "fontsize": 8, "zorder": 2}
        axes.text(x, y, text, bbox=style, **middle)
    axes.set(xlim=(-3.2, 3.2), ylim=(-0.5, 4.5))
    axes.axis("off")


def draw_sweep(figure: Any) -> None:
    """Costs against the size, and at which sizes each set is worth buying."""
    masks, index = indexed()
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    sizes = np.linspace(*SIZES, 400)
    on = [set(map(int, index.skyline(float(size)))) for size in sizes]
    kept = sorted(set().union(*on), key=lambda row: index.qualities[row])
    for row in range(len(masks)):
        costs = [1e3 * index.cost_s(row, float(size)) for size in sizes]
        if row in kept:
            colour, width = COLOURS[kept.index(row)], 1.8
        else:
            colour, width = FAINT, 0.8
        upper.plot(sizes / 1e3, costs, color=colour, lw=width)
    for line, row in enumerate(kept):
        there = np.array([row in rows for rows in on])
        shown = np.where(there, float(line), np.nan)
        lower.plot(sizes / 1e3, shown, lw=6, solid_capstyle="butt", color=COLOURS[line])
    named = [f"{name(masks[row])}  {index.qualities[row]:.3g}" for row in kept]
    lower.set_yticks(range(len(kept)), named)
    lower.set(ylim=(-0.7, len(kept) - 0.3), xlabel="size, thousand pixels")
    upper.set(ylabel="cost, ms", ylim=(0, None))
    lower.set_title("worth buying at these sizes", fontsize=9, loc="left")


def name(mask: int) -> str:
    """A set as letters, in words where it is empty."""
    return letters_of(mask) if mask else "none"


def draw_skyline(figure: Any) -> None:
    """At one size: accuracy against cost, and what two budgets buy."""
    masks, index = indexed()
    axes = figure.subplots()
    row_of = {mask: row for row, mask in enumerate(masks)}
    skyline = [*map(int, index.skyline(SIZE))]
    costs = {m: 1e3 * index.cost_s(row, SIZE) for m, row in row_of.items()}
    stairs = [masks[row] for row in skyline]
    for mask in masks:
        colour = COLOURS[0] if mask in stairs else FAINT
        axes.plot(costs[mask], accuracy(mask), "o", color=colour, zorder=3)
        below = accuracy(mask) < max(ACCURACIES.values())
        place = {"xytext": (5, -11 if below else 5), "textcoords": "offset points"}
        axes.annotate(name(mask), (costs[mask], accuracy(mask)), **place, color=colour)
    xs = [*(costs[mask] for mask in stairs), max(costs.values()) * 1.1]
    ys = [*map(accuracy, stairs), accuracy(stairs[-1])]
    axes.step(xs, ys, where="post", color=COLOURS[0], lw=1.2)
    for budget in BUDGETS_MS:
        best = masks[index.best(SIZE, budget / 1e3).row]
        axes.axvline(budget, color=COLOURS[1], lw=1, ls=(0, (4, 3)))
        text = f"{budget:g} ms buy {name(best)}"
        axes.text(budget, 0.16, f" {text}", color=COLOURS[1], fontsize=9)
    axes.set(xlabel=f"cost at {SIZE:,} pixels, ms", ylabel="accuracy")
    axes.set(xlim=(-0.1, 5.5), ylim=(0.13, 0.9))


def draw_early_exit(figure: Any) -> None:
    """Running sums of rows of two classes, and the limits at which they stop."""
    exits, axes = early_exits(), figure.subplots()
    count = exits.sums.shape[1]
    shown = np.arange(1, count + 1)
    for limits in (exits.schedule.upper, exits.schedule.lower):
        there = np.isfinite(limits)
        axes.plot(shown[there], limits[there], "_", color=INK, ms=3)
    drawn = np.argsort(exits.stopped)[:: max(1, len(exits.stopped) // 16)]
    for row in drawn:
        used = int(exits.stopped[row])
        sums = exits.sums[row, :used]
        colour = COLOURS[2] if sums[-1] >= 0 else COLOURS[1]
        axes.plot(shown[:used], sums, color=colour, lw=1)
        axes.plot(used, sums[-1], "o", color=colour, ms=4)
    axes.axhline(0, color=FAINT, lw=0.8)
    axes.set(xlabel="trees evaluated", ylabel="running sum", xlim=(0, count))


def draw_course(figure: Any) -> None:
    """One budget, twice: as expected, and with a feature that takes too long."""
    budget_ms = BUDGETS_MS[1]
    both = {"as expected": {}, "gradients are slow": {3: 2.5}}
    panels = figure.subplots(2, 1, sharex=True)
    for axes, (title, slow) in zip(panels, both.items(), strict=True):
        steps, answer = course(budget_ms, slow)
        for step in steps:
            span = step.end_ms - step.start_ms
            colour = COLOURS[step.feature]
            axes.barh(0, span, left=step.start_ms, height=0.5, color=colour, alpha=0.85)
            middle = step.start_ms + span / 2
            text = FEATURES[step.feature] if span > 0.5 else LETTERS[step.feature]
            axes.text(middle, 0, text, ha="center", va="center", color="w", fontsize=8)
        aims = f"aims at {name(steps[0].aim)}"
        axes.text(steps[0].start_ms, 0.42, aims, fontsize=8)
        end = steps[-1].end_ms
        said = f"  answers with {name(answer)}: {accuracy(answer):.3g} expected"
        axes.plot(end, 0, "D", color=INK, ms=5)
        axes.text(end, -0.55, said, fontsize=8, ha="center", color=INK)
        axes.axvline(budget_ms, color=COLOURS[1], lw=1.2, ls=(0, (4, 3)))
        axes.set(yticks=[], ylim=(-0.8, 0.8), xlim=(0, budget_ms * 1.15))
        axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel("ms since the request's first byte; dashed: its deadline")


FIGURES: dict[str, tuple[Callable[[Any], None], tuple[float, float]]] = {
    "lattice.svg": (draw_lattice, (7.2, 4.4)),
    "sweep.svg": (draw_sweep, (7.2, 4.6)),
    "skyline.svg": (draw_skyline, (7.2, 3.6)),
    "early-exit.svg": (draw_early_exit, (7.2, 3.6)),
    "course.svg": (draw_course, (7.2, 3.2)),
}


def main(folder: Path) -> None:
    """Write all figures: the same bytes by the same version of matplotlib."""
    import matplotlib
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.hashsalt": "polydom",
        "text.color": INK,
        "axes.labelcolor": INK,
    }
    with matplotlib.rc_context(style | {"axes.spines.top": False, "font.size": 9}):
        for file, (draw, size) in FIGURES.items():
            figure = Figure(figsize=size, layout="constrained")
            draw(figure)
            figure.savefig(folder / file, metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
