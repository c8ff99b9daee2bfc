"""Choosing a schedule whose rate of changed decisions holds on fresh rows."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .exits import Exits
from .lead import LeadSchedule
from .schedule import Promise, Schedule
from .track import Track

AnySchedule = TypeVar("AnySchedule", Schedule, LeadSchedule, Exits)
Floats = NDArray[np.float64]

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
    ladder: Iterable[AnySchedule],
    rows: Any,
    alpha: float,
    confidence: float,
) -> AnySchedule:
    """Last schedule of the ladder up to which all keep to `alpha` on these rows.

    The ladder goes from the most careful schedule to the boldest and is fixed before
    the M calibration `rows` are seen, in the form that the schedules' `changed` takes.
    Each is tested at the full level and the first failure ends it (fixed-sequence
    testing): the chance that the one chosen has a true rate above `alpha` is at most
    1 - confidence, without a correction for their number. What is promised is
    `alpha`: a smaller bound would be read off the rows that did the choosing. Where
    even the first fails, nothing stops early.
    """
    chosen = None
    for schedule in ladder:
        changed = schedule.changed(rows)
        if upper_bound(changed, len(rows), confidence) > alpha:
            break
        promise = Promise(alpha, confidence, len(rows), changed)
        chosen = replace(schedule, promise=promise)
    if chosen is not None:
        return chosen
    nothing = Promise(0.0, confidence, len(rows), 0)
    return replace(schedule.wider(np.inf), promise=nothing)


def widened(schedule: AnySchedule, spread: Floats) -> Iterator[AnySchedule]:
    """Move a schedule's thresholds outwards, far first, then less, then not at all.

    What changes no decision on few rows may still change many on fresh ones, so a
    ladder begins with these: multiples of `spread` (T,).
    """
    for margin in MARGINS:
        yield schedule.wider(margin * spread)


def spread_of(track: Track, count: int) -> Floats:
    """Find the standard deviation, at each position, of what is still to come."""
    track.restart()
    rows = np.arange(len(track.final))
    steps = (track.step(r, rows)[0] for r in range(count))
    return np.array([np.std(track.final - values) for values in steps])


def fewest_rows(alpha: float, confidence: float) -> int:
    """Calibration rows needed to promise `alpha` > 0 when none of them changes."""
    return math.ceil(math.log1p(-confidence) / math.log1p(-alpha))
