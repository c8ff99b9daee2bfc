"""The paper's builder of the index: a sweep over item sizes (ICSP, algorithm 3)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import cmp_to_key

import numpy as np
from numpy.typing import NDArray

from ._crossing_kernels import compare
from .skyline import Skylines, check_candidates, ordered

Runs = tuple[list[float], list[int]]


class _Orders:
    """Order by cost of each pair of curves, computed once, when first asked for."""

    def __init__(
        self, coefficients: NDArray[np.float64], sizes: tuple[float, float]
    ) -> None:
        self.coefficients = np.ascontiguousarray(coefficients)
        self.sizes = sizes
        self.runs: dict[tuple[int, int], Runs] = {}
        width = coefficients.shape[1]
        self._room = np.empty(width), np.empty(width, np.int64)

    def of(self, first: int, second: int) -> Runs:
        """Sizes from which on `first` costs less (-1) or more (1) than `second`."""
        if (first, second) not in self.runs:
            curves = self.coefficients[first], self.coefficients[second]
            count = compare(*curves, *self.sizes, *self._room)
            starts, signs = (room[:count].tolist() for room in self._room)
            self.runs[first, second] = starts, signs
            self.runs[second, first] = starts, [-sign for sign in signs]
        return self.runs[first, second]


class _Sweep:
    """The curves in order of cost just above one size, which only grows.

    Curves that are equal throughout stay in order of accuracy, then of row.
    """

    def __init__(
        self,
        coefficients: NDArray[np.float64],
        accuracies: NDArray[np.float64],
        sizes: tuple[float, float],
    ) -> None:
        self.orders = _Orders(coefficients, sizes)
        self.accuracies = accuracies.tolist()
        self.order = sorted(range(len(accuracies)), key=cmp_to_key(self._first_sign))
        self.position = {row: at for at, row in enumerate(self.order)}
        self.queue: list[tuple[float, int, int]] = []
        for lower, upper in zip(self.order, self.order[1:], strict=False):
            self._queue_crossing(sizes[0], lower, upper)

    def _first_sign(self, first: int, second: int) -> int:
        signs = self.orders.of(first, second)[1]
        if signs:
            return signs[0]
        if self.accuracies[first] == self.accuracies[second]:
            return first - second
        return 1 if self.accuracies[first] < self.accuracies[second] else -1

    def _queue_crossing(self, size: float, lower: int, upper: int) -> None:
        """Note the first size, from this one on, at which `lower` costs more."""
        starts, signs = self.orders.of(lower, upper)
        for k in range(len(starts)):
            ends = starts[k + 1] if k + 1 < len(starts) else np.inf
            if signs[k] > 0 and ends > size:
                heapq.heappush(self.queue, (max(starts[k], size), lower, upper))
                return

    def swaps(self) -> Iterator[tuple[float, int, int]]:
        """Go through all crossings of neighbours: size, riser, faller.

        When it is given, the two have changed places.
        """
        while self.queue:
            size, lower, upper = heapq.heappop(self.queue)
            at = self.position[lower]
            if self.position[upper] != at + 1:
                continue  # no longer neighbours; queued again when they are
            self.order[at : at + 2] = upper, lower
            self.position[upper], self.position[lower] = at, at + 1
            yield size, lower, upper
            self._queue_crossing(size, upper, lower)
            if at > 0:
                self._queue_crossing(size, self.order[at - 1], upper)
            if at + 2 < len(self.order):
                self._queue_crossing(size, lower, self.order[at + 2])

    def best_below(self, at: int) -> float:
        """Best accuracy among the curves that cost less than the one at a position."""
        return max((self.accuracies[row] for row in self.order[:at]), default=-1.0)


def skylines_by_sweep(
    coefficients: NDArray[np.float64],
    accuracies: NDArray[np.float64],
    sizes: tuple[float, float],
) -> Skylines:
    """Find the skylines of all sizes by visiting the crossings of neighbours.

    ICSP, algorithm 3, with theorem 3.13 telling the interesting crossings. Where
    several curves meet they change places pair by pair, all at one size, and only
    what is left of it afterwards counts. Curves of equal accuracy, which the theorem
    leaves out, follow from the same two scenarios: the cheaper one is on the skyline.

    Visits every crossing of neighbours, so takes up to O(d C ** 2 log C):
    `skylines_by_envelope` gives the same result faster.

    Parameters and errors as there.
    """
    check_candidates(coefficients, accuracies, sizes)
    sweep = _Sweep(coefficients, accuracies, sizes)
    since: dict[int, float] = {}  # on the skyline now, from which size on
    for at, row in enumerate(sweep.order):
        if sweep.accuracies[row] > sweep.best_below(at):
            since[row] = sizes[0]
    left: dict[int, float] = {}  # left at the present size, had come at
    stays: list[tuple[int, float, float]] = []
    present = sizes[0]
    for size, riser, faller in sweep.swaps():
        if size > present:
            stays += ((row, start, present) for row, start in left.items())
            left.clear()
            present = size
        entering, leaving = _change(sweep, riser, faller, since)
        if leaving is not None:
            start = since.pop(leaving)
            if start < size:
                left[leaving] = start
        if entering is not None:
            since[entering] = left.pop(entering, size)
    stays += ((row, start, present) for row, start in left.items())
    stays += ((row, start, np.inf) for row, start in since.items())
    rows, starts, ends = zip(*stays, strict=True)
    return ordered(np.array(rows, np.int64), np.array(starts), np.array(ends), sizes)


def _change(
    sweep: _Sweep, riser: int, faller: int, since: dict[int, float]
) -> tuple[int | None, int | None]:
    """Who enters and who leaves the skyline when `faller` comes to cost less.

    Theorem 3.13, curve 1 being the faller and curve 2 the riser.
    """
    accuracies = sweep.accuracies
    if riser not in since:
        # Scenario 3: neither was on it, or the faller was and stays.
        return None, None
    leaving = riser if accuracies[faller] >= accuracies[riser] else None
    if faller in since:  # scenario 1
        return None, leaving
    # Scenario 2; that of the theorem's first case, which cannot occur where
    # accuracies differ, is the faller taking the place of an equally accurate riser.
    enters = sweep.best_below(sweep.position[faller]) < accuracies[faller]
    return faller if enters else None, leaving
