"""Compiled evaluation of trees with any splits, node by node.

Arguments are not checked.
"""

import math

import numba
import numpy as np
from numba import float64, int32, int64, uint32, void
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import FLOATS, FLOATS_2D, INTS, ROW, ROWS, frozen
from ...scoring.model import Floats, Rows
from ..nodes import (
    MISSING_LEFT,
    NAN_IS_ZERO,
    NODE,
    NOT_BELOW_ZERO,
    SET_LEFT,
    WHOLE_ONLY,
    ZERO_IS_MISSING,
    ZERO_LIMIT,
)

NODES = frozen(numba.from_dtype(NODE))
STARTS, TARGETS, BITS = INTS, frozen(int32), frozen(uint32)


@njit(int64(float64, int64, STARTS, BITS), **OPTIONS)
def in_set(
    value: float, category: int, starts: NDArray[np.int64], bits: NDArray[np.uint32]
) -> int:
    """Return 1 if the set `category` contains the value, rounded toward 0; else 0."""
    if not (value > -1.0 and value < 2147483648.0):
        return 0
    code = int(value)
    word = starts[category] + (code >> 5)
    if word >= starts[category + 1]:
        return 0
    return int((bits[word] >> uint32(code & 31)) & uint32(1))


@njit(int64(float64, float64, int64, int64, STARTS, BITS), **OPTIONS)
def goes_left(
    value: float,
    threshold: float,
    category: int,
    flags: int,
    starts: NDArray[np.int64],
    bits: NDArray[np.uint32],
) -> int:
    """Return 1 if a value sends a row to a node's left child, 0 if to the right.

    `threshold`, `category` and `flags` are the node's. `starts` and `bits` are the
    category sets of all nodes.
    """
    if math.isnan(value):
        if not flags & NAN_IS_ZERO:
            return flags & MISSING_LEFT  # which is 1
        value = 0.0
    if category >= 0:
        found = in_set(value, category, starts, bits)
        if found and flags & WHOLE_ONLY and value != math.floor(value):
            found = 0
        if value < 0.0 and flags & NOT_BELOW_ZERO:
            found = 0
        return int((found == 1) == ((flags & SET_LEFT) != 0))
    if flags & ZERO_IS_MISSING and abs(value) <= ZERO_LIMIT:
        return flags & MISSING_LEFT
    return int(value <= threshold)


@njit(
    [int64(ROW, NODES, int64, STARTS, BITS), int64(FLOATS, NODES, int64, STARTS, BITS)],
    **OPTIONS,
)
def leaf_of(
    row: Rows,
    nodes: NDArray[np.void],
    root: int,
    starts: NDArray[np.int64],
    bits: NDArray[np.uint32],
) -> int:
    """Walk from node `root` to a leaf; return the position of its leaf values."""
    n = root
    column = nodes[n]["column"]
    while column >= 0:
        left = goes_left(
            row[column],
            nodes[n]["threshold"],
            nodes[n]["category"],
            nodes[n]["flags"],
            starts,
            bits,
        )
        n = nodes[n]["child"] + 1 - left
        column = nodes[n]["column"]
    return int(nodes[n]["child"])


@njit(
    [
        void(rows, NODES, STARTS, TARGETS, FLOATS_2D, STARTS, BITS, float64[:, ::1])
        for rows in (ROWS, FLOATS_2D)
    ],
    **OPTIONS,
)
def add_trees(
    X: Rows,
    nodes: NDArray[np.void],
    roots: NDArray[np.int64],
    targets: NDArray[np.int32],
    leaves: Floats,
    starts: NDArray[np.int64],
    bits: NDArray[np.uint32],
    out: Floats,
) -> None:
    """Add to the raw scores `out` (N, R) the values of each row's leaf in each tree.

    The first value of a leaf of tree t is added to column `targets[t]`, the next value
    to the next column, and so on.
    """
    for i in range(X.shape[0]):
        for t in range(targets.shape[0]):
            leaf = leaf_of(X[i], nodes, roots[t], starts, bits)
            for v in range(leaves.shape[1]):
                out[i, targets[t] + v] += leaves[leaf, v]


@njit(
    [
        void(rows, NODES, STARTS, STARTS, BITS, int32[:, ::1])
        for rows in (ROWS, FLOATS_2D)
    ],
    **OPTIONS,
)
def find_leaves(
    X: Rows,
    nodes: NDArray[np.void],
    roots: NDArray[np.int64],
    starts: NDArray[np.int64],
    bits: NDArray[np.uint32],
    out: NDArray[np.int32],
) -> None:
    """Write to `out` (N, T) which leaf each row of X reaches in each tree.

    A leaf is given by the position of its leaf values.
    """
    for i in range(X.shape[0]):
        for t in range(out.shape[1]):
            out[i, t] = leaf_of(X[i], nodes, roots[t], starts, bits)
