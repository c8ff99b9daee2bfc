"""Slow twins of skylines of cost and accuracy."""

import heapq
import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cmp_to_key

import numpy as np
from numpy.typing import NDArray

from polydom.indexer.skyline.kernels.crossings import compare
from polydom.indexer.skyline.skylines import Skylines


def horner(coefficients: Sequence[float], n: float) -> float:
    """Cost in float64, in the order of arithmetic the look-up uses."""
    cost = 0.0
    for coefficient in reversed(coefficients):
        cost = cost * n + coefficient
    return cost


def exact_cost(coefficients: Sequence[float], n: float) -> Fraction:
    """Cost without rounding."""
    cost = Fraction(0)
    for coefficient in reversed(coefficients):
        cost = cost * Fraction(n) + Fraction(coefficient)
    return cost


def exact_skyline(
    coefficients: Sequence[Sequence[float]], accuracies: Sequence[float], n: float
) -> list[int]:
    """Sort by cost at n, then keep whoever is more accurate than all before."""
    rows = sorted(
        range(len(accuracies)),
        key=lambda row: (exact_cost(coefficients[row], n), -accuracies[row], row),
    )
    skyline: list[int] = []
    for row in rows:
        if not skyline or accuracies[row] > accuracies[skyline[-1]]:
            skyline.append(row)
    return skyline


class CostOrders:
    """Order by cost of each pair of curves, computed once, when first asked for."""

    def __init__(
        self, coefficients: NDArray[np.float64], sizes: tuple[float, float]
    ) -> None:
        self.coefficients = np.ascontiguousarray(coefficients)
        self.sizes = sizes
        self.runs: dict[tuple[int, int], tuple[list[float], list[int]]] = {}

    def of(self, first: int, second: int) -> tuple[list[float], list[int]]:
        """Sizes from which on `first` costs less (-1) or more (1) than `second`."""
        if (first, second) not in self.runs:
            curves = self.coefficients[first], self.coefficients[second]
            starts, signs = (one.tolist() for one in compare(*curves, *self.sizes))
            self.runs[first, second] = starts, signs
            self.runs[second, first] = starts, [-sign for sign in signs]
        return self.runs[first, second]


class SizeSweep:
    """The curves in order of cost just above one size, which only grows.

    Curves that are equal throughout stay in order of accuracy, then of row.
    """

    def __init__(
        self,
        coefficients: NDArray[np.float64],
        accuracies: NDArray[np.float64],
        sizes: tuple[float, float],
    ) -> None:
        self.orders = CostOrders(coefficients, sizes)
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
    """
    sweep = SizeSweep(coefficients, accuracies, sizes)
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
        entering, leaving = change_of_skyline(sweep, riser, faller, since)
        if leaving is not None:
            start = since.pop(leaving)
            if start < size:
                left[leaving] = start
        if entering is not None:
            since[entering] = left.pop(entering, size)
    stays += ((row, start, present) for row, start in left.items())
    stays += ((row, start, np.inf) for row, start in since.items())
    rows, starts, ends = zip(*sorted(stays), strict=True)
    return Skylines(np.array(rows), np.array(starts), np.array(ends), sizes)


def change_of_skyline(
    sweep: SizeSweep, riser: int, faller: int, since: dict[int, float]
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


def exact_crossings(
    coefficients: Sequence[Sequence[float]], sizes: tuple[float, float]
) -> set[float]:
    """Sizes in the range around which some pair of curves changes its order.

    Found by numpy's eigenvalues, so only nearly right: for choosing where to look.
    """
    crossings: set[float] = set()
    for first, second in itertools.combinations(coefficients, 2):
        difference = np.subtract(first, second)
        if np.any(difference[1:]):
            roots = np.polynomial.Polynomial(difference).trim().roots()
            crossings |= {float(root.real) for root in np.atleast_1d(roots)}
    return {n for n in crossings if sizes[0] <= n <= sizes[1]}


def dominates(
    first: Sequence[float], second: Sequence[float], sizes: tuple[float, float]
) -> bool:
    """Whether `first` never costs more: compare between and at all crossings."""
    ends = sorted({*sizes, *exact_crossings([first, second], sizes)})
    middles = [(a + b) / 2 for a, b in itertools.pairwise(ends)]
    return all(
        exact_cost(first, n) <= exact_cost(second, n) for n in [*middles, *sizes]
    )


def prune_by_pairs(
    coefficients: Sequence[Sequence[float]],
    accuracies: Sequence[float],
    sizes: tuple[float, float],
) -> list[int]:
    """Compare every candidate with every other."""
    rows = range(len(accuracies))

    def drops(i: int, j: int) -> bool:
        if accuracies[i] < accuracies[j]:
            return False
        if not dominates(coefficients[i], coefficients[j], sizes):
            return False
        alike = accuracies[i] == accuracies[j] and dominates(
            coefficients[j], coefficients[i], sizes
        )
        return i < j or not alike

    return [j for j in rows if not any(drops(i, j) for i in rows if i != j)]
