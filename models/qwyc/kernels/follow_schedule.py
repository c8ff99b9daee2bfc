"""Compiled evaluation of schedules, row by row. Arguments are not checked."""

import math

import numpy as np
from numba import boolean, float64, int64, types, void
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import FLOATS, FLOATS_2D, FLOATS_3D, INTS, copy


@njit(
    void(FLOATS_2D, INTS, FLOATS, FLOATS, float64, boolean[::1], int64[::1]), **OPTIONS
)
def follow_limits(
    scores: NDArray[np.float64],
    order: NDArray[np.int64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    threshold: float,
    decisions: NDArray[np.bool_],
    used: NDArray[np.int64],
) -> None:
    """Evaluate the arrays of a `Schedule` on scores (N, T).

    Writes each row's decision to `decisions` (N,), and the number of base models used
    for the row to `used` (N,).
    """
    last = order.shape[0]
    for i in range(scores.shape[0]):
        total = 0.0
        r = 0
        while r < last:
            total += scores[i, order[r]]
            if total < lower[r] or total > upper[r]:
                break
            r += 1
        if r < last:
            decisions[i] = total > upper[r]
            used[i] = r + 1
        else:  # added again, as rounding depends on the order
            total = 0.0
            for t in range(last):
                total += scores[i, t]
            decisions[i] = total >= threshold
            used[i] = last


@njit(types.Tuple((int64, float64))(FLOATS), **OPTIONS)
def leader(sums: NDArray[np.float64]) -> tuple[int, float]:
    """Return the position of the largest of K >= 2 sums, and its margin.

    The margin is the distance to the second largest sum. Of equal sums the first
    leads.
    """
    best = 0
    second = -math.inf
    for k in range(1, sums.shape[0]):
        if sums[k] > sums[best]:
            second = sums[best]
            best = k
        elif sums[k] > second:
            second = sums[k]
    return best, sums[best] - second


@njit(void(FLOATS_3D, INTS, FLOATS, FLOATS, int64[::1], int64[::1]), **OPTIONS)
def follow_margins(
    scores: NDArray[np.float64],
    order: NDArray[np.int64],
    margin: NDArray[np.float64],
    bias: NDArray[np.float64],
    choices: NDArray[np.int64],
    used: NDArray[np.int64],
) -> None:
    """Evaluate the arrays of a `MarginSchedule` on scores (N, T, K).

    Writes each row's class to `choices` (N,), and the number of base models used for
    the row to `used` (N,).
    """
    last = order.shape[0]
    sums = np.empty(bias.shape[0], np.float64)
    for i in range(scores.shape[0]):
        copy(bias, sums)
        r = 0
        while r < last:
            for k in range(sums.shape[0]):
                sums[k] += scores[i, order[r], k]
            best, ahead = leader(sums)
            if ahead > margin[r]:
                break
            r += 1
        if r == last:
            copy(bias, sums)
            for t in range(last):
                for k in range(sums.shape[0]):
                    sums[k] += scores[i, t, k]
            best, _ = leader(sums)
        choices[i] = best
        used[i] = min(r + 1, last)
