"""What plans cost in a batch: on average, and at most."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.indexer.index.index import Index
from polydom.indexer.index.mean_costs import mean_costs

Floats = NDArray[np.float64]


class MenuCosts(NamedTuple):
    """Cost polynomials (C, T) of an index's candidates.

    Attributes
    ----------
    means
        What holds on average, of plans that may answer early.
    most
        What holds where none does.
    """

    means: Floats
    most: Floats


def menu_costs(index: Index, exact: bool = False) -> MenuCosts:
    """Find what the plans of an index that has a package cost.

    `exact` says whether models are evaluated whole, so that there are scores.
    """
    package, most = index.package, index.coefficients
    assert package is not None
    if not (exact and package.early_exits):
        return MenuCosts(mean_costs(package, most), most)
    dearer = most.copy()
    dearer[:, 0] += package.checked_s - package.model_s
    if not package.ends:
        return MenuCosts(dearer, dearer)
    whole = replace(package, mean_s=package.checked_s)
    return MenuCosts(mean_costs(whole, most), dearer)
