"""The active rows and unused base models, while an order of base models is built."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .running_sums import Floats, Rows, whole_sums

Number = TypeVar("Number", np.int64, np.float64)


class ActiveExamples:
    """Active rows with their running sums, and unused base models.

    `models` (L,) are the unused base models. The active rows have running
    `sums` and `final` sums (n,); `positives` rows, with a positive full decision, come
    first.
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
        """Count the active rows."""
        return len(self.rows)

    @property
    def positive(self) -> NDArray[np.bool_]:
        """Full decision of each active row, (n,)."""
        return np.arange(len(self.rows)) < self.positives

    def sample(self, most: int) -> tuple[Rows, Floats, Floats]:
        """Return at most `most` active rows, evenly spaced, with their two sums."""
        places = np.arange(0, len(self.rows), -(-len(self.rows) // most))
        return self.rows[places], self.sums[places], self.final[places]

    def take(self, place: int) -> int:
        """Add base model `models[place]` to the running sums, and return its number."""
        self.sums = self.sums + self.scores[self.rows, self.columns[place]]
        model = int(self.models[place])
        self.models = np.delete(self.models, place)
        self.columns = np.delete(self.columns, place)
        return model

    def keep(self, active: NDArray[np.bool_]) -> None:
        """Keep only the rows for which `active` (n,) is True."""
        self.positives = int(active[: self.positives].sum())
        self.rows, self.sums = self.rows[active], self.sums[active]
        self.final = self.final[active]
        if 2 * len(self.rows) <= len(self.scores):
            self.scores = self.scores[np.ix_(self.rows, self.columns)]
            self.rows = np.arange(len(self.rows))
            self.columns = np.arange(len(self.columns))


def over_columns(
    scan: Callable[[Rows], NDArray[Number]], columns: Rows, threads: int
) -> NDArray[Number]:
    """Run `scan` in threads, each on a share of the columns; join the results.

    `scan` must release the interpreter's lock.
    """
    if threads == 1:
        return scan(columns)
    shares = np.array_split(columns, threads)
    with ThreadPoolExecutor(threads) as executor:
        return np.concatenate(list(executor.map(scan, shares)))
