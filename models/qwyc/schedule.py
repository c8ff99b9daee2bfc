"""Schedules: an order of base models, and the thresholds at which rows stop early."""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..scoring.rows import as_numbers
from .kernels.follow_schedule import follow_limits, follow_margins
from .promise import Promise

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
SHAPES = {
    1: "a row per example, a column per base model",
    2: "examples, base models, classes",
}


@dataclass(frozen=True, slots=True, eq=False)
class _Ordered:
    """What `Schedule` and `MarginSchedule` share: a checked order, and its limits."""

    order: NDArray[np.int64]
    # For each array of limits by name, the limit that never stops a row
    never: ClassVar[dict[str, float]]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    def __post_init__(self) -> None:
        parts = {"order": np.asarray(self.order)}
        if parts["order"].dtype.kind not in "iu":
            raise BadInput(
                f"schedule: order is {parts['order'].dtype}; it must be whole numbers"
            )
        for name in self.never:
            parts[name] = np.ascontiguousarray(getattr(self, name), np.float64)
        count = parts["order"].size
        if count == 0 or any(part.shape != (count,) for part in parts.values()):
            *names, last = parts
            *shapes, last_shape = (str(part.shape) for part in parts.values())
            raise BadInput(
                f"schedule: {', '.join(names)} and {last} have shapes "
                f"{', '.join(shapes)} and {last_shape}; they must be equally long and "
                "not empty"
            )
        if not np.array_equal(np.sort(parts["order"]), np.arange(count)):
            raise BadInput(f"schedule: order is not a permutation of 0 ... {count - 1}")
        parts["order"] = np.ascontiguousarray(parts["order"], np.int64)
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `load_early_exit` restores this schedule from."""
        promise: Promise | None = getattr(self, "promise")  # noqa: B009
        return {
            "order": self.order.astype(np.int32),
            **{name: getattr(self, name) for name in self.never},
            "promise": np.empty(0) if promise is None else promise.array(),
        }

    def evaluate(self, scores: Floats) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return each row's decision (N,), and its number of used base models (N,)."""
        raise NotImplementedError

    def without_stops(self) -> Self:
        """Return a schedule with the same order, in which no row stops early."""
        limits = {name: np.full(len(self.order), x) for name, x in self.never.items()}
        return replace(self, **limits)

    def changed(self, scores: Floats, decisions: NDArray[Any] | None = None) -> Codes:
        """Return the whole ensemble's decisions for the rows that exits change.

        These are the rows that stop early with another decision than `decisions` (N,),
        which are the whole ensemble's; if None, they are computed from the scores. A
        decision is the position of its class.
        """
        if decisions is None:
            decisions, _ = self.without_stops().evaluate(scores)
        answers, used = self.evaluate(scores)
        early = used < len(self.order)  # rows that do not stop get the full answer
        wrong = early & (answers != decisions)
        return np.asarray(decisions[wrong], np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Schedule(_Ordered):
    """The order of T base models, and the sums at which rows stop, for two classes.

    Scores of base models are added in `order`, from zero. If the sum after the base
    model at position r is above `upper[r]`, the row stops as positive; if it is below
    `lower[r]`, the row stops as negative. After the last base model, the row is
    positive if the sum of all its scores is at least `threshold`. For this decision the
    scores are added in the base models' own order, so that all schedules round alike.
    If the ensemble has an intercept, subtract it from the threshold before fitting. A
    schedule is immutable, and safe to share between threads.

    Attributes
    ----------
    order : (T,) int64
        Base models in the order of evaluation.
    lower, upper : (T,) float64
        Thresholds by position, lower <= upper; infinite at positions without stops.
    threshold : float
        Smallest sum of all scores with which a row is positive: QWYC's beta. The
        schedule was fitted for this threshold.
    promise : Promise or None
        Bounds on changed decisions for new rows, one for each class. If None, there
        were no calibration rows, and nothing is known about new rows.
    """

    lower: Floats
    upper: Floats
    threshold: float
    promise: Promise | None = None
    never: ClassVar[dict[str, float]] = {"lower": -np.inf, "upper": np.inf}

    def __repr__(self) -> str:
        stops = np.count_nonzero(np.isfinite(self.lower) | np.isfinite(self.upper))
        return (
            f"Schedule({len(self.order)} base models, stops after {stops} of them, "
            f"threshold={self.threshold:g}, promise={self.promise})"
        )

    def __post_init__(self) -> None:
        _Ordered.__post_init__(self)
        if not (self.lower <= self.upper).all():
            r = int(np.argmin(self.lower <= self.upper))
            raise BadInput(
                f"schedule: lower[{r}] is {self.lower[r]}, which is not at most "
                f"upper[{r}] = {self.upper[r]}"
            )
        if not np.isfinite(self.threshold):
            raise BadInput(
                f"schedule: threshold is {self.threshold}; it must be finite"
            )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `load_early_exit` restores this schedule from."""
        return {**_Ordered.arrays(self), "threshold": np.array([self.threshold])}

    def turned(self, threshold: float) -> "Schedule":
        """Return the schedule for the opposite scores, and the opposite decisions.

        `threshold` is that of the opposite scores.
        """
        promise = self.promise
        if promise is not None:
            parts = ("bounds", "rows", "changed")
            turned = {name: getattr(promise, name)[::-1] for name in parts}
            promise = replace(promise, **turned)
        return Schedule(self.order, -self.upper, -self.lower, threshold, promise)

    def evaluate(self, scores: Floats) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return each row's decision (N,), and its number of used base models (N,).

        Raises BadInput unless the scores are (N, T) finite numbers.
        """
        scores = check_scores(scores, len(self.order))
        decisions = np.empty(len(scores), np.bool_)
        used = np.empty(len(scores), np.int64)
        limits = self.lower, self.upper, self.threshold
        follow_limits(scores, self.order, *limits, decisions, used)
        return decisions, used


@dataclass(frozen=True, slots=True, eq=False)
class MarginSchedule(_Ordered):
    """The order of T base models, and the margins at which rows stop, for K classes.

    Each base model adds a score to every class, in `order`, starting from `bias`. If
    the largest sum after the base model at position r exceeds the second largest by
    more than `margin[r]`, the row stops with the leading class. After the last base
    model, the answer is the class with the largest sum of all scores, added in the base
    models' own order. Of equal sums, the first wins. A schedule is immutable, and safe
    to share between threads.

    Attributes
    ----------
    order : (T,) int64
        Base models in the order of evaluation.
    margin : (T,) float64
        Margins by position; infinite at positions without stops.
    bias : (K,) float64
        Sums of the classes before the first base model, for which the schedule was
        fitted.
    promise : Promise or None
        Bounds on changed decisions for new rows, as in `Schedule`.
    """

    margin: Floats
    bias: Floats
    promise: Promise | None = None
    never: ClassVar[dict[str, float]] = {"margin": np.inf}

    def __repr__(self) -> str:
        stops = np.count_nonzero(np.isfinite(self.margin))
        return (
            f"MarginSchedule({len(self.order)} base models, stops after {stops} of "
            f"them, {len(self.bias)} classes, promise={self.promise})"
        )

    def __post_init__(self) -> None:
        _Ordered.__post_init__(self)
        if np.isnan(self.margin).any():
            r = int(np.argmax(np.isnan(self.margin)))
            raise BadInput(f"schedule: margin[{r}] is nan")
        bias = np.ascontiguousarray(self.bias, np.float64)
        object.__setattr__(self, "bias", bias)
        if bias.ndim != 1 or len(bias) < 2 or not np.isfinite(bias).all():
            raise BadInput(
                "schedule: bias must be finite numbers, one for each of two or more "
                "classes"
            )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `load_early_exit` restores this schedule from."""
        return {**_Ordered.arrays(self), "bias": self.bias}

    def evaluate(self, scores: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return each row's class (N,), and its number of used base models (N,).

        Raises BadInput unless the scores are (N, T, K) finite numbers.
        """
        scores = check_scores(scores, len(self.order), len(self.bias))
        choices = np.empty(len(scores), np.int64)
        used = np.empty(len(scores), np.int64)
        follow_margins(scores, self.order, self.margin, self.bias, choices, used)
        return choices, used


def check_scores(scores: Floats, *shape: int | str) -> Floats:
    """Return scores (N, T[, K]) as a contiguous array of float64.

    Raises BadInput if the shape differs from `shape`, or a score is not finite.
    """
    scores = np.ascontiguousarray(as_numbers(scores, "scores"), np.float64)
    found = scores.shape[1:]
    fits = len(found) == len(shape) and all(
        isinstance(wanted, str) or count == wanted
        for count, wanted in zip(found, shape, strict=True)
    )
    if not fits or 0 in scores.shape or found[1:] == (1,):
        raise BadInput(
            f"scores have shape {scores.shape}; they must be "
            f"(N, {', '.join(map(str, shape))}): {SHAPES[len(shape)]}"
        )
    finite = np.isfinite(scores)
    if not finite.all():
        place = np.unravel_index(int(np.argmin(finite)), scores.shape)
        where = ", ".join(str(int(axis)) for axis in place)
        raise BadInput(
            f"scores[{where}] is {scores[place]}; every score must be a finite number"
        )
    return scores
