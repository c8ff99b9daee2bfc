"""Compiled search of the Poly-Dom index.

A kernel never raises and never checks: `lookup.py` validates once, when a look-up is
made. Costs are seconds (`_s`), `n` is the item size |x| of ICSP.
"""

import numpy as np
from numba import float64, int32, int64
from numpy.typing import NDArray

from polydom.models.scoring.kernels.cached_njit import OPTIONS, njit
from polydom.models.scoring.kernels.native import FLOATS, FLOATS_2D, frozen

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

INTS, STAYS = frozen(int32), frozen(int32, 2)
ROWS_OUT = int64[::1]


@njit(float64(FLOATS_2D, int64, float64), inline="always", **OPTIONS)
def cost_at(coefficients: Floats, row: int, n: float) -> float:
    """Cost c(S, n) in seconds of one row of `coefficients`, constant first."""
    cost_s = 0.0
    for k in range(coefficients.shape[1] - 1, -1, -1):
        cost_s = cost_s * n + coefficients[row, k]
    return cost_s


@njit(int64(FLOATS, INTS, FLOATS, float64), inline="always", **OPTIONS)
def range_of(breakpoints: Floats, guide: Ints, spacing: Floats, n: float) -> int:
    """Count the breakpoints up to n: the range n lies in.

    `guide` (G + 1,) holds how many breakpoints lie before each of G equal cells of
    sizes, `spacing` where the first one starts and how many there are per unit.
    """
    cell = 0
    place = (n - spacing[0]) * spacing[1]
    if place > 0.0:  # not for NaN
        cell = int(min(place, guide.shape[0] - 2.0))
    first = int(guide[cell])
    left = int(guide[cell + 1]) - first
    while left > 0:
        half = (left + 1) >> 1
        # A choice of values, which compiles to no branch to mispredict.
        first = first + half if breakpoints[first + half - 1] <= n else first
        left -= half
    return first


@njit(
    int64(FLOATS, INTS, FLOATS, INTS, INTS, STAYS, FLOATS_2D, float64, float64),
    **OPTIONS,
)
def best_rank(
    breakpoints: Floats,
    guide: Ints,
    spacing: Floats,
    blocks: Ints,
    offsets: Ints,
    stays: Ints,
    coefficients: Floats,
    n: float,
    budget_s: float,
) -> int:
    """Rank of the most accurate candidate that fits the budget, -1 if none does.

    The online retrieval of ICSP, section 3.3, over shared skylines: `offsets` bounds
    the part of `stays` that holds every skyline of the block of ranges around n, in
    ascending rank. A stay is (rank, first range, end range) and counts only in its
    ranges; those that count ascend in cost as in rank.
    """
    position = range_of(breakpoints, guide, spacing, n)
    block = int(blocks[position])
    low, high = int(offsets[block]), int(offsets[block + 1])
    best = -1
    while low < high:
        middle = (low + high) >> 1
        at = middle
        while at < high and not stays[at, 1] <= position < stays[at, 2]:
            at += 1
        # A NaN cost compares false, so a damaged curve is never affordable.
        if at < high and cost_at(coefficients, stays[at, 0], n) <= budget_s:
            best = int(stays[at, 0])
            low = at + 1
        else:
            high = middle
    return best


@njit(int64(FLOATS_2D, float64, float64), **OPTIONS)
def scan_ranks(coefficients: Floats, n: float, budget_s: float) -> int:
    """`best_rank` by trying every candidate, the most accurate first.

    ICSP's Naive-Lookup.
    """
    for rank in range(coefficients.shape[0] - 1, -1, -1):
        if cost_at(coefficients, rank, n) <= budget_s:
            return rank
    return -1


@njit(ROWS_OUT(INTS, INTS, STAYS, int64), **OPTIONS)
def skyline_ranks(
    blocks: Ints, offsets: Ints, stays: Ints, position: int
) -> NDArray[np.int64]:
    """List the ranks on the skyline of one range, ascending."""
    block = blocks[position]
    first, end = offsets[block], offsets[block + 1]
    ranks = np.empty(end - first, np.int64)
    found = 0
    for at in range(first, end):
        if stays[at, 1] <= position < stays[at, 2]:
            ranks[found] = stays[at, 0]
            found += 1
    return ranks[:found]
