"""Trees as arrays of nodes: make and check them, and draw rows to test them with.

The nodes of a tree are stored breadth first, tree after tree. The two children of a
node are neighbours and come after the node, so a walk only moves forward.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel

from ..scoring.model import Floats
from ..scoring.stored_arrays import Stored

# In a leaf `column` is negative and `child` is the row of its values; in other nodes
# `child` is the left child, and the right child follows it.
NODE = np.dtype(
    [
        ("threshold", "<f8"),
        ("column", "<i4"),
        ("child", "<i4"),
        ("category", "<i4"),  # row of the category set, -1 for a numeric split
        ("flags", "<i4"),
    ]
)
MISSING_LEFT, NAN_IS_ZERO, ZERO_IS_MISSING, SET_LEFT, WHOLE_ONLY = 1, 2, 4, 8, 16
NOT_BELOW_ZERO = 32  # values in (-1, 0) belong to no set, not to category 0
ZERO_LIMIT = float(np.float32(1e-35))  # LightGBM's kZeroThreshold


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """One binary tree, with nodes numbered by its library; node 0 is the root."""

    column: NDArray[Any]  # (n,) int: Input that a node tests; negative in a leaf
    threshold: NDArray[Any]  # (n,) float64: Largest value of a row that goes left
    # `left` and `right`: (n,) int: Children; meaningless in a leaf
    left: NDArray[Any]
    right: NDArray[Any]
    # (n, V) float64: Summands of the raw scores; only the rows of leaves count
    values: Floats
    flags: NDArray[Any]  # (n,) int: Sum of flags: MISSING_LEFT, NAN_IS_ZERO and so on
    # Categories, by node, of the nodes that test membership instead of a threshold
    sets: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class TreeArrays:
    """The nodes and leaf values of T trees."""

    nodes: NDArray[np.void]  # All nodes, shape (M,), dtype `NODE`
    roots: NDArray[np.int64]  # (T + 1,) int64: First node of each tree, then M
    # (T,) int32: Position of the first raw score to which a tree adds its V values
    targets: NDArray[np.int32]
    # (L, V) float64: Values of each leaf; V is K in a forest, 1 in boosting
    leaves: Floats
    # `set_starts` and `set_bits`: (B + 1,) int64, (W,) uint32: Category sets, 32
    # categories to a word
    set_starts: NDArray[np.int64]
    set_bits: NDArray[np.uint32]
    bias: Floats  # (R,) float64: Raw scores before the first tree

    @property
    def outputs(self) -> int:
        """The number R of raw scores."""
        return len(self.bias)

    @property
    def size(self) -> int:
        """The number T of trees."""
        return len(self.targets)

    @property
    def inner(self) -> NDArray[np.bool_]:
        """A mask (M,): True for the nodes that are not leaves."""
        inner: NDArray[np.bool_] = self.nodes["column"] >= 0
        return inner

    @property
    def tree_of(self) -> NDArray[np.int64]:
        """The tree, 0 to T - 1, that each node belongs to: shape (M,)."""
        return np.repeat(np.arange(self.size), np.diff(self.roots))


def lay_out(tree: Tree, sets: list[Sequence[int]]) -> tuple[NDArray[np.void], Floats]:
    """Return a tree's nodes, breadth first, and the values of its leaves.

    The tree's category sets are appended to `sets`. A cycle raises BadModel.
    """
    order = _breadth_first(tree)
    laid = np.zeros(len(order), NODE)
    inner = tree.column[order] >= 0
    laid["column"] = np.where(inner, tree.column[order], -1)
    laid["threshold"] = np.where(inner, tree.threshold[order], 0.0)
    laid["flags"] = np.where(inner, tree.flags[order], 0)
    # The children of the k-th inner node are nodes 2k + 1 and 2k + 2.
    laid["child"][inner] = 1 + 2 * np.arange(inner.sum())
    laid["child"][~inner] = np.arange((~inner).sum())
    laid["category"] = -1
    if tree.sets:
        for position in np.flatnonzero(inner):
            node = int(order[position])
            if node in tree.sets:
                laid["category"][position] = len(sets)
                sets.append(tree.sets[node])
    return laid, tree.values[order[~inner]]


def _breadth_first(tree: Tree) -> NDArray[np.int64]:
    n = len(tree.column)
    level = np.zeros(1, np.int64)
    levels: list[NDArray[np.int64]] = []
    seen = 0
    while level.size:
        levels.append(level)
        seen += len(level)
        if seen > n or not ((level >= 0) & (level < n)).all():
            raise BadModel("a tree with a cycle, or a child that does not exist")
        inner = level[tree.column[level] >= 0]
        level = np.column_stack([tree.left[inner], tree.right[inner]]).reshape(-1)
        level = level.astype(np.int64)
    return np.concatenate(levels)


def pack_sets(
    sets: Sequence[Sequence[int]],
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Store B category sets as bits.

    Returns offsets (B + 1,) and words (W,) of 32 bits: the words of set b are
    `words[offsets[b] : offsets[b + 1]]`.
    """
    words = []
    for members in sets:
        packed = np.zeros(max(members, default=0) // 32 + 1, np.uint32)
        for member in members:
            packed[member // 32] |= np.uint32(1) << np.uint32(member % 32)
        words.append(packed)
    starts = np.cumsum([0, *map(len, words)], dtype=np.int64)
    return starts, np.concatenate([np.empty(0, np.uint32), *words])


def check_trees(made: TreeArrays, inputs: NDArray[Any], stored: Stored) -> None:
    """Raise BadModel unless the nodes form trees that only read columns in `inputs`."""
    _check_order(made, stored)
    _check_nodes(made, inputs, stored)


def _check_order(made: TreeArrays, stored: Stored) -> None:
    roots, starts, targets = made.roots, made.set_starts, made.targets
    if not len(roots) or roots[0] != 0 or roots[-1] != len(made.nodes):
        raise stored.fail("its roots do not begin at 0 and end at the last node")
    if not (roots[1:] > roots[:-1]).all():
        raise stored.fail("its roots do not ascend")
    if not len(targets) or len(targets) != len(roots) - 1:
        raise stored.fail(f"{len(roots) - 1} trees and {len(targets)} targets")
    if not made.leaves.shape[1]:
        raise stored.fail("its leaves have no value")
    last = made.outputs - made.leaves.shape[1]
    if not (targets.min() >= 0 and targets.max() <= last):
        raise stored.fail("a tree adds to a raw score that does not exist")
    if not len(starts) or starts[0] != 0 or starts[-1] != len(made.set_bits):
        raise stored.fail("its category sets do not cover their bits")
    if not (starts[1:] >= starts[:-1]).all():
        raise stored.fail("its category sets do not ascend")


def _check_nodes(made: TreeArrays, inputs: NDArray[Any], stored: Stored) -> None:
    nodes = made.nodes
    column, child, category = nodes["column"], nodes["child"], nodes["category"]
    leaf = column < 0
    if not np.isin(column[~leaf], inputs).all():
        raise stored.fail(f"a node tests none of its {len(inputs)} columns")
    if np.isnan(nodes["threshold"]).any():
        raise stored.fail("a threshold is NaN")
    if not ((child[leaf] >= 0) & (child[leaf] < len(made.leaves))).all():
        raise stored.fail("a leaf has no values")
    if leaf.sum() > len(made.leaves):
        raise stored.fail("leaves share values")
    end = np.repeat(made.roots[1:], np.diff(made.roots))
    forward = (child > np.arange(len(nodes))) & (child.astype(np.int64) + 1 < end)
    if not forward[~leaf].all():
        raise stored.fail("a child does not follow its parent within its tree")
    left = child[~leaf]
    parents = np.bincount(left, minlength=len(nodes))
    parents += np.bincount(left + 1, minlength=len(nodes))
    parents[made.roots[:-1]] += 1
    if not (parents == 1).all():
        raise stored.fail("a node has no parent, or several")
    if not ((category >= -1) & (category < len(made.set_starts) - 1)).all():
        raise stored.fail("a node tests a category set that does not exist")


def draw_at_thresholds(
    trees: TreeArrays, rng: np.random.Generator, shape: tuple[int, int]
) -> Floats:
    """Draw random rows of a given shape, to test trees with.

    In a column that trees read, half of the values are thresholds, and half lie around
    and between thresholds.
    """
    nodes = trees.nodes
    inner = nodes["column"] >= 0
    column, category = nodes["column"][inner], nodes["category"][inner]
    cuts = nodes["threshold"][inner]
    words = np.append(np.diff(trees.set_starts), 1)
    codes = rng.integers(0, 32 * words[category] + 1)  # unused if category is -1
    cuts = np.where(category >= 0, codes, np.clip(cuts, -1e30, 1e30))
    out = rng.normal(size=shape)
    by_column = np.argsort(column, kind="stable")
    used, first, count = np.unique(
        column[by_column], return_index=True, return_counts=True
    )
    sorted_cuts, whole = cuts[by_column], (category >= 0)[by_column]
    for j, start, many in zip(used, first, count, strict=True):
        own = sorted_cuts[start : start + many]
        at = rng.choice(own, len(out))
        between = rng.uniform(own.min() - 1.0, own.max() + 1.0, len(out))
        if whole[start]:
            between = np.abs(np.rint(between))
        out[:, j] = np.where(rng.random(len(out)) < 0.5, at, between)
    return out


def inner_by_level(trees: TreeArrays) -> Iterator[NDArray[np.int64]]:
    """Yield the positions of all trees' inner nodes, one level after another."""
    inner, child = trees.inner, trees.nodes["child"].astype(np.int64)
    split = trees.roots[:-1][inner[trees.roots[:-1]]]
    while split.size:
        yield split
        below = np.concatenate([child[split], child[split] + 1])
        split = below[inner[below]]


def sums_before(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each position, the sum of all earlier sizes."""
    return np.cumsum(sizes) - sizes
