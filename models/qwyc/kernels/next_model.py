"""Scans over the base models that could come next, compiled; nothing is checked here.

Scores are (N, T) or, for K classes, (N, T, K): rows are examples, N >> T. The scans of
two classes read the matrix in blocks of `BLOCK` neighbouring columns, a cache line
each, so that no transposed copy is needed.
"""

import math

import numpy as np
from numba import boolean, float64, int64, uint64, void
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import FLOATS, FLOATS_2D, FLOATS_3D, INTS
from .follow_schedule import leader

BLOCK = 8  # doubles in a cache line
BINS = 32  # of the running sum, when impurity is measured; ...
MARGIN_BINS = 64  # ... of the margin
NORMAL = 300.0  # rows that a bin has besides its own, if what they gain were normal
CHUNK = 256  # columns of a row that are read together


@njit(void(float64[::1], int64, int64, float64), **OPTIONS)
def sift(heap: NDArray[np.float64], node: int, size: int, value: float) -> None:
    """Put `value` at `node` of a max-heap of `size` entries, and restore the heap."""
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
    """Fill `out` with the smallest of sign * values, ascending; how many there are."""
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
    """Count the rows that can stop on one side, for each number of errors allowed.

    Rows stop below a threshold on sign * value, those of `right` rightly. `stops[e]` is
    filled for e errors: all rows strictly below the (e + 1)-th smallest value of
    `wrong`, or every row where there is none. `limits`, as long, is scratch.
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
    wrongs = 0  # strictly below the current limit: fewer than e where values are tied
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
    """Count the rows that each column could stop with at most `allowed` errors.

    The inner step of QWYC's Algorithm 1, linear in the rows: only the `allowed` + 1
    extreme values of each side are sorted. `rows` (n,) and `columns` (L,) index
    `scores`; `sums` (n,) are the running sums; `stopped` (L,) is filled.
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
            # Both sides reach over each other: one cut stops every row.
            stopped[start + j] = min(best, n)


@njit(float64(FLOATS_2D, float64, float64), **OPTIONS)
def impurity_of(bins: NDArray[np.float64], lowest: float, width: float) -> float:
    """Impurity of rows in bins (B, 4): the total of n sqrt(q (1 - q)).

    Of each bin are given its rows n, those of them that end at the border or above, and
    the sums of what they still gain and of its square. The middle of the first bin is
    `lowest` beyond the border, that of each other `width` further. Counts alone tell
    too little where few rows are of the rarer kind. So q is their share among n rows
    and `NORMAL` more, which gain as a normal number does, with mean and variance of the
    rows in this bin and the two beside it.
    """
    total = 0.0
    for b in range(bins.shape[0]):
        n = bins[b, 0]
        if n == 0.0:
            continue
        first, end = max(0, b - 1), min(bins.shape[0], b + 2)
        near = bins[first:end, 0].sum()
        mean = bins[first:end, 2].sum() / near
        variance = max(bins[first:end, 3].sum() / near - mean * mean, 0.0)
        beyond = lowest + b * width + mean
        q = 1.0 if beyond >= 0.0 else 0.0
        if variance > 0.0:
            q = 0.5 * math.erfc(-beyond / math.sqrt(2.0 * variance))
        q = (bins[b, 1] + NORMAL * q) / (n + NORMAL)
        total += n * math.sqrt(max(q * (1.0 - q), 0.0))
    return total


@njit(
    void(FLOATS_2D, INTS, FLOATS, FLOATS, float64, INTS, FLOATS, FLOATS, float64[::1]),
    **OPTIONS,
)
def measure_impurity(
    scores: NDArray[np.float64],
    rows: NDArray[np.int64],
    sums: NDArray[np.float64],
    final: NDArray[np.float64],
    border: float,
    columns: NDArray[np.int64],
    least: NDArray[np.float64],
    most: NDArray[np.float64],
    impurity: NDArray[np.float64],
) -> None:
    """Impurity of the full decisions, by running sum, once each column is added.

    The new sums are put into `BINS` equal bins between the column's `least` and `most`
    (L,). `rows` (n,) index `scores`; `sums` and `final` (n,) are their sums now and in
    the end, positive from `border` on. `impurity` (L,) is filled as by `impurity_of`.
    """
    bins = np.empty((CHUNK, BINS, 4), np.float64)
    scale = np.empty(CHUNK, np.float64)
    gains = np.empty(CHUNK, np.float64)
    places = np.empty(CHUNK, np.uint64)
    for start in range(0, columns.shape[0], CHUNK):
        size = min(CHUNK, columns.shape[0] - start)
        bins[:] = 0.0
        for j in range(size):
            span = most[start + j] - least[start + j]
            scale[j] = BINS / span if span > 0.0 else 0.0
        for i in range(rows.shape[0]):
            row = scores[rows[i]]
            rest = final[i] - sums[i]
            positive = 1.0 if final[i] >= border else 0.0
            for j in range(size):
                gains[j] = rest - row[columns[start + j]]
            for j in range(size):  # apart from the others, in vectors
                beyond = (final[i] - gains[j] - least[start + j]) * scale[j]
                places[j] = uint64(min(max(beyond, 0.0), BINS - 1.0))
            for j in range(size):
                own = bins[j, places[j]]
                own[0] += 1.0
                own[1] += positive
                own[2] += gains[j]
                own[3] += gains[j] * gains[j]
        for j in range(size):
            width = 1.0 / scale[j] if scale[j] > 0.0 else 0.0
            lowest = least[start + j] + width / 2.0 - border
            impurity[start + j] = impurity_of(bins[j], lowest, width)


@njit(void(FLOATS_3D, INTS, FLOATS_2D, INTS, INTS, float64[::1]), **OPTIONS)
def measure_margin_impurity(
    scores: NDArray[np.float64],
    rows: NDArray[np.int64],
    sums: NDArray[np.float64],
    chosen: NDArray[np.int64],
    models: NDArray[np.int64],
    impurity: NDArray[np.float64],
) -> None:
    """Impurity of the final choices, by margin, once each base model is added.

    The new margins are put into `MARGIN_BINS` equal bins up to the largest; a bin of n
    rows, of which a share e is led by another class than in the end, has impurity
    n sqrt(e), with half a row added to either side. `rows` (n,) index `scores`; their
    running sums are `sums` (n, K), their final choices `chosen` (n,); `impurity` (L,)
    is filled.
    """
    count = rows.shape[0]
    margins = np.empty(count, np.float64)
    wrong = np.empty(count, np.bool_)
    total = np.empty(sums.shape[1], np.float64)
    bins = np.empty((2, MARGIN_BINS), np.int64)
    for j in range(models.shape[0]):
        widest = 0.0
        for i in range(count):
            for k in range(total.shape[0]):
                total[k] = sums[i, k] + scores[rows[i], models[j], k]
            best, margins[i] = leader(total)
            wrong[i] = best != chosen[i]
            widest = max(widest, margins[i])
        scale = MARGIN_BINS / widest if widest > 0.0 else 0.0
        bins[:] = 0
        for i in range(count):
            place = int(min(margins[i] * scale, MARGIN_BINS - 1.0))
            bins[int64(wrong[i]), place] += 1
        impurity[j] = 0.0
        for b in range(MARGIN_BINS):
            n = bins[0, b] + bins[1, b]
            if n > 0:
                impurity[j] += n * math.sqrt((bins[1, b] + 0.5) / (n + 1.0))
