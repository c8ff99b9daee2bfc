"""A schedule: the order of an ensemble's base models, and when to stop early."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadIndexFile, BadInput
from ..models.rows import as_numbers
from ..models.sums import whole_sums
from ._schedule_kernels import walk

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Promise:
    """How often decisions change on fresh rows, as calibration rows tell.

    Attributes
    ----------
    bound : float
        The share of changed decisions is at most this, in [0, 1] ...
    confidence : float
        ... with this probability over the draw of the calibration rows, in (0, 1).
    rows : int
        Calibration rows, used for nothing else.
    changed : int
        Decisions that changed among them.
    """

    bound: float
    confidence: float
    rows: int
    changed: int

    def array(self) -> Floats:
        """(4,) its fields, for an index file."""
        return np.array([self.bound, self.confidence, self.rows, self.changed])

    def __str__(self) -> str:
        """Say it in one sentence."""
        return (
            f"at most {self.bound:.3%} of decisions change on fresh rows, with "
            f"{self.confidence:.0%} confidence ({self.changed} of {self.rows} "
            "calibration rows changed)"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """The order of T base models, and the running sums at which to stop.

    Base models are added up in `order`, from zero. After the r-th, a sum above
    `upper[r]` stops positive, one below `lower[r]` negative; after the last, a row is
    positive iff its whole sum is at least `threshold`, added in the base models' own
    order, so that no schedule rounds it otherwise. An ensemble with an intercept
    subtracts it from the threshold before fitting. Immutable; safe to share between
    threads.

    Attributes
    ----------
    order : (T,) int64
        Base models in the order of evaluation.
    lower, upper : (T,) float64
        Thresholds by position, lower <= upper; infinite where no row stops.
    threshold : float
        QWYC's beta, on the whole sum.
    promise : Promise or None
        What calibration rows guarantee; None when there were none, and then nothing
        is known about rows that were not fitted.
    """

    order: NDArray[np.int64]
    lower: Floats
    upper: Floats
    threshold: float
    promise: Promise | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Schedule, (
            self.order,
            self.lower,
            self.upper,
            self.threshold,
            self.promise,
        )

    def __repr__(self) -> str:
        stops = np.count_nonzero(np.isfinite(self.lower) | np.isfinite(self.upper))
        return (
            f"Schedule({len(self.order)} base models, stops after {stops} of them, "
            f"threshold={self.threshold:g}, promise={self.promise})"
        )

    def __post_init__(self) -> None:
        flaw = find_flaw(self.order, self.lower, self.upper, self.threshold)
        if flaw:
            raise BadInput(f"schedule: {flaw}")

    def evaluate(self, scores: Floats) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Decisions (N,) and how many base models each took, (N,), for (N, T) scores.

        Raises
        ------
        BadInput
            If the scores are not (N, T) finite numbers.
        """
        scores = check_scores(scores, models=len(self.order))
        decisions = np.empty(len(scores), np.bool_)
        used = np.empty(len(scores), np.int64)
        walk(
            scores,
            self.order,
            self.lower,
            self.upper,
            self.threshold,
            decisions,
            used,
        )
        return decisions, used

    def changed(self, scores: Floats) -> int:
        """Count the rows of `scores` (N, T) decided otherwise than by the whole sum."""
        full = whole_sums(scores) >= self.threshold
        return int(np.count_nonzero(self.evaluate(scores)[0] != full))

    def wider(self, by: Floats | float) -> Self:
        """Return the schedule, its thresholds moved outwards by `by`, (T,) or alike."""
        return replace(self, lower=self.lower - by, upper=self.upper + by)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, as arrays for an index file."""
        arrays: dict[str, NDArray[Any]] = {
            "order": self.order,
            "lower": self.lower,
            "upper": self.upper,
            "threshold": np.array([self.threshold]),
        }
        if self.promise is not None:
            arrays["promise"] = self.promise.array()
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take back what `arrays` gave; the arrays are used as they are.

        Raises
        ------
        BadIndexFile
            If an array is missing, of another shape or type, or makes no sense.
        """
        order = stored(arrays, "order", np.int64, None)
        lower = stored(arrays, "lower", np.float64, None)
        upper = stored(arrays, "upper", np.float64, None)
        threshold = float(stored(arrays, "threshold", np.float64, 1)[0])
        flaw = find_flaw(order, lower, upper, threshold)
        if flaw:
            raise BadIndexFile(f"schedule: {flaw}")
        promise = None
        if "promise" in arrays:
            promise = stored_promise(stored(arrays, "promise", np.float64, 4))
        return cls(order, lower, upper, threshold, promise)


def find_flaw(
    order: NDArray[np.int64], lower: Floats, upper: Floats, threshold: float
) -> str | None:
    """Say what is wrong with the parts of a schedule; None when nothing is."""
    count = len(order)
    if count == 0 or lower.shape != (count,) or upper.shape != (count,):
        return (
            f"order, lower and upper have shapes {order.shape}, {lower.shape} and "
            f"{upper.shape}; they must be equally long and not empty"
        )
    if not np.array_equal(np.sort(order), np.arange(count)):
        return f"order is not a permutation of 0 ... {count - 1}"
    if not (lower <= upper).all():
        r = int(np.argmin(lower <= upper))
        return f"lower[{r}] is {lower[r]}, which is not at most upper[{r}] = {upper[r]}"
    if not np.isfinite(threshold):
        return f"threshold is {threshold}; it must be finite"
    return None


def stored(
    arrays: Mapping[str, NDArray[Any]], name: str, dtype: type, length: int | None
) -> NDArray[Any]:
    """One array of a file, of the right type and number of entries."""
    array = arrays.get(name)
    if array is None:
        raise BadIndexFile(f"schedule: array {name!r} is missing")
    if array.dtype != dtype or array.ndim != 1 or length not in (None, len(array)):
        wanted = "one" if length is None else f"length {length} and one"
        raise BadIndexFile(
            f"schedule: array {name!r} has type {array.dtype} and shape {array.shape}; "
            f"it must be {np.dtype(dtype)} with {wanted} dimension"
        )
    return array


def stored_promise(values: Floats) -> Promise:
    """Check and take back a promise."""
    bound, confidence, rows, changed = map(float, values)
    # Written so that a NaN is refused too.
    sound = 0 <= bound <= 1 and 0 < confidence < 1 and 0 <= changed <= rows < 2**53
    if not sound or rows % 1 or changed % 1:
        raise BadIndexFile(f"schedule: promise {values.tolist()} makes no sense")
    return Promise(bound, confidence, int(rows), int(changed))


def check_scores(scores: Floats, *, models: int | None = None) -> Floats:
    """Return the scores as (N, T) contiguous float64.

    Raises
    ------
    BadInput
        If there is no row or base model, another number of base models than `models`,
        or an entry that is not a finite number.
    """
    scores = np.ascontiguousarray(as_numbers(scores, "scores"), np.float64)
    if scores.ndim != 2 or 0 in scores.shape or models not in (None, scores.shape[1]):
        wanted = "T" if models is None else str(models)
        raise BadInput(
            f"scores have shape {scores.shape}; they must be (N, {wanted}): "
            "a row per example, a column per base model"
        )
    finite = np.isfinite(scores)
    if not finite.all():
        i, t = np.unravel_index(int(np.argmin(finite)), scores.shape)
        raise BadInput(
            f"scores[{i}, {t}] is {scores[i, t]}; every score must be a finite number"
        )
    return scores
