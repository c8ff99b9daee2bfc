"""The base of executions: computed features, and the answer by the best of them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from polydom.features.errors import BadItem, BadRow
from polydom.features.extract import Extraction
from polydom.features.items import Item, ReadRecord
from polydom.indexer.index.package import MOST_BITS
from polydom.indexer.index.stored_features import StoredFeature
from polydom.models.early_exit.class_score_bounds import Bounds
from polydom.models.early_exit.early_exits import EarlyExit, MarginExit
from polydom.models.early_exit.evaluator import EarlyAnswer

from ...errors import Abandoned
from ...schema.wire import Reason
from ..planning.ladder import Ladder, Looks
from ..planning.plan import Choice
from ..planning.planner import Planner
from ..request import Outcome, Part, Request
from .timed_parts import TimedExtraction

T = TypeVar("T")
NO_PARTS = None, None, None  # of a model that was evaluated whole


class Progress(NamedTuple):
    """The state of an execution as one immutable value, for other threads to read."""

    done: int = 0  # Number of features that are computed
    # Row of the plan that exited early at its checkpoint `done`; -1 without an exit
    exited_row: int = -1
    audit: bool | None = None  # As in `Outcome`
    # True if the audit selected this answer, and the plan did not exit early
    drawn: bool = False
    # True if an audit was interrupted after computing features that are not charged
    uncharged: bool = False
    # Only any-time executions set `row` and `high_s`: the row whose model answers, and
    # a high quantile of the seconds of all computed features
    row: int = -1
    high_s: float = 0.0


# One constant value per number of computed features; most requests need only these.
COMPLETE = tuple(map(Progress, range(MOST_BITS + 1)))


class Execution(ABC):
    """The execution of one request's plan by one thread.

    Other threads may call `rescue` at any time: models of computed features do not read
    the columns that the running thread writes. Setting `stopped` ends the run after the
    current feature, and nobody waits for its answer. Setting `paused` ends it there,
    too, and `TimedExecution.go_on` continues. `longest` is the largest cost that the
    execution may reach. `started_s` is the time when the plan was chosen, on the
    planner's clock.
    """

    __slots__ = (
        "_answering",
        "_extraction",
        "_others",
        "_parts",
        "_planner",
        "_progress",
        "_request",
        "_row",
        "_yielded",
        "choice",
        "longest",
        "paused",
        "started_s",
        "stopped",
    )

    def __init__(
        self,
        planner: Planner,
        request: Request,
        choice: Choice,
        started_s: float,
        others: Callable[[], int] = int,
    ) -> None:
        # Set when features are computed; records read in advance have none
        self._extraction: Extraction
        self._answering = planner.answering
        # What features have taken; None if nobody asks
        self._parts: list[Part] | None = [] if request.timed else None
        self._yielded = False  # True if work ended because other requests wait
        self._planner = planner
        self._request = request
        self._others = others
        payload = request.item.payload
        if type(payload) is ReadRecord:
            self._row = payload.row
        else:
            self._row = np.empty(planner.extractor.width, np.float32)
        self.choice = choice
        self.longest = choice.cost
        self.started_s = started_s
        self.stopped = False
        self.paused = False
        self._progress = COMPLETE[0]

    @abstractmethod
    def run(self) -> Outcome:
        """Compute features while the budget lasts, and return the answer.

        Raises Abandoned if the caller has disconnected or `stopped` is set,
        FeatureFailed if a feature fails that does not say "without", and BadItem if the
        item cannot be used.
        """

    def rescue(self) -> Outcome:
        """Stop the run, and answer from the features that are complete."""
        self.stopped = True
        return self.conclude()

    @abstractmethod
    def _answer(self, progress: Progress) -> tuple[int, Reason | None, float]:
        """Return (row of the model that answers, reason, cost).

        The reason says why the answer is not the best possible; None if it is.
        """

    def _foretold(self, charged: float) -> float:
        """Return the predicted cost of the plan, of which the cost `charged` was done.

        If features are chosen one by one, this is what was bought.
        """
        return charged

    @abstractmethod
    def _computed_set(self) -> int:
        """Return a mask of the features computed so far."""

    def _failed_set(self) -> int:
        """Return a mask of the features that failed."""
        return 0

    @abstractmethod
    def _compute(self) -> None:
        """Compute features while a better answer still fits into the budget."""

    def _refuse_abandoned(self) -> None:
        if self.stopped or self._request.caller.gone:
            raise Abandoned("nobody waits for this answer any more")

    def _left(self) -> float:
        """Return the rest of the budget, divided by the drift."""
        left = self._request.budget.left(self._planner.now())
        return left / self.choice.drift

    def _ask(self, row: int) -> tuple[int, list[float]]:
        return self._evaluate(self._planner.package.models[row].answer)

    def _evaluate(self, model: Callable[[NDArray[np.float32]], T]) -> T:
        """Call the model with the feature row; raise BadItem for an unusable number."""
        try:
            return model(self._row)
        except BadRow as error:
            features = self._planner.package.features
            raise BadItem(_gap_of(features, error.column)) from error

    def _reason(self, quality: float) -> Reason | None:
        """Return why an answer of this `quality` is not the best; None if it is."""
        planner, choice = self._planner, self.choice
        chosen = planner.qualities[choice.plan.row]
        if quality < chosen:
            return "overrun"
        unasked = quality < self._request.min_quality
        if unasked or (quality == chosen and not self._yielded):
            return choice.reason
        best, _ = planner.top_of(self._request.item)
        if quality >= planner.qualities[best]:
            known = self._request, quality, self.started_s, choice.drift
            return "missing" if planner.wanted_for(*known) >= 0 else None
        if self._yielded:
            return "pressure"
        return "waited" if choice.reason == "waited" else "budget"

    def _with_model(self, features_cost: float, row: int) -> float:
        """Return the cost of features and of a row's model, times the drift."""
        package = self._planner.package
        seconds = package.checked_s if self._request.exact else package.model_s
        return (features_cost + float(seconds[row])) * self.choice.drift

    def conclude(self) -> Outcome:
        """Return the answer of the best model whose features are all computed.

        After an early exit from the features, this model is evaluated completely, and
        the outcome has the expected quality of the whole plan.
        """
        parts, sketch = self._parts, self._planner.sketch
        began_s = 0.0 if parts is None else self._planner.now()
        outcome = self._concluded()
        sampled = sketch is not None and outcome.finished_s >= sketch.next_s
        if parts is None and not sampled:
            return outcome
        if parts is not None:
            parts = [*parts, self._model_part(outcome, began_s)]
        return replace(
            outcome,
            computed=self._computed_set(),
            failed=self._failed_set(),
            values=self._row if sampled else None,
            parts=tuple(parts or ()),
        )

    def _model_part(self, outcome: Outcome, began_s: float) -> Part:
        """Return what the model took, whose evaluation began at `began_s`."""
        package, request = self._planner.package, self._request
        seconds = package.checked_s if request.exact else package.model_s
        return Part(
            "model",
            "model",
            began_s,
            outcome.finished_s,
            float(seconds[outcome.row]) * self.choice.drift,
            request.budget.left(began_s),
        )

    def _begin_extraction(self, item: Item) -> Extraction:
        """Return the extraction of an item, which notes times if somebody asks."""
        extraction = self._planner.extractor.begin(item, self._row)
        if self._parts is None:
            return extraction
        given = self._planner, self._request, self.choice.drift
        return TimedExtraction(extraction, *given, self._parts)

    def _concluded(self) -> Outcome:
        # read once, because the computing thread may replace it
        progress, planner = self._progress, self._planner
        row, reason, charged = self._answer(progress)
        if planner.intervals:
            return self._number(row, reason, charged)
        promised, audit, drawn = row, progress.audit, progress.drawn
        if exited := progress.exited_row >= 0:
            reason, promised = "sure", progress.exited_row
        whole = exited or audit is not None or self._request.exact
        exits = None if whole else planner.early_exits[row]
        if exits is not None:
            return self._by_parts(exits, row, reason, charged, drawn)
        code, scores = self._ask(row)
        foretold = self._foretold(charged)
        told = foretold, charged, reason, audit, drawn, exited
        return self._outcome(row, promised, code, scores, told, NO_PARTS)

    def _by_parts(
        self,
        exits: EarlyExit | MarginExit,
        row: int,
        reason: Reason | None,
        charged: float,
        drawn: bool,
    ) -> Outcome:
        """Return the answer of a row's model, which may stop before its last part.

        If the answer was `drawn` for an audit and the model stops, the answer of the
        complete model is returned, and the outcome says whether the two differ. It has
        the same fields as an early answer.
        """
        planner, ladder = self._planner, self._planner.ladders[row]
        foretold, cut, audit = self._foretold(charged), False, None
        if ladder is None:
            code, used, scores, bounds = self._evaluate(exits.answer)
        else:
            (code, used, scores, bounds), cut = self._climb(ladder, exits, row)
            seconds = ladder.seconds(used) * self.choice.drift
            foretold = charged = charged + seconds - self._with_model(0.0, row)
            row = ladder.reached(used) if cut else ladder.rows[-1]
            if reason not in ("overrun", "feature_failed"):
                reason = self._reason(planner.qualities[row])
        size = exits.size
        early, drawn = used < size and not cut, drawn and not cut
        if early and drawn:
            stopped, early, drawn, used = code, False, False, size
            code, scores = self._evaluate(exits.classifier.answer)
            audit = code != stopped
            if bounds is not None:
                bounds = [(score, score) for score in scores]
        if early and reason is None:
            reason = "sure"
        told = foretold, charged, reason, audit, drawn, early
        return self._outcome(row, row, code, scores, told, (bounds, used, size))

    def _outcome(
        self,
        row: int,
        promised: int,
        code: int,
        scores: list[float] | None,
        told: tuple[float, float, Reason | None, bool | None, bool, bool],
        parts: tuple[Bounds | None, int | None, int | None],
    ) -> Outcome:
        """Return the outcome: the class of a row's model, and what is told of it.

        The answer has the expected quality of the row `promised`. `told` are the
        predicted and the charged cost, the reason, `audit`, `passed` and `early`;
        `parts` are bounds of scores, and the base models used and in all.
        """
        planner, labels = self._planner, self._planner.labels[row]
        foretold, charged, reason, audit, drawn, early = told
        bounds, used, size = parts
        if self._request.threshold is not None and scores is not None:
            code = planner.code_by(row, scores, self._request.threshold)
        # positional arguments, because keyword arguments take three times as long
        return Outcome(
            labels[code],
            None if scores is None else dict(zip(labels, scores)),  # noqa: B905
            row,
            foretold + self._answering.more_s,
            self.started_s,
            planner.now(),
            reason,
            planner.qualities[promised],
            planner.accuracies[promised],
            charged,
            self.choice.drift,
            audit,
            drawn,
            None if bounds is None else dict(zip(labels, bounds)),  # noqa: B905
            used,
            size,
            early,
        )

    def _climb(
        self, ladder: Ladder, exits: EarlyExit | MarginExit, row: int
    ) -> tuple[EarlyAnswer, bool]:
        """Evaluate the model of `row` as far as there is time.

        Also returns True if the time was up before the row stopped or all base models
        were evaluated. Without a deadline, or if the plan may be late, exactly the base
        models of `row` are evaluated.
        """
        planner, budget, drift = self._planner, self._request.budget, self.choice.drift
        planned, step_s = planner.package.base_models[row], ladder.step_s * drift
        now_s = planner.now()
        # the answer has yet to be filled in, which is a part of the answering time
        left_s = budget.left(now_s) - max(self._answering.more_s, 0.0)
        timed = budget.due_s < math.inf and not self.choice.late
        if ladder.high_s[-1] * drift <= left_s if timed else not planned:
            return self._evaluate(exits.answer), False
        first = ladder.counts[0] if timed else planned
        due_s = now_s + left_s if timed else -math.inf
        looks = Looks(planner.now, due_s, step_s, planned, self._others)
        found = self._evaluate(
            lambda columns: exits.answer_while(columns, first, ladder.step, looks)
        )
        return found, looks.cut > 0

    def _number(self, row: int, reason: Reason | None, charged: float) -> Outcome:
        planner = self._planner
        _, (value,) = self._ask(row)
        low, high = planner.intervals[row]
        return Outcome(
            label=None,
            scores=None,
            row=row,
            predicted=self._foretold(charged) + self._answering.more_s,
            started_s=self.started_s,
            finished_s=planner.now(),
            reason=reason,
            quality=planner.qualities[row],
            accuracy=None,
            charged=charged,
            drift=self.choice.drift,
            value=value,
            interval=(value + low, value + high),
        )


def _gap_of(features: Iterable[StoredFeature], column: int | None) -> str:
    """Return an error message: the item has no number in `column` of the feature row.

    If `column` is None, the message says that a number is too large.
    """
    first = 0
    for feature in features:
        if column is not None and column < first + feature.width:
            named = feature.columns
            which = named.columns[column - first] if named else column - first
            return (
                f"the item has no number in column {which!r} of feature "
                f"{feature.name!r}, and its model has no answer without it"
            )
        first += feature.width
    return "the item's numbers are too large for its model"
