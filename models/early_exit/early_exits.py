"""Ensembles that stop where a schedule says so."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadRow

from ..qwyc.schedule import MarginSchedule, Schedule
from ..scoring.classifier import Classifier
from ..scoring.kernels.native import entry
from ..scoring.kernels.score_bounds import choose_whole
from ..scoring.model import Floats, Model, Rows
from ..scoring.rows import DENSE, SINGLE
from ..scoring.scorer import BaseModels, PackedTerms
from ..scoring.stopping_rule import UNDECIDED, Codes, Limits, Margins
from ..scoring.whole_sums import whole_sums
from .class_score_bounds import (
    Bounds,
    ClassBounds,
    Scores,
    bound_by_class,
    bound_by_difference,
    scores_by_difference,
)

NO_WIDTH = 2**62  # of rows for a kernel that there is not


class EarlyAnswer(NamedTuple):
    """What an ensemble that may stop early says of one row.

    Attributes
    ----------
    code
        Position of the chosen class.
    used
        Base models evaluated, 1 to T.
    scores
        (K,) class scores where all T were evaluated: the classifier's own, but for the
        last bits. Else None.
    bounds
        Where it stopped before: for each class the least and the most that its score
        would come to, whatever the other base models say. None if they have no bounds,
        as linear terms do.
    """

    code: int
    used: int
    scores: Scores | None
    bounds: Bounds | None


# A NamedTuple's own constructor takes twice as long.
make_answer: Callable[[tuple[int, int, Scores | None, Bounds | None]], EarlyAnswer]
make_answer = partial(tuple.__new__, EarlyAnswer)


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

    @property
    def size(self) -> int:
        """T, the number of base models."""
        return self.terms.size

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays from which `load_early_exit` makes this again."""
        return {**self.schedule.arrays(), "model": digest_model(self.classifier)}

    def predict(self, X: Rows) -> NDArray[Any]:
        """(N,) labels."""
        return self.classifier.classes[self.choices(X)[0]]

    def choices(self, X: Rows) -> tuple[Codes, NDArray[np.int64]]:
        """(N,) positions of the chosen classes, and base models used for each."""
        return self._choices(self.classifier.rows(X))

    def _choices(self, X: Rows) -> tuple[Codes, NDArray[np.int64]]:
        totals, codes = self._follow(X)
        chosen = self._chosen(totals, codes)
        open_ = (codes & 3 == UNDECIDED) & ~self.stops.clear(totals)
        if open_.any():
            try:
                chosen[open_] = self._exact(X[open_])
            except BadRow:
                self.classifier.scorer.raw(X)  # which names the row by its place in X
                raise
        return chosen, codes >> 2

    def _follow(self, X: Rows) -> tuple[Floats, Codes]:
        """Totals (N, R) and codes (N,) of rows X; NaN totals decide nothing."""
        packed = self.packed
        if packed is not None and X.dtype == np.float32 and X.shape[1] >= packed.width:
            return packed.follow(np.ascontiguousarray(X))
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.terms.base_scores(X)[:, self.schedule.order]
            scores[:, 0] += self.start
            totals, codes = self.stops.follow(scores.cumsum(axis=1))
        # Terms may be too large for another order of adding, or no finite numbers.
        open_ = (codes & 3 == UNDECIDED) | ~np.isfinite(totals).all(axis=1)
        totals[open_], codes[open_] = np.nan, 4 * self.size + UNDECIDED
        return totals, codes

    def _chosen(self, totals: Floats, codes: Codes) -> Codes:
        """(N,) classes, except where whole sums are near a tie."""
        return self.stops.chosen(totals, codes)

    def _exact(self, X: Rows) -> Codes:
        """Choices by whole sums, added in the order that rounds as it should."""
        return self.classifier.head.choose(self.classifier.scorer.raw(X))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EarlyExit(_Evaluator):
    """An ensemble for two classes that stops where a schedule says so.

    At the ensemble's own threshold whole sums decide as the original's `predict`, at
    another operating point as `Schedule.evaluate` does. Immutable; safe to share
    between threads.
    """

    stops: Limits
    # What `choose` and `answer` would else ask of others for each row.
    width: int = field(init=False)
    enter: Any = field(init=False)
    follow_one: Any = field(init=False)
    at: int = field(init=False)
    bias: float = field(init=False)
    count: int = field(init=False)
    scores: Callable[[float], Scores] | None = field(init=False)
    bounds: Callable[[int, float], Bounds] | None = field(init=False)

    def __post_init__(self) -> None:
        _Evaluator.__post_init__(self)
        packed, terms = self.packed, (self.classifier, self.terms, self.schedule.order)
        asked = {
            "width": packed.width if packed else NO_WIDTH,
            "enter": packed and packed.enter,
            "follow_one": packed and packed.follow_one,
            "at": packed.at if packed else 0,
            "bias": float(self.terms.base_bias()[0]),
            "count": self.terms.size,
            "scores": scores_by_difference(self.classifier),
            "bounds": bound_by_difference(*terms),
        }
        for name, value in asked.items():
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
        return int(self._choices(self.classifier.row(row)[None])[0][0])

    def answer(self, row: Rows) -> EarlyAnswer:
        """Evaluate one full row (width,) once: what `choose` gives, and its scores.

        Raises
        ------
        BadRow
            If a linear term that it came to is no finite number.
        """
        try:
            fits = (
                row.dtype is SINGLE and row.strides == DENSE and len(row) >= self.width
            )
        except AttributeError:
            fits = False
        if fits:
            code, total = self.follow_one(row, self.at)
        else:
            row = self.classifier.row(row)
            code, total = self._follow_one(row)
        used = code >> 2
        if used < self.count:
            bounds = None if self.bounds is None else self.bounds(used, total)
            return make_answer((code & 3, used, None, bounds))
        answer = code & 3
        if answer == UNDECIDED:
            answer = int(self._exact(row[None])[0])
        elif self.scores is not None:
            return make_answer((answer, used, self.scores(total + self.bias), None))
        return make_answer((answer, used, self.classifier.scores(row).tolist(), None))

    def _follow_one(self, row: Rows) -> tuple[int, float]:
        """Code and sum of one row that no kernel takes, as a kernel gives them."""
        (total,), (code,) = self._follow(row[None])
        if code & 3 == UNDECIDED and self.stops.clear(total[None])[0]:
            code += int(total[0] > self.stops.threshold) - UNDECIDED
        return int(code), float(total[0])

    def _exact(self, X: Rows) -> Codes:
        """Choices by whole sums, added in the order that rounds as it should."""
        threshold = self.stops.threshold
        if threshold == -float(self.terms.base_bias()[0]):
            return _Evaluator._exact(self, X)
        sums = whole_sums(self.terms.base_scores(X)[:, :, 0])
        if not np.isfinite(sums).all():
            self.classifier.scorer.raw(X)  # refuses what has a gap
        return (sums >= threshold).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MarginExit(_Evaluator):
    """An ensemble for K > 2 classes that stops where a schedule says so.

    Immutable; safe to share between threads.
    """

    stops: Margins
    bounds: ClassBounds | None = field(init=False)
    choose_whole: Any = field(init=False)

    def __post_init__(self) -> None:
        _Evaluator.__post_init__(self)
        bounds = bound_by_class(self.classifier, self.terms, self.schedule.order)
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "choose_whole", entry(choose_whole))

    def __repr__(self) -> str:
        return f"MarginExit({self.classifier!r}, {self.terms.size} base models)"

    def choose(self, row: Rows) -> int:
        """Position of the chosen class of one full row (width,)."""
        packed = self.packed
        if packed is None or not packed.takes(row):
            return int(self._choices(self.classifier.row(row)[None])[0][0])
        totals = self.start.copy()
        if packed.enter(row, packed.at, totals) & 3 != UNDECIDED:
            return int(totals.argmax())
        chosen, _ = self._whole(totals)
        return chosen if chosen >= 0 else self.classifier.choose(row)

    def answer(self, row: Rows) -> EarlyAnswer:
        """Evaluate one full row (width,) once: what `choose` gives, and its scores.

        Raises
        ------
        BadRow
            If a linear term that it came to is no finite number.
        """
        packed = self.packed
        if packed is not None and packed.takes(row):
            totals = self.start.copy()
            code: int = packed.enter(row, packed.at, totals)
        else:
            row = self.classifier.row(row)
            (totals,), (code,) = self._follow(row[None])
            totals, code = np.ascontiguousarray(totals), int(code)
        used = code >> 2
        if code & 3 != UNDECIDED and used < self.size:
            bounds = None if self.bounds is None else self.bounds.of(used, totals)
            return make_answer((int(totals.argmax()), used, None, bounds))
        chosen, scores = self._whole(totals)
        if chosen < 0:
            chosen, whole = self.classifier.answer(row)
        else:
            whole = scores.tolist()
        if code & 3 != UNDECIDED:
            chosen = int(totals.argmax())
        return make_answer((chosen, used, whole, None))

    def _whole(self, totals: Floats) -> tuple[int, Floats]:
        """Class of whole sums (K,), below 0 near a tie, and else their scores (K,)."""
        head, scores = self.classifier.head, np.empty(len(totals))
        chosen = self.choose_whole(totals, head.link, head.rule, head.gain, scores)
        return chosen, scores

    def _chosen(self, totals: Floats, codes: Codes) -> Codes:
        chosen, whole = self.stops.chosen(totals, codes), codes & 3 == UNDECIDED
        # Scores may tie where sums do not.
        chosen[whole] = self.classifier.head.choose(totals[whole])
        return chosen


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


def digest_model(model: Model) -> NDArray[np.uint8]:
    """Hash the arrays of a model, with their names, types and shapes: (8,)."""
    made = blake2b(digest_size=8)
    for name, array in sorted(model.arrays().items()):
        made.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        made.update(_bytes(array))
    return np.frombuffer(made.digest(), np.uint8)


def _bytes(array: NDArray[Any]) -> Any:
    if array.dtype.hasobject:  # labels, of which the array only has addresses
        return repr(array.tolist()).encode()
    return np.ascontiguousarray(array).tobytes()
