"""The one way in to packed trees: which kernels evaluate them is chosen here."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..scoring.kernels.cached_njit import COMPILED
from ..scoring.scorer import PackedTerms
from ..scoring.stops import Codes, Floats, Never, Stops
from . import self_test
from .batch import FEWEST_ROWS, BatchTrees, pack_batch
from .keys import find_slots
from .nodes import TreeArrays
from .packed import Packed, find_tree_depths, pack_walks
from .simd import pack_simd

NEVER = Never()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PackedTrees(PackedTerms):
    """Trees packed for one rule, for float32 rows of at least `width` columns.

    Attributes
    ----------
    width
        Columns that a row must have.
    rows
        The trees for rows one by one.
    batch
        The same trees for many rows at once, where that is faster.
    enter, at
        Compiled function for one row (`Packed.one`), and the address that it takes.
    """

    width: int
    rows: Packed
    batch: BatchTrees | None
    enter: Any
    at: int

    def follow(self, X: NDArray[np.float32]) -> tuple[Floats, Codes]:
        """Totals (N, R) and codes (N,) of checked rows, by the rule they stop by."""
        if self.batch is None or len(X) < FEWEST_ROWS:
            return self.rows.follow(X)
        totals = np.empty((len(X), len(self.rows.start)))
        totals[:] = self.rows.start
        self.batch.add(X, totals)
        return totals, np.zeros(len(X), np.int64)


def pack(
    trees: TreeArrays, order: NDArray[Any] | None = None, stops: Stops = NEVER
) -> PackedTrees | None:
    """Pack trees in the given order, or None where only plain nodes do.

    Those are category splits, trees or rows beyond `packed.MOST_NODES` and
    `MOST_SLOTS`, and Python without compiled kernels. Vectors are preferred where the
    processor has them and answers right, for whole sums of many rows blocks of rows.
    """
    if not COMPILED or (trees.nodes["category"] >= 0).any():
        return None
    order = np.arange(trees.size) if order is None else np.asarray(order)
    slots, depths = find_slots(trees), find_tree_depths(trees)
    rows = pack_walks(trees, slots, order, depths, stops)
    if rows is None:
        return None
    if self_test.TRUST.held:
        vector = pack_simd(trees, slots, order, depths, stops)
        if vector and self_test.agree(vector, rows, trees, slots, order, stops):
            rows = vector
    batch = pack_batch(trees, slots, order) if stops.rule == "never" else None
    return PackedTrees(slots.width, rows, batch, rows.one, rows.address)
