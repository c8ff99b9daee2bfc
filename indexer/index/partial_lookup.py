"""Look-ups among the candidates that need none of some features.

A record may lack columns. What needs them cannot answer then, and of what is left the
skyline is another one. There may be as many patterns of columns as sets of features, so
this one is made when the first such record comes.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.polynomials import cost_at
from polydom.features.sizes import Size

from .index import Index

KEPT_SIZES = 16  # records have one


class Stairs:
    """The skyline of some candidates at one size.

    Parameters
    ----------
    index
        Theirs.
    rows
        Candidates, in ascending order.
    size
        Of the item.

    Attributes
    ----------
    rows
        By ascending cost and quality.
    costs
        What each costs at that size.
    """

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
        """Row of the best candidate that costs no more; -1 if none does."""
        place = bisect_right(self.costs, budget)
        return self.rows[place - 1] if place else -1


class PartialLookup:
    """What there is for items of which some features are withheld; immutable.

    Parameters
    ----------
    index
        With a package.
    withheld
        Mask of the features that cannot be computed.
    together
        Of each feature the mask of those that come with it, from `coming_together`.
    """

    def __init__(
        self, index: Index, withheld: int, together: Sequence[int] = ()
    ) -> None:
        assert index.package is not None
        lacking = [mask & withheld for mask in index.package.masks.tolist()]
        own = [row for row, lacks in enumerate(lacking) if not lacks]
        parts = [mask for k, mask in enumerate(together) if withheld >> k & 1]
        nearly = [
            row
            for row, lacks in enumerate(lacking)
            if lacks and any(not lacks & ~part for part in parts)
        ]
        self._answering = frozenset(own)
        self._whole = index.lookup
        self._own = _stairs_of(index, own)
        self._nearly = _stairs_of(index, nearly)

    def best(self, size: Size, budget: float) -> int:
        """Row of the best candidate that fits, -1 if none does."""
        return self._own(size).best(budget)

    def skyline(self, size: Size) -> NDArray[np.int64]:
        """Rows on the skyline of a size, by ascending cost and quality."""
        return np.array(self._own(size).rows, np.int64)

    def wanting(self, size: Size, budget: float) -> tuple[int, int]:
        """Rows of the best candidates that fit and that want something for it.

        The first wants the columns of one feature of those withheld, the second those
        of any number; -1 for none.
        """
        best = self._whole.best(size, budget)
        return self._nearly(size).best(budget), -1 if best in self._answering else best


def _stairs_of(index: Index, rows: Sequence[int]) -> Callable[[Size], Stairs]:
    """Give the skyline of some candidates at any size; each is made once."""

    @lru_cache(KEPT_SIZES)
    def at(size: Size) -> Stairs:
        return Stairs(index, rows, size)

    return at
