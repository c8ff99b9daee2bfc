"""Choose a schedule that changes at most a share of each class's decisions on new rows.

Calibration rows prove this, with a given confidence.
"""

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import Field, dataclass, replace
from itertools import chain, tee
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput, TooFewRows

from .confidence_bound import (
    Groups,
    fewest_rows,
    lacking_rows,
    most_changed,
    number_groups,
)
from .promise import Promise
from .schedule import Schedule

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]
Thresholds = tuple[Floats, Floats]  # lower and upper thresholds, (T,) each

RUNGS = 48  # schedules of a ladder after its first schedules, of widened thresholds
# Standard deviations by which the first schedules widen the thresholds.
MARGINS = (2.0, 1.5, 1.0, 0.75, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.0)


class Calibrated(Protocol):
    """Protocol of schedules that can be calibrated.

    They are dataclasses with an attribute `promise`.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def changed(self, *rows: Any) -> Rows:
        """Return the ensemble's decisions for the rows that early exits change."""

    def without_stops(self) -> Self:
        """Return a schedule with the same order, in which no row stops early."""


AnySchedule = TypeVar("AnySchedule", bound=Calibrated)


@dataclass(frozen=True, slots=True, eq=False)
class FreshRows:
    """Calibration rows with the whole ensemble's decisions.

    The rows are read in parts, so that not all scores are in memory at once.
    """

    decisions: NDArray[Any]  # (M,): Positions of the classes, or bool for two classes
    # Function that yields the arguments of `Calibrated.changed` for each part in turn
    read: Callable[[], Iterator[tuple[Any, ...]]]

    def __len__(self) -> int:
        return len(self.decisions)

    @classmethod
    def of(cls, decisions: NDArray[Any], *part: Any) -> "FreshRows":
        """Make calibration rows of a single part, given as `changed` takes it."""
        return cls(decisions, lambda: iter([part]))


@dataclass(frozen=True, slots=True, eq=False)
class ClassTests:
    """Tests of a schedule on calibration rows, one test for each of K classes.

    The rows that the whole ensemble decides as class k are a random sample of all such
    rows. So the number of changed ones among them proves an upper bound on the share of
    new such rows that change (`most_changed`).

    Every class has a test of its own, and each class's test is made at its own level:

    * If one ladder of schedules is calibrated for all classes, a schedule passes only
      if all tests pass. Each test is at the full level 1 - confidence. For a schedule
      that changes too much of at least one class, that class's test alone passes with
      at most this probability, and so do all tests together (an intersection-union
      test: Berger, 1982).
    * If the two sides of a schedule for two classes are calibrated `apart`, two
      schedules are chosen, and either choice may be wrong. So the level is divided
      between the classes, in inverse proportion to their numbers of rows: a class of
      many rows loses nothing by a smaller level (Bonferroni, with weights). The numbers
      are known before any decision is counted, and the tests are valid given them.

    In both cases all bounds hold together with the given confidence.
    """

    alphas: Floats  # (K,): Shares of the classes' decisions that may change
    confidence: float
    rows: Rows  # (K,): Numbers of calibration rows that are decided as the classes
    # (K,): Largest numbers of changed decisions that prove the shares. Below 0 for a
    # class of which nothing can be proven: none of its decisions may change.
    most: Floats

    @classmethod
    def of(
        cls,
        decisions: NDArray[Any],
        alphas: Floats,
        confidence: float,
        groups: Groups | None = None,
        *,
        apart: bool = False,
    ) -> "ClassTests":
        """Make the tests for calibration rows with these decisions (M,)."""
        codes = np.asarray(decisions, np.int64)
        rows = np.bincount(codes, minlength=len(alphas))
        tested = (alphas > 0) & (rows > 0)
        while True:
            most = np.full(len(alphas), -1.0)
            weights = 1 / rows[tested] if apart else np.ones(tested.sum())
            doubts = (1 - confidence) * weights / (weights.sum() if apart else 1.0)
            for k, doubt in zip(np.flatnonzero(tested), doubts, strict=True):
                own = None if groups is None else groups[codes == k]
                most[k] = most_changed(rows[k], alphas[k], 1 - doubt, own)
            lacking = tested & (most < 0)
            if not (apart and lacking.any()):
                return cls(alphas, confidence, rows, most)
            # The level of a class that proves nothing is better spent on the others.
            tested[np.argmin(np.where(lacking, rows, len(codes) + 1))] = False

    def shortage(
        self, decisions: NDArray[Any], groups: Groups | None
    ) -> tuple[int, str, int]:
        """Return (class, description of its rows, number of rows needed).

        The class has the most rows of those with a share above 0. `decisions` and
        `groups` (M,) are those of the calibration rows.
        """
        k = int(np.where(self.alphas > 0, self.rows, -1).argmax())
        alpha, sure = float(self.alphas[k]), self.confidence
        own = None if groups is None else groups[np.asarray(decisions, np.int64) == k]
        there = lacking_rows(int(self.rows[k]), alpha, sure, own)
        return k, there, fewest_rows(alpha, sure)

    @property
    def lacking(self) -> Flags:
        """Mask (K,) of the classes none of whose decisions may change."""
        lacking: Flags = self.most < 0
        return lacking

    def promise(self, changed: Rows) -> Promise:
        """Return the promise of schedules that passed, with `changed` (K,) decisions.

        Only the bounds `alphas` are promised: tighter bounds computed from these rows
        would be invalid, because the same rows chose the schedule.
        """
        bounds = np.where(self.lacking, 0.0, self.alphas)
        counts = self.rows.tolist(), changed.tolist()
        return Promise(tuple(bounds.tolist()), self.confidence, *map(tuple, counts))

    def of_nothing(self) -> Promise:
        """Return the promise of a schedule in which no row stops early."""
        none = np.zeros_like(self.rows)
        return replace(self.promise(none), bounds=(0.0,) * len(none))


def calibrate(
    ladder: Iterable[AnySchedule], rows: FreshRows, tests: ClassTests
) -> AnySchedule:
    """Return the last schedule of a ladder that passes the tests on calibration rows.

    The ladder begins with the schedule that changes the fewest decisions, and must be
    fixed before `rows` are seen. Each schedule is tested at the full level, and the
    first failure ends the search (fixed-sequence testing). So the probability that the
    chosen schedule changes more than the promised share of any class is at most 1 -
    confidence. The schedules of the ladder must not be able to change a decision for a
    `lacking` class. If the first schedule fails, the result has no early exits.
    """
    rungs = iter(ladder)
    careful = next(rungs)
    if not tests.lacking.all():
        (passed,) = last_passing([chain([careful], rungs)], rows, tests)
        if passed is not None:
            schedule, changed = passed
            return replace(schedule, promise=tests.promise(changed))
    return replace(careful.without_stops(), promise=tests.of_nothing())


def calibrate_sides(
    ladder: Iterator[Thresholds],
    schedule: Callable[[Floats, Floats], Schedule],
    rows: FreshRows,
    tests: ClassTests,
    proven: Thresholds,
) -> Schedule:
    """Choose the lower and the upper thresholds of a schedule apart.

    Only low stops change rows that the whole ensemble decides as positive, only high
    stops the others. So lower thresholds are calibrated on positive rows and without
    any upper thresholds, and upper thresholds likewise, each as in `calibrate`.

    The schedule of both sides keeps what either side has shown. Take positive rows; the
    others are alike. Upper thresholds can only stop such a row as positive before it
    would stop low. A lower threshold that is reduced changes no more of them: a row
    that stops below the reduced one stopped below the greater one, there or earlier. So
    thresholds that cross may meet in the middle.

    The thresholds of a side may be as bold as `proven` limits, beyond which no base
    model that is left can overrule the decision. A side has these limits alone if it
    would change decisions for a `lacking` class, or if its first thresholds fail.
    `schedule` makes a schedule from lower and upper thresholds.
    """
    below, above = proven
    never = np.full(len(below), np.inf)
    low, high = tee(ladder)
    sides: list[Iterable[Schedule]] = [[], []]
    if not tests.lacking[1]:
        sides[0] = (schedule(lower, never) for lower, _ in low)
    if not tests.lacking[0]:
        sides[1] = (schedule(-never, upper) for _, upper in high)
    changed = np.zeros(2, np.int64)
    lower, upper = below, above
    lows, highs = last_passing(sides, rows, tests)
    if lows is not None:
        lower, changed = np.maximum(lower, lows[0].lower), changed + lows[1]
    if highs is not None:
        upper, changed = np.minimum(upper, highs[0].upper), changed + highs[1]
    promise = tests.promise(changed)
    passed = highs is not None, lows is not None
    bounds = np.where(passed, promise.bounds, 0.0)
    promise = replace(promise, bounds=tuple(bounds.tolist()))
    return replace(schedule(*meeting(lower, upper)), promise=promise)


def meeting(lower: Floats, upper: Floats) -> Thresholds:
    """Return thresholds that no longer cross: both are in the middle where they did."""
    crossed = lower > upper
    with np.errstate(invalid="ignore"):  # thresholds that do not cross may be infinite
        middle = lower / 2 + upper / 2
    return np.where(crossed, middle, lower), np.where(crossed, middle, upper)


def last_passing(
    ladders: list[Iterable[AnySchedule]], rows: FreshRows, tests: ClassTests
) -> list[tuple[AnySchedule, Rows] | None]:
    """Return the last schedule of each ladder before the first that fails a test.

    With it comes the number of changed decisions of each class, (K,). The entry is None
    for a ladder whose first schedule fails, and for an empty ladder. `rows` are read
    once for all ladders.
    """
    none = np.zeros(len(tests.alphas), np.int64)
    counted: list[Iterable[tuple[AnySchedule, Rows]]]
    counted = [((schedule, none) for schedule in ladder) for ladder in ladders]
    for part in rows.read():
        counted = [keep_within(own, part, tests) for own in counted]
    kept = [list(own) for own in counted]
    return [own[-1] if own else None for own in kept]


def keep_within(
    counted: Iterable[tuple[AnySchedule, Rows]],
    part: tuple[Any, ...],
    tests: ClassTests,
) -> list[tuple[AnySchedule, Rows]]:
    """Add each schedule's numbers of changed decisions in `part` to its counts.

    `counted` has pairs of a schedule and its counts (K,) so far. Returns these pairs
    with the new counts, without the first pair that fails a test and those after it.
    """
    most = np.maximum(tests.most, 0.0)
    kept = []
    for schedule, before in counted:
        codes = schedule.changed(*part)
        changed = before + np.bincount(codes, minlength=len(most))
        if (changed > most).any():
            break
        kept.append((schedule, changed))
    return kept


def widened(lower: Floats, upper: Floats, spread: Floats) -> Iterator[Thresholds]:
    """Yield (lower - m * spread, upper + m * spread) for falling factors m."""
    for margin in MARGINS:
        yield lower - margin * spread, upper + margin * spread


def check_confidence(
    alphas: Floats,
    confidence: float | None,
    calibration: Sized | None,
    groups: Any,
    decisions: object = None,
    calibration_decisions: object = None,
) -> Groups | None:
    """Check the arguments of `fit_schedule` that concern calibration.

    Returns `groups` as numbers (M,). Raises BadInput if `confidence` is out of range,
    or arguments that need each other are not given together.
    """
    if confidence is None:
        given = {
            "calibration rows": calibration,
            "groups": groups,
            "calibration_decisions": calibration_decisions,
        }
        for name, part in given.items():
            if part is not None:
                raise BadInput(f"{name} are given without a confidence")
        return None
    if not 0 < confidence < 1:
        raise BadInput(f"confidence is {confidence!r}; it must be in (0, 1)")
    if calibration is None:
        raise BadInput(
            f"confidence {confidence:g} needs calibration rows, used for nothing else; "
            "without them nothing can be promised about fresh rows"
        )
    if not alphas.any():
        raise BadInput(
            "alpha is 0, which no number of calibration rows can show; it must be "
            "above 0 for one class when a confidence is given"
        )
    known = calibration_decisions is not None or isinstance(calibration, FreshRows)
    if known != (decisions is not None):
        raise BadInput(
            "decisions and calibration_decisions are needed together: a promise is "
            "about the ensemble's own"
        )
    if groups is None:
        return None
    return number_groups(groups, len(calibration), "calibration rows")


def make_tests(
    decisions: NDArray[Any],
    alphas: Floats,
    confidence: float,
    groups: Groups | None,
    *,
    apart: bool = False,
) -> ClassTests:
    """Make the tests of `ClassTests.of`; raise TooFewRows if none can be passed."""
    tests = ClassTests.of(decisions, alphas, confidence, groups, apart=apart)
    if not tests.lacking.all():
        return tests
    k, there, needed = tests.shortage(decisions, groups)
    raise TooFewRows(
        f"of calibration rows that the ensemble decides as the same class there are "
        f"{there}; alpha {alphas[k]:g} with confidence {confidence:g} needs at least "
        f"{needed} that are independent"
    )
