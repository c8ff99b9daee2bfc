"""Rows on their way along an order of base models: by what number each may stop."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..models.sums import whole_sums

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


class Track(Protocol):
    """N rows; after each of T positions every row has one number to stop by.

    A row may stop low, below a threshold on its number, or high, above another.

    Attributes
    ----------
    final : (N,) float64
        The numbers after the last position.
    """

    @property
    def final(self) -> Floats:
        """(N,) numbers after the last position."""

    def restart(self) -> None:
        """Bring every row back to before the first position."""

    def step(self, r: int, rows: Rows) -> tuple[Floats, Flags]:
        """Take `rows` (n,) past position r: their numbers, and who must not stop low.

        The others must not stop high. Rows left out at one position stay out.
        """


class SumTrack:
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
        self.restart()

    def restart(self) -> None:
        """As in Track."""
        self._sums = np.zeros(len(self._scores))

    def step(self, r: int, rows: Rows) -> tuple[Floats, Flags]:
        """As in Track."""
        self._sums[rows] += self._scores[rows, self._order[r]]
        return self._sums[rows], self._positive[rows]


class LeadTrack:
    """More classes: minus the lead of the best class over the second, so low is sure.

    A row must not stop low while another class leads than in the end; none may stop
    high. Only the lead counts, not who leads: one threshold serves all classes.

    Parameters
    ----------
    scores : (N, T, K)
    order : (T,)
    bias : (K,)
        Added before the first base model.
    chosen : (N,)
        Full decisions; by default those of the whole sums.
    """

    def __init__(
        self, scores: Floats, order: Rows, bias: Floats, chosen: Rows | None = None
    ) -> None:
        self._scores, self._order, self._bias = scores, order, bias
        whole = whole_sums(scores, bias)
        self.final = -lead(whole)
        self.chosen: Rows = whole.argmax(axis=1) if chosen is None else chosen
        self.restart()

    def restart(self) -> None:
        """As in Track."""
        self._sums = np.tile(self._bias, (len(self._scores), 1))

    def step(self, r: int, rows: Rows) -> tuple[Floats, Flags]:
        """As in Track."""
        self._sums[rows] += self._scores[rows, self._order[r]]
        sums = self._sums[rows]
        return -lead(sums), sums.argmax(axis=1) != self.chosen[rows]


def lead(sums: Floats) -> Floats:
    """By how much the best of K >= 2 classes leads: sums (n, K) to (n,)."""
    if not len(sums):
        return np.empty(0)
    first_two = np.partition(sums, -2, axis=1)[:, -2:]
    leads: Floats = first_two[:, 1] - first_two[:, 0]
    return leads
