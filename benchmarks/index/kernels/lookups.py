"""Compiled loops over many look-ups, so that what is timed is the look-up alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.indexer.index.kernels.lookup import cost_at
from polydom.models.scoring.kernels.declare import OPTIONS, njit

LAZY = OPTIONS | {"cache": False}  # compiled for the functions that come


@njit(**LAZY)
def find_each(
    find: Callable[..., int],
    arrays: tuple[Any, ...],
    sizes: NDArray[np.float64],
    budgets: NDArray[np.float64],
    out: NDArray[np.int64],
) -> None:
    """Look for one rank after the other, by a compiled function of the arrays."""
    for k in range(sizes.shape[0]):
        out[k] = find(*arrays, sizes[k], budgets[k])


@njit(**LAZY)
def find_each_pair(
    find: Callable[..., int],
    arrays: tuple[Any, ...],
    sizes: NDArray[np.float64],
    budgets: NDArray[np.float64],
    out: NDArray[np.int64],
) -> None:
    """Look for one rank after the other, for sizes (Q, 2)."""
    for k in range(sizes.shape[0]):
        out[k] = find(*arrays, sizes[k, 0], sizes[k, 1], budgets[k])


@njit(**LAZY)
def index_all_rank(
    crossings: NDArray[np.float64],
    offsets: NDArray[np.int64],
    skylines: NDArray[np.int32],
    coefficients: NDArray[np.float64],
    size: float,
    budget: float,
) -> int:
    """Poly-Dom-Index-All: a whole skyline for each range between two crossings."""
    position = np.searchsorted(crossings, size, side="right")
    first, low, high = offsets[position], offsets[position], offsets[position + 1]
    while low < high:
        middle = (low + high) >> 1
        if cost_at(coefficients, skylines[middle], size) <= budget:
            low = middle + 1
        else:
            high = middle
    return int(skylines[low - 1]) if low > first else -1
