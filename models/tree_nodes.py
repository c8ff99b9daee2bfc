"""A library's tree as nodes in the order that the kernels walk them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadModel
from ._tree_kernels import NODE

if TYPE_CHECKING:
    from .trees import Tree


def lay_out(
    tree: "Tree", sets: list[Sequence[int]]
) -> tuple[NDArray[np.void], NDArray[np.float64]]:
    """Nodes of one tree breadth first, and its leaf values in the order of its leaves.

    Its category sets are appended to `sets`.
    """
    order = _breadth_first(tree)
    laid = np.zeros(len(order), NODE)
    inner = tree.column[order] >= 0
    laid["column"] = np.where(inner, tree.column[order], -1)
    laid["threshold"] = np.where(inner, tree.threshold[order], 0.0)
    laid["flags"] = np.where(inner, tree.flags[order], 0)
    # The k-th inner node's children were appended as nodes 2k + 1 and 2k + 2.
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


def _breadth_first(tree: "Tree") -> NDArray[np.int64]:
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
    """Give starts (B + 1,) and bits (W,) of B category sets, 32 to a word."""
    words = []
    for members in sets:
        packed = np.zeros(max(members, default=0) // 32 + 1, np.uint32)
        for member in members:
            packed[member // 32] |= np.uint32(1) << np.uint32(member % 32)
        words.append(packed)
    starts = np.cumsum([0, *map(len, words)], dtype=np.int64)
    return starts, np.concatenate([np.empty(0, np.uint32), *words])
