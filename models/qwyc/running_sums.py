"""Running sums along an order of base models, and thresholds that cut sorted sums.

A row's number after each position is its running sum, or, for more than two classes,
minus its margin. A row stops low if its number is below the lower threshold, high if
above the upper threshold. Cut c of n sorted numbers is the midpoint between the c-th
and the next number. Equal numbers are never separated. Cuts 0 and n lie just outside.
"""

from collections.abc import Callable
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..scoring.stopping_rule import margins_of

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]

AT_ONCE = 1024  # rows whose running sums are in memory at once


class Walk:
    """An iterator over T positions, which adds up the numbers of the rows that go on.

    Each step yields the numbers of these rows (n,), and a mask of the rows that must
    not stop low; other rows must not stop high. The caller may shorten `rows` between
    steps.
    """

    def __init__(
        self, rows: int, count: int, past: Callable[[int, Rows], tuple[Floats, Flags]]
    ) -> None:
        self.rows, self.count = np.arange(rows), count
        self._past, self._positions = past, iter(range(count))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Floats, Flags]:
        return self._past(next(self._positions), self.rows)


class RunningSums(Protocol):
    """N rows with one number after each of T positions."""

    final: Floats  # (N,): Numbers after the last position
    border: float | None  # Least final number of a positive row; None if not defined

    def walk(self) -> Walk:
        """Start a walk of all rows, before the first position."""


class ScoreSums:
    """Numbers for two classes: the running sums. A positive row must not stop low."""

    def __init__(
        self, scores: Floats, order: Rows, positive: Flags, border: float | None = None
    ) -> None:
        self.final, self.border = whole_sums(scores), border
        self._scores, self._order, self._positive = scores, order, positive

    def walk(self) -> Walk:
        """Start a walk of all rows, before the first position."""
        sums = np.zeros(len(self._scores))

        def past(r: int, rows: Rows) -> tuple[Floats, Flags]:
            sums[rows] += self._scores[rows, self._order[r]]
            return sums[rows], self._positive[rows]

        return Walk(len(sums), len(self._order), past)


class MarginSums:
    """Numbers for K classes: minus the margin of the best class over the second."""

    border: float | None = None

    def __init__(
        self, scores: Floats, order: Rows, chosen: Rows, *, bias: Floats
    ) -> None:
        self.final = -margins_of(whole_sums(scores, bias))
        self._scores, self._order = scores, order
        self._chosen, self._bias = chosen, bias

    def walk(self) -> Walk:
        """Start a walk of all rows, before the first position."""
        sums = np.tile(self._bias, (len(self._scores), 1))

        def past(r: int, rows: Rows) -> tuple[Floats, Flags]:
            sums[rows] += self._scores[rows, self._order[r]]
            here = sums[rows]
            return -margins_of(here), here.argmax(axis=1) != self._chosen[rows]

        return Walk(len(sums), len(self._order), past)


def spread_of(sums: RunningSums) -> Floats:
    """Return the standard deviation (T,) of number changes after each position."""
    return np.array([np.std(sums.final - values) for values, _ in sums.walk()])


def parted(values: Floats) -> NDArray[np.bool_]:
    """Return a mask of cuts (n + 1,): True if a threshold can cut the sorted values."""
    middle = values[:-1] / 2 + values[1:] / 2  # halved first: sums may overflow
    valid = np.ones(len(values) + 1, np.bool_)
    valid[1:-1] = (values[:-1] < middle) & (middle < values[1:])
    return valid


def list_entries(rows: NDArray[np.int64], values: Floats) -> NDArray[np.int32]:
    """Encode `rows`, sorted by `values`: ~row if the value equals the previous value.

    >>> list_entries(np.array([4, 0, 2, 1, 3]), np.array([-2.0, -1, -1, 0.5, 3]))
    array([ 4,  0, -3,  1,  3], dtype=int32)
    """
    return np.where(parted(values)[:-1], rows, ~rows).astype(np.int32)


def thresholds_at(values: Floats, a: int, b: int) -> tuple[float, float]:
    """Return thresholds that stop values before cut a low, and from cut b on high."""
    n = len(values)
    lower, upper = -np.inf, np.inf
    if a == n > 0:
        lower = np.nextafter(values[-1], np.inf)
    elif a > 0:
        lower = values[a - 1] / 2 + values[a] / 2
    if b == 0 < n:
        upper = np.nextafter(values[0], -np.inf)
    elif b < n:
        upper = values[b - 1] / 2 + values[b] / 2
    return float(lower), float(upper)


def whole_sums(scores: Floats, start: Floats | float = 0.0) -> Floats:
    """Add up each row's base scores (N, T[, K]) in their order, beginning at `start`.

    NumPy's `sum` adds in pairs, and could round to another decision at a threshold.
    """
    out = np.empty((len(scores), *scores.shape[2:]))
    for first in range(0, len(scores), AT_ONCE):
        part: NDArray[Any] = scores[first : first + AT_ONCE].astype(np.float64)
        part[:, 0] += start
        out[first : first + AT_ONCE] = part.cumsum(axis=1)[:, -1]
    return out
