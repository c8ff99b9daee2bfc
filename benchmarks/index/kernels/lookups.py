"""Compiled loops over many look-ups, so that what is timed is the look-up alone.

Each is written out: arrays that come in a tuple are counted at every call, which takes
half as long as the look-up.
"""

import numpy as np
from numba import int32, int64, void
from numpy.typing import NDArray

from polydom.indexer.index.kernels.size_search import best_rank, cost_at, scan_ranks
from polydom.models.scoring.kernels.cached_njit import OPTIONS, njit
from polydom.models.scoring.kernels.native import FLOATS, FLOATS_2D, frozen
from polydom.models.scoring.kernels.native import INTS as LONGS

INTS, INTS_2D = frozen(int32), frozen(int32, 2)
RANKS_OUT = int64[::1]


@njit(
    void(
        *(FLOATS, INTS, FLOATS, INTS, INTS, INTS_2D, FLOATS_2D),
        *(FLOATS, FLOATS, RANKS_OUT),
    ),
    **OPTIONS,
)
def polydom_ranks(
    breakpoints: NDArray[np.float64],
    guide: NDArray[np.int32],
    spacing: NDArray[np.float64],
    blocks: NDArray[np.int32],
    offsets: NDArray[np.int32],
    stays: NDArray[np.int32],
    coefficients: NDArray[np.float64],
    sizes: NDArray[np.float64],
    budgets: NDArray[np.float64],
    out: NDArray[np.int64],
) -> None:
    """Poly-Dom, one query after the other."""
    for k in range(sizes.shape[0]):
        out[k] = best_rank(
            breakpoints,
            guide,
            spacing,
            blocks,
            offsets,
            stays,
            coefficients,
            sizes[k],
            budgets[k],
        )


@njit(void(FLOATS_2D, FLOATS, FLOATS, RANKS_OUT), **OPTIONS)
def naive_ranks(
    coefficients: NDArray[np.float64],
    sizes: NDArray[np.float64],
    budgets: NDArray[np.float64],
    out: NDArray[np.int64],
) -> None:
    """Naive-Lookup: try all candidates, the most accurate first, until one fits."""
    for k in range(sizes.shape[0]):
        out[k] = scan_ranks(coefficients, sizes[k], budgets[k])


@njit(void(FLOATS, LONGS, INTS, FLOATS_2D, FLOATS, FLOATS, RANKS_OUT), **OPTIONS)
def index_all_ranks(
    crossings: NDArray[np.float64],
    offsets: NDArray[np.int64],
    skylines: NDArray[np.int32],
    coefficients: NDArray[np.float64],
    sizes: NDArray[np.float64],
    budgets: NDArray[np.float64],
    out: NDArray[np.int64],
) -> None:
    """Poly-Dom-Index-All: a whole skyline for each range between two crossings."""
    for k in range(sizes.shape[0]):
        position = np.searchsorted(crossings, sizes[k], side="right")
        first, low, high = offsets[position], offsets[position], offsets[position + 1]
        while low < high:
            middle = (low + high) >> 1
            if cost_at(coefficients, skylines[middle], sizes[k]) <= budgets[k]:
                low = middle + 1
            else:
                high = middle
        out[k] = skylines[low - 1] if low > first else -1
