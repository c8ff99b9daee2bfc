"""Choose a schedule that changes at most the share alpha of decisions on new rows.

Calibration rows prove this, with a given confidence.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import Field, dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from .schedule import Promise

Floats = NDArray[np.float64]
Groups = NDArray[np.int64]
Thresholds = tuple[Floats, Floats]  # lower and upper thresholds, (T,) each

RUNGS = 48  # schedules of a ladder after its first schedules, of widened thresholds
# Standard deviations by which the first schedules widen the thresholds.
MARGINS = (2.0, 1.5, 1.0, 0.75, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.0)


class Calibrated(Protocol):
    """Protocol of schedules that can be calibrated.

    They are dataclasses with an attribute `promise`.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def changed(self, *rows: Any) -> int:
        """Return how many rows stop early with a decision other than the ensemble's."""

    def without_stops(self) -> Self:
        """Return a schedule with the same order, in which no row stops early."""


AnySchedule = TypeVar("AnySchedule", bound=Calibrated)


@dataclass(frozen=True, slots=True)
class FreshRows:
    """Calibration rows with their decisions.

    The rows are read in parts, so that not all scores are in memory at once.
    """

    count: int  # Number of all rows, M
    # Function that yields the (scores, decisions) of each part in turn
    read: Callable[[], Iterator[tuple[Any, ...]]]

    def __len__(self) -> int:
        return self.count


class Fitter(Protocol):
    """Protocol of objects that fit thresholds to one order of base models."""

    def within(self, alpha: float) -> Thresholds:
        """Return thresholds that change at most the share `alpha` of the decisions."""

    def ladder(self) -> Iterator[Thresholds]:
        """Yield thresholds to calibrate, by increasing number of changed decisions."""


def fit_to_rate(
    fitter: Fitter,
    schedule: Callable[[Floats, Floats], AnySchedule],
    alpha: float,
    confidence: float | None,
    rows: tuple[Any, ...] | FreshRows,
    groups: Groups | None,
) -> AnySchedule:
    """Return a schedule that changes at most the share `alpha` of the decisions.

    `schedule` makes a schedule from lower and upper thresholds, which `fitter`
    computes. Without `confidence`, the share holds for the rows of `fitter`. With
    `confidence`, the share also holds for new rows: the schedule is calibrated on
    `rows` (see `calibrate`).
    """
    if confidence is None:
        return schedule(*fitter.within(alpha))
    ladder = (schedule(*thresholds) for thresholds in fitter.ladder())
    return calibrate(ladder, rows, alpha, confidence, groups)


def calibrate(
    ladder: Iterable[AnySchedule],
    rows: tuple[Any, ...] | FreshRows,
    alpha: float,
    confidence: float,
    groups: Groups | None = None,
) -> AnySchedule:
    """Return the last schedule of a ladder for which a test on M fresh rows passes.

    The test proves that a schedule changes at most the share `alpha` of decisions on
    new rows. The ladder begins with the schedule that changes the fewest decisions, and
    must be fixed before `rows` are seen. Each schedule is tested at the full level 1 -
    confidence (see `most_changed`), and the first failure ends the search
    (fixed-sequence testing). So the probability that the chosen schedule changes more
    than `alpha` of new decisions is at most 1 - confidence. Only the bound `alpha` is
    promised: a tighter bound computed from `rows` would be invalid, because the same
    rows chose the schedule. If the first schedule fails, the result has no early exits.
    """
    count = len(rows) if isinstance(rows, FreshRows) else len(rows[0])
    parts = rows.read() if isinstance(rows, FreshRows) else iter([rows])
    most = most_changed(count, alpha, confidence, groups)
    rungs = iter(ladder)
    careful = next(rungs)
    counted: Iterable[tuple[AnySchedule, int]]
    counted = ((schedule, 0) for schedule in chain([careful], rungs))
    for part in parts:
        counted = keep_within(counted, part, most)
    if kept := list(counted):
        schedule, changed = kept[-1]
        return replace(schedule, promise=Promise(alpha, confidence, count, changed))
    nothing = Promise(0.0, confidence, count, 0)
    return replace(careful.without_stops(), promise=nothing)


def keep_within(
    counted: Iterable[tuple[AnySchedule, int]], part: tuple[Any, ...], most: float
) -> list[tuple[AnySchedule, int]]:
    """Add each schedule's number of changed decisions in `part` to its count.

    `counted` has (schedule, count so far) pairs. Returns these pairs with the new
    counts, without the first pair whose count exceeds `most` and those after it.
    """
    kept = []
    for schedule, before in counted:
        changed = before + schedule.changed(*part)
        if changed > most:
            break
        kept.append((schedule, changed))
    return kept


def widened(lower: Floats, upper: Floats, spread: Floats) -> Iterator[Thresholds]:
    """Yield (lower - m * spread, upper + m * spread) for falling factors m."""
    for margin in MARGINS:
        yield lower - margin * spread, upper + margin * spread


def upper_bound(changed: int, rows: int, confidence: float) -> float:
    """Return an upper bound on the probability that a schedule changes a decision.

    `changed` is the number of changed decisions among `rows` independent rows. The
    bound is Clopper and Pearson's, one-sided.
    """
    from scipy.special import betaincinv

    if changed >= rows:
        return 1.0
    return float(betaincinv(changed + 1, rows - changed, confidence))


def most_changed(
    rows: int, alpha: float, confidence: float, groups: Groups | None = None
) -> float:
    """Return the largest number of changed calibration decisions that proves `alpha`.

    For a schedule that changes more than the share `alpha` of new decisions, the
    probability that it changes at most this number of calibration decisions is at most
    1 - confidence. The result is below 0 if there are too few rows for a proof.

    Without groups, rows are independent, and the number of changed decisions is
    binomial.

    With `groups` (M,), a group number for each row, only groups are independent. A
    group's number of changed rows, divided by the size of the largest group, lies in
    [0, 1], however the group's rows depend on each other. For the sum S of these ratios
    over n groups, Bentkus' bound (On Hoeffding's inequalities, Annals of Probability
    32, 2004) says

        P(S <= t) <= min over a > t of E max(a - B, 0) / (a - t),

    where B is binomial, with n trials and the same mean as S. The bound holds because
    max(a - x, 0) is convex in x, and S is at most B in convex order (Hoeffding, 1956
    and 1963). Only whole numbers a are tried, as one of them attains the minimum.
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


def number_groups(groups: Any, rows: int, what: str = "rows") -> Groups:
    """Return each row's group as a number from 0, shape (N,).

    Raises BadInput unless `groups` has `rows` values of one type.
    """
    given = np.asarray(groups)
    if given.shape != (rows,):
        raise BadInput(
            f"groups have shape {given.shape}; one of each of the {rows} {what} is "
            "needed"
        )
    try:
        return np.unique(given, return_inverse=True)[1]
    except TypeError as error:
        raise BadInput(
            f"groups must all be numbers, or all be texts: {error}"
        ) from error


def group_sizes(groups: Groups) -> NDArray[np.int64]:
    """Return the number of rows in each group."""
    return np.unique(groups, return_counts=True)[1]


def fewest_rows(alpha: float, confidence: float) -> int:
    """Return the smallest number of calibration rows that can prove `alpha` > 0.

    This number suffices only if the schedule changes none of their decisions.
    """
    return math.ceil(math.log1p(-confidence) / math.log1p(-alpha))


def lacking_rows(
    rows: int, alpha: float, confidence: float, groups: Groups | None = None
) -> str:
    """Return a description of too few calibration rows, for an error; "" if enough."""
    if rows and most_changed(rows, alpha, confidence, groups) >= 0:
        return ""
    if groups is None or not rows or (sizes := group_sizes(groups)).max() == 1:
        return f"{rows} to calibrate on"
    return (
        f"{rows} to calibrate on, in {len(sizes)} groups, which weigh as much as "
        f"{rows / sizes.max():.3g} like the largest, of {sizes.max()}"
    )


def check_rate(
    alpha: float,
    confidence: float | None,
    calibration: Sized | None,
    groups: Groups | None,
    decisions: object = None,
    calibration_decisions: object = None,
) -> None:
    """Check the arguments of `fit_schedule` that concern calibration.

    Raises BadInput if `alpha` or `confidence` is out of range, arguments that need each
    other are not given together, or there are too few calibration rows.
    """
    if not 0 <= alpha < 1:
        raise BadInput(f"alpha is {alpha!r}; it must be in [0, 1)")
    if confidence is None:
        given = {
            "calibration rows": calibration,
            "groups": groups,
            "calibration_decisions": calibration_decisions,
        }
        for name, part in given.items():
            if part is not None:
                raise BadInput(f"{name} are given without a confidence")
        return
    if not 0 < confidence < 1:
        raise BadInput(f"confidence is {confidence!r}; it must be in (0, 1)")
    if calibration is None:
        raise BadInput(
            f"confidence {confidence:g} needs calibration rows, used for nothing else; "
            "without them nothing can be promised about fresh rows"
        )
    if alpha == 0:
        raise BadInput(
            "alpha is 0, which no number of calibration rows can show; it must be "
            "above 0 when a confidence is given"
        )
    if groups is not None:
        groups = number_groups(groups, len(calibration), "calibration rows")
    if too_few := lacking_rows(len(calibration), alpha, confidence, groups):
        raise BadInput(
            f"of calibration rows there are {too_few}; alpha {alpha:g} with confidence "
            f"{confidence:g} needs at least {fewest_rows(alpha, confidence)} that are "
            "independent"
        )
    known = calibration_decisions is not None or isinstance(calibration, FreshRows)
    if known != (decisions is not None):
        raise BadInput(
            "decisions and calibration_decisions are needed together: a promise is "
            "about the ensemble's own"
        )
