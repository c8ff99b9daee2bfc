"""A price for what a budget buys: quality per cost below which no step is taken.

The greedy of the knapsack is a threshold on slope. So one number says of every item, by
itself, which plan it gets: whoever computes it, however often, beside whatever others.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Slopes nearer to each other than this, relatively, are the same: machines round costs
# differently, and are to agree which steps are worth exactly the price.
SAME = 1e-9


class Price(NamedTuple):
    """Which steps are taken.

    Attributes
    ----------
    slope
        Quality per cost at which the budget runs out: steps worth more are all taken,
        those worth less are not; 0 where it buys everything, infinite where nothing.
    share
        Part of the steps worth exactly that which is taken, in [0, 1].
    """

    slope: float
    share: float

    def taken(self, slopes: Floats) -> Floats:
        """(T,) what part of steps worth so much is taken, in [0, 1]."""
        if not np.isfinite(self.slope):
            return np.zeros(len(slopes))
        tied = np.abs(slopes - self.slope) <= SAME * self.slope
        part: Floats = np.where(tied, self.share, slopes > self.slope)
        return part


def price_of(slopes: Floats, costs: Floats, left: float) -> Price:
    """Find the price at which steps cost what is left.

    Parameters
    ----------
    slopes : (T,)
        What each step adds to the quality per cost, above 0.
    costs : (T,)
        What it adds to the cost, for all items that it stands for.
    left
        What all steps taken may cost together.

    Examples
    --------
    Of three steps, each of cost 2, the best and half of the others, which are worth the
    same:

    >>> price_of(np.array([0.1, 0.1, 0.3]), np.array([2.0, 2.0, 2.0]), left=4.0)
    Price(slope=0.1, share=0.5)
    """
    if left <= 0:
        return Price(np.inf, 0.0)
    order = np.argsort(-slopes, kind="stable")
    split = int(np.searchsorted(np.cumsum(costs[order]), left, side="right"))
    if split == len(order):
        return Price(0.0, 1.0)
    slope = float(slopes[order[split]])
    above = Price(slope, 0.0).taken(slopes)
    tied = Price(slope, 1.0).taken(slopes) - above
    share = (left - above @ costs) / (tied @ costs)
    return Price(slope, float(np.clip(share, 0.0, 1.0)))
