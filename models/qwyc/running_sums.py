"""Running sums along an order of base models, and thresholds between sorted sums.

After each position of the order, each row has a *number*: its running sum or, for more
than two classes, minus its margin. A row stops low if its number is below the lower
threshold, and stops high if it is above the upper threshold.

Cut c of n ascending numbers is the threshold midway between `numbers[c - 1]` and
`numbers[c]`, with c numbers below it. There is no cut between equal numbers. Cut 0 lies
just below all numbers, cut n just above.
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
    """An iterator over T positions that yields the numbers of active rows.

    Each step yields the numbers (n,) of the rows in `rows`, and a mask (n,). The mask
    is True for rows that would be wrong to stop low, False for rows that would be wrong
    to stop high. Between steps, the caller may remove rows from `rows`.
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
    """The numbers of N rows after each of T positions, such as running sums."""

    final: Floats  # (N,): Numbers after the last position
    border: float | None  # Smallest final number of a positive row; None if not defined
    decisions: Rows  # (N,): Positions of the classes that the whole ensemble chooses

    def walk(self) -> Walk:
        """Start a `Walk` over the positions, with all rows."""

    def prices(self, weights: Floats) -> Floats:
        """Return prices (2, N) of each row's wrong stops: low, and high.

        `weights` (K,) are the prices of changed decisions of each class.
        """


class ScoreSums:
    """The running sums of N rows, for two classes.

    A low stop is wrong for rows that the whole ensemble decides as positive.
    """

    def __init__(
        self, scores: Floats, order: Rows, positive: Flags, border: float | None = None
    ) -> None:
        self.final, self.border = whole_sums(scores), border
        self.decisions = positive.astype(np.int64)
        self._scores, self._order, self._positive = scores, order, positive

    def prices(self, weights: Floats) -> Floats:
        """Return (2, N) prices: wrong low stops change class 1, high stops class 0."""
        return np.repeat(weights[::-1, None], len(self.final), axis=1)

    def walk(self) -> Walk:
        """Start a `Walk` over the positions, with all rows."""
        sums = np.zeros(len(self._scores))

        def past(r: int, rows: Rows) -> tuple[Floats, Flags]:
            sums[rows] += self._scores[rows, self._order[r]]
            return sums[rows], self._positive[rows]

        return Walk(len(sums), len(self._order), past)


class MarginSums:
    """Minus the margin of each of N rows after each position, for K classes.

    A low stop is wrong while the leading class is not the row's final class.
    """

    border: float | None = None

    def __init__(
        self, scores: Floats, order: Rows, chosen: Rows, *, bias: Floats
    ) -> None:
        self.final = -margins_of(whole_sums(scores, bias))
        self.decisions = chosen
        self._scores, self._order, self._bias = scores, order, bias

    def prices(self, weights: Floats) -> Floats:
        """Return (2, N) prices: those of the classes that rows must not lose."""
        return np.repeat(weights[None, self.decisions], 2, axis=0)

    def walk(self) -> Walk:
        """Start a `Walk` over the positions, with all rows."""
        sums = np.tile(self._bias, (len(self._scores), 1))

        def past(r: int, rows: Rows) -> tuple[Floats, Flags]:
            sums[rows] += self._scores[rows, self._order[r]]
            here = sums[rows]
            return -margins_of(here), here.argmax(axis=1) != self.decisions[rows]

        return Walk(len(sums), len(self._order), past)


def spread_of(sums: RunningSums) -> Floats:
    """Return the standard deviation of what later base models add to rows, shape (T,).

    For each position, it is computed over the rows' final sums minus their running
    sums.
    """
    return np.array([np.std(sums.final - values) for values, _ in sums.walk()])


def parted(values: Floats) -> NDArray[np.bool_]:
    """Return a mask (n + 1,): True for the cuts of n sorted values that exist.

    A cut does not exist if no threshold fits between the values on its two sides.
    """
    middle = values[:-1] / 2 + values[1:] / 2  # halved first: sums may overflow
    valid = np.ones(len(values) + 1, np.bool_)
    valid[1:-1] = (values[:-1] < middle) & (middle < values[1:])
    return valid


def list_entries(rows: NDArray[np.int64], values: Floats) -> NDArray[np.int32]:
    """Encode `rows`, sorted by `values`, as row or ~row.

    An entry is ~row if no threshold fits between its value and the value before.

    >>> list_entries(np.array([4, 0, 2, 1, 3]), np.array([-2.0, -1, -1, 0.5, 3]))
    array([ 4,  0, -3,  1,  3], dtype=int32)
    """
    return np.where(parted(values)[:-1], rows, ~rows).astype(np.int32)


def thresholds_at(values: Floats, a: int, b: int) -> tuple[float, float]:
    """Return (lower, upper) with `values[:a]` below lower and `values[b:]` above upper.

    `values` are ascending; `values[a:b]` lie between the thresholds.
    """
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
    """Return the sums of the scores of all base models, shape (N,) or (N, K).

    The scores (N, T[, K]) are added to `start` one base model after the other. NumPy's
    `sum` adds in a different order; its rounding could change a decision at the
    threshold.
    """
    out = np.empty((len(scores), *scores.shape[2:]))
    for first in range(0, len(scores), AT_ONCE):
        part: NDArray[Any] = scores[first : first + AT_ONCE].astype(np.float64)
        part[:, 0] += start
        out[first : first + AT_ONCE] = part.cumsum(axis=1)[:, -1]
    return out
