"""Choosing a schedule whose rate of changed decisions holds on fresh rows."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .schedule import Promise, Schedule

MARGINS = (2.0, 1.5, 1.0, 0.75, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.0)


def upper_bound(changed: int, rows: int, confidence: float) -> float:
    """Clopper and Pearson's one-sided upper bound on a binomial share.

    The largest share under which `changed` or fewer of `rows` still have probability
    at least 1 - confidence; 1 where nothing can be said.
    """
    from scipy.special import betaincinv

    if changed >= rows:
        return 1.0
    return float(betaincinv(changed + 1, rows - changed, confidence))


def calibrate(
    ladder: Iterable[Schedule],
    scores: NDArray[np.float64],
    alpha: float,
    confidence: float,
) -> Schedule:
    """Last schedule of the ladder up to which all keep to `alpha` on these rows.

    The ladder goes from the most careful schedule to the boldest and is fixed before
    the calibration `scores` (M, T) are seen. Each is tested at the full level and the
    first failure ends it (fixed-sequence testing): the chance that the one chosen has
    a true rate above `alpha` is at most 1 - confidence, without a correction for
    their number. What is promised is `alpha`: a smaller bound would be read off the
    rows that did the choosing. Where even the first fails, nothing stops early.
    """
    chosen = None
    for schedule in ladder:
        decisions, _ = schedule.evaluate(scores)
        full = scores.sum(axis=1) >= schedule.threshold
        changed = int(np.count_nonzero(decisions != full))
        if upper_bound(changed, len(scores), confidence) > alpha:
            break
        promise = Promise(alpha, confidence, len(scores), changed)
        chosen = replace(schedule, promise=promise)
    return chosen or never_stopping(schedule, Promise(0.0, confidence, len(scores), 0))


def widened(schedule: Schedule, scores: NDArray[np.float64]) -> Iterator[Schedule]:
    """Move a schedule's thresholds outwards, far first, then less, then not at all.

    What changes no decision on few rows may still change many on fresh ones, so a
    ladder begins with these. Each margin is a multiple of the standard deviation of
    what is still to be added, over the fitting `scores` (N, T).
    """
    rest = scores.sum(axis=1)
    spread = np.empty(len(schedule.order))
    for r, model in enumerate(schedule.order):
        rest -= scores[:, model]
        spread[r] = rest.std()
    for margin in MARGINS:
        lower, upper = (
            schedule.lower - margin * spread,
            schedule.upper + margin * spread,
        )
        yield replace(schedule, lower=lower, upper=upper)


def never_stopping(schedule: Schedule, promise: Promise) -> Schedule:
    """Give the schedule thresholds at which nothing stops."""
    never = np.full(len(schedule.order), np.inf)
    return replace(schedule, lower=-never, upper=never, promise=promise)


def fewest_rows(alpha: float, confidence: float) -> int:
    """Calibration rows needed to promise `alpha` > 0 when none of them changes."""
    return math.ceil(math.log1p(-confidence) / math.log1p(-alpha))
