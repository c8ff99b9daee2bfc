"""The rows still undecided and the base models unused, while an order is built."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .running_sums import whole_sums

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Number = TypeVar("Number", np.int64, np.float64)


class ActiveExamples:
    """ActiveExamples rows with their running sums, and unused base models.

    The caller's scores are read in place until at most half of the rows are left, which
    are then copied: more than half a score matrix is never held.

    Attributes
    ----------
    models : (L,) int64
        Unused base models.
    sums : (n,) float64
        Running sums of the undecided rows, those of positive ones first.
    final : (n,) float64
        Their sums of all base models.
    positives : int
        How many of the undecided rows are positive by the full decision.
    """

    def __init__(self, scores: Floats, positive: NDArray[np.bool_]) -> None:
        self.scores = scores
        self.models = np.arange(scores.shape[1])
        self.columns = self.models
        self.rows = np.argsort(~positive, kind="stable")
        self.positives = int(positive.sum())
        self.sums = np.zeros(len(self.rows))
        self.final = whole_sums(scores)[self.rows]

    def __len__(self) -> int:
        """Count the undecided rows."""
        return len(self.rows)

    @property
    def positive(self) -> NDArray[np.bool_]:
        """Full decision of each undecided row, (n,)."""
        return np.arange(len(self.rows)) < self.positives

    def sample(self, most: int) -> tuple[Rows, Floats, Floats]:
        """Rows, sums now and sums in the end of at most `most`, evenly spread."""
        places = np.arange(0, len(self.rows), -(-len(self.rows) // most))
        return self.rows[places], self.sums[places], self.final[places]

    def take(self, place: int) -> int:
        """Add the base model at `place` in `models` to the sums; return its number."""
        self.sums = self.sums + self.scores[self.rows, self.columns[place]]
        model = int(self.models[place])
        self.models = np.delete(self.models, place)
        self.columns = np.delete(self.columns, place)
        return model

    def keep(self, stays: NDArray[np.bool_]) -> None:
        """Drop the rows not in `stays` (n,)."""
        self.positives = int(stays[: self.positives].sum())
        self.rows, self.sums = self.rows[stays], self.sums[stays]
        self.final = self.final[stays]
        if 2 * len(self.rows) <= len(self.scores):
            self.scores = self.scores[np.ix_(self.rows, self.columns)]
            self.rows = np.arange(len(self.rows))
            self.columns = np.arange(len(self.columns))


def over_columns(
    scan: Callable[[Rows], NDArray[Number]], columns: Rows, threads: int
) -> NDArray[Number]:
    """Run `scan`, which releases the interpreter's lock, on shares of (L,) columns."""
    if threads == 1:
        return scan(columns)
    shares = np.array_split(columns, threads)
    with ThreadPoolExecutor(threads) as executor:
        return np.concatenate(list(executor.map(scan, shares)))
