"""Decisions for rows of one array, which is named once: a row is a number then.

To hand an array over from Python takes as long as thirty trees, and where none of it
is in the cache, to find the array takes longer than to find what is in it.
"""

import numpy as np
from numba import carray, int64, uint64

from ...scoring.kernels.cached_njit import ONE_ROW, OPTIONS, njit
from ...scoring.kernels.native import pointer, table_at
from ...scoring.stopping_rule import NO_ROW
from .packed import decide
from .simd import kernel, simd_side

# What the address of an array is that of: where it begins, how many rows it has and
# how wide they are, and the address of packed trees.
TABLE = np.dtype(
    [("start", "<u8"), ("count", "<i8"), ("width", "<i8"), ("trees", "<u8")]
)


@njit(uint64(int64, uint64), **OPTIONS)
def place_of(i: int, address: int) -> int:
    """Address of a row, or 0 where there is none of this number."""
    table = table_at(address, TABLE)
    if i < 0 or i >= table.count:
        return int(uint64(0))
    return int(table.start + uint64(i) * uint64(table.width) * uint64(4))


@njit(int64(int64, uint64), **ONE_ROW)
def decide_bound(i: int, address: int) -> int:
    """Answer of one row: `packed.decide`, or NO_ROW."""
    row = place_of(i, address)
    if row == 0:
        return NO_ROW
    table = table_at(address, TABLE)
    values = carray(pointer(row), (table.width,), np.float32)
    return int(decide(values, table.trees))


@kernel(int64(int64, uint64), ONE_ROW)
def simd_decide_bound(i: int, address: int) -> int:
    """Answer of one row: `simd.simd_decide`, or NO_ROW."""
    row = place_of(i, address)
    if row == 0:
        return NO_ROW
    return int(simd_side(row, table_at(address, TABLE).trees))
