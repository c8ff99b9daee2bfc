"""Class scores of one row of K > 2 classes, whole or only bounded, compiled.

Nothing is checked here. Raw scores are (K,).
"""

import math

import numpy as np
from numba import float64, int64, void

from ..model import Floats
from ..stopping_rule import NEAR
from .cached_njit import ONE_ROW, njit
from .link import EACH, MARGIN, SOFTMAX, choose_row, logistic, probability, score_row
from .native import FLOATS, FLOATS_2D
from .stopping_rule import margin_of

# Sums of shares below it are rounded by too much, or are of shares too small to add.
LEAST_SUM = 1e-280


@njit(int64(FLOATS, int64, int64, float64, float64[::1]), **ONE_ROW)
def choose_whole(raw: Floats, link: int, rule: int, gain: float, out: Floats) -> int:
    """Class scores of whole sums, `out` (K,), and the class chosen; -1 near a tie.

    Near a tie, or where a sum is no number, the library's own order of adding decides.
    """
    largest = 1.0
    for k in range(raw.shape[0]):
        if not math.isfinite(raw[k]):
            return -1
        largest = max(largest, abs(raw[k]))
    if not margin_of(raw) > NEAR * largest:
        return -1
    score_row(raw, link, gain, out)
    return int(choose_row(raw, out, rule))


@njit(inline="always")
def bound_shares(low: Floats, high: Floats, out: Floats) -> None:
    """Least and most share of each in a sum of (K,) numbers from `low` to `high`.

    Least is the share of the own low among the others' high. Where sums are too small
    to be added up, anything is possible.
    """
    above = below = 0.0
    for k in range(low.shape[0]):  # sums of those before
        out[2 * k], out[2 * k + 1] = above, below
        above += high[k]
        below += low[k]
    above = below = 0.0
    for k in range(low.shape[0] - 1, -1, -1):
        least = low[k] + (out[2 * k] + above)
        most = high[k] + (out[2 * k + 1] + below)
        above += high[k]
        below += low[k]
        out[2 * k] = low[k] / least if least > LEAST_SUM else 0.0
        out[2 * k + 1] = high[k] / most if most > LEAST_SUM else 1.0


@njit(
    void(FLOATS, FLOATS_2D, FLOATS_2D, int64, int64, float64, FLOATS, float64[::1]),
    **ONE_ROW,
)
def bound_scores(
    raw: Floats,
    least: Floats,
    most: Floats,
    at: int,
    link: int,
    gain: float,
    rounding: Floats,
    out: Floats,
) -> None:
    """Bounds of the class scores of sums that are not whole: `out` (2 K,), in pairs.

    To raw score k the base models after position `at` add from `least[at, k]` to
    `most[at, k]`. `rounding` is by how much class scores are widened, and the least
    and the most that one may be.
    """
    count = raw.shape[0]
    low, high = np.empty(count), np.empty(count)
    for k in range(count):
        low[k], high[k] = raw[k] + least[at, k], raw[k] + most[at, k]
    if link == EACH:
        for k in range(count):
            low[k], high[k] = logistic(gain * low[k]), logistic(gain * high[k])
    elif link == SOFTMAX:
        top = high.max()
        for k in range(count):
            low[k] = math.exp(gain * (low[k] - top))
            high[k] = math.exp(gain * (high[k] - top))
    elif link != MARGIN:
        for k in range(count):
            low[k] = probability(gain * low[k], link)
            high[k] = probability(gain * high[k], link)
    if link in (MARGIN, EACH):
        for k in range(count):
            out[2 * k], out[2 * k + 1] = low[k], high[k]
    else:
        bound_shares(low, high, out)
    for k in range(count):
        out[2 * k] = max(out[2 * k] - rounding[0], rounding[1])
        out[2 * k + 1] = min(out[2 * k + 1] + rounding[0], rounding[2])
