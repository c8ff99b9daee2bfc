"""Compiled counting behind schedules of more than two classes; nothing is checked.

Scores are (N, T, K): rows are examples, base models, classes. The lead is by how much
the best class's running sum exceeds the second best's; of equals the first leads.
"""

import math

import numpy as np
from numba import float64, int64, types, void
from numba.core.types import Array
from numpy.typing import NDArray

from ..models.declare import njit

FLOATS = Array(float64, 1, "C", readonly=True)
FLOATS_2D = Array(float64, 2, "C", readonly=True)
FLOATS_3D = Array(float64, 3, "C", readonly=True)
ROWS = Array(int64, 1, "C", readonly=True)
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}  # no fastmath: NaN

BINS = 64  # of the lead, when doubt is measured


@njit(types.Tuple((int64, float64))(FLOATS), **OPTIONS)
def leader(sums: NDArray[np.float64]) -> tuple[int, float]:
    """Which of K >= 2 classes leads, and by how much."""
    best = 0
    second = -math.inf
    for k in range(1, sums.shape[0]):
        if sums[k] > sums[best]:
            second = sums[best]
            best = k
        elif sums[k] > second:
            second = sums[k]
    return best, sums[best] - second


@njit(void(FLOATS_3D, ROWS, FLOATS, FLOATS, int64[::1], int64[::1]), **OPTIONS)
def walk_leads(
    scores: NDArray[np.float64],
    order: NDArray[np.int64],
    margin: NDArray[np.float64],
    bias: NDArray[np.float64],
    choices: NDArray[np.int64],
    used: NDArray[np.int64],
) -> None:
    """Evaluate each row early; `choices` (N,) and `used` (N,) are filled.

    Whole sums are added anew, as `models.sums` does: a schedule's order rounds
    otherwise.
    """
    last = order.shape[0]
    sums = np.empty(bias.shape[0], np.float64)
    for i in range(scores.shape[0]):
        sums[:] = bias
        r = 0
        while r < last:
            for k in range(sums.shape[0]):
                sums[k] += scores[i, order[r], k]
            best, lead = leader(sums)
            if lead > margin[r]:
                break
            r += 1
        if r == last:
            sums[:] = bias
            for t in range(last):
                for k in range(sums.shape[0]):
                    sums[k] += scores[i, t, k]
            best, lead = leader(sums)
        choices[i] = best
        used[i] = min(r + 1, last)


@njit(void(FLOATS_3D, ROWS, FLOATS_2D, ROWS, ROWS, float64[::1]), **OPTIONS)
def measure_lead_doubt(
    scores: NDArray[np.float64],
    rows: NDArray[np.int64],
    sums: NDArray[np.float64],
    chosen: NDArray[np.int64],
    models: NDArray[np.int64],
    doubt: NDArray[np.float64],
) -> None:
    """Doubt left about the final choice once each base model is added to the sums.

    The new lead is put into `BINS` equal bins up to the largest; a bin of n rows, of
    which a share e is led by another class than in the end, has doubt n sqrt(e), with
    half a row added to either side. `rows` (n,) index `scores`, whose running sums are
    `sums` (n, K) and final choices `chosen` (n,); `doubt` (L,) of `models` is filled.
    """
    count = rows.shape[0]
    leads = np.empty(count, np.float64)
    wrong = np.empty(count, np.bool_)
    total = np.empty(sums.shape[1], np.float64)
    bins = np.empty((2, BINS), np.int64)
    for j in range(models.shape[0]):
        widest = 0.0
        for i in range(count):
            for k in range(total.shape[0]):
                total[k] = sums[i, k] + scores[rows[i], models[j], k]
            best, leads[i] = leader(total)
            wrong[i] = best != chosen[i]
            widest = max(widest, leads[i])
        scale = BINS / widest if widest > 0.0 else 0.0
        bins[:] = 0
        for i in range(count):
            bins[int64(wrong[i]), int64(min(leads[i] * scale, BINS - 1.0))] += 1
        doubt[j] = 0.0
        for b in range(BINS):
            n = bins[0, b] + bins[1, b]
            if n > 0:
                doubt[j] += n * math.sqrt((bins[1, b] + 0.5) / (n + 1.0))
