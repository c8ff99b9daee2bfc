"""The least that a row of lattices could take: its reads alone, its products alone."""

import numpy as np
from numba import float64, int32, int64, uint64
from numpy.typing import NDArray

from polydom.models.scoring.kernels.cached_njit import OPTIONS, njit
from polydom.models.scoring.kernels.native import frozen

INTS, INTS_2D = frozen(int32), frozen(int32, 2)
# Products and sums in one instruction, as in the kernels that this is compared with.
FUSED = OPTIONS | {"fastmath": {"contract"}}
CHAINS, LANES = 8, 8  # that many sums at once hide how long one takes


@njit(int64(INTS, int64), **OPTIONS)
def read_all(table: NDArray[np.int32], times: int) -> int:
    """Sum a table so many times, from one end to the other."""
    total = 0
    for k in range(times):
        own = int32(k)
        for i in range(table.shape[0]):
            own ^= table[uint64(i)]
        total += int(own)
    return total


@njit(int64(INTS, INTS_2D), **OPTIONS)
def read_some(table: NDArray[np.int32], places: NDArray[np.int32]) -> int:
    """Sum what lies at the `places` (N, L) of each row."""
    total = 0
    for k in range(places.shape[0]):
        own = int32(k)
        for i in range(places.shape[1]):
            own ^= table[uint64(places[uint64(k), uint64(i)])]
        total += int(own)
    return total


@njit(float64(int64), **FUSED)
def multiply_add(steps: int) -> float:
    """Multiply and add `CHAINS * LANES` numbers in each step, from registers."""
    sums = np.ones(CHAINS * LANES)
    for k in range(steps):
        factor = 1.0 + 1e-9 * k
        for i in range(CHAINS * LANES):
            sums[uint64(i)] = sums[uint64(i)] * factor + 1e-9
    return float(sums.sum())
