"""Execute a plan on one item, feature by feature, while the budget lasts.

After each feature the plan may exit early: the model of the features computed so far
answers if its best class leads the second by more than a margin
(`Execution._takes_exit`). If a feature fails that says "without", a `RestExecution`
goes on without the feature.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.polynomials import cost_at
from polydom.features.errors import BadItem, BadRow, FeatureFailed
from polydom.features.extract import Extraction
from polydom.features.items import ReadRecord
from polydom.indexer.index.next_feature import AnytimeRule
from polydom.indexer.index.package import MOST_BITS
from polydom.indexer.index.stored_features import StoredFeature
from polydom.models.early_exit.early_exits import EarlyExit, MarginExit
from polydom.models.early_exit.evaluator import EarlyAnswer

from ..errors import Abandoned, TooLittleLeft
from ..schema.wire import Reason
from .cost_drift import LEAST_S
from .ladder import Ladder, Looks
from .plan import Plan
from .planner import Choice, Planner
from .request import Outcome, Request

T = TypeVar("T")
SLACK = 1 + 1e-9  # sums of the same costs in another order may round differently
# Seconds that an any-time execution takes to choose its first feature. If no more are
# left, the answer comes at once instead.
AIMING_S = 2e-5


def execute(planner: Planner, request: Request) -> Outcome:
    """Choose a plan for the rest of the request's budget, and return its answer.

    Raises what `Execution.run` raises.
    """
    return begin(planner, request).run()


def begin(
    planner: Planner,
    request: Request,
    waiting: int = 0,
    others: Callable[[], int] = int,
    choice: Choice | None = None,
) -> "Execution":
    """Choose the plan of a request, and return an execution that has not begun.

    The more requests are `waiting` now, the cheaper the chosen plan. During the
    execution, `others()` returns the number of requests that wait at that time; if it
    is above 0, optional improvements are skipped. `choice` is an earlier choice for the
    same request; it is used if the planner would choose the same again.
    """
    now_s = planner.now()
    if choice is None or waiting or not planner.holds(choice, request, now_s):
        choice = planner.choose(request, now_s, waiting)
    anytime = planner.anytime
    if (
        not waiting
        and anytime is not None
        and choice.left >= max(AIMING_S, anytime.least_s)
        and _may_fall_short(planner, request, choice)
    ):
        execution = AnytimeExecution(planner, anytime, request, choice, now_s, others)
        if execution.worthwhile:
            return execution
    return PlanExecution(planner, request, choice, now_s, others, audits=not waiting)


def _may_fall_short(planner: Planner, request: Request, choice: Choice) -> bool:
    """Return True if an any-time execution could improve the answer of this choice.

    It cannot if the choice is the best for the item or late, if the budget is not a
    time, or if even the best plan has less than the requested quality. Nor can it for a
    record whose columns were all read when it was decoded, and for exact scores of an
    index whose any-time rule counts on parts of models.
    """
    if type(request.item.payload) is ReadRecord and not choice.plan.exits:
        return False
    reason = choice.reason
    if reason is None or reason == "missing" or choice.late:
        return False
    if request.exact and planner.has_parts:
        return False
    if request.budget.due_s == math.inf:
        return False
    best, _ = planner.top_of(request.item)
    return planner.qualities[best] >= request.min_quality


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
    current feature. `longest` is the largest cost that the execution may reach.
    `started_s` is the time when the plan was chosen, on the planner's clock.
    """

    __slots__ = (
        "_answering",
        "_audits",
        "_extraction",
        "_others",
        "_planner",
        "_progress",
        "_request",
        "_rest",
        "_row",
        "_yielded",
        "choice",
        "longest",
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
        audits: bool = True,
    ) -> None:
        # Set when features are computed; records read in advance have none
        self._extraction: Extraction
        self._answering = planner.answering
        self._audits = audits
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
        self._progress = COMPLETE[0]
        # The execution that goes on without a feature that failed
        self._rest: RestExecution | None = None

    def run(self) -> Outcome:
        """Compute features while the budget lasts, and return the answer.

        The planner's drift learns from the measured time. Raises Abandoned if the
        caller has disconnected or `stopped` is set, FeatureFailed if a feature fails
        that does not say "without", and BadItem if the item cannot be used.
        """
        planner = self._planner
        suspects = planner.suspects and self.choice.plan.features
        if self.longest < LEAST_S and not suspects:
            try:
                self._compute()
            except FeatureFailed as failure:
                return self._go_on_without(failure)
            outcome = self.conclude()
            if outcome.finished_s - outcome.started_s > LEAST_S:
                planner.suspects = True  # time the next plan, as this one was slow
            self._learn_answering(outcome)
            return outcome
        began_s = planner.busy()
        try:
            self._compute()
        except (Abandoned, FeatureFailed, BadItem) as error:
            failed = not isinstance(error, Abandoned)
            charged_s = self._cost_so_far(failed=failed)
            busy_s = planner.busy() - began_s
            # the failed feature may have taken almost no time
            if (charged_s and not failed) or busy_s > charged_s:
                planner.learn(charged_s, busy_s)
            if isinstance(error, FeatureFailed):
                return self._go_on_without(error)
            raise
        outcome = self.conclude()
        progress = self._progress
        if progress.done and not progress.uncharged:
            planner.learn(outcome.charged, planner.busy() - began_s)
        if outcome.charged < LEAST_S:
            self._learn_answering(outcome)
        return outcome

    def rescue(self) -> Outcome:
        """Stop the run, and answer from the features that are complete."""
        self.stopped = True
        rest = self._rest
        return self.conclude() if rest is None else rest.rescue()

    def _go_on_without(self, failure: FeatureFailed) -> Outcome:
        """Answer without a feature that failed; raise `failure` if it must not fail."""
        rest = RestExecution(self, self._computed_set(), self._extraction, failure)
        self._rest = rest
        if self.stopped:  # by a thread that may not have seen `rest`
            rest.stopped = True
        return rest.run()

    @abstractmethod
    def _computed_set(self) -> int:
        """Return a mask of the features computed so far."""

    def _learn_answering(self, outcome: Outcome) -> None:
        """Update the answering time after a plan too short for the drift."""
        if self._planner.corrects:
            took_s = outcome.finished_s - outcome.started_s
            self._answering.add(took_s > outcome.predicted)

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
    def _compute(self) -> None:
        """Compute features while a better answer still fits into the budget."""

    @abstractmethod
    def _cost_so_far(self, *, failed: bool) -> float:
        """Return the predicted cost, with drift, of the features computed so far.

        If `failed`, the cost of the feature that failed is included.
        """

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

    def _takes_exit(self, plan: Plan, k: int) -> bool:
        margin = plan.margins[k]
        if margin == math.inf or self._request.threshold is not None:
            return False
        planner, row = self._planner, plan.answers[k]
        code, scores = self._ask(row)
        border = planner.borders[row]
        second, best = sorted(scores)[-2:]
        lead = best - second if border is None else 2 * abs(scores[1] - border)
        if lead <= margin:
            return False
        barred = planner.barred
        return barred is None or planner.package.models[row].classes[code] != barred

    def _audit_draws(self, plan: Plan) -> bool:
        planner = self._planner
        if not (self._audits and planner.audit.share):
            return False
        stops = planner.early_exits[plan.row] is not None and not self._request.exact
        return (plan.exits or stops) and planner.audit.due()

    def _complete_exited(
        self, plan: Plan, done: int, extraction: Extraction
    ) -> bool | None:
        """Compute the rest of a plan after an early exit.

        Return True if the answer changes, or None if the computation stops before the
        end: because other requests wait, the caller is gone, time runs out, or a
        feature fails.
        """
        planner, request = self._planner, self._request
        size = request.item.size
        # a batch has reserved the cost of the whole plan
        paid = self.choice.late and request.budget.due_s == math.inf
        for k in range(done, len(plan.features)):
            out = self.stopped or request.caller.gone or self._others()
            if out or not (paid or plan.worth_going_on(k, size, self._left())):
                return None
            try:
                extraction.compute(plan.features[k])
            except FeatureFailed as failure:
                planner.count_failure(failure)
                return None
        models = planner.package.models
        first, last = plan.answers[done], plan.row
        early, _ = self._ask(first)
        whole, _ = self._ask(last)
        return bool(models[first].classes[early] != models[last].classes[whole])

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
        the outcome has the expected quality of the whole plan. If an audit selected
        this answer and the model stops before its last base model, the answer of the
        complete model is returned, and the outcome says whether the two differ. It has
        the same fields as an early answer.
        """
        # read once, because the computing thread may replace it
        progress = self._progress
        row, reason, charged = self._answer(progress)
        promised, foretold = row, self._foretold(charged)
        if progress.exited_row >= 0:
            reason, promised = "sure", progress.exited_row
        audit, drawn = progress.audit, progress.drawn
        whole = progress.exited_row >= 0 or audit is not None
        planner, choice = self._planner, self.choice
        if planner.intervals:
            return self._number(row, reason, charged)
        exits = None if whole or self._request.exact else planner.early_exits[row]
        scores: list[float] | None
        bounds = used = size = None
        early, cut = progress.exited_row >= 0, False
        if exits is None:
            code, scores = self._ask(row)
        else:
            ladder = planner.ladders[row]
            if ladder is None:
                code, used, scores, bounds = self._evaluate(exits.answer)
            else:
                (code, used, scores, bounds), cut = self._climb(ladder, exits, row)
                seconds = ladder.seconds(used) * choice.drift
                charged += seconds - self._with_model(0.0, row)
                row = promised = ladder.reached(used) if cut else ladder.rows[-1]
                foretold = charged
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
        labels = planner.labels[row]
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
            "sure" if early and reason is None else reason,
            planner.qualities[promised],
            planner.accuracies[promised],
            charged,
            choice.drift,
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


class PlanExecution(Execution):
    """An execution that computes the features of its plan in their fixed order."""

    __slots__ = ()

    def _answer(self, progress: Progress) -> tuple[int, Reason | None, float]:
        plan, choice, done = self.choice.plan, self.choice, progress.done
        row = plan.answers[done]
        if done == len(plan.features):
            return row, choice.reason, choice.cost
        features = cost_at(plan.begun[done], self._request.item.size)
        return row, "overrun", self._with_model(features, row)

    def _foretold(self, charged: float) -> float:
        return self.choice.cost

    def _compute(self) -> None:
        request, plan = self._request, self.choice.plan
        is_read = type(request.item.payload) is ReadRecord and not plan.exits
        if is_read or not plan.features:
            self._refuse_abandoned()
            # a record's columns were all read when it was decoded
            self._progress = COMPLETE[len(plan.features)]
            if self._audit_draws(plan):
                self._progress = self._progress._replace(drawn=True)
            return
        late, size = self.choice.late, request.item.size
        extraction = self._planner.extractor.begin(request.item, self._row)
        self._extraction = extraction
        for k, feature in enumerate(plan.features):
            self._refuse_abandoned()
            if not (late or plan.worth_going_on(k, size, self._left())):
                return
            extraction.compute(feature)
            self._progress = COMPLETE[k + 1]
            if self._takes_exit(plan, k + 1):
                self._progress = Progress(k + 1, plan.row)
                if self._audit_draws(plan):
                    self._audit_exit(plan, k + 1, extraction)
                return
        if self._audit_draws(plan):
            self._progress = self._progress._replace(drawn=True)

    def _audit_exit(self, plan: Plan, done: int, extraction: Extraction) -> None:
        changes = self._complete_exited(plan, done, extraction)
        if changes is None:
            self._progress = self._progress._replace(uncharged=True)
        else:
            self._progress = Progress(len(plan.features), audit=changes)

    def _computed_set(self) -> int:
        computed = self.choice.plan.features[: self._progress.done]
        return sum(1 << feature for feature in computed)

    def _cost_so_far(self, *, failed: bool) -> float:
        plan = self.choice.plan
        done = min(self._progress.done + failed, len(plan.features))
        begun = cost_at(plan.begun[done], self._request.item.size)
        return begun * self.choice.drift if done else 0.0


class AnytimeExecution(Execution):
    """An execution that chooses the next feature after every feature, by the time left.

    At any time it follows one plan, and may exit early at the checkpoints of this plan.
    If other requests wait, it ends as soon as its answer is as good as the answer of
    the plan in `choice`.
    """

    __slots__ = (
        "_aimed",
        "_anytime",
        "_computed",
        "_costs",
        "_next",
    )

    def __init__(
        self,
        planner: Planner,
        anytime: AnytimeRule,
        request: Request,
        choice: Choice,
        started_s: float,
        others: Callable[[], int] = int,
    ) -> None:
        super().__init__(planner, request, choice, started_s, others)
        left = request.budget.left(started_s) / choice.drift
        self.longest = max(choice.cost, left)
        self._answering = planner.anytime_answering
        self._anytime = anytime
        self._costs = anytime.at(request.item.size)
        self._computed = 0  # bit mask of the computed features
        overhead_s = anytime.overhead_s(request.item.size)
        self._progress = Progress(row=anytime.answer(0), high_s=overhead_s)
        self._aim(left)

    @property
    def worthwhile(self) -> bool:
        """True if at least one more feature fits into the remaining time."""
        return self._next >= 0

    def _answer(self, progress: Progress) -> tuple[int, Reason | None, float]:
        row = progress.row
        reason = self._reason(self._planner.qualities[row])
        return row, reason, self._with_model(progress.high_s, row)

    def _compute(self) -> None:
        extraction = self._planner.extractor.begin(self._request.item, self._row)
        self._extraction = extraction
        self._aim(self._left())
        while self.worthwhile:
            self._refuse_abandoned()
            if self._others() and self._has_enough():
                self._yielded = True
                return
            extraction.compute(self._next)
            high_s = self._high_s()
            self._computed |= 1 << self._next
            row, done = self._anytime.answer(self._computed), self._progress.done + 1
            self._progress = Progress(done, row=row, high_s=high_s)
            if self._exits_now(extraction):
                return
            self._aim(self._left())
        plan = self._planner.plans[self._progress.row]
        self._progress = self._progress._replace(drawn=self._audit_draws(plan))

    def _exits_now(self, extraction: Extraction) -> bool:
        """Exit early if the current plan's checkpoint allows it; return True if so."""
        plan, done = self._planner.plans[self._aimed], self._progress.done
        first = sum(1 << feature for feature in plan.features[:done])
        if first != self._computed or plan.margins[done] == math.inf:
            return False
        asked_s = float(self._planner.package.checked_s[plan.answers[done]])
        high_s = self._progress.high_s + asked_s
        self._progress = self._progress._replace(high_s=high_s)
        if not self._takes_exit(plan, done):
            return False
        row = plan.answers[done]
        self._progress = self._progress._replace(exited_row=plan.row, row=row)
        if self._audit_draws(plan):
            self._audit_exit(plan, done, extraction)
        return True

    def _audit_exit(self, plan: Plan, done: int, extraction: Extraction) -> None:
        changes = self._complete_exited(plan, done, extraction)
        if changes is None:
            self._progress = self._progress._replace(uncharged=True)
            return
        high_s = self._progress.high_s
        for feature in plan.features[done:]:
            high_s += self._anytime.high_s(self._costs, self._computed, feature)
            self._computed |= 1 << feature
        self._progress = Progress(
            len(plan.features), audit=changes, row=plan.row, high_s=high_s
        )

    def _aim(self, left: float) -> None:
        """Set `_next` to the best next feature for the time `left`; -1 means none."""
        withheld = self._request.item.withheld
        self._next = self._aimed = self._anytime.target(
            self._costs, self._computed, left, withheld
        )
        if self._aimed >= 0:
            self._next = self._anytime.next(self._aimed, self._computed)

    def _high_s(self) -> float:
        """Return a high quantile of the time of all computed features plus the next."""
        next_s = self._anytime.high_s(self._costs, self._computed, self._next)
        return float(self._progress.high_s + next_s)

    def _has_enough(self) -> bool:
        qualities = self._planner.qualities
        return qualities[self._progress.row] >= qualities[self.choice.plan.row]

    def _computed_set(self) -> int:
        return self._computed

    def _cost_so_far(self, *, failed: bool) -> float:
        begun_s = self._progress.high_s if self._computed else 0.0
        return (self._high_s() if failed else begun_s) * self.choice.drift


class RestExecution(Execution):
    """The rest of an execution `of` which a feature failed, without this feature.

    The best candidates answer that need no failed feature and fit into the rest of the
    budget. Features and steps that are computed already cost nothing more. If nothing
    fits, the best candidate whose features are computed answers, which may be the
    prior, unless `on_infeasible` wants otherwise. A budget without a deadline loses the
    cost of all features so far, and an infinite one is that of the failed plan.

    Parameters
    ----------
    of
        Execution of the failed plan.
    computed
        Mask of the features that are computed.
    extraction
        Extraction with the results of these features and their steps.
    failure
        The failure, which is raised if the feature does not say "without".
    """

    __slots__ = ("_computed", "_failure", "_rests", "_withheld")

    def __init__(
        self,
        of: Execution,
        computed: int,
        extraction: Extraction,
        failure: FeatureFailed,
    ) -> None:
        super().__init__(
            of._planner, of._request, of.choice, of.started_s, of._others, audits=False
        )
        self._row = of._row  # which has the values of computed features
        self._extraction = extraction
        self._computed = computed
        self._withheld = self._request.item.withheld
        self._failure: FeatureFailed | None = None
        self._withhold(failure)
        self._rests = self._planner.rests
        spent = of._cost_so_far(failed=True) / self.choice.drift
        row = self._rests.ready(computed)
        self._progress = Progress(computed.bit_count(), row=row, high_s=spent)

    def run(self) -> Outcome:
        """Compute features while the budget lasts, and return the answer.

        Raises what `Execution.run` raises, and TooLittleLeft if nothing fits and
        `on_infeasible` is "error".
        """
        self._compute()
        return self.conclude()

    def _withhold(self, failure: FeatureFailed) -> None:
        self._planner.count_failure(failure)
        withheld = self._planner.extractor.withheld_by(failure)
        if not withheld:
            raise failure
        self._withheld |= withheld
        self._failure = failure

    def _compute(self) -> None:
        size, extraction = self._request.item.size, self._extraction
        while (feature := self._next()) >= 0:
            self._refuse_abandoned()
            cost = self._rests.of_feature(feature, size, extraction.run_steps())
            progress = self._progress
            spent = progress.high_s + cost
            try:
                extraction.compute(feature)
            except FeatureFailed as failure:
                self._progress = progress._replace(high_s=spent)
                self._withhold(failure)
                continue
            self._computed |= 1 << feature
            row = self._rests.ready(self._computed)
            self._progress = Progress(progress.done + 1, row=row, high_s=spent)

    def _next(self) -> int:
        """Return the feature to compute next; -1 if the answer is ready."""
        request, rests = self._request, self._rests
        least, policy = request.min_quality, request.on_infeasible
        costs = rests.of_candidates(
            request.item.size,
            self._computed,
            self._extraction.run_steps(),
            exact=request.exact,
        )
        left = self._left()
        row, cheapest = rests.best(costs, max(left, 0.0), self._withheld, least)
        failure, self._failure = self._failure, None
        if row < 0 and policy == "cheapest":
            row = cheapest
            if row < 0:
                row, _ = rests.best(costs, math.inf, self._withheld, 0.0)
        if row < 0 and policy == "error" and failure is not None:
            if cheapest < 0:
                raise failure
            raise TooLittleLeft(
                left=max(left, 0.0) * self.choice.drift,
                amount=request.budget.amount,
                cheapest=float(costs[cheapest]) * self.choice.drift,
                size=request.item.size,
                unit=self._planner.unit,
            )
        if row < 0:
            return -1
        order = self._planner.package.orders[row]
        return next((f for f in order if not self._computed >> f & 1), -1)

    def _left(self) -> float:
        budget, spent = self._request.budget, self._progress.high_s
        if budget.due_s < math.inf:
            return super()._left()
        if budget.amount < math.inf:
            return budget.amount / self.choice.drift - spent
        # A batch has paid for the failed plan. Without the feature, the other features
        # cost no more, but the model of another set may.
        models_s = self._planner.package.model_s
        more_s = float(models_s.max()) - float(models_s[self.choice.plan.row])
        return (self.choice.cost / self.choice.drift + more_s) * SLACK - spent

    def _computed_set(self) -> int:
        return self._computed

    def _answer(self, progress: Progress) -> tuple[int, Reason | None, float]:
        cost = self._with_model(progress.high_s, progress.row)
        return progress.row, "feature_failed", cost

    def _cost_so_far(self, *, failed: bool) -> float:
        return self._progress.high_s * self.choice.drift
