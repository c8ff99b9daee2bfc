"""Merge a scaler or an imputer into trees, so that they read unprepared rows.

A full row has all columns. A prepared row has only the model's inputs, which may be
scaled and filled.
"""

import numpy as np
from numpy.typing import NDArray

from ..scoring.float_order import find_last
from ..scoring.model import Floats
from ..scoring.preparation import Preparation
from .nodes import MISSING_LEFT, NAN_IS_ZERO, ZERO_IS_MISSING, TreeArrays


def nodes_of_full_rows(
    trees: TreeArrays, preparation: Preparation, single: bool
) -> NDArray[np.void] | None:
    """Return nodes that read full rows and reach the same leaves as before.

    The result reads float32 rows that are not prepared. Each new threshold is the
    largest value that, once prepared, does not exceed the old threshold. If `single`,
    prepared values are rounded to float32 first. Returns None if no such nodes exist:
    if the preparation divides rows by their norms or has negative scales, or if the
    trees have category splits or treat 0 as missing.
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
            with np.errstate(over="ignore"):  # values beyond float32 become infinite
                inputs = inputs.astype(np.float32).astype(np.float64)
        return inputs

    limits = nodes["threshold"][at]
    last = find_last(prepare, limits)
    filled = prepare(np.full(len(at), np.nan, np.float32))
    filled[np.isnan(filled) & ((flags & NAN_IS_ZERO) != 0)] = 0.0
    known = np.where(np.isnan(filled), (flags & MISSING_LEFT) != 0, filled <= limits)
    # If even -inf goes right, no threshold can express that. Then the children change
    # places and every known value goes left.
    right = np.isnan(last)
    nodes["column"][at] = preparation.columns[column]
    nodes["threshold"][at] = np.where(right, np.inf, last)
    nodes["flags"][at] = np.where(known ^ right, MISSING_LEFT, 0)
    first = nodes["child"][at[right]]
    nodes[first], nodes[first + 1] = nodes[first + 1], nodes[first]
    return nodes
