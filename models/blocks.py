"""Trees packed for many rows at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._block_kernels import (
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
    add_blocks,
)
from .pinned import Pinned

# Every node of a tree is tested for every row: in larger trees walking is shorter.
MOST_LEAVES = 256
MOST_CUTS = 65535
# A vector is as much work if it is not full.
FEWEST_ROWS = 32


# Columns, lacking and zeros of `layout.py`, (S,) each.
Slots = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Blocks(Pinned):
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

    def room(self, slots: int) -> Room:
        """Make what one call writes on; it does not grow with the rows.

        `slots` are coded at a time.
        """
        code = self.forest.tests.dtype
        return Room(
            np.zeros((2, BLOCK), np.int32),
            np.empty((slots, BLOCK), code),
            np.empty((self.answers, WIDTH), code),
            np.empty((self.outputs, BLOCK)),
        )

    def add(self, X: NDArray[np.float32], out: NDArray[np.float64]) -> None:
        """Add the trees to the raw scores `out` (N, R) of checked rows."""
        room = self.room(len(self.forest.columns))
        add_blocks(X, self.forest, room, self.terms, out)


def pack_blocks(
    trees: Any,
    order: NDArray[np.int64],
    slots: Slots,
    slot_of: NDArray[np.int64],
    keys: NDArray[np.int32],
) -> Blocks | None:
    """Pack `Trees` in the given order, or None where walking is shorter.

    `slot_of` and `keys` (M,) are the inner nodes' slots and keys.
    """
    nodes, roots = trees.nodes, trees.roots
    tree_of = np.repeat(np.arange(len(roots) - 1), np.diff(roots))
    inner = nodes["column"] >= 0
    leaves = np.bincount(tree_of[~inner], minlength=len(roots) - 1)
    starts, cuts, codes = _codes(slot_of[inner], keys[inner], len(slots[0]))
    sizes = np.diff(starts)
    if leaves.max() > MOST_LEAVES or sizes.max(initial=0) > MOST_CUTS:
        return None
    code = np.uint8 if sizes.max(initial=0) <= 255 else np.uint16
    code_of = np.zeros(len(nodes), np.int64)
    code_of[inner] = codes
    heads, places, tested, chosen = _places(nodes, roots, tree_of, inner)
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
        slots[0],
        slots[1],
        slots[2],
        cuts.astype(np.int32),
        starts.astype(np.int32),
        np.ascontiguousarray(heads[order]),
        slot_of[tested].astype(np.uint16),
        code_of[tested].astype(code),
        chosen.astype(np.uint16),
        values,
    )
    answers = heads[:, [PAIRS, SINGLES, JOINS]].sum(axis=1)
    return Blocks(forest, int(answers.max()), terms, trees.outputs)


def _codes(
    slot: NDArray[np.int64], key: NDArray[np.int32], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Each slot's different keys: starts (S + 1,), cuts (C,), place of each node's."""
    cuts, which = np.unique(
        slot << 32 | (key.astype(np.int64) + 2**31), return_inverse=True
    )
    starts = np.searchsorted(cuts, np.arange(count + 1) << 32)
    return starts, (cuts & 0xFFFFFFFF) - 2**31, which.reshape(-1) - starts[slot]


def _places(
    nodes: NDArray[np.void],
    roots: NDArray[np.int64],
    tree_of: NDArray[np.int64],
    inner: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Where every node goes.

    Heads (T, HEAD_SIZE); each leaf's number in its tree (M,); inner nodes in the
    order of their tests, and answers that joins choose from.
    """
    count = len(roots) - 1
    child = np.where(inner, nodes["child"], 0).astype(np.int64)
    pair = inner & ~inner[child] & ~inner[np.where(inner, child + 1, 0)]
    join = inner & ~pair
    single = ~inner
    single[child[pair]] = single[child[pair] + 1] = False
    heads = np.zeros((count, HEAD_SIZE), np.int64)
    for place, kind in ((PAIRS, pair), (SINGLES, single), (JOINS, join)):
        heads[:, place] = np.bincount(tree_of[kind], minlength=count)
    pairs, singles = heads[:, PAIRS], heads[:, SINGLES]
    heads[:, TEST] = _before(pairs + heads[:, JOINS])
    heads[:, JOIN] = _before(2 * heads[:, JOINS])
    heads[:, VALUE] = _before(2 * pairs + singles)
    # Children follow their parents, so backwards every join finds its answers made.
    back = np.lexsort((-np.arange(len(nodes)), tree_of))
    answer, leaf = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
    rank = np.zeros(len(nodes), np.int64)
    for kind in (pair, single, join):
        members = back[kind[back]]
        tree = tree_of[members]
        rank[members] = np.arange(len(members)) - np.searchsorted(tree, tree)
    answer[pair] = rank[pair]
    answer[single] = (pairs[tree_of] + rank)[single]
    answer[join] = ((pairs + singles)[tree_of] + rank)[join]
    leaf[child[pair]] = 2 * rank[pair]
    leaf[child[pair] + 1] = 2 * rank[pair] + 1
    leaf[single] = (2 * pairs[tree_of] + rank)[single]
    tested = back[inner[back]]
    tested = tested[np.lexsort((join[tested], tree_of[tested]))]
    joined = back[join[back]]
    chosen = answer[np.column_stack([child[joined], child[joined] + 1])].reshape(-1)
    return heads, leaf, tested, chosen


def _before(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.cumsum(sizes) - sizes
