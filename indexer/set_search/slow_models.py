"""Sets that the sandwich rule closes for their features' costs, but not for all costs.

A trained set closes a larger one, as it gains nearly as much with cheaper features. But
if its model is slow, such as a deep forest, the larger set may cost less in total.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..index.quality import AlphaOf
from .kernels.sandwich import lower_subsets
from .sandwich import Masks

Floats = NDArray[np.float64]


def open_sets(
    qualities: Mapping[int, float],
    totals: Floats,
    least: Floats,
    *,
    alpha: float,
    alpha_of: AlphaOf,
    tolerance: float,
) -> Masks:
    """Return the untrained sets that no trained subset closes at its total cost.

    A trained subset closes a set if its total cost is at most the least that the set
    can cost, and alpha times its gain reaches what the set's trained supersets gain.
    The sets that promise most come first, and among equals the cheapest.

    `qualities` has those of the T trained sets, by mask, with the empty set and the set
    of all features. `totals` (T,) are the trained sets' costs of features and model, by
    ascending mask. `least` (2 ** m,) is a lower bound of the total cost of every set of
    m features. `alpha`, `alpha_of` and `tolerance` are those of `poly_dom.search`.
    """
    trained = np.array(sorted(qualities), np.uint64)
    known = np.array([qualities[mask] for mask in trained.tolist()])
    origin = known[0] if alpha_of == "gain" else 0.0
    above = np.full(least.size, np.inf)
    above[trained] = known
    lower_subsets(above, 0, least.size.bit_length() - 1)
    sets = np.arange(least.size, dtype=np.uint64)
    closed = np.zeros(least.size, np.bool_)
    closed[trained] = True
    for mask, quality, total in zip(trained, known, totals, strict=True):
        enough = alpha * (quality - origin) >= above - origin + tolerance
        closed |= enough & (total <= least) & (sets & mask == mask)
    found = sets[~closed]
    return found[np.lexsort((least[found], -above[found]))]
