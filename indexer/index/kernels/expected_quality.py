"""Compiled choice of the next feature by expected quality; see `next_feature.py`.

Kernels never allocate memory, raise errors or check their arguments.
"""

import math

import numpy as np
from numba import boolean, float64, int32, int64
from numba.types import UniTuple
from numpy.typing import NDArray

from polydom.models.scoring.kernels.cached_njit import OPTIONS, njit
from polydom.models.scoring.kernels.native import FLOATS, FLOATS_2D, INTS, frozen

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ORDER, ORDERS = frozen(int32), frozen(int32, 2)

LEAST_GAIN = 1e-3  # least gain of quality: held-out items tell no smaller one
HOPELESS = 1e-3  # a later answer with a smaller chance adds nothing
LIKELY = 0.5  # work starts only for an answer with at least this chance


@njit(int64(INTS, FLOATS, int64), **OPTIONS)
def best_within(masks: Ints, qualities: Floats, done: int) -> int:
    """Return the row of the best candidate whose features are all computed.

    `masks` (C,) are the candidates' feature sets, `done` is the mask of computed
    features. Of equally good rows, the first is returned.
    """
    best = -1
    for row in range(masks.shape[0]):
        if masks[row] & ~done == 0 and (best < 0 or qualities[row] > qualities[best]):
            best = row
    return best


@njit(float64(float64, float64, float64, float64), **OPTIONS)
def chance_of(
    typical_s: float, excess: float, time_s: float, deviations: float
) -> float:
    """Return the chance that work of median time `typical_s` ends within `time_s`.

    The time is assumed to be log-normal. `excess` is (high time - median time)^2. The
    high time lies `deviations` standard deviations above the median, in logarithms. If
    `excess` is 0, the work takes exactly `typical_s`.
    """
    if not excess > 0.0:
        return 1.0 if typical_s <= time_s else 0.0
    if not time_s > 0.0:
        return 0.0
    spread = math.log1p(math.sqrt(excess) / typical_s) / deviations
    z = math.log(time_s / typical_s) / spread
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@njit(
    UniTuple(float64, 2)(int64, int64, FLOATS_2D, FLOATS_2D),
    inline="always",
    **OPTIONS,
)
def times_of(
    feature: int, steps: int, feature_s: Floats, step_s: Floats
) -> tuple[float, float]:
    """Return the median seconds of a feature with some steps, and their excess.

    `steps` is a mask. The excess is the sum, over the feature and the steps, of (high
    seconds - median seconds)^2.
    """
    typical_s = feature_s[0, feature]
    excess = (feature_s[1, feature] - typical_s) ** 2
    for step in range(step_s.shape[1]):
        if steps >> step & 1:
            typical_s += step_s[0, step]
            excess += (step_s[1, step] - step_s[0, step]) ** 2
    return typical_s, excess


@njit(
    float64(
        *(ORDER, FLOATS, INTS, FLOATS_2D, FLOATS_2D, int64, int64),
        *(float64, float64, float64, boolean),
    ),
    **OPTIONS,
)
def promise_of(
    order: NDArray[np.int32],
    gains: Floats,
    needs: Ints,
    feature_s: Floats,
    step_s: Floats,
    done: int,
    paid: int,
    quality: float,
    time_s: float,
    deviations: float,
    careful: bool,
) -> float:
    """Return the expected quality of computing the features of `order`, less the risk.

    The risk, 0 unless `careful`, is the expected loss of quality if the first feature
    takes too long. `gains` has the quality of the best answer after 0, 1, ... features
    of the order. `done` and `paid` are masks of the features and steps computed
    already, `quality` is the quality of the best answer so far, and `time_s` the
    seconds left. For other arguments see `most_promising`.
    """
    steps, typical_s, excess, chance = paid, 0.0, 0.0, 1.0
    secured = expected = quality
    begun, risk = False, 0.0
    for k in range(order.shape[0]):
        feature = order[k]
        if feature < 0:
            break
        if not done >> feature & 1:
            fresh = needs[feature] & ~steps
            steps |= fresh
            own_s, own_excess = times_of(feature, fresh, feature_s, step_s)
            high_s = own_s + math.sqrt(own_excess)
            if careful:  # a feature starts only if its high time is left then
                if high_s > time_s:
                    break
                before = chance_of(typical_s, excess, time_s - high_s, deviations)
                chance = min(chance, before)
                if not begun:
                    sure = chance_of(own_s, own_excess, time_s, deviations)
                    risk = (1.0 - sure) * quality
            typical_s += own_s
            excess += own_excess
            begun = True
        if gains[k + 1] > secured:
            chance = min(chance, chance_of(typical_s, excess, time_s, deviations))
            if chance < (LIKELY if secured == quality else HOPELESS):
                break
            expected += (gains[k + 1] - secured) * chance
            secured = gains[k + 1]
    return expected - risk


@njit(
    int64(
        *(INTS, ORDERS, FLOATS_2D, FLOATS, INTS, FLOATS_2D, FLOATS_2D),
        *(int64, int64, float64, float64, float64, boolean),
    ),
    **OPTIONS,
)
def most_promising(
    masks: Ints,
    orders: NDArray[np.int32],
    gains: Floats,
    model_s: Floats,
    needs: Ints,
    feature_s: Floats,
    step_s: Floats,
    withheld: int,
    done: int,
    quality: float,
    left: float,
    deviations: float,
    careful: bool,
) -> int:
    """Return the row with the largest expected quality; -1 if it is better to stop.

    Rows that need a feature in the mask `withheld` are skipped. `masks` (C,) are the
    feature sets of the rows, and `needs` (m,) the steps of each feature, as masks. The
    rows of `feature_s` (2, m) and `step_s` (2, s) are median and high seconds. The high
    seconds lie `deviations` standard deviations above the median. `left` is the time
    left in seconds. For `careful` see `AnytimeRule.target`.
    """
    paid = 0
    for feature in range(needs.shape[0]):
        if done >> feature & 1:
            paid |= needs[feature]
    best, target = quality + LEAST_GAIN, -1
    for row in range(orders.shape[0]):
        time_s = left - model_s[row]
        if masks[row] & withheld != 0 or not time_s > 0.0:
            continue
        order, own = orders[row], gains[row]
        known = needs, feature_s, step_s, done, paid, quality
        promise = promise_of(order, own, *known, time_s, deviations, careful)
        if promise > best:
            best, target = promise, row
    return target
