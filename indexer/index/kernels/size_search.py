"""Compiled search for the best candidate at a size of one number, `n`.

Kernels check nothing: `size_lookup.py` checks the arrays when an index is loaded.
"""

import numpy as np
from numba import float64, int32, int64
from numpy.typing import NDArray

from polydom.models.scoring.kernels.cached_njit import OPTIONS, njit
from polydom.models.scoring.kernels.native import FLOATS, FLOATS_2D, frozen

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

INTS, SPANS = frozen(int32), frozen(int32, 2)
ROWS_OUT = int64[::1]


@njit(float64(FLOATS_2D, int64, float64), inline="always", **OPTIONS)
def cost_at(coefficients: Floats, row: int, n: float) -> float:
    """Return the cost in seconds of candidate `row` at size n."""
    cost_s = 0.0
    for k in range(coefficients.shape[1] - 1, -1, -1):
        cost_s = cost_s * n + coefficients[row, k]
    return cost_s


@njit(int64(FLOATS, INTS, FLOATS, float64), inline="always", **OPTIONS)
def range_of(breakpoints: Floats, guide: Ints, spacing: Floats, n: float) -> int:
    """Return the number of breakpoints <= n, which is the position of n's range.

    `guide` and `spacing` narrow the search to the breakpoints in the same cell as n.
    """
    cell = 0
    place = (n - spacing[0]) * spacing[1]
    if place > 0.0:  # false for NaN
        cell = int(min(place, guide.shape[0] - 2.0))
    first = int(guide[cell])
    left = int(guide[cell + 1]) - first
    while left > 0:
        half = (left + 1) >> 1
        # a choice of values compiles to no branch, which could be mispredicted
        first = first + half if breakpoints[first + half - 1] <= n else first
        left -= half
    return first


@njit(
    int64(FLOATS, INTS, FLOATS, INTS, INTS, SPANS, FLOATS_2D, float64, float64),
    **OPTIONS,
)
def best_rank(
    breakpoints: Floats,
    guide: Ints,
    spacing: Floats,
    blocks: Ints,
    offsets: Ints,
    spans: Ints,
    coefficients: Floats,
    n: float,
    budget_s: float,
) -> int:
    """Return the rank of the best candidate that fits the budget; -1 if none fits.

    This is the online retrieval of ICSP, section 3.3, with the blocks and spans of
    `SizeLookup`. Of a block's spans, only those that contain the range of n are on the
    skyline; along these, rank and cost ascend. So bisection finds the last of them that
    fits the budget.
    """
    position = range_of(breakpoints, guide, spacing, n)
    block = int(blocks[position])
    low, high = int(offsets[block]), int(offsets[block + 1])
    best = -1
    while low < high:
        middle = (low + high) >> 1
        at = middle
        while at < high and not spans[at, 1] <= position < spans[at, 2]:
            at += 1
        # a NaN cost compares false, so a damaged curve is never affordable
        if at < high and cost_at(coefficients, spans[at, 0], n) <= budget_s:
            best = int(spans[at, 0])
            low = at + 1
        else:
            high = middle
    return best


@njit(int64(FLOATS_2D, float64, float64), **OPTIONS)
def scan_ranks(coefficients: Floats, n: float, budget_s: float) -> int:
    """Return the same as `best_rank` by trying all candidates, the best first.

    ICSP calls this Naive-Lookup.
    """
    for rank in range(coefficients.shape[0] - 1, -1, -1):
        if cost_at(coefficients, rank, n) <= budget_s:
            return rank
    return -1


@njit(ROWS_OUT(INTS, INTS, SPANS, int64), **OPTIONS)
def skyline_ranks(
    blocks: Ints, offsets: Ints, spans: Ints, position: int
) -> NDArray[np.int64]:
    """Return the ranks of the candidates on the skyline of one range, ascending."""
    block = blocks[position]
    first, end = offsets[block], offsets[block + 1]
    ranks = np.empty(end - first, np.int64)
    found = 0
    for at in range(first, end):
        if spans[at, 1] <= position < spans[at, 2]:
            ranks[found] = spans[at, 0]
            found += 1
    return ranks[:found]
