"""Choose the layout of trees for kernels; `trees/__init__.py` describes the layouts."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..scoring.kernels.cached_njit import COMPILED
from ..scoring.stopping_rule import Never, Stops
from . import self_test
from .keys import find_slots
from .many_rows import pack_many_rows
from .nodes import TreeArrays
from .one_row import PackedTrees, find_tree_depths, pack_one_row
from .one_row_vectors import pack_one_row_vectors

NEVER = Never()


def pack(
    trees: TreeArrays, order: NDArray[Any] | None = None, stops: Stops = NEVER
) -> PackedTrees | None:
    """Lay trees out for kernels that read float32 rows.

    The kernels add trees in `order` (by default, the order of `trees`) and stop by the
    rule `stops`. Vector kernels are used if the processor has the instructions and
    passes the self-test. If the rule never stops, the result may also have a layout for
    many rows.

    Returns None for category splits, more than `one_row.MOST_NODES` nodes in a tree,
    more than `one_row.MOST_SLOTS` slots, or if kernels cannot be compiled.
    """
    if not COMPILED or (trees.nodes["category"] >= 0).any():
        return None
    order = np.arange(trees.size) if order is None else np.asarray(order)
    slots, depths = find_slots(trees), find_tree_depths(trees)
    packed = pack_one_row(trees, slots, order, depths, stops)
    if packed is None:
        return None
    if stops.rule == "never":
        packed = replace(packed, batch=pack_many_rows(trees, slots, order))
    if not self_test.TRUST.held:
        return packed
    vector = pack_one_row_vectors(trees, slots, order, depths, stops) or packed
    # Vectors can serve many rows even if they cannot serve one row.
    if packed.batch is not None:
        vector = replace(vector, batch=replace(packed.batch, vector=True))
    if vector is packed:
        return packed
    agreed = self_test.agree(vector, packed, trees, slots, order, stops)
    return vector if agreed else packed
