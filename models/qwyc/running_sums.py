"""Rows on their way along an order of base models, and the number each may stop by."""

from collections.abc import Callable
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..scoring.whole_sums import whole_sums

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


class Walk:
    """Rows on their way past the positions of an order: an iterator, of use once.

    Each `next` takes `rows` past one position and returns their numbers there (n,), and
    which of them must not stop low (n,); the others must not stop high.

    Parameters
    ----------
    rows, count
        N and T.
    past
        Takes rows (n,) past position r, called for r = 0 ... T - 1 in turn; returns
        what `next` does.

    Attributes
    ----------
    rows : (n,)
        Rows still on their way, all at first. Between two positions, some of them can
        be assigned, in any order; those left out stay out.
    count : int
        T, the number of positions.
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

    Attributes
    ----------
    final : (N,) float64
        The numbers after the last position.
    """

    @property
    def final(self) -> Floats:
        """(N,) numbers after the last position."""

    def walk(self) -> Walk:
        """Start all rows before the first position."""


class ScoreSums:
    """Two classes: the number is the running sum; a positive row must not stop low.

    Parameters
    ----------
    scores : (N, T)
    order : (T,)
    positive : (N,)
        Full decisions.
    """

    def __init__(self, scores: Floats, order: Rows, positive: Flags) -> None:
        self.final = whole_sums(scores)
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
    high. One threshold serves all classes, whichever leads.

    Parameters
    ----------
    scores : (N, T, K)
    order : (T,)
    chosen : (N,)
        Full decisions.
    bias : (K,)
        Added before the first base model.
    """

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


def margins_of(sums: Floats) -> Floats:
    """Margins (n,) of the best class over the second, for sums (n, K), K >= 2."""
    if not len(sums):
        return np.empty(0)
    first_two = np.partition(sums, -2, axis=1)[:, -2:]
    margins: Floats = first_two[:, 1] - first_two[:, 0]
    return margins


def spread_of(sums: RunningSums) -> Floats:
    """Return the standard deviation (T,), by position, of what is still to come."""
    return np.array([np.std(sums.final - values) for values, _ in sums.walk()])
