"""What evaluators of ensembles for two and for more classes have in common."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadRow

from ..qwyc.schedule import MarginSchedule, Schedule
from ..scoring.classifier import Classifier
from ..scoring.model import Floats, Model, Rows
from ..scoring.scorer import BaseModels, PackedTerms
from ..scoring.stopping_rule import UNDECIDED, Codes, Limits, Margins
from .class_score_bounds import Bounds, Scores
from .early_scores import EarlyScores, scores_of_raw

NO_LINES = "this schedule has no class scores for early answers"


class EarlyAnswer(NamedTuple):
    """The answer to one row: its class, class scores, and bounds on them."""

    code: int  # Position of the chosen class
    used: int  # Base models evaluated, 1 to T
    # (K,): Class scores, equal to the classifier's own up to the last bits. For a row
    # that stopped early, the mean class scores of rows that stopped with such a sum.
    # None for such a row if the evaluator has no `EarlyScores`.
    scores: Scores | None
    # The least and the largest score of each class that the remaining base models could
    # have given; after the last base model, twice the score. None if base models have
    # no bounds, as linear terms.
    bounds: Bounds | None


# Makes an `EarlyAnswer` in half the time of the NamedTuple's own constructor.
make_answer: Callable[[tuple[int, int, Scores | None, Bounds | None]], EarlyAnswer]
make_answer = functools.partial(tuple.__new__, EarlyAnswer)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Evaluator:
    """The common base of `EarlyExit` and `MarginExit`; see `make_evaluator`."""

    classifier: Classifier  # Chooses for rows whose whole sum is too near to a tie
    terms: BaseModels
    schedule: Schedule | MarginSchedule
    stops: Limits | Margins  # The schedule's rule for stopping
    packed: PackedTerms | None  # Base models packed for kernels; None without a kernel
    start: Floats  # (R,): Sums before the first base model
    # Lines that predict whole sums, for the class scores of rows that stopped early;
    # None in files of older versions, and for schedules without rows to fit lines on
    lines: EarlyScores | None

    @property
    def size(self) -> int:
        """The number T of base models."""
        return self.terms.size

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the schedule, the lines and a hash of the model as arrays.

        `load_early_exit` makes this evaluator again from the arrays and the model.
        """
        lines = {} if self.lines is None else self.lines.arrays()
        model = digest_model(self.classifier)
        return {**self.schedule.arrays(), **lines, "model": model}

    def predict(self, X: Rows) -> NDArray[Any]:
        """Return the labels (N,) of rows X (N, width)."""
        return self.classifier.classes[self.choices(X)[0]]

    def choices(self, X: Rows) -> tuple[Codes, NDArray[np.int64]]:
        """Return each row's class as a position, and its number of base models used.

        Both arrays have the shape (N,).
        """
        return self._choices(self.classifier.rows(X))

    def predict_scores(self, X: Rows) -> Floats:
        """Return the class scores (N, K) that `answer` gives for rows X (N, width).

        They are computed from the base models that the rows use. Raises BadInput if the
        evaluator has no `EarlyScores`.
        """
        X = self.classifier.rows(X)
        totals, codes = self._follow(X)
        used, stopped = codes >> 2, codes & 3 != UNDECIDED
        stopped &= used < self.size
        scores = np.empty((len(X), len(self.classifier.classes)))
        scores[stopped] = self.early_answers(
            used[stopped], totals[stopped], self._chosen(totals, codes)[stopped]
        )[1]
        scores[~stopped] = self.classifier.predict_scores(X[~stopped])
        return scores

    def early_answers(
        self, used: Codes, totals: Floats, chosen: Codes | None = None
    ) -> tuple[Codes, Floats]:
        """Return classes (N,) and class scores (N, K) of rows that ended early.

        Row i ended after `used[i]` base models, 1 to T, with the sums `totals[i]` (R,).
        If the schedule stopped the rows, `chosen` (N,) are the positions of their
        classes; None if their time was up. Raises BadInput if the evaluator has no
        `EarlyScores`.
        """
        if self.lines is None:
            raise BadInput(NO_LINES)
        raw = self.lines.raw(used, totals, stopped=chosen is not None)
        chosen, raw = self._possible(raw, used, totals, chosen)
        return chosen, scores_of_raw(self.classifier)(raw)

    @property
    def has_parts(self) -> bool:
        """True if rows can be evaluated part by part, and cut off between two parts."""
        packed = self.packed
        return (
            self.lines is not None
            and packed is not None
            and packed.add_part is not None
        )

    @property
    def step(self) -> int:
        """The number of base models of a part is a multiple of this number."""
        return 1 if self.packed is None else self.packed.step

    def answer_first(self, row: Rows, count: int) -> EarlyAnswer:
        """Return the answer to a full row by the first `count` base models.

        Unless the row stops even earlier, it is cut off after `count` base models, a
        multiple of `step`. Raises BadInput if the evaluator has no `EarlyScores`.
        """
        return self.answer_while(row, count, 1, _at_once)

    def answer_while(
        self, row: Rows, first: int, step: int, goes_on: Callable[[int], bool]
    ) -> EarlyAnswer:
        """Return the answer to a full row by as many base models as there is time for.

        The first part has `first` base models, and each further part has `step`; both
        are multiples of the property `step`. After each part, `goes_on` is called with
        the number of base models used so far; the row is cut off if it returns False.
        Rows that no kernel can read are cut off after `first` base models. Raises
        BadInput if the evaluator has no `EarlyScores`.
        """
        packed = self.packed
        if packed is None or packed.add_part is None or not packed.takes(row):
            row = self.classifier.row(row)
            (total,), (code,) = self._follow_first(row[None], first)
            return self._end(row, int(code), np.ascontiguousarray(total), first)
        totals, done, end = self.start.copy(), 0, first
        while True:
            code = packed.add_part(row, packed.at, done, end, totals)
            if code & 3 != UNDECIDED or end >= self.size or not goes_on(end):
                return self._end(row, code, totals, end)
            done, end = end, min(end + step, self.size)

    def first_answers(self, X: Rows, count: int) -> tuple[Codes, Floats]:
        """Return the classes (N,) and class scores (N, K) that `answer_first` gives.

        X (N, width) are full rows. Raises BadInput if the evaluator has no
        `EarlyScores`.
        """
        X = self.classifier.rows(X)
        totals, codes = self._follow_first(X, count)
        used, stopped = codes >> 2, codes & 3 != UNDECIDED
        chosen, scores = self.early_answers(used, totals)
        if stopped.any():
            own = self._chosen(totals[stopped], codes[stopped])
            ended = used[stopped], totals[stopped], own
            chosen[stopped], scores[stopped] = self.early_answers(*ended)
        return chosen, scores

    def _follow_first(self, X: Rows, count: int) -> tuple[Floats, Codes]:
        """Return sums (N, R) and codes (N,) as `_follow` does, by `count` base models.

        Rows that do not stop are UNDECIDED after `count` base models.
        """
        packed = self.packed
        if (
            packed is not None
            and packed.add_part is not None
            and X.dtype == np.float32
            and X.shape[1] >= packed.width
        ):
            totals, codes = np.tile(self.start, (len(X), 1)), np.zeros(len(X), np.int64)
            for i, row in enumerate(np.ascontiguousarray(X)):
                codes[i] = packed.add_part(row, packed.at, 0, count, totals[i])
            return totals, codes
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.terms.base_scores(X)[:, self.schedule.order[:count]]
            scores[:, 0] += self.start
            return self.stops.first(count).follow(scores.cumsum(axis=1))

    def _end(self, row: Rows, code: int, totals: Floats, end: int) -> EarlyAnswer:
        """Return the answer to a row whose evaluation ends after `end` base models.

        `totals` (R,) are its sums. `code` says whether it stopped.
        """
        raise NotImplementedError

    def _possible(
        self, raw: Floats, used: Codes, totals: Floats, chosen: Codes | None
    ) -> tuple[Codes, Floats]:
        """Return classes (N,), and raw scores (N, R) that are possible for them.

        `raw` are predicted; they choose the classes if `chosen` is None.
        """
        return (raw.argmax(axis=1) if chosen is None else chosen), raw

    def _choices(self, X: Rows) -> tuple[Codes, NDArray[np.int64]]:
        totals, codes = self._follow(X)
        chosen = self._chosen(totals, codes)
        near_tie = (codes & 3 == UNDECIDED) & ~self.stops.clear(totals)
        if near_tie.any():
            try:
                chosen[near_tie] = self._exact(X[near_tie])
            except BadRow:
                # The error must give the row's position in X, not among near ties.
                self.classifier.scorer.raw(X)
                raise
        return chosen, codes >> 2

    def _follow(self, X: Rows) -> tuple[Floats, Codes]:
        """Return the rows' sums (N, R) at the moment they stopped, and codes (N,).

        A code is 4 * (number of base models used) + the answer. If no kernel can read
        X, a row that did not stop early, or whose sums are infinite, gets the sums NaN
        and the answer UNDECIDED.
        """
        packed = self.packed
        if packed is not None and X.dtype == np.float32 and X.shape[1] >= packed.width:
            return packed.follow(np.ascontiguousarray(X))
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.terms.base_scores(X)[:, self.schedule.order]
            scores[:, 0] += self.start
            totals, codes = self.stops.follow(scores.cumsum(axis=1))
        # Sums of very large or infinite terms depend on the order of adding.
        open_ = (codes & 3 == UNDECIDED) | ~np.isfinite(totals).all(axis=1)
        totals[open_], codes[open_] = np.nan, 4 * self.size + UNDECIDED
        return totals, codes

    def _chosen(self, totals: Floats, codes: Codes) -> Codes:
        """Return each row's class (N,) from the results of `_follow`.

        The class of a row that nearly ties is provisional: the caller computes it
        again.
        """
        return self.stops.chosen(totals, codes)

    def _exact(self, X: Rows) -> Codes:
        """Return classes (N,) from all base models, added in the original's order."""
        return self.classifier.head.choose(self.classifier.scorer.raw(X))


def _at_once(_: int) -> bool:
    return False


def stops_of(schedule: Schedule | MarginSchedule) -> Limits | Margins:
    """Return the rule by which a schedule stops rows."""
    if isinstance(schedule, MarginSchedule):
        return Margins(schedule.margin)
    return Limits(schedule.lower, schedule.upper, schedule.threshold)


def digest_model(model: Model) -> NDArray[np.uint8]:
    """Return a hash, (8,) bytes, of a model's arrays.

    The hash covers the arrays' names, types, shapes and contents.
    """
    digest = blake2b(digest_size=8)
    for name, array in sorted(model.arrays().items()):
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        # The bytes of an array of objects, such as labels, are mere addresses.
        objects = array.dtype.hasobject
        digest.update(repr(array.tolist()).encode() if objects else array.tobytes())
    return np.frombuffer(digest.digest(), np.uint8)
