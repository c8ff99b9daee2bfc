"""Measuring what features and steps cost, by the clock on the wall."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from ..extract import FLOAT32, Extractor
from ..items import Item
from ..threads import one_thread
from .outliers import outliers_in_doubt, outliers_of
from .quantile import usual_s
from .stopwatch import BUSY, Stopwatch

Floats = NDArray[np.float64]

QUIETER = 2  # more rounds, for each asked for, to find as many quiet ones
DILUTED = 5  # more rounds, for each asked for, of what has times far off


class Timings(NamedTuple):
    """Measured times, one row per item and round.

    Attributes
    ----------
    sizes : (M,) or (M, 2) float64
        Of the items.
    feature_s : (M, m) float64
        Seconds of each feature without its steps; those declared where they are. NaN
        in rounds in which only others were measured.
    step_s : (M, s) float64
        Seconds of each step, or NaN.
    items : (M,) int64
        Which item it was.
    """

    sizes: Floats
    feature_s: Floats
    step_s: Floats
    items: NDArray[np.int64]


def measure(
    extractor: Extractor,
    items: Sequence[Item],
    *,
    repeats: int = 3,
    seed: int = 0,
    now: Callable[[], float] = time.perf_counter,
    progress: Callable[[int, int], None] | None = None,
    quantile: float = 0.99,
    stopwatch: Stopwatch | None = None,
) -> Timings:
    """Time every step and feature of items, warm and on one thread.

    There are `repeats` rounds through all items; their order, and that of an item's
    features and steps as far as their needs allow, is shuffled, which spreads what
    drifts with time. Every item is run once untimed before. Garbage is not collected
    meanwhile. A record of which columns are all is read beforehand: they are there
    then, whichever a plan takes.

    What is measured is the feature, not the machine's other users. Where the system
    tells (Linux), a call during which another process took the processor is timed
    again, and rounds that lost time to others give way to quieter ones. What has a few
    times far above the others is measured in more rounds, until it is clear that they
    are fewer than the quantile leaves above it, or that they are its own
    (`outliers_in_doubt`). None is left out: a feature may take that long now and then.

    Parameters
    ----------
    items
        At least one, over the range of sizes that will be asked for.
    repeats
        At least 1.
    seed
        Of the order.
    progress
        Called with (done, total) after each item of each round.
    quantile
        That curves are to be fitted to.
    now, stopwatch
        A clock in seconds, and what reads it and tells afterwards how busy the machine
        was.

    Raises
    ------
    BadInput
        If there are no items or no repeats.
    BadItem, BadFeature
        If an item cannot be used, or a feature fails on it.
    """
    if not items or repeats < 1:
        raise BadInput(
            f"{len(items)} items and {repeats} repeats came; "
            "at least one of each is needed"
        )
    items = [extractor.read(item) for item in items]
    rounds = Rounds(extractor, items, seed, stopwatch or Stopwatch(now), progress)
    with quiet():
        extractor.warm(items)
        rounds.ask(repeats)
        rounds.all(repeats)
        rounds.quieter(QUIETER * repeats)
        rounds.diluted(repeats, quantile)
    return rounds.timings()


class Round(NamedTuple):
    """What one round through the items measured, and how much of it others took."""

    items: NDArray[np.int64]
    times: Floats
    timed_s: float
    lost_s: float

    @property
    def lost(self) -> float:
        """Share of the time that others took."""
        return self.lost_s / self.timed_s if self.timed_s else 0.0


class Rounds:
    """Rounds of measuring, as many as there come to be; see `measure`."""

    def __init__(
        self,
        extractor: Extractor,
        items: Sequence[Item],
        seed: int,
        stopwatch: Stopwatch,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.extractor, self.items = extractor, items
        self.random = np.random.default_rng(seed)
        self.stopwatch, self.progress = stopwatch, progress
        self.done = self.total = 0
        steps, features = len(extractor.steps), extractor.features
        self.every = {
            *range(steps),
            *(
                steps + position
                for position, feature in enumerate(features)
                if "s" not in feature.declared
            ),
        }
        self.kept: list[Round] = []

    def ask(self, rounds: int) -> None:
        """Expect so many rounds more."""
        self.total += rounds * len(self.items)

    def all(self, rounds: int) -> None:
        """Measure everything in so many rounds."""
        for _ in range(rounds):
            self.kept.append(self._round(self.every))

    def quieter(self, most: int) -> None:
        """Put quieter rounds in the place of those that lost time to others."""
        for _ in range(most):
            worst = max(self.kept, key=lambda one: one.lost)
            if worst.lost <= BUSY:
                return
            self.ask(1)
            found = self._round(self.every)
            quieter, other = sorted([worst, found], key=lambda one: one.lost)
            # the other is no part of what is measured, nor is what it lost
            self.stopwatch.timed_s -= other.timed_s
            self.stopwatch.lost_s -= other.lost_s
            place = next(i for i, one in enumerate(self.kept) if one is worst)
            self.kept[place] = quieter

    def diluted(self, rounds: int, quantile: float) -> None:
        """Measure what has times far above its others until they are no matter."""
        nodes = self.every
        for _ in range(DILUTED):
            nodes = {node for node in nodes if self._doubtful(node, quantile)}
            if not nodes:
                return
            self.ask(rounds)
            self.kept += [self._round(nodes) for _ in range(rounds)]

    def timings(self) -> Timings:
        """Return the times of all rounds kept."""
        rows = np.concatenate([one.items for one in self.kept])
        times = np.concatenate([one.times for one in self.kept])
        steps = len(self.extractor.steps)
        feature_s = times[:, steps:]
        for position, feature in enumerate(self.extractor.features):
            if "s" in feature.declared:
                feature_s[:, position] = feature.declared["s"]
        sizes = np.array([self.items[row].size for row in rows])
        return Timings(sizes, feature_s, times[:, :steps], rows)

    def _doubtful(self, node: int, quantile: float) -> bool:
        times = np.concatenate([one.times[:, node] for one in self.kept])
        rows = np.concatenate([one.items for one in self.kept])
        sizes = np.array([self.items[row].size for row in rows])
        own = ~np.isnan(times)
        seconds, usual = times[own], usual_s(sizes[own], times[own])
        found = outliers_of(seconds, usual, quantile, rows[own])
        return outliers_in_doubt(int(found.sum()), int(own.sum()), quantile)

    def _round(self, nodes: set[int]) -> Round:
        """Measure some nodes of each item."""
        watch = self.stopwatch
        timed_s, lost_s = watch.timed_s, watch.lost_s
        order = self.random.permutation(len(self.items))
        width = len(self.extractor.steps) + len(self.extractor.features)
        times = np.full((len(order), width), np.nan)
        for row, item in zip(times, order, strict=True):
            self._time_item(int(item), nodes, row)
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, self.total)
        return Round(order, times, watch.timed_s - timed_s, watch.lost_s - lost_s)

    def _time_item(self, item: int, nodes: set[int], row: Floats) -> None:
        """Time some nodes of one item, in an order in which needs come first."""
        extractor = self.extractor
        extraction = extractor.begin(
            self.items[item], np.empty(extractor.width, FLOAT32), f"item {item}"
        )
        steps = len(extractor.steps)
        needed = self._needs(nodes)
        for node in shuffled(extractor, self.random):
            if node in nodes:
                of_step = node < steps
                compute = extraction.compute_step if of_step else extraction.compute
                argument = node if of_step else node - steps
                row[node] = self.stopwatch.time(compute, argument)
            elif node in needed:
                extraction.compute_step(node)

    def _needs(self, nodes: set[int]) -> set[int]:
        """Find the steps that some nodes need, also indirectly."""
        calls, steps = self.extractor.step_calls, len(self.extractor.steps)
        needed: set[int] = set()
        for node in nodes:
            if node >= steps:
                needed.update(self.extractor.needs[node - steps])
        pending = {node for node in nodes if node < steps}
        while pending:
            sources = set(calls[pending.pop()].sources) - {steps}
            pending |= sources - needed
            needed |= sources
        return needed


def shuffled(extractor: Extractor, random: np.random.Generator) -> list[int]:
    """Draw an order of all nodes, steps before features, in which needs come first."""
    steps = len(extractor.steps)
    waits = [set(call.sources) - {steps} for call in extractor.step_calls]
    waits += [set(needed) for needed in extractor.needs]
    order: list[int] = []
    while len(order) < len(waits):
        ready = [
            node
            for node, awaited in enumerate(waits)
            if node not in order and awaited <= set(order)
        ]
        order.append(int(random.choice(ready)))
    return order


@contextmanager
def quiet() -> Iterator[None]:
    """Keep numerical libraries to one thread and the garbage collector away."""
    collecting = gc.isenabled()
    gc.disable()  # a collection before would take much of a small table's build
    try:
        with one_thread():
            yield
    finally:
        if collecting:
            gc.enable()
