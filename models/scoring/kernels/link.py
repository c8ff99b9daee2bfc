"""Compiled last step of classifiers: compute class scores, and choose the class.

A row has R raw scores: one if the model has a binary margin, else one for each of K
classes. Kernels check nothing: `Head` in `classifier.py` checks its settings.
"""

import math

import numpy as np
from numba import float64, int64, void
from numpy.typing import NDArray

from ..model import Floats
from ..stopping_rule import NEAR
from .cached_njit import ONE_ROW, OPTIONS, njit
from .native import FLOATS, FLOATS_2D, copy
from .stopping_rule import margin_of

# Links: functions from raw scores to class scores.
MARGIN, LOGISTIC, SOFTMAX, HUBER, EACH = range(5)
# Rules of the choice: class 1 if the margin is > 0, or >= 0; or the class with the
# largest raw score, or the largest class score (the first of ties).
POSITIVE, NOT_NEGATIVE, LARGEST, LARGEST_SCORE = range(4)
# Sums of shares below this limit underflow or round too much.
LEAST_SUM = 1e-280


@njit(float64(float64), **OPTIONS)
def logistic(margin: float) -> float:
    """Return 1 / (1 + exp(-margin)), without overflow."""
    if margin >= 0.0:
        return 1.0 / (1.0 + math.exp(-margin))
    power = math.exp(margin)
    return power / (1.0 + power)


@njit(float64(float64, int64), **OPTIONS)
def probability(margin: float, link: int) -> float:
    """Map a margin to [0, 1] by Huber's function if `link` is HUBER, else the logistic.

    NaN stays NaN.
    """
    if link == HUBER:
        return (min(max(margin, -1.0), 1.0) + 1.0) / 2.0
    share: float = logistic(margin)
    return share


@njit(void(FLOATS, float64, float64[::1]), **OPTIONS)
def softmax(raw: Floats, gain: float, out: Floats) -> None:
    """Write the softmax of `gain * raw` (R,) to `out` (R,).

    If some raw scores are +inf, they share the probability equally, and all others get
    0.
    """
    largest = raw[0]
    for k in range(1, raw.shape[0]):
        largest = max(largest, raw[k])
    total = 0.0
    for k in range(raw.shape[0]):
        out[k] = 1.0 if raw[k] == largest else math.exp(gain * (raw[k] - largest))
        total += out[k]
    for k in range(raw.shape[0]):
        out[k] /= total


@njit(void(FLOATS, int64, float64, float64[::1]), **OPTIONS)
def shares(raw: Floats, link: int, gain: float, out: Floats) -> None:
    """Write the probabilities of K classes to `out` (K,), scaled so that they sum to 1.

    The link maps `gain * raw[k]` to the probability of class k against all other
    classes. If all these are 0, each class gets 1 / K.
    """
    total = 0.0
    for k in range(raw.shape[0]):
        out[k] = probability(gain * raw[k], link)
        total += out[k]
    for k in range(raw.shape[0]):
        out[k] = 1.0 / raw.shape[0] if total == 0.0 else out[k] / total


@njit(inline="always")
def score_row(raw: Floats, link: int, gain: float, out: Floats) -> None:
    """Turn one row's raw scores (R,) into class scores, written to `out` (K,)."""
    if link == SOFTMAX:
        softmax(raw, gain, out)
    elif link == MARGIN and raw.shape[0] == out.shape[0]:
        copy(raw, out)
    elif link == EACH:  # one against the rest, not normalised
        for k in range(raw.shape[0]):
            out[k] = logistic(gain * raw[k])
    elif link == MARGIN:
        out[0], out[1] = -raw[0], raw[0]
    elif raw.shape[0] == 1:
        out[1] = probability(gain * raw[0], link)
        out[0] = 1.0 - out[1]
    else:
        shares(raw, link, gain, out)


@njit(void(FLOATS_2D, int64, float64, float64[:, ::1]), **OPTIONS)
def class_scores(raw: Floats, link: int, gain: float, out: Floats) -> None:
    """Turn the raw scores (N, R) of rows into class scores, written to `out` (N, K)."""
    for i in range(raw.shape[0]):
        score_row(raw[i], link, gain, out[i])


@njit(int64(FLOATS), **OPTIONS)
def first_largest(values: Floats) -> int:
    """Return the position of the largest value or first NaN, as numpy.argmax does."""
    best = 0
    for k in range(values.shape[0]):
        if math.isnan(values[k]):
            return k
        if values[k] > values[best]:
            best = k
    return best


@njit(inline="always")
def choose_row(raw: Floats, scores: Floats, rule: int) -> int:
    """Return the class, 0 to K - 1, that `rule` chooses for one row."""
    if rule == POSITIVE:
        return int(raw[0] > 0.0)
    if rule == NOT_NEGATIVE:
        return int(raw[0] >= 0.0)
    if rule == LARGEST:
        return int(first_largest(raw))
    return int(first_largest(scores))


@njit(void(FLOATS_2D, FLOATS_2D, int64, int64[::1]), **OPTIONS)
def choices(raw: Floats, scores: Floats, rule: int, out: NDArray[np.int64]) -> None:
    """Write the class, 0 to K - 1, that `rule` chooses for each row to `out` (N,)."""
    for i in range(raw.shape[0]):
        out[i] = choose_row(raw[i], scores[i], rule)


@njit(int64(FLOATS, int64, int64, float64, float64[::1]), **ONE_ROW)
def answer_one(raw: Floats, link: int, rule: int, gain: float, out: Floats) -> int:
    """Write one row's class scores to `out` (K,); return its class, 0 to K - 1."""
    score_row(raw, link, gain, out)
    return int(choose_row(raw, out, rule))


@njit(int64(FLOATS, int64, int64, float64, float64[::1]), **ONE_ROW)
def choose_whole(raw: Floats, link: int, rule: int, gain: float, out: Floats) -> int:
    """Choose the class of a row that did not stop early, by its sums `raw` (K,).

    Writes the class scores to `out` (K,), and returns the class, 0 to K - 1. If the two
    largest sums are almost equal, or a sum is not finite, returns -1 and writes
    nothing.
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


@njit(void(float64[::1], float64, float64), **ONE_ROW)
def follow_line(sums: Floats, offset: float, slope: float) -> None:
    """Replace sums (K,) by `offset + slope * sums`, in place."""
    for k in range(sums.shape[0]):
        sums[k] = offset + slope * sums[k]


@njit(inline="always")
def bound_shares(low: Floats, high: Floats, out: Floats) -> None:
    """Bound x[k] / sum(x) for numbers x (K,) that lie between `low` and `high`.

    Writes the smallest and the largest possible ratio for each k to `out` (2 K,), in
    pairs. If a sum is too small to divide by accurately, the bounds are 0 and 1.
    """
    above = below = 0.0
    for k in range(low.shape[0]):  # sums of the classes before k
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
    """Bound the class scores that a row could reach after an early stop.

    Writes the smallest and the largest possible score of each class to `out` (2 K,), in
    pairs. `raw` (K,) are the sums with which the row stopped. The base models after
    position `at` would add between `least[at, k]` and `most[at, k]` to `raw[k]`.
    `rounding` (3,) is the result of `class_score_bounds.rounding_of`.
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
