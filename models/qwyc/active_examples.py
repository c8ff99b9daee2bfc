"""The rows that are still active and the base models that are still unused."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .running_sums import Floats, Rows, whole_sums

Number = TypeVar("Number", np.int64, np.float64)


class ActiveExamples:
    """The state of a search for an order of base models: active rows, unused models.

    `models` (L,) are the unused base models. `sums` (n,) are the active rows' sums over
    the used base models, and `final` (n,) their sums over all base models. Rows that
    the whole ensemble decides as positive come first; `positives` is the number of
    these rows.
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
        """Return the number of active rows."""
        return len(self.rows)

    @property
    def positive(self) -> NDArray[np.bool_]:
        """Mask (n,) of the active rows that the whole ensemble decides as positive."""
        return np.arange(len(self.rows)) < self.positives

    def sample(self, most: int) -> tuple[Rows, Floats, Floats]:
        """Return (rows, sums, final) of at most `most` evenly spaced active rows."""
        places = np.arange(0, len(self.rows), -(-len(self.rows) // most))
        return self.rows[places], self.sums[places], self.final[places]

    def take(self, place: int) -> int:
        """Use the base model `models[place]`, and return its number.

        The base model's scores are added to `sums`, and it is removed from `models`.
        """
        self.sums = self.sums + self.scores[self.rows, self.columns[place]]
        model = int(self.models[place])
        self.models = np.delete(self.models, place)
        self.columns = np.delete(self.columns, place)
        return model

    def keep(self, active: NDArray[np.bool_]) -> None:
        """Drop the rows for which `active` (n,) is False."""
        self.positives = int(active[: self.positives].sum())
        self.rows, self.sums = self.rows[active], self.sums[active]
        self.final = self.final[active]
        # Scans are faster over scores without gaps; each copy at least halves them.
        if 2 * len(self.rows) <= len(self.scores):
            self.scores = self.scores[np.ix_(self.rows, self.columns)]
            self.rows = np.arange(len(self.rows))
            self.columns = np.arange(len(self.columns))


def over_columns(
    scan: Callable[[Rows], NDArray[Number]], columns: Rows, threads: int
) -> NDArray[Number]:
    """Divide the columns among several threads that call `scan`; join the results.

    `scan` must release the global interpreter lock (GIL).
    """
    if threads == 1:
        return scan(columns)
    shares = np.array_split(columns, threads)
    with ThreadPoolExecutor(threads) as executor:
        return np.concatenate(list(executor.map(scan, shares)))
