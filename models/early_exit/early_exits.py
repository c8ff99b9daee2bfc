"""Ensembles that stop where a schedule says so."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..qwyc.schedule import MarginSchedule, Schedule
from ..scoring.classifier import Classifier
from ..scoring.model import Floats, Rows
from ..scoring.rows import DENSE, SINGLE, take_row, take_rows
from ..scoring.scorer import BaseModels, PackedTerms
from ..scoring.stopping_rule import UNDECIDED, Codes, Limits, Margins
from ..scoring.whole_sums import whole_sums
from ..trees.row_by_number import bind_rows

NO_WIDTH = 2**62  # of rows for a kernel that there is not


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Evaluator:
    """What stops by limits and what stops by margins have in common."""

    classifier: Classifier  # decides where neither the schedule nor a clear sum does
    terms: BaseModels
    schedule: Schedule | MarginSchedule
    stops: Limits | Margins  # the schedule's rule, for kernels
    packed: PackedTerms | None  # the terms for kernels, where there are any
    start: Floats = field(init=False)  # (R,) sums before the first base model

    def __post_init__(self) -> None:
        start = self.stops.start(self.terms.base_bias())
        object.__setattr__(self, "start", start)

    def __reduce__(self) -> tuple[Any, ...]:
        return make_evaluator, (self.classifier, self.terms, self.schedule)

    def predict(self, X: Rows) -> NDArray[Any]:
        """(N,) labels."""
        return self.classifier.classes[self.choices(X)[0]]

    def choices(self, X: Rows) -> tuple[Codes, NDArray[np.int64]]:
        """(N,) positions of the chosen classes, and base models used for each."""
        packed, X = self.packed, take_rows(X)
        if packed is not None and X.dtype == np.float32 and X.shape[1] >= packed.width:
            totals, codes = packed.follow(np.ascontiguousarray(X))
            open_ = ~self.stops.clear(totals)
        else:
            scores = self.terms.base_scores(X)[:, self.schedule.order]
            scores[:, 0] += self.start
            totals, codes = self.stops.follow(scores.cumsum(axis=1))
            open_ = np.ones(len(X), np.bool_)
        open_ &= codes & 3 == UNDECIDED
        chosen = self.stops.chosen(totals, codes)
        if open_.any():
            chosen[open_] = self._exact(X[open_])
        return chosen, codes >> 2

    def _exact(self, X: Rows) -> Codes:
        """Choices by whole sums, added in the order that rounds as it should."""
        return self.classifier.head.choose(self.classifier.scorer.raw(X))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EarlyExit(_Evaluator):
    """An ensemble for two classes that stops where a schedule says so.

    At the ensemble's own threshold whole sums decide as the original's `predict`, at
    another operating point as `Schedule.evaluate` does.
    """

    stops: Limits
    # What `choose` would else ask of `packed` for each row.
    width: int = field(init=False)
    enter: Any = field(init=False)
    at: int = field(init=False)

    def __post_init__(self) -> None:
        _Evaluator.__post_init__(self)
        packed, asked = self.packed, (NO_WIDTH, None, 0)
        if packed is not None:
            asked = packed.width, packed.enter, packed.at
        for name, value in zip(("width", "enter", "at"), asked, strict=True):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return (
            f"EarlyExit({self.classifier!r}, {self.terms.size} base models, "
            f"threshold={self.stops.threshold:g})"
        )

    def choose(self, row: Rows) -> int:
        """Position of the chosen class of one full row (width,)."""
        # What `takes` says, here where a call would cost as much as some trees.
        try:
            fits = (
                row.dtype is SINGLE and row.strides == DENSE and len(row) >= self.width
            )
        except AttributeError:  # no array, which is asked for here at no cost
            fits = False
        if fits:
            answer: int = self.enter(row, self.at)
            if answer != UNDECIDED:
                return answer
            return int(self._exact(row[None])[0])
        return int(self.choices(take_row(row)[None])[0][0])

    def over(self, X: NDArray[np.float32]) -> Callable[[int], int]:
        """Make a function that is `choose` for row i of X (N, width), given i.

        It costs about half of `choose`, as a number is handed over faster than an
        array. It keeps X alive and reads it at each call: an array of one row can be
        filled again and again, by the thread that calls. BadInput if there is no row i.

        Raises
        ------
        BadInput
            Unless X is float32, two-dimensional, without gaps and wide enough.
        """
        return bind_rows(X, self.packed, self.choose)

    def _exact(self, X: Rows) -> Codes:
        """Choices by whole sums, added in the order that rounds as it should."""
        threshold = self.stops.threshold
        if threshold == -float(self.terms.base_bias()[0]):
            return _Evaluator._exact(self, X)
        sums = whole_sums(self.terms.base_scores(X)[:, :, 0])
        return (sums >= threshold).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MarginExit(_Evaluator):
    """An ensemble for K > 2 classes that stops where a schedule says so."""

    stops: Margins

    def __repr__(self) -> str:
        return f"MarginExit({self.classifier!r}, {self.terms.size} base models)"

    def choose(self, row: Rows) -> int:
        """Position of the chosen class of one full row (width,)."""
        packed = self.packed
        if packed is None or not packed.takes(row):
            return int(self.choices(take_row(row)[None])[0][0])
        totals = self.start.copy()
        code: int = packed.enter(row, packed.at, totals)
        if code & 3 != UNDECIDED or self.stops.clear(totals[None])[0]:
            return int(totals.argmax())
        return self.classifier.choose(row)


def make_evaluator(
    classifier: Classifier, terms: BaseModels, schedule: Schedule | MarginSchedule
) -> EarlyExit | MarginExit:
    """Make the evaluator that follows a schedule for these base models."""
    if isinstance(schedule, MarginSchedule):
        margins = Margins(schedule.margin)
        packed = terms.pack(schedule.order, margins)
        return MarginExit(classifier, terms, schedule, margins, packed)
    limits = Limits(schedule.lower, schedule.upper, schedule.threshold)
    packed = terms.pack(schedule.order, limits)
    return EarlyExit(classifier, terms, schedule, limits, packed)
