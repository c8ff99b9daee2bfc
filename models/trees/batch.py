"""Trees packed for many rows at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..scoring.address_table import NotCopied
from ..scoring.model import Floats
from .kernels.batch import (
    BLOCK,
    HEAD_SIZE,
    JOIN,
    JOINS,
    PAIRS,
    SINGLES,
    TARGET,
    TEST,
    VALUE,
    WIDTH,
    Forest,
    Room,
    add_batch,
)
from .keys import Slots, find_cuts
from .nodes import TreeArrays, sums_before

# Every node of a tree is tested for every row: in larger trees walking is shorter.
MOST_LEAVES = 256
MOST_CUTS = 65535
# A vector is as much work if it is not full.
FEWEST_ROWS = 32


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BatchTrees(NotCopied):
    """Packed trees, for batches of float32 rows.

    Attributes
    ----------
    forest
        What the kernels read.
    answers
        Most answers of one tree: its pairs, single leaves and joins.
    terms
        V, values per leaf.
    outputs
        R, raw scores per row.
    """

    forest: Forest
    answers: int
    terms: int
    outputs: int

    def room(self) -> Room:
        """Make what one call writes on; it does not grow with the rows."""
        code, slots = self.forest.tests.dtype, len(self.forest.columns)
        return Room(
            np.zeros((2, BLOCK), np.int32),
            np.empty((slots, BLOCK), code),
            np.empty((self.answers, WIDTH), code),
            np.empty((self.outputs, BLOCK)),
        )

    def add(self, X: NDArray[np.float32], out: Floats) -> None:
        """Add the trees to the raw scores `out` (N, R) of checked rows."""
        add_batch(X, self.forest, self.room(), self.terms, out)


def pack_batch(
    trees: TreeArrays, slots: Slots, order: NDArray[Any]
) -> BatchTrees | None:
    """Pack trees in the given order, or None where walking is shorter."""
    nodes, inner, tree_of = trees.nodes, slots.inner, trees.tree_of
    leaves = np.bincount(tree_of[~inner], minlength=trees.size)
    starts, cuts, codes = find_cuts(slots)
    sizes = np.diff(starts)
    if leaves.max() > MOST_LEAVES or sizes.max(initial=0) > MOST_CUTS:
        return None
    code = np.uint8 if sizes.max(initial=0) <= 255 else np.uint16
    heads, places, tested, chosen = _places(trees, inner)
    leaf = np.flatnonzero(~inner)
    terms = trees.leaves.shape[1]
    heads[:, VALUE] *= terms
    heads[:, TARGET] = trees.targets
    values = np.empty(trees.leaves.size)
    tree = tree_of[leaf]
    for v in range(terms):
        at = heads[tree, VALUE] + v * leaves[tree] + places[leaf]
        values[at] = trees.leaves[nodes["child"][leaf], v]
    forest = Forest(
        slots.columns,
        slots.lacking,
        slots.zeros,
        cuts,
        starts.astype(np.int32),
        np.ascontiguousarray(heads[order]),
        slots.of[tested].astype(np.uint16),
        codes[tested].astype(code),
        chosen.astype(np.uint16),
        values,
    )
    answers = heads[:, [PAIRS, SINGLES, JOINS]].sum(axis=1)
    return BatchTrees(forest, int(answers.max()), terms, trees.outputs)


def _places(
    trees: TreeArrays, inner: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Where every node goes.

    An inner node is a *pair* if both its children are leaves, else a *join*; a leaf of
    no pair is *single*. A tree's answers are its pairs', its singles' and its joins',
    one after the other; its leaf values those of its pairs, then of its singles. Within
    a kind nodes come backwards: children follow their parents, so every join finds its
    answers made.

    Returns
    -------
    Heads (T, HEAD_SIZE); each leaf's number in its tree (M,); inner nodes in the order
    of their tests; and the answers that joins choose from, left and right in turn.
    """
    tree_of, count, size = trees.tree_of, len(inner), trees.size
    left = np.where(inner, trees.nodes["child"], 0).astype(np.int64)
    right = np.where(inner, left + 1, 0)
    pair = inner & ~inner[left] & ~inner[right]
    join = inner & ~pair
    single = ~inner
    single[left[pair]] = single[right[pair]] = False
    backwards = np.lexsort((-np.arange(count), tree_of))
    rank = np.zeros(count, np.int64)  # of a node within its kind and tree
    for kind in (pair, single, join):
        members = backwards[kind[backwards]]
        tree = tree_of[members]
        rank[members] = np.arange(len(members)) - np.searchsorted(tree, tree)

    pairs, singles, joins = (
        np.bincount(tree_of[kind], minlength=size) for kind in (pair, single, join)
    )
    heads = np.zeros((size, HEAD_SIZE), np.int64)
    heads[:, PAIRS], heads[:, SINGLES], heads[:, JOINS] = pairs, singles, joins
    heads[:, TEST] = sums_before(pairs + joins)
    heads[:, JOIN] = sums_before(2 * joins)
    heads[:, VALUE] = sums_before(2 * pairs + singles)

    before_singles, before_joins = pairs[tree_of], (pairs + singles)[tree_of]
    answer = rank + np.where(single, before_singles, np.where(join, before_joins, 0))
    leaf = np.where(single, 2 * before_singles + rank, 0)
    leaf[left[pair]], leaf[right[pair]] = 2 * rank[pair], 2 * rank[pair] + 1

    tested = backwards[inner[backwards]]
    tested = tested[np.lexsort((join[tested], tree_of[tested]))]
    joined = backwards[join[backwards]]
    chosen = answer[np.column_stack([left[joined], right[joined]])].reshape(-1)
    return heads, leaf, tested, chosen
