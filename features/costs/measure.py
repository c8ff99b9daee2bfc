"""Measures how long features and steps take, in seconds of the wall clock."""

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

# Most repeated rounds, per requested round, if other programs disturb the measurement.
QUIETER = 2
# Most additional rounds, per requested round, of functions with a few outliers.
DILUTED = 5


class Timings(NamedTuple):
    """Measured times; each item has one row of times per round."""

    sizes: Floats  # (M,) or (M, 2) float64: Sizes of the items
    # (M, m) float64: Seconds of each feature without its steps, or its declared
    # seconds. NaN in rounds that did not measure the feature.
    feature_s: Floats
    # (M, s) float64: Seconds of each step. NaN in rounds that did not measure the step.
    step_s: Floats
    # (M,) int64: Position of the item that each row belongs to
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
    """Time every step and feature of items in one thread, after a first untimed run.

    There must be at least one item. All items are first computed without timing, then
    timed in `repeats` rounds. Each round shuffles the items. It also shuffles the
    features and steps of an item, but no step comes after a feature that needs the
    step. So effects that drift with time are spread. A record whose features are all
    columns is read before it is timed, as a server reads it before it plans.

    On Linux, a call during which another process took the processor is timed again, and
    quieter rounds replace rounds that lost time to others. A function with a few
    outliers is timed in more rounds, until it is clear if the outliers are typical of
    the function (`outliers_in_doubt`). No outlier is dropped, since a function may be
    slow now and then.

    `progress` is called with (done, total) after each item of each round. `quantile` is
    the quantile of the times that cost curves will follow.
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
    """Times of one round through the items, and the seconds lost to other programs."""

    items: NDArray[np.int64]
    times: Floats
    timed_s: float
    lost_s: float

    @property
    def lost(self) -> float:
        """Return the share of the time that other programs took."""
        return self.lost_s / self.timed_s if self.timed_s else 0.0


class Rounds:
    """All rounds of one measurement; see `measure`."""

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
        """Add `rounds` to the total number of rounds that `progress` reports."""
        self.total += rounds * len(self.items)

    def all(self, rounds: int) -> None:
        """Measure every step and feature in `rounds` rounds."""
        for _ in range(rounds):
            self.kept.append(self._round(self.every))

    def quieter(self, most: int) -> None:
        """Repeat up to `most` rounds that other programs disturbed.

        Of each round and its repetition, the quieter one is kept.
        """
        for _ in range(most):
            worst = max(self.kept, key=lambda one: one.lost)
            if worst.lost <= BUSY:
                return
            self.ask(1)
            found = self._round(self.every)
            quieter, other = sorted([worst, found], key=lambda one: one.lost)
            # the noisier round is dropped, so its time does not count for the load
            self.stopwatch.timed_s -= other.timed_s
            self.stopwatch.lost_s -= other.lost_s
            place = next(i for i, one in enumerate(self.kept) if one is worst)
            self.kept[place] = quieter

    def diluted(self, rounds: int, quantile: float) -> None:
        """Time functions with a few outliers in more rounds.

        The rounds end once it is clear if the outliers are typical of the functions.
        """
        nodes = self.every
        for _ in range(DILUTED):
            nodes = {node for node in nodes if self._doubtful(node, quantile)}
            if not nodes:
                return
            self.ask(rounds)
            self.kept += [self._round(nodes) for _ in range(rounds)]

    def timings(self) -> Timings:
        """Join the times of all rounds."""
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
        """Time the nodes of one item in a random order, each one after its needs."""
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
        """Return all steps that the nodes need, directly or not."""
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
    """Return all steps and features as numbers, in a random order of computing.

    Steps are numbered first. Each step or feature comes after the steps that it needs.
    """
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
    """Run numerical libraries in one thread, without garbage collection.

    Both hold inside the `with` block.
    """
    collecting = gc.isenabled()
    gc.disable()  # no gc.collect() first: it is slow beside a small build
    try:
        with one_thread():
            yield
    finally:
        if collecting:
            gc.enable()
