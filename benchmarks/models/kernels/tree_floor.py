"""What trees need at the least: calls, reads in turn, sums in order; each alone."""

import numpy as np
from numba import float64, int64, uint8, uint16, uint64, void
from numpy.typing import NDArray

from polydom.models.scoring.kernels.cached_njit import ONE_ROW, njit
from polydom.models.scoring.kernels.native import FLOATS, INTS, ROW, ROWS
from polydom.models.trees.kernels.avx512 import LANES, VECTORS, add_of_half
from polydom.models.trees.kernels.many_rows import BLOCK, choose
from polydom.models.trees.kernels.one_row import margin
from polydom.models.trees.kernels.one_row_vectors import simd_margin

MARGIN = simd_margin if VECTORS else margin


@njit(int64(), **ONE_ROW)
def take_nothing() -> int:
    """Do nothing."""
    return 1


@njit(int64(int64, uint64), **ONE_ROW)
def take_numbers(first: int, second: int) -> int:
    """Take two numbers."""
    return 1


@njit(int64(ROW, uint64), **ONE_ROW)
def take_row(row: NDArray[np.float32], second: int) -> int:
    """Take an array and a number."""
    return 1


@njit(int64(INTS, int64), **ONE_ROW)
def follow(places: NDArray[np.int64], steps: int) -> int:
    """Read from a place where the next place is, so many times."""
    at = 0
    for _ in range(steps):
        at = places[uint64(at)]
    return at


@njit(int64(INTS, int64), **ONE_ROW)
def read_all(table: NDArray[np.int64], times: int) -> int:
    """Read a table so many times, from one end to the other."""
    total = 0
    for k in range(times):
        own = k
        for i in range(table.shape[0]):
            own ^= table[uint64(i)]
        total += own
    return total


@njit(float64(FLOATS, int64), **ONE_ROW)
def add_in_order(values: NDArray[np.float64], times: int) -> float:
    """Add each of the values to one sum, so many times."""
    total = 0.0
    for _ in range(times):
        for i in range(values.shape[0]):
            total += values[uint64(i)]
    return total


@njit(void(uint8[:, ::1], int64), **ONE_ROW)
def choose_rows(answers: NDArray[np.uint8], times: int) -> None:
    """Choose between two answers of (4, BLOCK), so many times, by the first's codes."""
    codes, left = uint64(answers[0].ctypes.data), uint64(answers[1].ctypes.data)
    right, out = uint64(answers[2].ctypes.data), uint64(answers[3].ctypes.data)
    for k in range(times):
        for j in range(uint64(0), uint64(BLOCK), uint64(LANES)):
            choose(codes + j, uint16(k), left + j, right + j, out + j)


@njit(void(uint8[::1], FLOATS, float64[::1], int64), **ONE_ROW)
def add_rows(
    ends: NDArray[np.uint8],
    values: NDArray[np.float64],
    totals: NDArray[np.float64],
    times: int,
) -> None:
    """Add values (32,) at `ends` (BLOCK,) to totals (BLOCK,), so many times."""
    at, own = uint64(values.ctypes.data), uint64(ends.ctypes.data)
    to = uint64(totals.ctypes.data)
    for _ in range(times):
        for j in range(uint64(0), uint64(BLOCK), uint64(LANES)):
            add_of_half(own + j, at, to + uint64(8) * j)


@njit(float64(ROWS, INTS, uint64), **ONE_ROW)
def sum_each(X: NDArray[np.float32], which: NDArray[np.int64], address: int) -> float:
    """Give the raw scores of rows, one after the other."""
    total = 0.0
    for i in which:
        total += MARGIN(X[i], address)
    return total
