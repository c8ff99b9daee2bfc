"""When fetches arrive, and which quality is expected of what has come by then."""

import math
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.polynomials import cost_at
from polydom.features.sizes import Size

from ..index import Index
from .stored_fetches import needs_of, withheld_by

KEPT_OUTCOMES = 1024  # outcomes whose withheld features are kept
KEPT_SIZES = 16  # sizes whose costs are kept; all records have one size


class Arrivals:
    """The fetches of an index and their joint draws of arrival times; immutable.

    An index has U fetches, and M draws of their arrival times. An outcome is a set of
    fetches that have come, as a bit mask.
    """

    def __init__(self, index: Index) -> None:
        package = index.package
        assert package is not None
        self.names = tuple(fetch.name for fetch in package.fetches)
        # (M, U): seconds from sending to arrival; infinite for a fetch that never came
        self.draws = package.arrivals
        self.every = (1 << len(self.names)) - 1
        # (m,): mask of the fetches that each feature needs
        self.needs = needs_of(package.features, package.fetches)
        # Function from an outcome to the mask of the features that need a fetch which
        # has not come.
        self.withheld = lru_cache(KEPT_OUTCOMES)(partial(withheld_by, self.needs))
        self._costs_at = lru_cache(KEPT_SIZES)(self._find_costs)
        self._index = index
        self._bits = 1 << np.arange(len(self.names))
        masks = package.masks.tolist()
        self._best_first = np.argsort(-index.qualities, kind="stable")
        # (C,): mask of the fetches that each row needs
        self._row_needs = np.array([self.needed_by(mask) for mask in masks], np.int64)
        self._prior = float(index.qualities[masks.index(0)])

    def needed_by(self, features: int) -> int:
        """Return a mask of the fetches that the features in a mask need."""
        needed = 0
        for k, own in enumerate(self.needs):
            needed |= own if features >> k & 1 else 0
        return needed

    def share(self, wait_s: float) -> NDArray[np.float64]:
        """Return the share of draws in which each fetch has come by a time: (U,)."""
        came: NDArray[np.bool_] = self.draws <= wait_s
        return came.mean(axis=0) if len(came) else np.zeros(len(self.names))

    def outcomes(self, wait_s: float, sent: int | None = None) -> dict[int, float]:
        """Return the share of draws with each outcome `wait_s` seconds after sending.

        `sent` is the mask of the fetches that are sent; None for all of them. Outcomes
        without draws are left out.
        """
        outcomes, counts = self._count(wait_s, sent)
        shares = counts / counts.sum()
        return dict(zip(outcomes.tolist(), shares.tolist(), strict=True))

    def expected(
        self,
        size: Size,
        budget_s: float,
        *,
        sent: int | None = None,
        after_s: float = 0.0,
    ) -> float:
        """Return the expected quality of an answer within a budget.

        Fetches that have come by `budget_s - after_s` are used. The answer is then that
        of the best row which needs no other fetch and costs at most `budget_s`, or the
        prior's. The result is the mean of its quality over the draws.
        """
        outcomes, counts = self._count(budget_s - after_s, sent)
        fitting = self._best_first[self._costs_at(size) <= budget_s]
        best = np.full(len(outcomes), self._prior)
        left = np.arange(len(outcomes))  # outcomes whose best row is not found yet
        for row in fitting.tolist():
            answers = self._row_needs[row] & ~outcomes[left] == 0
            best[left[answers]] = self._index.qualities[row]
            left = left[~answers]
            if not len(left):
                break
        return math.fsum(best * counts) / float(counts.sum())

    def _count(
        self, wait_s: float, sent: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the different outcomes, and the number of draws with each."""
        if not len(self.draws):
            return np.zeros(1, np.int64), np.ones(1, np.int64)
        came = (self.draws <= wait_s) @ self._bits
        sent = self.every if sent is None else sent
        return np.unique(came & sent, return_counts=True)

    def _find_costs(self, size: Size) -> NDArray[np.float64]:
        """Return the costs (C,) of the rows at a size, the most accurate row first."""
        curves = self._index.coefficients[self._best_first].tolist()
        return np.array([cost_at(curve, size) for curve in curves])
