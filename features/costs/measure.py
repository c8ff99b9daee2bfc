"""Measures how long features and steps take, in seconds of the wall clock."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput, FeatureFailed
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
    """Measured times of steps and features: M rows, one for each item and round."""

    sizes: Floats  # (M,) or (M, 2) float64: Sizes of the items
    # (M, m) float64: Seconds of each feature without its steps, or its declared
    # seconds. NaN in rounds that did not measure the feature, and where it failed.
    feature_s: Floats
    # (M, s) float64: Seconds of each step. NaN in rounds that did not measure the step.
    step_s: Floats
    # (M,) int64: Position of the item that each row belongs to
    items: NDArray[np.int64]
    # (m + s,) float64: Share of its time that each feature, then each step, waits of
    # its own accord, as for an answer over a network: the median over its rows
    waits: Floats


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
    """Time every step and feature on every item, in one thread.

    First, all steps and features are computed once on every item without timing. Then
    they are timed in `repeats` rounds. Each round visits the items in a new random
    order. For each item, steps and features run in a new random order, each feature
    after its steps. So if the machine becomes slower or faster, all features are
    affected alike. If all features are columns of a record, the records are read
    beforehand, as a server reads a record before it plans.

    On Linux, a call is timed again if another process took the processor meanwhile. A
    round that lost much time to other programs is repeated, and the quieter one of both
    is kept. A function with a few outliers is timed in more rounds, until it is clear
    whether outliers are typical of the function (`outliers_in_doubt`). No outlier is
    dropped, since a function may be slow now and then.

    `progress(done, total)` is called after each item of each round. `quantile` is the
    quantile of the times that cost curves will follow. Raises BadInput without items,
    and if `repeats` is less than 1.
    """
    if not items or repeats < 1:
        raise BadInput(
            f"{len(items)} items and {repeats} repeats came; "
            "at least one of each is needed"
        )
    items = [extractor.read(item) for item in items]
    rounds = _Rounds(extractor, items, seed, stopwatch or Stopwatch(now), progress)
    with quiet():
        for item in items:
            extractor.extract(item)
        rounds.announce(repeats)
        rounds.add(repeats)
        rounds.repeat_disturbed(QUIETER * repeats)
        rounds.settle_outliers(repeats, quantile)
    return rounds.timings()


class _Round(NamedTuple):
    """Times of one round through all items, in random order."""

    items: NDArray[np.int64]  # Positions of the items, in the order of the round
    times: Floats  # A row for each item, a column for each step, then each feature
    waited: Floats  # Part of `times` in which the call waited of its own accord
    timed_s: float
    lost_s: float  # Part of `timed_s` that other programs took

    @property
    def lost(self) -> float:
        """Share of the round's time that other programs took."""
        return self.lost_s / self.timed_s if self.timed_s else 0.0


class _Rounds:
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
        timed = [k for k, one in enumerate(features) if "s" not in one.declared]
        self.every = {*range(steps), *(steps + k for k in timed)}
        self.kept: list[_Round] = []

    def announce(self, rounds: int) -> None:
        self.total += rounds * len(self.items)

    def add(self, rounds: int) -> None:
        for _ in range(rounds):
            self.kept.append(self._round(self.every))

    def repeat_disturbed(self, tries: int) -> None:
        """Repeat the noisiest round until no round is disturbed, at most `tries` times.

        Of a round and its repetition, the quieter one is kept.
        """
        for _ in range(tries):
            worst = max(self.kept, key=lambda one: one.lost)
            if worst.lost <= BUSY:
                return
            self.announce(1)
            found = self._round(self.every)
            quieter, other = sorted([worst, found], key=lambda one: one.lost)
            # the noisier round is dropped, so its time does not count for the load
            self.stopwatch.timed_s -= other.timed_s
            self.stopwatch.lost_s -= other.lost_s
            place = next(i for i, one in enumerate(self.kept) if one is worst)
            self.kept[place] = quieter

    def settle_outliers(self, rounds: int, quantile: float) -> None:
        """Time functions with a few outliers in more rounds, `rounds` at a time.

        The rounds end when it is clear whether the outliers are typical of the
        functions.
        """
        nodes = self.every
        for _ in range(DILUTED):
            nodes = {node for node in nodes if self._doubtful(node, quantile)}
            if not nodes:
                return
            self.announce(rounds)
            self.kept += [self._round(nodes) for _ in range(rounds)]

    def timings(self) -> Timings:
        rows = np.concatenate([one.items for one in self.kept])
        times = np.concatenate([one.times for one in self.kept])
        waited = np.concatenate([one.waited for one in self.kept])
        steps = len(self.extractor.steps)
        feature_s = times[:, steps:].copy()
        for position, feature in enumerate(self.extractor.features):
            if "s" in feature.declared:
                feature_s[:, position] = feature.declared["s"]
        sizes = np.array([self.items[row].size for row in rows])
        shares = [
            _median_share(waited[:, node], times[:, node])
            for node in (*range(steps, times.shape[1]), *range(steps))
        ]
        return Timings(sizes, feature_s, times[:, :steps], rows, np.array(shares))

    def _doubtful(self, node: int, quantile: float) -> bool:
        times = np.concatenate([one.times[:, node] for one in self.kept])
        rows = np.concatenate([one.items for one in self.kept])
        sizes = np.array([self.items[row].size for row in rows])
        own = ~np.isnan(times)
        seconds, usual = times[own], usual_s(sizes[own], times[own])
        found = outliers_of(seconds, usual, quantile, rows[own])
        return outliers_in_doubt(int(found.sum()), int(own.sum()), quantile)

    def _round(self, nodes: set[int]) -> _Round:
        watch = self.stopwatch
        timed_s, lost_s = watch.timed_s, watch.lost_s
        order = self.random.permutation(len(self.items))
        width = len(self.extractor.steps) + len(self.extractor.features)
        times = np.full((len(order), width), np.nan)
        waited = np.zeros(times.shape)
        for item, *rows in zip(order, times, waited, strict=True):
            self._time_item(int(item), nodes, *rows)
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, self.total)
        timed_s, lost_s = watch.timed_s - timed_s, watch.lost_s - lost_s
        return _Round(order, times, waited, timed_s, lost_s)

    def _time_item(
        self, item: int, nodes: set[int], row: Floats, waited: Floats
    ) -> None:
        """Time `nodes` (steps and features) of one item.

        Their times are written into `row`, and what they waited of it into `waited`.
        """
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
                try:
                    row[node] = self.stopwatch.time(compute, argument)
                    waited[node] = self.stopwatch.waited_s
                except FeatureFailed as failure:
                    if not extractor.spares(failure):
                        raise
            elif node in needed:
                with suppress(FeatureFailed):  # which the feature will meet again
                    extraction.compute_step(node)

    def _needs(self, nodes: set[int]) -> set[int]:
        calls, steps = self.extractor.step_calls, len(self.extractor.steps)
        needed: set[int] = set()
        for node in nodes:
            if node >= steps:
                needed.update(self.extractor.needs[node - steps])
        pending = {node for node in nodes if node < steps}
        while pending:
            sources = set(calls[pending.pop()].sources).intersection(range(steps))
            pending |= sources - needed
            needed |= sources
        return needed


def _median_share(parts: Floats, wholes: Floats) -> float:
    """Return the median of `parts / wholes` (M,), over wholes that are above 0."""
    known = wholes > 0
    return float(np.median(parts[known] / wholes[known])) if known.any() else 0.0


def shuffled(extractor: Extractor, random: np.random.Generator) -> list[int]:
    """Return all steps and features in a random order in which they can be computed.

    Steps are numbered from 0 on, and features from the number of steps on. A step or
    feature comes after the steps that it needs.
    """
    steps = len(extractor.steps)
    calls = extractor.step_calls
    waits = [set(call.sources).intersection(range(steps)) for call in calls]
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
    """Limit numerical libraries to one thread, and stop garbage collection.

    The effect ends with the `with` block.
    """
    collecting = gc.isenabled()
    gc.disable()  # no gc.collect() first: it is slow beside a small build
    try:
        with one_thread():
            yield
    finally:
        if collecting:
            gc.enable()
