"""Compiled calibration: turns the class scores of a row into calibrated probabilities.

Kernels check nothing: `Calibration` in `calibration.py` checks its numbers, and says
what a table holds.
"""

import math

import numpy as np
from numba import boolean, float64, int64, void

from ..model import Floats
from .cached_njit import ONE_ROW, OPTIONS, njit
from .link import bound_shares, logistic
from .native import FLOATS, FLOATS_2D

# Positions in a table: 1.0 if the map reads logarithms of class scores, and the largest
# magnitude of what it reads. Then for two classes the slopes below the first and above
# the last knot, and knots; for more classes the slope, and an offset for each class.
LOGS, LIMIT, BELOW, ABOVE, FIRST_KNOT = range(5)
SLOPE, FIRST_OFFSET = 2, 3
# Log scores count as equal if they differ by at most this, times 1 plus the smaller of
# their magnitudes: rounding must not order calibrated scores otherwise than raw scores.
TIE = 1e-14
MOST = 36.0  # largest log odds of a probability: 1 - 2e-16 is the largest below 1


@njit(float64(float64, FLOATS), **OPTIONS)
def map_log_odds(z: float, table: Floats) -> float:
    """Return the calibrated log odds of the second of two classes for log odds `z`.

    NaN stays NaN.
    """
    if z > table[LIMIT]:
        z = table[LIMIT]
    elif z < -table[LIMIT]:
        z = -table[LIMIT]
    if abs(z) <= TIE:
        z = 0.0
    count = (table.shape[0] - FIRST_KNOT) // 2
    x, y = table[FIRST_KNOT : FIRST_KNOT + count], table[FIRST_KNOT + count :]
    if z >= x[count - 1]:
        odds = y[count - 1] + table[ABOVE] * (z - x[count - 1])
    elif z > x[0]:
        low, high = 0, count - 1
        while high - low > 1:
            middle = (low + high) // 2
            if z < x[middle]:
                high = middle
            else:
                low = middle
        slope = (y[high] - y[low]) / (x[high] - x[low])
        # Rounding must not carry a number past the next knot.
        odds = min(y[low] + slope * (z - x[low]), y[high])
    else:
        odds = y[0] + table[BELOW] * (z - x[0])
    if odds > MOST:
        odds = MOST
    elif odds < -MOST:
        odds = -MOST
    return float(odds)


@njit(float64(float64, FLOATS), **ONE_ROW)
def share_by_odds(z: float, table: Floats) -> float:
    """Return the calibrated probability of the second class for log odds `z`."""
    share: float = logistic(map_log_odds(z, table))
    return share


@njit(float64(float64), **OPTIONS)
def log_of(share: float) -> float:
    """Return the logarithm of a share; -inf for 0."""
    return math.log(share) if share > 0.0 or share != share else -np.inf


@njit(float64(float64, float64), **OPTIONS)
def odds_of(low: float, high: float) -> float:
    """Return the log odds of the second class for both log scores.

    They are 0 for almost equal scores, also if both are the same infinity.
    """
    odds = 0.0 if low == high else high - low
    return 0.0 if abs(odds) <= TIE * (1.0 + min(abs(low), abs(high))) else odds


@njit(float64(float64, float64, FLOATS), **ONE_ROW)
def share_by_scores(low: float, high: float, table: Floats) -> float:
    """Return the calibrated probability of the second class for both class scores."""
    share: float = logistic(map_log_odds(odds_of(log_of(low), log_of(high)), table))
    return share


@njit(float64(float64, int64, FLOATS), **OPTIONS)
def map_log_score(z: float, k: int, table: Floats) -> float:
    """Return the calibrated log score of class k for its log score `z`; K > 2."""
    if z > table[LIMIT]:
        z = table[LIMIT]
    elif z < -table[LIMIT]:
        z = -table[LIMIT]
    mapped: float = table[SLOPE] * z + table[FIRST_OFFSET + k]
    return mapped


@njit(void(float64[::1]), **OPTIONS)
def normalise(logs: Floats) -> None:
    """Turn log scores (K,) into probabilities that sum to 1, in place; none is 0."""
    top = logs[0]
    for k in range(1, logs.shape[0]):
        top = max(top, logs[k])
    total = 0.0
    for k in range(logs.shape[0]):
        below = 0.0 if logs[k] == top else logs[k] - top
        if below >= -TIE * (1.0 + min(abs(top), abs(logs[k]))):
            below = 0.0
        logs[k] = math.exp(-MOST if below < -MOST else below)
        total += logs[k]
    for k in range(logs.shape[0]):
        logs[k] /= total


@njit(inline="always")
def calibrate_row(raw: Floats, gain: float, table: Floats, out: Floats) -> None:
    """Replace a row's class scores `out` (K,) by calibrated probabilities."""
    count, logs = out.shape[0], table[LOGS] == 1.0
    if count == 2:
        if logs:
            out[1] = share_by_scores(out[0], out[1], table)
        elif raw.shape[0] == 1:
            out[1] = share_by_odds(gain * raw[0], table)
        else:
            out[1] = share_by_odds(gain * odds_of(raw[0], raw[1]), table)
        out[0] = 1.0 - out[1]
        return
    for k in range(count):
        z = log_of(out[k]) if logs else gain * raw[k]
        out[k] = map_log_score(z, k, table)
    normalise(out)


@njit(void(FLOATS, float64, FLOATS, float64[::1]), **ONE_ROW)
def calibrate_one(raw: Floats, gain: float, table: Floats, out: Floats) -> None:
    """Replace one row's class scores `out` (K,) by calibrated probabilities.

    `raw` (R,) are the row's raw scores, and `gain` is their factor in the link.
    """
    calibrate_row(raw, gain, table, out)


@njit(void(FLOATS_2D, float64, FLOATS, float64[:, ::1]), **OPTIONS)
def calibrate_many(raw: Floats, gain: float, table: Floats, out: Floats) -> None:
    """Replace the class scores `out` (N, K) of rows by calibrated probabilities."""
    for i in range(raw.shape[0]):
        calibrate_row(raw[i], gain, table, out[i])


@njit(void(FLOATS, FLOATS, boolean, FLOATS, float64, float64[::1]), **ONE_ROW)
def bound_calibrated(
    low: Floats,
    high: Floats,
    logs: bool,
    table: Floats,
    width: float,
    out: Floats,
) -> None:
    """Bound the calibrated scores of K > 2 classes.

    `low` and `high` (K,) bound the class scores if `logs` is true, otherwise the raw
    scores times the gain. Writes the smallest and the largest possible score of each
    class to `out` (2 K,), in pairs, widened by `width` for rounding.
    """
    count = low.shape[0]
    least, most = np.empty(count), np.empty(count)
    for k in range(count):
        ends = (log_of(low[k]), log_of(high[k])) if logs else (low[k], high[k])
        least[k] = map_log_score(ends[0], k, table)
        most[k] = map_log_score(ends[1], k, table)
    top = most.max()
    for k in range(count):
        least[k] = math.exp(least[k] - top)
        most[k] = math.exp(most[k] - top)
    bound_shares(least, most, out)
    for k in range(count):
        out[2 * k] = max(out[2 * k] - width, 0.0)
        out[2 * k + 1] = min(out[2 * k + 1] + width, 1.0)
