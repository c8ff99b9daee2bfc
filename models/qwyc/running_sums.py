"""Rows on their way along an order of base models, and the number each may stop by."""

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
    """N rows on their way past T positions: an iterator, of use once.

    Each `next` takes `rows` (n,), all at first, past a position r = 0 ... T - 1 and
    returns what `past(r, rows)` does: their numbers there (n,), and which of them must
    not stop low (n,); the others must not stop high. Between two positions some of
    `rows` can be assigned, in any order; those left out stay out.
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
    """N rows, which have one number to stop by after each of T positions.

    A row may stop low, below a threshold on its number, or high, above another.
    """

    final: Floats  # (N,) numbers after the last position
    border: float | None  # positive are those that end here or above; None: not so

    def walk(self) -> Walk:
        """Start all rows before the first position."""


class ScoreSums:
    """Two classes: the number is the running sum; a positive row must not stop low.

    Scores are (N, T), `positive` (N,) the full decisions; `border` is the sum from
    which on they are positive, ties apart.
    """

    def __init__(
        self, scores: Floats, order: Rows, positive: Flags, border: float | None = None
    ) -> None:
        self.final, self.border = whole_sums(scores), border
        self._scores, self._order, self._positive = scores, order, positive

    def walk(self) -> Walk:
        """Start as in `RunningSums`."""
        sums = np.zeros(len(self._scores))

        def past(r: int, rows: Rows) -> tuple[Floats, Flags]:
            sums[rows] += self._scores[rows, self._order[r]]
            return sums[rows], self._positive[rows]

        return Walk(len(sums), len(self._order), past)


class MarginSums:
    """More classes: minus the margin of the best class over the second: low is sure.

    A row must not stop low while another class leads than in the end; none may stop
    high. One threshold serves all classes, whichever leads. Scores are (N, T, K),
    `chosen` (N,) the full decisions; `bias` (K,) comes before the first base model.
    """

    border: float | None = None

    def __init__(
        self, scores: Floats, order: Rows, chosen: Rows, *, bias: Floats
    ) -> None:
        self.final = -margins_of(whole_sums(scores, bias))
        self._scores, self._order = scores, order
        self._chosen, self._bias = chosen, bias

    def walk(self) -> Walk:
        """Start as in `RunningSums`."""
        sums = np.tile(self._bias, (len(self._scores), 1))

        def past(r: int, rows: Rows) -> tuple[Floats, Flags]:
            sums[rows] += self._scores[rows, self._order[r]]
            here = sums[rows]
            return -margins_of(here), here.argmax(axis=1) != self._chosen[rows]

        return Walk(len(sums), len(self._order), past)


def spread_of(sums: RunningSums) -> Floats:
    """Return the standard deviation (T,), by position, of what is still to come."""
    return np.array([np.std(sums.final - values) for values, _ in sums.walk()])


def parted(values: Floats) -> NDArray[np.bool_]:
    """Find at which of the n + 1 cuts of (n,) ascending values a threshold can lie."""
    middle = values[:-1] / 2 + values[1:] / 2
    valid = np.ones(len(values) + 1, np.bool_)
    valid[1:-1] = (values[:-1] < middle) & (middle < values[1:])
    return valid


def list_entries(rows: NDArray[np.int64], values: Floats) -> NDArray[np.int32]:
    """Make the list of `rows` (n,), by ascending `values`, that the kernels cut.

    A row that no threshold parts from the one before is listed as ~row.

    Examples
    --------
    >>> list_entries(np.array([4, 0, 2, 1, 3]), np.array([-2.0, -1, -1, 0.5, 3]))
    array([ 4,  0, -3,  1,  3], dtype=int32)
    """
    return np.where(parted(values)[:-1], rows, ~rows).astype(np.int32)


def thresholds_at(values: Floats, a: int, b: int) -> tuple[float, float]:
    """Thresholds (lower, upper) that stop the values before cut a and from b on.

    A side that stops nothing gets an infinite threshold; one that stops everything
    seen gets the next float beyond, so that a sum further out still goes on.
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
    """Add up the base scores (N, T) or (N, T, K) of each row, in order: (N,) or (N, K).

    Each sum begins with `start`, a number or (K,). NumPy's `sum` adds in pairs. It
    rounds differently, so it may decide differently at a threshold.
    """
    out = np.empty((len(scores), *scores.shape[2:]))
    for first in range(0, len(scores), AT_ONCE):
        part: NDArray[Any] = scores[first : first + AT_ONCE].astype(np.float64)
        part[:, 0] += start
        out[first : first + AT_ONCE] = part.cumsum(axis=1)[:, -1]
    return out
