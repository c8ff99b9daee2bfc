"""Lay trees out for the evaluation of many rows at once.

For each node of a tree, the kernel has an array with an answer for each row of a block:
the number of the leaf that the row would reach from this node. From leaf k, every row
reaches leaf k, so all trees share the arrays of leaves, which have the places 0, 1, 2
and so on. The arrays of inner nodes, which are tests, have the places after the leaves.
An example of 3 leaves:

    node         place    test: code, limit, places of left and right child
    x0 > 1.5     3        0, 0, 0, 4
    leaf 0       0
    x1 > 0.5     4        1, 0, 1, 2
    leaf 1       1
    leaf 2       2

Code 0 of a row is the number of thresholds of x0 that are below its value. 1.5 is the
first threshold of x0, so a row whose code 0 exceeds the limit 0 goes right, and gets
the answer at place 4. The kernel evaluates the tests of a tree from the last to the
first: here x1, then x0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..scoring.address_table import NotCopied, aligned_empty
from ..scoring.model import Floats
from ..scoring.stopping_rule import Codes
from .kernels.avx512 import IN_REGISTERS
from .kernels.many_rows import (
    BLOCK,
    FIRST,
    HEAD_SIZE,
    LEAVES,
    MOST_CUTS,
    ROOT,
    TARGET,
    TESTS,
    VALUE,
    Forest,
    WorkArrays,
    add_batch,
)
from .keys import Slots, find_cuts
from .nodes import TreeArrays, sums_before

# The kernel evaluates every test of a tree for every row. In a larger tree, a walk from
# the root to a leaf takes less time.
MOST_LEAVES = 256
MOST_CODES = 8192  # codes of a row; the codes of a block then take at most 4 MB
# Fewer rows are faster one by one, as a block takes as long for 1 row as for 64.
FEWEST_ROWS = 24
FEWEST_BESIDE_VECTORS = 96


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BatchTrees(NotCopied):
    """Trees laid out for the evaluation of many float32 rows at once."""

    forest: Forest  # Arrays of the trees, for the kernels
    # `leaves` and `tests`: largest number of leaves, and of tests, in one tree
    leaves: int
    tests: int
    terms: int  # V, the number of values of a leaf
    outputs: int  # R, the number of raw scores of a row
    vector: bool = False  # True if the kernels use AVX-512

    def work_arrays(self) -> WorkArrays:
        """Allocate the memory that one call of the kernel needs for blocks of rows."""
        answers = aligned_empty((self.leaves + self.tests, BLOCK), np.uint8)
        answers[: self.leaves] = np.arange(self.leaves, dtype=np.uint8)[:, None]
        return WorkArrays(
            aligned_empty((2, BLOCK), np.int32),
            aligned_empty((self.forest.codes[-1], BLOCK), np.uint8),
            answers,
            aligned_empty((self.outputs, BLOCK), np.float64),
        )

    def follow(self, X: NDArray[np.float32], start: Floats) -> tuple[Floats, Codes]:
        """Evaluate rows X, which the caller has checked; return (sums, codes).

        The sums (N, R) are `start` (R,) plus the values of all trees. The codes (N,)
        are 0, because no row stops early.
        """
        totals = np.empty((len(X), self.outputs))
        totals[:] = start
        add_batch(X, self.forest, self.work_arrays(), self.terms, self.vector, totals)
        return totals, np.zeros(len(X), np.int64)


def pack_many_rows(
    trees: TreeArrays, slots: Slots, order: NDArray[Any]
) -> BatchTrees | None:
    """Lay trees out, in `order`, for the evaluation of many rows at once.

    Returns None for more than `MOST_LEAVES` leaves in a tree, or more than `MOST_CODES`
    codes of a row: then one row at a time is faster.
    """
    inner, tree_of, terms = slots.inner, trees.tree_of, trees.leaves.shape[1]
    tests, leaves = (
        np.bincount(tree_of[kind], minlength=trees.size) for kind in (inner, ~inner)
    )
    starts, cuts, places = find_cuts(slots)
    codes = np.append(0, np.cumsum(-(-np.diff(starts) // MOST_CUTS)))
    most = int(leaves.max())
    if most > MOST_LEAVES or codes[-1] > MOST_CODES:
        return None
    heads = np.empty((trees.size, HEAD_SIZE), np.int64)
    heads[:, FIRST], heads[:, TESTS] = sums_before(tests), tests
    heads[:, ROOT] = np.where(tests, most, 0)
    heads[:, VALUE], heads[:, LEAVES] = terms * sums_before(leaves), leaves
    heads[:, TARGET] = trees.targets
    # Rank of a leaf among its tree's leaves, or of a test among its tree's tests.
    rank = np.where(inner, np.cumsum(inner), np.cumsum(~inner)) - 1
    rank -= np.where(inner, sums_before(tests)[tree_of], sums_before(leaves)[tree_of])
    answers, left = rank + np.where(inner, most, 0), trees.nodes["child"][inner]
    part, limit = np.divmod(places[inner], MOST_CUTS)
    code = codes[slots.of[inner]] + part
    tested = np.column_stack([code, limit, answers[left], answers[left + 1]])
    forest = Forest(
        slots.columns,
        slots.lacking,
        slots.zeros,
        cuts,
        starts.astype(np.int32),
        codes.astype(np.int32),
        np.ascontiguousarray(heads[order]),
        tested.astype(np.uint16),
        _values(trees, heads, rank),
    )
    return BatchTrees(forest, most, int(tests.max()), terms, trees.outputs)


def _values(
    trees: TreeArrays, heads: NDArray[np.int64], rank: NDArray[np.int64]
) -> Floats:
    """Return the leaf values of all trees, in the order in which kernels read them.

    Zeros follow, because kernels read past the leaves of a small tree.
    """
    leaf = ~trees.inner
    tree, row = trees.tree_of[leaf], trees.nodes["child"][leaf]
    at = heads[tree, VALUE] + rank[leaf]
    values = np.zeros(trees.leaves.size + IN_REGISTERS)
    for v in range(trees.leaves.shape[1]):
        values[at + v * heads[tree, LEAVES]] = trees.leaves[row, v]
    return values
