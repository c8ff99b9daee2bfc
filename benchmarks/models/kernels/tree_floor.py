"""What trees need at the least: calls, reads in turn, sums in order; each alone."""

import numpy as np
from numba import float64, int64, uint64
from numpy.typing import NDArray

from polydom.models.scoring.kernels.cached_njit import ONE_ROW, njit
from polydom.models.scoring.kernels.native import FLOATS, INTS, ROW, ROWS, frozen
from polydom.models.trees.kernels.avx512 import VECTORS
from polydom.models.trees.kernels.packed import margin
from polydom.models.trees.kernels.row_by_number import decide_bound, simd_decide_bound
from polydom.models.trees.kernels.simd import simd_margin

PLACES = frozen(int64, 2)
ABREAST = 16  # sums of as many rows at once

DECIDE = simd_decide_bound if VECTORS else decide_bound
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


@njit(float64(FLOATS, PLACES), **ONE_ROW)
def add_abreast(values: NDArray[np.float64], places: NDArray[np.int64]) -> float:
    """Add values whose places are known to the sums of `ABREAST` rows: (T, ABREAST)."""
    sums = np.zeros(ABREAST)
    for t in range(places.shape[0]):
        for r in range(ABREAST):
            sums[uint64(r)] += values[uint64(places[uint64(t), uint64(r)])]
    return float(sums.sum())


@njit(int64(INTS, uint64), **ONE_ROW)
def decide_each(which: NDArray[np.int64], address: int) -> int:
    """Decide rows of a bound array, one after the other."""
    total = 0
    for i in which:
        total += DECIDE(i, address)
    return total


@njit(float64(ROWS, INTS, uint64), **ONE_ROW)
def sum_each(X: NDArray[np.float32], which: NDArray[np.int64], address: int) -> float:
    """Give the raw scores of rows, one after the other."""
    total = 0.0
    for i in which:
        total += MARGIN(X[i], address)
    return total
