"""Compiled search for the best candidate at a size of two numbers, (a, b).

Kernels check nothing: `size_pair_lookup.py` checks the arrays when an index is loaded.
"""

import numpy as np
from numba import float64, int32, int64
from numpy.typing import NDArray

from polydom.models.scoring.kernels.cached_njit import OPTIONS, njit
from polydom.models.scoring.kernels.native import FLOATS, FLOATS_2D, frozen

from ...skyline.kernels.size_pairs import pair_cost

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

INTS, INTS_2D = frozen(int32), frozen(int32, 2)


@njit(int64(FLOATS, INTS_2D, float64, float64), inline="always", **OPTIONS)
def cell_of(thresholds: Floats, nodes: Ints, a: float, b: float) -> int:
    """Return the cell that contains the size (a, b), or a close one if none does."""
    node = 0 if nodes.shape[0] else -1
    while node >= 0:
        n = b if nodes[node, 0] else a
        node = nodes[node, 2] if n >= thresholds[node] else nodes[node, 1]
    return ~node


@njit(
    int64(
        *(FLOATS, INTS_2D, INTS_2D, INTS, INTS, FLOATS_2D),
        *(float64, float64, float64),
    ),
    **OPTIONS,
)
def best_in_cell(
    thresholds: Floats,
    nodes: Ints,
    cells: Ints,
    entries: Ints,
    levels: Ints,
    coefficients: Floats,
    a: float,
    b: float,
    budget_s: float,
) -> int:
    """Return the rank of the best candidate that fits the budget; -1 if none fits.

    The arrays are those of `SizePairLookup`. The entries of a cell are candidates, the
    best first. Some entries are steps: they cost no more than any entry before them. So
    bisection finds the last step that does not fit; no entry before it fits either. The
    first entry after it that fits has the best quality. Of the entries with this
    quality, the cheapest is returned.
    """
    cell = cell_of(thresholds, nodes, a, b)
    low, end = int(cells[cell, 0]), int(cells[cell, 1])
    high = end
    while low < high:
        middle = (low + high) >> 1
        at = middle
        while at < high and entries[at] < 0:
            at += 1
        # a NaN cost compares false, so a damaged curve is never affordable
        if at == high or pair_cost(coefficients, entries[at], a, b) <= budget_s:
            high = middle
        else:
            low = at + 1
    best, best_s = -1, np.inf
    while low < end:
        rank = int(entries[low])
        if rank < 0:
            rank = ~rank
        if best >= 0 and levels[rank] != levels[best]:
            break
        cost_s = pair_cost(coefficients, rank, a, b)
        if cost_s <= budget_s and (best < 0 or cost_s < best_s):
            best, best_s = rank, cost_s
        low += 1
    return best


@njit(int64(FLOATS_2D, float64, float64, float64), **OPTIONS)
def scan_pairs(coefficients: Floats, a: float, b: float, budget_s: float) -> int:
    """Return the same as `best_in_cell` by trying all candidates, the best first."""
    for rank in range(coefficients.shape[0] - 1, -1, -1):
        if pair_cost(coefficients, rank, a, b) <= budget_s:
            return rank
    return -1
