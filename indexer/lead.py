"""A schedule for more than two classes: stop once one class leads far enough."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadIndexFile, BadInput
from ..models.rows import as_numbers
from ..models.sums import whole_sums
from ._lead_kernels import walk_leads
from .schedule import Promise, stored, stored_promise

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LeadSchedule:
    """The order of T base models, and the leads at which to stop; K classes.

    Each base model adds a score to every class, from `bias` on, in `order`. After the
    r-th the best class is answered if it leads the second best by more than
    `margin[r]`, after the last in any case, by whole sums that are added in the base
    models' own order; of equals the first leads. Immutable; safe to share between
    threads.

    Attributes
    ----------
    order : (T,) int64
        Base models in the order of evaluation.
    margin : (T,) float64
        Leads by position; infinite where no row stops.
    bias : (K,) float64
        What the classes have before the first base model.
    promise : Promise or None
        What calibration rows guarantee, as in `Schedule`.
    """

    order: NDArray[np.int64]
    margin: Floats
    bias: Floats
    promise: Promise | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return LeadSchedule, (self.order, self.margin, self.bias, self.promise)

    def __repr__(self) -> str:
        stops = np.count_nonzero(np.isfinite(self.margin))
        return (
            f"LeadSchedule({len(self.order)} base models, stops after {stops} of them, "
            f"{len(self.bias)} classes, promise={self.promise})"
        )

    def __post_init__(self) -> None:
        flaw = find_flaw(self.order, self.margin, self.bias)
        if flaw:
            raise BadInput(f"schedule: {flaw}")

    def evaluate(self, scores: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Chosen class (N,) and base models used (N,), for (N, T, K) scores.

        Raises
        ------
        BadInput
            If the scores are not (N, T, K) finite numbers.
        """
        scores = check_class_scores(scores, (len(self.order), len(self.bias)))
        choices = np.empty(len(scores), np.int64)
        used = np.empty(len(scores), np.int64)
        walk_leads(scores, self.order, self.margin, self.bias, choices, used)
        return choices, used

    def changed(self, scores: Floats) -> int:
        """Count the rows of `scores` (N, T, K) decided otherwise than by the whole."""
        whole = whole_sums(scores, self.bias).argmax(axis=1)
        return int(np.count_nonzero(self.evaluate(scores)[0] != whole))

    def wider(self, by: Floats | float) -> Self:
        """Return the schedule with every lead larger by `by`, (T,) or alike."""
        return replace(self, margin=self.margin + by)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, as arrays for an index file."""
        arrays: dict[str, NDArray[Any]] = {
            "order": self.order,
            "margin": self.margin,
            "bias": self.bias,
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
        margin = stored(arrays, "margin", np.float64, None)
        bias = stored(arrays, "bias", np.float64, None)
        flaw = find_flaw(order, margin, bias)
        if flaw:
            raise BadIndexFile(f"schedule: {flaw}")
        promise = None
        if "promise" in arrays:
            promise = stored_promise(stored(arrays, "promise", np.float64, 4))
        return cls(order, margin, bias, promise)


def find_flaw(order: NDArray[np.int64], margin: Floats, bias: Floats) -> str | None:
    """Say what is wrong with the parts of a schedule; None when nothing is."""
    count = len(order)
    if count == 0 or margin.shape != (count,):
        return (
            f"order and margin have shapes {order.shape} and {margin.shape}; they must "
            "be equally long and not empty"
        )
    if not np.array_equal(np.sort(order), np.arange(count)):
        return f"order is not a permutation of 0 ... {count - 1}"
    if np.isnan(margin).any():
        return f"margin[{int(np.argmax(np.isnan(margin)))}] is nan"
    if len(bias) < 2 or not np.isfinite(bias).all():
        return "bias must be finite numbers, one for each of two or more classes"
    return None


def check_class_scores(scores: Floats, shape: tuple[int, int] | None = None) -> Floats:
    """Return the scores as (N, T, K) contiguous float64.

    Raises
    ------
    BadInput
        If there is no row or base model, fewer than two classes, other numbers of
        them than `shape`, or an entry that is not a finite number.
    """
    scores = np.ascontiguousarray(as_numbers(scores, "scores"), np.float64)
    wrong = scores.ndim != 3 or 0 in scores.shape or scores.shape[2] < 2
    if wrong or shape not in (None, scores.shape[1:]):
        wanted = "T, K" if shape is None else f"{shape[0]}, {shape[1]}"
        raise BadInput(
            f"scores have shape {scores.shape}; they must be (N, {wanted}): examples, "
            "base models, classes"
        )
    if not np.isfinite(scores).all():
        place = np.unravel_index(int(np.argmin(np.isfinite(scores))), scores.shape)
        where = ", ".join(str(int(axis)) for axis in place)
        raise BadInput(
            f"scores[{where}] is {scores[place]}; every score must be a finite number"
        )
    return scores
