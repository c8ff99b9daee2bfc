"""Choosing a schedule whose rate of changed decisions holds on fresh rows."""

import math
from bisect import bisect_right
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
Groups = NDArray[np.int64]

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


def most_changed(
    rows: int, alpha: float, confidence: float, groups: Groups | None = None
) -> float:
    """Decisions that may change among calibration rows for `alpha` to be promised.

    So few change with probability at most 1 - confidence wherever the true rate is
    above `alpha`; below 0 where none may, and still nothing could be promised.

    Without groups, rows are independent and the binomial distribution tells exactly.
    With groups, only these are: the share of a group's rows that change lies in [0, 1]
    whatever its rows have to do with each other. For n such shares, and t of their sum,
    Bentkus' bound (On Hoeffding's inequalities, Annals of Probability 32, 2004) says

        P(sum <= t) <= min over a > t of E max(a - B, 0) / (a - t),

    B binomial with n trials and the shares' mean: (a - x)+ is convex, and no sum of
    such variables is above B in convex order (Hoeffding, 1956 and 1963). Between whole
    numbers a ratio of linear functions has no minimum, so whole a are tried. Where no
    row changes it is as tight as the exact bound for n independent rows. Groups of
    several sizes count by their rows as shares of the largest's; the rate is then that
    of rows from groups of the sizes drawn.

    Parameters
    ----------
    rows
        M, at least 1.
    alpha, confidence
        In (0, 1).
    groups : (M,)
        Number of each row's group; None where every row is one of its own.
    """
    from scipy.special import bdtr

    sizes = np.ones(rows) if groups is None else group_sizes(groups)
    if sizes.max() == 1:
        counts = range(rows)
        bounds = bisect_right(
            counts, alpha, key=lambda changed: upper_bound(changed, rows, confidence)
        )
        return bounds - 1.0
    count, largest = len(sizes), float(sizes.max())
    chance = alpha * rows / (count * largest)
    whole = np.arange(1, math.ceil(count * chance) + 2)
    expected = np.cumsum(bdtr(whole - 1.0, count, chance))
    return largest * float((whole - expected / (1 - confidence)).max())


def group_sizes(groups: Groups) -> NDArray[np.int64]:
    """Rows of each group."""
    return np.unique(groups, return_counts=True)[1]


def calibrate(
    ladder: Iterable[AnySchedule],
    rows: Any,
    alpha: float,
    confidence: float,
    groups: Groups | None = None,
) -> AnySchedule:
    """Last schedule of the ladder up to which all keep to `alpha` on these rows.

    The ladder goes from the most careful schedule to the boldest and is fixed before
    the M calibration `rows` are seen, in the form that the schedules' `changed` takes.
    Each is tested at the full level (`most_changed`) and the first failure ends it
    (fixed-sequence testing): the chance that the one chosen has a true rate above
    `alpha` is at most 1 - confidence, without a correction for their number. What is
    promised is `alpha`: a smaller bound would be read off the rows that did the
    choosing. Where even the first fails, nothing stops early.
    """
    most = most_changed(len(rows), alpha, confidence, groups)
    chosen = None
    for schedule in ladder:
        changed = schedule.changed(rows)
        if changed > most:
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


def lacking_rows(
    rows: int, alpha: float, confidence: float, groups: Groups | None = None
) -> str:
    """Say how many calibration rows there are, where too few to promise anything."""
    if rows and most_changed(rows, alpha, confidence, groups) >= 0:
        return ""
    if groups is None or not rows or (sizes := group_sizes(groups)).max() == 1:
        return f"{rows} to calibrate on"
    return (
        f"{rows} to calibrate on, in {len(sizes)} groups, which weigh as much as "
        f"{rows / sizes.max():.3g} like the largest, of {sizes.max()}"
    )
