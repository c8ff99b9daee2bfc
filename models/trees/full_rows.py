"""Trees behind a preparation, as trees that read full rows themselves."""

import numpy as np
from numpy.typing import NDArray

from ..scoring.float_order import find_last
from ..scoring.model import Floats
from ..scoring.preparation import Preparation
from .nodes import MISSING_LEFT, NAN_IS_ZERO, ZERO_IS_MISSING, TreeArrays


def nodes_of_full_rows(
    trees: TreeArrays, preparation: Preparation, single: bool
) -> NDArray[np.void] | None:
    """Give nodes that send full rows of float32 where prepared rows go.

    A threshold becomes the largest value of its column that is prepared to no more,
    and a missing value goes where what it is filled with goes. `single` inputs are
    rounded to float32.

    Returns
    -------
    None where that cannot be said of a value alone: behind norms and falling slopes,
    with category splits, and where 0 counts as missing.
    """
    nodes, at = trees.nodes.copy(), np.flatnonzero(trees.inner)
    column, flags = nodes["column"][at], nodes["flags"][at]
    if (
        not preparation.ascends()
        or (nodes["category"] >= 0).any()
        or (flags & ZERO_IS_MISSING).any()
    ):
        return None
    of_nodes = preparation.side_by_side(column)

    def prepare(values: NDArray[np.float32]) -> Floats:
        inputs: Floats = of_nodes.apply(values[None])[0]
        if single:
            with np.errstate(over="ignore"):  # beyond float32 is infinite
                inputs = inputs.astype(np.float32).astype(np.float64)
        return inputs

    limits = nodes["threshold"][at]
    last = find_last(prepare, limits)
    filled = prepare(np.full(len(at), np.nan, np.float32))
    filled[np.isnan(filled) & ((flags & NAN_IS_ZERO) != 0)] = 0.0
    known = np.where(np.isnan(filled), (flags & MISSING_LEFT) != 0, filled <= limits)
    # No threshold sends -inf to the right. So children change places, and all go left.
    right = np.isnan(last)
    nodes["column"][at] = preparation.columns[column]
    nodes["threshold"][at] = np.where(right, np.inf, last)
    nodes["flags"][at] = np.where(known ^ right, MISSING_LEFT, 0)
    first = nodes["child"][at[right]]
    nodes[first], nodes[first + 1] = nodes[first + 1], nodes[first]
    return nodes
