"""Algorithm 1 of QWYC, compiled: count the rows that could stop after a base model."""

import numpy as np
from numba import boolean, float64, int64, void
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import FLOATS, FLOATS_2D, INTS

BLOCK = 8  # doubles in a cache line


@njit(void(float64[::1], int64, int64, float64), **OPTIONS)
def sift(heap: NDArray[np.float64], node: int, size: int, value: float) -> None:
    """Put `value` at `node` of a max-heap and move it down to its place."""
    while True:
        child = 2 * node + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[node] = heap[child]
        node = child
    heap[node] = value


@njit(int64(FLOATS, float64, float64[::1]), **OPTIONS)
def smallest(values: NDArray[np.float64], sign: float, out: NDArray[np.float64]) -> int:
    """Write the smallest elements of sign * `values` to `out`, ascending.

    Returns the number of elements written: the size of `out` or of `values`, whichever
    is smaller.
    """
    size: int = min(out.shape[0], values.shape[0])
    for i in range(size):
        out[i] = sign * values[i]
    for node in range(size // 2 - 1, -1, -1):
        sift(out, node, size, out[node])
    for i in range(size, values.shape[0]):
        if sign * values[i] < out[0]:
            sift(out, 0, size, sign * values[i])
    for end in range(size - 1, 0, -1):
        value = out[end]
        out[end] = out[0]
        sift(out, 0, end, value)
    return size


@njit(void(FLOATS, FLOATS, float64, float64[::1], int64[::1]), **OPTIONS)
def stops_by_errors(
    right: NDArray[np.float64],
    wrong: NDArray[np.float64],
    sign: float,
    limits: NDArray[np.float64],
    stops: NDArray[np.int64],
) -> None:
    """Write to `stops[e]` how many rows a threshold with at most e errors can stop.

    A row stops if sign * value is below the threshold; `sign` is 1 for low stops, -1
    for high stops. `right` has the values of the rows that may stop, `wrong` those of
    the rows whose stop is an error. `limits` is scratch memory.
    """
    known = smallest(wrong, sign, limits)
    for e in range(stops.shape[0]):
        stops[e] = 0
    if known > 0:
        for i in range(right.shape[0]):
            value = sign * right[i]
            if value < limits[0]:
                stops[0] += 1
            elif value < limits[known - 1]:
                stops[np.searchsorted(limits[:known], value, side="right")] += 1
    rights = 0
    wrongs = 0  # errors strictly below the limit; equal values make them fewer than e
    for e in range(stops.shape[0]):
        if e < known:
            rights += stops[e]
            if e > 0 and limits[e] > limits[e - 1]:
                wrongs = e
            stops[e] = rights + wrongs
        else:
            stops[e] = right.shape[0] + wrong.shape[0]


@njit(void(FLOATS_2D, INTS, FLOATS, int64, INTS, int64, boolean, int64[::1]), **OPTIONS)
def count_stops(
    scores: NDArray[np.float64],
    rows: NDArray[np.int64],
    sums: NDArray[np.float64],
    positives: int,
    columns: NDArray[np.int64],
    allowed: int,
    both: bool,
    stopped: NDArray[np.int64],
) -> None:
    """Write to `stopped` (L,) how many rows could stop after each of L base models.

    `columns` (L,) are the base models' columns in `scores`. For each base model in
    turn, the scores of the active `rows` (n,) are added to their running `sums` (n,).
    At most `allowed` of the rows that stop may get a decision other than the whole
    ensemble's. The rows that the whole ensemble decides as positive come first;
    `positives` is their number.
    """
    n = rows.shape[0]
    values = np.empty((BLOCK, n), np.float64)
    low = np.empty(allowed + 1, np.int64)
    high = np.empty(allowed + 1, np.int64)
    limits = np.empty(allowed + 1, np.float64)
    for start in range(0, columns.shape[0], BLOCK):
        size = min(BLOCK, columns.shape[0] - start)
        for i in range(n):
            for j in range(size):
                values[j, i] = sums[i] + scores[rows[i], columns[start + j]]
        for j in range(size):
            positive = values[j, :positives]
            negative = values[j, positives:]
            stops_by_errors(negative, positive, 1.0, limits, low)
            best = low[allowed]
            if both:
                stops_by_errors(positive, negative, -1.0, limits, high)
                best = 0
                for e in range(allowed + 1):
                    best = max(best, low[e] + high[allowed - e])
            # If the two sides overlap, a single cut stops every row.
            stopped[start + j] = min(best, n)
