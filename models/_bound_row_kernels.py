"""Decisions for rows of one array, which is named once: a row is a number then.

To hand an array over from Python takes as long as thirty trees, and where none of it
is in the cache, to find the array takes longer than to find what is in it.
"""

import numpy as np
from numba import carray, int64, uint64

from ._lane_kernels import kernel, lane_side
from ._layout_kernels import ONE_ROW, OPTIONS, decide, pointer
from .declare import njit

# Entries of the table of an array.
START, COUNT, WIDTH, TREES, TABLE_SIZE = range(5)
OUTSIDE = 3  # answer for a row that there is not


@njit(uint64(int64, uint64), **OPTIONS)
def place_of(i: int, address: int) -> int:
    """Address of a row, or 0 where there is none of this number."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    if i < 0 or i >= int64(table[COUNT]):
        return int(uint64(0))
    return int(table[START] + uint64(i) * table[WIDTH] * uint64(4))


@njit(int64(int64, uint64), **ONE_ROW)
def decide_bound(i: int, address: int) -> int:
    """Answer of one row: `_layout_kernels.decide`, or OUTSIDE."""
    row = place_of(i, address)
    if row == 0:
        return OUTSIDE
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    values = carray(pointer(row), (int64(table[WIDTH]),), np.float32)
    return int(decide(values, table[TREES]))


@kernel(int64(int64, uint64), ONE_ROW)
def lane_decide_bound(i: int, address: int) -> int:
    """Answer of one row: `_lane_kernels.lane_decide`, or OUTSIDE."""
    row = place_of(i, address)
    if row == 0:
        return OUTSIDE
    trees = carray(pointer(address), (TABLE_SIZE,), np.uint64)[TREES]
    return int(lane_side(row, trees))
