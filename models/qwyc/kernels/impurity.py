"""Compiled impurity: how uncertain the final decisions remain after a base model.

Arguments are not checked.
"""

import math

import numpy as np
from numba import float64, int64, uint64, void
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import FLOATS, FLOATS_2D, FLOATS_3D, INTS
from .follow_schedule import leader

BINS = 32  # bins of the running sum, for two classes
MARGIN_BINS = 64  # bins of the margin, for K classes
NORMAL = 300.0  # imaginary rows per bin, with normally distributed gains
CHUNK = 256  # columns of a row that are read together


@njit(float64(FLOATS_2D, float64, float64), **OPTIONS)
def impurity_of(bins: NDArray[np.float64], lowest: float, width: float) -> float:
    """Return the sum of n sqrt(q (1 - q)) over B bins of rows with close running sums.

    n is the number of rows in a bin, and q estimates the probability that a row of the
    bin ends positive. A row's gain is its final sum minus its running sum.

    `bins[b]` (4,) has, in this order: n; the number of rows that end positive; the sum
    of the gains; the sum of the squared gains. `lowest` is the middle of the first bin
    minus the ensemble's threshold, and `width` is the width of a bin. For q, `NORMAL`
    imaginary rows are added to each bin. Their gains have a normal distribution, fitted
    to the gains of the bin and its two neighbours.
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
    """For each of L base models, write the impurity after it to `impurity` (L,).

    This is for two classes. `columns` (L,) are the base models' columns in `scores`.
    For each base model in turn, its scores are added to the rows' running `sums` (n,).
    Rows are then put into bins of equal width, from `least[j]` to `most[j]` for the
    base model of `columns[j]`. A row ends positive if its sum over the whole ensemble,
    in `final` (n,), is at least `border`.
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
            for j in range(size):  # as a separate loop, LLVM vectorises this
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
    """For each of L base models, write the impurity after it to `impurity` (L,).

    This is for K classes. The base models' numbers are in `models` (L,). For each in
    turn, its scores are added to the rows' running `sums` (n, K), and rows are put into
    `MARGIN_BINS` bins of equal width by their margins. The impurity is the sum of n
    sqrt((w + 0.5) / (n + 1)) over bins. A bin has n rows; for w of them, the leading
    class is not the class in `chosen` (n,), which the whole ensemble chooses.
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
