"""Any-time Poly-Dom against plain Poly-Dom and Greedy, on recorded times of scenes.

python -m benchmarks.index.bench_anytime             one size per image, about 3 minutes
python -m benchmarks.index.bench_anytime --rounds 4  all four sizes of every image
python -m benchmarks.index.bench_anytime --plot DIR  draws the figure there too
python -m benchmarks.index.bench_anytime --json      one JSON object, for the record

A simulation over real times: values and CPU seconds of every feature of every image are
recorded once (recording.py), then plans are replayed against the recorded seconds, so
that every contender meets the same ones and a second run gives the same figures. Half
of the images fit the models and the cost curves, a quarter chooses sets and orders, and
the last quarter is used for nothing but this report. An answer counts if it is right
and in time; one that is late counts as wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray

from polydom.features.costs.curve import CostCurve, CostTable
from polydom.features.costs.machine import Measured
from polydom.features.costs.stopwatch import Load
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.measure_costs import Curve, Curves
from polydom.indexer.building.project import Search
from polydom.indexer.building.training.search_sets import LAMBDAS, search_sets
from polydom.indexer.index.next_feature import AnytimeRule, NodeCosts
from polydom.indexer.index.package import Package
from polydom.indexer.progress import Silence
from polydom.indexer.set_search.feature_order import prefixes
from polydom.indexer.set_search.greedy import search_greedy
from tests.support.known_sets import KnownSets

from .. import report
from ..data.recording import Recording, record
from ..figures import figure_at
from .lookup_rivals import GreedyLookup
from .scene_sets import SceneSets, Split, split_images, train_all

QUANTILE = 0.99
MEASURED = 400  # images that cost curves are fitted to
BUDGETS_MS = (
    *(0.3, 0.5, 0.7, 1, 1.3, 1.6, 2, 2.5, 3, 4, 5, 6.5, 8, 10, 12, 16, 20, 25, 30),
    *(40, 50, 70),
)
NOISES = {"recorded": 0.0, "noisy": 0.4}  # spread of the logarithm of a factor
NAMES = {"greedy": "Greedy", "greedy-acc": "Greedy-Acc", "greedy-cost": "Greedy-Cost"}
OURS, OWN_RISK = "any-time", "any-time, cut off"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Recorded seconds to replay, and what a build would know beforehand."""

    recording: Recording
    split: Split
    sets: SceneSets
    feature_s: Floats
    step_s: Floats
    costs: CostTable
    typical: Floats
    typical_costs: CostTable

    @property
    def sizes(self) -> Floats:
        """Sizes of the items of the report."""
        return self.recording.sizes[self.split.report]

    @property
    def middle(self) -> float:
        """The size to optimise for where only one can be."""
        return float(np.median(self.recording.sizes[self.split.fit]))

    def accuracy(self, mask: int) -> float:
        """What the rows for choosing say of a set."""
        return float(self.sets.accuracies[mask])


class Run:
    """One item under a budget: features are computed, and recorded seconds pass."""

    def __init__(self, world: World, item: int, budget_s: float) -> None:
        self.row = int(world.split.report[item])
        self.world, self.left, self.done = world, budget_s, 0
        self.steps: set[int] = set()

    def compute(self, feature: int) -> bool:
        """Compute a feature; False where time runs out meanwhile."""
        world = self.world
        fresh = set(world.recording.extractor.needs[feature]) - self.steps
        self.left -= float(world.feature_s[self.row, feature])
        self.left -= float(world.step_s[self.row, sorted(fresh)].sum())
        if self.left < 0:
            return False
        self.steps |= fresh
        self.done |= 1 << feature
        return True


# A contender answers an item under a budget with a set, or with none in time.
Contender = Callable[[int, float], int | None]


def make_world(
    recording: Recording, split: Split, sets: SceneSets, noise: float
) -> World:
    """Multiply the recorded seconds with log-normal noise, and fit cost curves."""
    random = np.random.default_rng(0)

    def disturbed(seconds: Floats) -> Floats:
        return seconds * np.exp(noise * random.standard_normal(seconds.shape))

    feature_s, step_s = disturbed(recording.feature_s), disturbed(recording.step_s)
    rows = random.choice(split.fit, MEASURED, replace=False)

    def fit(seconds: Floats, quantile: float) -> list[Curve]:
        sizes = recording.sizes[rows]
        return [
            Curve("", CostCurve.fit(sizes, s, quantile=quantile), sizes, s, quantile)
            for s in seconds[rows].T
        ]

    def table(quantile: float) -> tuple[CostTable, list[Curve]]:
        features, steps = fit(feature_s, quantile), fit(step_s, quantile)
        extractor = recording.extractor
        conditions = Measured(Load(0.0, None, 1), ())
        measured = Curves(features, steps, CostCurve([0.0]), conditions)
        return measured.weighed(extractor, {"s": 1.0}), measured.all

    costs, curves = table(QUANTILE)
    typical = np.array([curve.typical for curve in curves])
    return World(
        recording, split, sets, feature_s, step_s, costs, typical, table(0.5)[0]
    )


def poly_dom(world: World, alpha: float) -> tuple[dict[str, Contender], dict[str, int]]:
    """Poly-Dom: plain, any-time, and any-time where it may be cut off anywhere."""

    def cost_of(mask: int) -> float:
        return float(polyval(world.middle, world.costs.of(mask)))

    m = len(world.recording.extractor.features)
    found = search_sets(
        Search(method="poly-dom", alpha=alpha),
        m,
        KnownSets(world.accuracy),
        cost_of,
        Silence(),
    )
    curves = world.costs.of_many(np.array(found.sets, np.uint64))
    sizes = world.recording.sizes
    kept = found.keep(curves, (float(sizes.min()), float(sizes.max())))
    masks = [found.sets[row] for row in kept]
    orders, fallbacks = found.order(masks, cost_of)
    accuracies = np.array([found.qualities[mask] for mask in masks])
    package = Package(
        kind="image",
        labels=(),
        features=(),
        costs=world.costs,
        masks=np.array(masks, np.uint64),
        orders=orders,
        fallbacks=fallbacks,
        models=(),
        model_s=np.zeros(len(masks)),
        overhead_s=0.0,
        meta={},
        typical=world.typical,
    )
    rule = AnytimeRule.of(package, accuracies, QUANTILE)
    at = [rule.at(size) for size in world.sizes]
    of_rows = curves[kept] @ (world.sizes ** np.arange(curves.shape[1])[:, None])

    def plain(item: int, budget_s: float) -> int | None:
        fits = np.flatnonzero(of_rows[:, item] <= budget_s)
        if not len(fits):
            return 0
        row = int(fits[accuracies[fits].argmax()])
        run = Run(world, item, budget_s)
        return masks[row] if all(map(run.compute, orders[row])) else None

    contenders: dict[str, Contender] = {
        "plain": plain,
        OURS: anytime(world, rule, at, careful=True),
        OWN_RISK: anytime(world, rule, at, careful=False),
    }
    return contenders, {"expanded": len(found.qualities), "kept": len(masks)}


def anytime(
    world: World, rule: AnytimeRule, at: list[NodeCosts], *, careful: bool
) -> Contender:
    """As the server goes on: ask after every feature what to compute next."""

    def answer(item: int, budget_s: float) -> int | None:
        run = Run(world, item, budget_s)
        while True:
            row = rule.target(at[item], run.done, run.left, careful=careful)
            done = run.done
            if row < 0 or not run.compute(rule.next(row, done)):
                return int(rule.masks[rule.answer(done)])

    return answer


def greedy(world: World, method: str) -> tuple[dict[str, Contender], dict[str, int]]:
    """Greedy as published, and where it only begins what is sure to be done in time.

    Published: the budget chooses a sequence by the typical costs at the middle size;
    features are added until the time is up, and the last set completed answers.
    """

    def cost_of(mask: int) -> float:
        return float(polyval(world.middle, world.typical_costs.of(mask)))

    m = len(world.recording.extractor.features)
    search = search_greedy(m, world.accuracy, cost_of, lambdas=LAMBDAS[method])
    lookup = GreedyLookup.build(search, world.typical_costs.of_many, world.middle)

    def sequence(budget_s: float) -> tuple[int, ...]:
        at = int(np.searchsorted(lookup.costs_s, budget_s, side="right")) - 1
        return search.sequences[int(lookup.chosen[max(at, 0)])].features

    def answer(item: int, budget_s: float, careful: bool = False) -> int:
        run, best = Run(world, item, budget_s), 0
        features = sequence(budget_s)
        size, passed = world.sizes[item], prefixes(features)
        high_s = np.diff([polyval(size, world.costs.of(mask)) for mask in passed])
        for feature, seconds in zip(features, high_s, strict=True):
            if (careful and seconds > run.left) or not run.compute(feature):
                break
            if world.accuracy(run.done) > world.accuracy(best):
                best = run.done
        return best

    contenders: dict[str, Contender] = {
        f"{NAMES[method]}, cut off": answer,
        NAMES[method]: lambda item, budget_s: answer(item, budget_s, careful=True),
    }
    return contenders, {"expanded": len(search.expanded)}


def replay(
    world: World, contenders: dict[str, Contender]
) -> tuple[list[dict[str, float]], list[str]]:
    """Share of right answers in time, by budget and contender; and where ours lose."""
    right = world.sets.decisions == world.recording.codes[world.split.report]
    items = range(right.shape[1])
    table, lost = [], []
    for budget_ms in BUDGETS_MS:
        row: dict[str, float] = {"budget_ms": budget_ms}
        hits: dict[str, NDArray[np.bool_]] = {}
        for name, answer in contenders.items():
            given = [answer(item, budget_ms / 1e3) for item in items]
            hits[name] = np.array(
                [mask is not None and right[mask, i] for i, mask in enumerate(given)]
            )
            row[name] = float(hits[name].mean())
            if name == "plain":
                row["plain late"] = sum(mask is None for mask in given) / len(given)
        table.append(row)
        lost += compare(budget_ms, hits)
    return table, lost


def compare(budget_ms: float, hits: dict[str, NDArray[np.bool_]]) -> list[str]:
    """Name the rivals that are ahead of ours, each against its like, and how surely."""
    lost = []
    for name, theirs in hits.items():
        if name in (OURS, OWN_RISK):
            continue
        own = OWN_RISK if name.endswith("cut off") else OURS
        ahead = theirs.astype(float) - hits[own]
        if ahead.mean() > 0:
            error = ahead.std() / np.sqrt(len(ahead))
            lost.append(
                f"{name} is ahead of {own} at {budget_ms:g} ms by {ahead.mean():.4f}, "
                f"standard error {error:.4f}"
            )
    return lost


def measure(recording: Recording, cache: Cache, alpha: float) -> dict[str, Any]:
    """Replay everything, with the recorded seconds and with noise on them."""
    split = split_images(recording)
    sets = train_all(recording, split, cache)
    found: dict[str, Any] = {
        "images": len(recording.sizes),
        "alpha": alpha,
        "rows": [len(split.fit), len(split.choose), len(split.report)],
    }
    for name, noise in NOISES.items():
        world = make_world(recording, split, sets, noise)
        contenders, facts = poly_dom(world, alpha)
        searches = {"Poly-Dom": facts}
        for method in LAMBDAS:
            more, searches[NAMES[method]] = greedy(world, method)
            contenders |= more
        table, lost = replay(world, contenders)
        found[name] = {"searches": searches, "table": table, "lost": lost}
    return found


def plot(found: dict[str, Any], folder: Path) -> None:
    """Draw accuracy against budget, like ICSP's metric 4 on the scenes."""
    ends = {
        "only what is sure to be done is begun": "",
        "cut off at the deadline": ", cut off",
    }
    shape: dict[str, Any] = {"figsize": (12, 9), "sharex": True, "sharey": True}
    with figure_at(folder / "anytime.png", 2, 2, **shape) as (_, grid):
        for axes, noise in zip(grid, NOISES, strict=True):
            table = found[noise]["table"]
            budgets = [row["budget_ms"] for row in table]
            for axis, (title, end) in zip(axes, ends.items(), strict=True):
                styles = {
                    f"any-time{end}": ("C3", "-", 2.5),
                    "plain": ("C0", "--", 1.5),
                }
                for at, name in enumerate(NAMES.values()):
                    styles[f"{name}{end}"] = (f"C{(1, 2, 4)[at]}", "-", 1.2)
                for name, (colour, line, width) in styles.items():
                    label = name.removesuffix(", cut off")
                    label = {
                        "any-time": "any-time Poly-Dom",
                        "plain": "plain Poly-Dom",
                    }.get(label, label)
                    axis.plot(
                        budgets,
                        [row[name] for row in table],
                        line,
                        color=colour,
                        linewidth=width,
                        marker=".",
                        label=label,
                    )
                axis.set_title(f"{noise} times; {title}", fontsize=10)
                axis.set(xscale="log")
                axis.set_xticks([0.3, 1, 3, 10, 30], ["0.3", "1", "3", "10", "30"])
                axis.grid(alpha=0.3)
        for axis in grid[1]:
            axis.set_xlabel("budget, ms")
        for axis in grid[:, 0]:
            axis.set_ylabel("right answers in time")
        grid[0, 0].legend()


def main() -> None:
    parser = report.options(__doc__)
    parser.add_argument("--plot", type=Path, metavar="DIR")
    parser.add_argument("--rounds", type=int, default=1, choices=(1, 2, 3, 4))
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--cache", type=Path, default=Path(".polydom-cache/scenes"))
    arguments = parser.parse_args()
    cache = Cache(arguments.cache)
    recording = record(cache, arguments.rounds)
    found = measure(recording, cache, arguments.alpha)
    if arguments.plot:
        plot(found, arguments.plot)
    if not arguments.json:
        for noise in NOISES:
            replayed = found.pop(noise)
            found |= {f"{noise}: {name}": fact for name, fact in replayed.items()}
    report.tell(found, arguments.json)


if __name__ == "__main__":
    main()
