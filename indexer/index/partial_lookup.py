"""Look-ups among the candidates that need no withheld feature.

A feature is withheld if it cannot be computed, because a record lacks columns. There
may be as many combinations of missing columns as there are feature sets. So a
combination's look-up is made only when the first record with it arrives.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.polynomials import cost_at
from polydom.features.sizes import Size

from .index import Index

KEPT_SIZES = 16  # skylines kept by size; all records have one size


class SizeSkyline:
    """The skyline of some candidates at one size: `rows`, by ascending `costs`."""

    __slots__ = ("costs", "rows")

    def __init__(self, index: Index, rows: Sequence[int], size: Size) -> None:
        costs = [cost_at(curve, size) for curve in index.coefficients[rows].tolist()]
        qualities = index.qualities[rows].tolist()
        self.rows, self.costs, best = list[int](), list[float](), -1.0
        for place in sorted(range(len(rows)), key=lambda k: (costs[k], -qualities[k])):
            if qualities[place] > best:
                self.rows.append(rows[place])
                self.costs.append(costs[place])
                best = qualities[place]

    def best(self, budget: float) -> int:
        """Find the row of the best candidate within a budget; -1 if none fits."""
        place = bisect_right(self.costs, budget)
        return self.rows[place - 1] if place else -1


class PartialLookup:
    """Finds the best candidates for items without some features; immutable.

    `withheld` is the mask of these features. `together` is the result of
    `coming_together`, which `wanting` needs. If `parts` is False, candidates that
    answer with parts of models are left out.
    """

    def __init__(
        self,
        index: Index,
        withheld: int,
        together: Sequence[int] = (),
        *,
        parts: bool = True,
    ) -> None:
        assert index.package is not None
        masks = index.package.masks
        lacking = masks & np.uint64(withheld)
        answers = lacking == 0
        nearly = np.zeros(len(masks), np.bool_)
        for k, mask in enumerate(together):
            if withheld >> k & 1:
                nearly |= lacking & ~np.uint64(mask) == 0
        nearly &= ~answers
        if not parts:
            answers &= np.array(index.package.base_models) == 0
        own = np.flatnonzero(answers).tolist()
        self._answering = frozenset(own)
        self._whole = index.lookup
        self._own = _skylines(index, own)
        self._nearly = _skylines(index, np.flatnonzero(nearly).tolist())

    def best(self, size: Size, budget: float) -> int:
        """Find the row of the best candidate that fits the budget; -1 if none fits."""
        return self._own(size).best(budget)

    def skyline(self, size: Size) -> NDArray[np.int64]:
        """Return the rows of the candidates on a size's skyline, by ascending cost."""
        return np.array(self._own(size).rows, np.int64)

    def wanting(self, size: Size, budget: float) -> tuple[int, int]:
        """Return the rows of two candidates that missing columns would make possible.

        The first is the best candidate that the columns of one withheld feature would
        make possible; -1 if none fits the budget. The second is the best candidate if
        no column were missing; -1 if it is possible already, or if none fits the
        budget.
        """
        best = self._whole.best(size, budget)
        return self._nearly(size).best(budget), -1 if best in self._answering else best


def _skylines(index: Index, rows: Sequence[int]) -> Callable[[Size], SizeSkyline]:
    """Return a cached function from a size to the skyline of candidates `rows`."""

    @lru_cache(KEPT_SIZES)
    def at(size: Size) -> SizeSkyline:
        return SizeSkyline(index, rows, size)

    return at
