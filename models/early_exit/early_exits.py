"""Evaluators of ensembles: a schedule decides after each base model whether to stop."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from polydom.features.errors import BadInput

from ..qwyc.running_sums import whole_sums
from ..qwyc.schedule import MarginSchedule, Schedule
from ..scoring.classifier import Classifier
from ..scoring.kernels.link import choose_whole, follow_line
from ..scoring.kernels.native import entry
from ..scoring.model import Floats, Rows
from ..scoring.rows import DENSE, SINGLE
from ..scoring.scorer import BaseModels
from ..scoring.stopping_rule import UNDECIDED, Codes, Limits, Margins
from .class_score_bounds import (
    Bounds,
    ClassBounds,
    Scores,
    bound_by_class,
    bound_by_difference,
    scores_by_difference,
)
from .early_scores import EarlyScores, MarginRange, range_margins, scores_of_raw
from .evaluator import NO_LINES, EarlyAnswer, Evaluator, make_answer, stops_of

FARTHEST = 1e300  # largest magnitude of a threshold
NO_WIDTH = 2**62  # wider than any row: no row is passed to a kernel that is missing


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class EarlyExit(Evaluator):
    """An ensemble for two classes whose rows stop early as a schedule says.

    A row that does not stop early gets the class that the original model predicts. But
    if the schedule has another threshold than the ensemble, the row gets the class of
    `Schedule.evaluate`. Immutable; safe to share between threads.
    """

    stops: Limits
    # Copies of attributes of other objects: each look-up per row would take as long as
    # some trees.
    width: int
    enter: Any
    follow_one: Any
    at: int
    bias: float
    count: int
    scores: Callable[[float], Scores] | None
    bounds: Callable[[int, float], Bounds] | None
    possible: MarginRange
    # Class scores of a row that stopped, and of a row whose time was up, by the number
    # of base models used, the class, and the sum; None without `lines`
    stopped_scores: Callable[[int, int, float], Scores] | None
    cut_scores: Callable[[int, int, float], Scores] | None

    def __reduce__(self) -> tuple[Any, ...]:
        made_of = self.classifier, self.terms, self.schedule, self.lines
        return make_evaluator, made_of

    def __repr__(self) -> str:
        return (
            f"EarlyExit({self.classifier!r}, {self.terms.size} base models, "
            f"threshold={self.stops.threshold:g})"
        )

    def choose(self, row: Rows) -> int:
        """Return the position (0 or 1) of the chosen class of one full row (width,)."""
        # `PackedTerms.takes`, inlined: a call would take as long as some trees.
        try:
            fits = (
                row.dtype is SINGLE and row.strides == DENSE and len(row) >= self.width
            )
        except AttributeError:  # not an array
            fits = False
        if fits:
            answer: int = self.enter(row, self.at)
            if answer != UNDECIDED:
                return answer
            return int(self._exact(row[None])[0])
        return int(self._choices(self.classifier.row(row)[None])[0][0])

    def answer(self, row: Rows) -> EarlyAnswer:
        """Return the `EarlyAnswer` to a full row (width,), with the class of `choose`.

        Raises BadRow if an evaluated linear term is not finite.
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
        return self._answer(row, code, total)

    def _answer(self, row: Rows, code: int, total: float) -> EarlyAnswer:
        used = code >> 2
        if used < self.count:
            bounds = None if self.bounds is None else self.bounds(used, total)
            early = self.stopped_scores
            scores = None if early is None else early(used, code & 3, total)
            return make_answer((code & 3, used, scores, bounds))
        answer = code & 3
        if answer == UNDECIDED:
            answer = int(self._exact(row[None])[0])
        elif self.scores is not None:
            scores = self.scores(total + self.bias)
            return make_answer((answer, used, scores, self._exactly(scores)))
        scores = self.classifier.answer(row)[1]
        return make_answer((answer, used, scores, self._exactly(scores)))

    def _exactly(self, scores: Scores) -> Bounds | None:
        return None if self.bounds is None else [(score, score) for score in scores]

    def _end(self, row: Rows, code: int, totals: Floats, end: int) -> EarlyAnswer:
        total = float(totals[0])
        if code & 3 == UNDECIDED:
            if end < self.count:
                return self.cut_answer(end, total)
            if abs(total - self.stops.threshold) > self.stops.near:
                code += int(total > self.stops.threshold) - UNDECIDED
        return self._answer(row, code, total)

    def cut_answer(self, used: int, total: float) -> EarlyAnswer:
        """Return the answer to a row whose time is up after `used` base models.

        `total` is the row's sum. This is `early_answers` for one row.
        """
        if self.lines is None or self.cut_scores is None:
            raise BadInput(NO_LINES)
        offset, slope = self.lines.partial[used - 1].tolist()
        code = int(offset + slope * total > self.possible.tie)
        bounds = None if self.bounds is None else self.bounds(used, total)
        return make_answer((code, used, self.cut_scores(used, code, total), bounds))

    def _possible(
        self, raw: Floats, used: Codes, totals: Floats, chosen: Codes | None
    ) -> tuple[Codes, Floats]:
        margins = raw[:, 0]
        if chosen is None:
            chosen = (margins > self.possible.tie).astype(np.int64)
        clipped = self.possible.clip(margins, used, totals[:, 0], chosen)
        return chosen, clipped[:, None]

    def _follow_one(self, row: Rows) -> tuple[int, float]:
        """Return one row's code and sum, like the results of `_follow`."""
        (total,), (code,) = self._follow(row[None])
        if code & 3 == UNDECIDED and self.stops.clear(total[None])[0]:
            code += int(total[0] > self.stops.threshold) - UNDECIDED
        return int(code), float(total[0])

    def _exact(self, X: Rows) -> Codes:
        threshold = self.stops.threshold
        if threshold == threshold_of(self.classifier, self.terms):
            return Evaluator._exact(self, X)
        sums = whole_sums(self.terms.base_scores(X)[:, :, 0])
        if not np.isfinite(sums).all():
            self.classifier.scorer.raw(X)  # raises BadRow for a missing value
        return (sums >= threshold).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class MarginExit(Evaluator):
    """An ensemble for K > 2 classes whose rows stop early as a schedule says.

    Immutable; safe to share between threads.
    """

    stops: Margins
    bounds: ClassBounds | None
    choose_whole: Any  # Compiled function: class and class scores of whole sums
    follow_line: Any  # Compiled function: sums predicted by a line, in place

    def __reduce__(self) -> tuple[Any, ...]:
        made_of = self.classifier, self.terms, self.schedule, self.lines
        return make_evaluator, made_of

    def __repr__(self) -> str:
        return f"MarginExit({self.classifier!r}, {self.terms.size} base models)"

    def choose(self, row: Rows) -> int:
        """Return the position of the chosen class of one full row (width,)."""
        packed = self.packed
        if packed is None or not packed.takes(row):
            return int(self._choices(self.classifier.row(row)[None])[0][0])
        totals = self.start.copy()
        if packed.enter(row, packed.at, totals) & 3 != UNDECIDED:
            return int(totals.argmax())
        chosen, _ = self._whole(totals)
        return chosen if chosen >= 0 else self.classifier.choose(row)

    def answer(self, row: Rows) -> EarlyAnswer:
        """Return the `EarlyAnswer` to a full row (width,), with the class of `choose`.

        Raises BadRow if an evaluated linear term is not finite.
        """
        packed = self.packed
        if packed is not None and packed.takes(row):
            totals = self.start.copy()
            code: int = packed.enter(row, packed.at, totals)
        else:
            row = self.classifier.row(row)
            (totals,), (code,) = self._follow(row[None])
            totals, code = np.ascontiguousarray(totals), int(code)
        return self._answer(row, code, totals)

    def _answer(self, row: Rows, code: int, totals: Floats) -> EarlyAnswer:
        used = code >> 2
        if code & 3 != UNDECIDED and used < self.size:
            lines = None if self.lines is None else self.lines.early
            return self._early_answer(used, totals, lines)
        chosen, scores = self._whole(totals)
        if chosen < 0:
            chosen, whole = self.classifier.answer(row)
        else:
            whole = scores.tolist()
        if code & 3 != UNDECIDED:
            chosen = int(totals.argmax())
        bounds = None if self.bounds is None else [(score, score) for score in whole]
        return make_answer((chosen, used, whole, bounds))

    def _end(self, row: Rows, code: int, totals: Floats, end: int) -> EarlyAnswer:
        if code & 3 != UNDECIDED or end == self.size:
            return self._answer(row, code, totals)
        return self.cut_answer(end, totals)

    def cut_answer(self, used: int, totals: Floats) -> EarlyAnswer:
        """Return the answer to a row whose time is up after `used` base models.

        `totals` (K,) are the row's sums. This is `early_answers` for one row.
        """
        if self.lines is None:
            raise BadInput(NO_LINES)
        return self._early_answer(used, totals, self.lines.partial)

    def _early_answer(
        self, used: int, totals: Floats, lines: Floats | None
    ) -> EarlyAnswer:
        scores, code = None, int(totals.argmax())
        bounds = None if self.bounds is None else self.bounds.of(used, totals)
        if lines is not None:
            raw, at = totals.copy(), used - 1
            self.follow_line(raw, lines.item(at, 0), lines.item(at, 1))
            scores = self.classifier.head.answer(raw)[1]
        return make_answer((code, used, scores, bounds))

    def _whole(self, totals: Floats) -> tuple[int, Floats]:
        """Return the class and class scores (K,) for sums over all base models.

        The class is -1 if the sums nearly tie.
        """
        head, scores = self.classifier.head, np.empty(len(totals))
        chosen = self.choose_whole(totals, head.link, head.rule, head.gain, scores)
        if chosen >= 0 and head.calibration is not None:
            head.calibration.one(totals, head.gain, head.calibration.table, scores)
        return chosen, scores

    def _chosen(self, totals: Floats, codes: Codes) -> Codes:
        chosen, whole = self.stops.chosen(totals, codes), codes & 3 == UNDECIDED
        # Class scores may tie even if sums do not.
        chosen[whole] = self.classifier.head.choose(totals[whole])
        return chosen


def threshold_of(classifier: Classifier, terms: BaseModels) -> float:
    """Return the sum of base scores above which the second of two classes is chosen."""
    cut = classifier.head.cut
    if cut is None:
        return -float(terms.base_bias()[0])
    # No margin reaches NaN, and almost none exceeds what is farther than this.
    cut = FARTHEST if isnan(cut) else min(max(cut, -FARTHEST), FARTHEST)
    return cut - float(terms.base_bias()[0])


def make_evaluator(
    classifier: Classifier,
    terms: BaseModels,
    schedule: Schedule | MarginSchedule,
    lines: EarlyScores | None = None,
) -> EarlyExit | MarginExit:
    """Make an evaluator that adds base models and stops as a schedule says.

    The result is an `EarlyExit` for a `Schedule` (two classes), and a `MarginExit` for
    a `MarginSchedule`. `lines` give class scores to rows that stop early.
    """
    stops = stops_of(schedule)
    if isinstance(stops, Margins):
        return MarginExit(
            classifier=classifier,
            terms=terms,
            schedule=schedule,
            stops=stops,
            packed=terms.pack(schedule.order, stops),
            start=stops.start(terms.base_bias()),
            lines=lines,
            bounds=bound_by_class(classifier, terms, schedule.order),
            choose_whole=entry(choose_whole),
            follow_line=entry(follow_line),
        )
    packed = terms.pack(schedule.order, stops)
    possible = range_margins(classifier, terms, schedule.order, stops.threshold)
    scores = scores_by_difference(classifier)

    def scores_of(margin: float) -> Scores:
        both: Scores = scores_of_raw(classifier)(np.array([[margin]]))[0].tolist()
        return both

    early = partial = None
    if lines is not None:
        early, partial = (
            possible.scorer(each, scores or scores_of)
            for each in (lines.early, lines.partial)
        )
    return EarlyExit(
        classifier=classifier,
        terms=terms,
        schedule=schedule,
        stops=stops,
        packed=packed,
        start=stops.start(terms.base_bias()),
        lines=lines,
        width=packed.width if packed else NO_WIDTH,
        enter=packed and packed.enter,
        follow_one=packed and packed.follow_one,
        at=packed.at if packed else 0,
        bias=float(terms.base_bias()[0]),
        count=terms.size,
        scores=scores,
        bounds=bound_by_difference(classifier, terms, schedule.order),
        possible=possible,
        stopped_scores=early,
        cut_scores=partial,
    )
