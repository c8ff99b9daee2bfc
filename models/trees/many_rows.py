"""Trees packed for many rows at once.

Each node has a row of answers, one for each row of a block: the leaves in which they
would end below it. A leaf's are its number in the tree, and the same for every tree;
those of tests follow, after as many as the largest tree has leaves. An example:

    node         answers    test: code, limit, children's answers
    x0 > 1.5     3          0, 0, 0, 4
    leaf 0       0
    x1 > 0.5     4          1, 0, 1, 2
    leaf 1       1
    leaf 2       2

Code 0 is how many cuts of x0 are below its value, and 1.5 is the first of them: a row
goes right, to answers 4, if the code is above 0. Tests are made from the last on, so
that of x1 first.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..scoring.address_table import NotCopied, aligned_room
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
    Room,
    add_batch,
)
from .keys import Slots, find_cuts
from .nodes import TreeArrays, sums_before

# Every node of a tree is tested for every row: in larger trees walking is shorter.
MOST_LEAVES = 256
MOST_CODES = 8192  # of a row; those of a block take 4 MB
# A block takes as long for a row as for 64; so do so many rows, one after another.
FEWEST_ROWS = 24
FEWEST_BESIDE_VECTORS = 96


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BatchTrees(NotCopied):
    """Packed trees, for batches of float32 rows.

    Attributes
    ----------
    forest
        What the kernels read.
    leaves, tests
        Most leaves, and most tests, of a tree.
    terms
        V, values per leaf.
    outputs
        R, raw scores per row.
    vector
        Do the kernels need the processor's vectors?
    """

    forest: Forest
    leaves: int
    tests: int
    terms: int
    outputs: int
    vector: bool = False

    def room(self) -> Room:
        """Make what one call writes on; it does not grow with the rows."""
        answers = aligned_room((self.leaves + self.tests, BLOCK), np.uint8)
        answers[: self.leaves] = np.arange(self.leaves, dtype=np.uint8)[:, None]
        return Room(
            aligned_room((2, BLOCK), np.int32),
            aligned_room((self.forest.codes[-1], BLOCK), np.uint8),
            answers,
            aligned_room((self.outputs, BLOCK), np.float64),
        )

    def follow(self, X: NDArray[np.float32], start: Floats) -> tuple[Floats, Codes]:
        """Totals (N, R) of checked rows, from `start` (R,) on, and codes (N,): 0."""
        totals = np.empty((len(X), self.outputs))
        totals[:] = start
        add_batch(X, self.forest, self.room(), self.terms, self.vector, totals)
        return totals, np.zeros(len(X), np.int64)


def pack_many_rows(
    trees: TreeArrays, slots: Slots, order: NDArray[Any]
) -> BatchTrees | None:
    """Pack trees in the given order, or None where walking is shorter."""
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
    # Which of its tree's leaves, or of its inner nodes, each node is.
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
    """Lay out leaf values, then zeros: many are read whatever the tree has."""
    leaf = ~trees.inner
    tree, row = trees.tree_of[leaf], trees.nodes["child"][leaf]
    at = heads[tree, VALUE] + rank[leaf]
    values = np.zeros(trees.leaves.size + IN_REGISTERS)
    for v in range(trees.leaves.shape[1]):
        values[at + v * heads[tree, LEAVES]] = trees.leaves[row, v]
    return values
