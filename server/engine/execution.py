"""Plans carried out on one item, feature by feature, against the clock."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from polydom.features.costs.polynomials import cost_at
from polydom.features.errors import BadFeature, BadItem, BadRow
from polydom.features.extract import Extraction
from polydom.features.items import ReadRecord
from polydom.indexer.index.next_feature import AnytimeRule
from polydom.indexer.index.package import MOST_BITS
from polydom.indexer.index.stored_features import StoredFeature
from polydom.models.early_exit.early_exits import EarlyAnswer, EarlyExit, MarginExit

from ..errors import Abandoned
from ..schema.wire import Reason
from .cost_drift import LEAST_S
from .outcome import Outcome
from .plan import Plan
from .planner import Choice, Planner
from .request import Request


def execute(planner: Planner, request: Request) -> Outcome:
    """Choose a plan for what is left now, and carry it out.

    Raises
    ------
    TooLittleLeft
        If the request asks for an error rather than a poor or late answer.
    BadFeature, BadItem, Abandoned
        As `Execution.run`.
    """
    return begin(planner, request).run()


def begin(
    planner: Planner,
    request: Request,
    waiting: int = 0,
    others: Callable[[], int] = int,
    choice: Choice | None = None,
) -> "Execution":
    """Choose what to do about a request now; nothing of it is computed yet.

    Parameters
    ----------
    waiting
        How many others wait now; the more, the cheaper the plan.
    others
        Says how many do later, for whom what would only be better is left out.
    choice
        Made for the request before; taken if the same would be chosen now.

    Raises
    ------
    TooLittleLeft
        As `Planner.choose`.
    """
    now_s = planner.now()
    if choice is None or waiting or not planner.holds(choice, request, now_s):
        choice = planner.choose(request, now_s, waiting)
    anytime = planner.anytime
    if (
        not waiting
        and anytime is not None
        and _may_fall_short(planner, request, choice)
    ):
        execution = AnytimeExecution(planner, anytime, request, choice, now_s, others)
        if execution.worthwhile:
            return execution
    return PlanExecution(planner, request, choice, now_s, others, audits=not waiting)


def _may_fall_short(planner: Planner, request: Request, choice: Choice) -> bool:
    """Say whether a budget that runs out may, or may not, buy the best plan.

    Where not even that is as good as asked for, nothing is worth computing.
    """
    reason = choice.reason
    if reason is None or reason == "missing" or choice.late:
        return False
    if request.budget.due_s == math.inf:
        return False
    best, _ = planner.top_of(request.item)
    return planner.qualities[best] >= request.min_quality


class Execution(ABC):
    """One request being answered.

    One thread runs it. Others may `conclude` it at any time, as the running one only
    writes columns that no model of an earlier checkpoint reads. Setting `stopped` ends
    it at its next checkpoint.

    Attributes
    ----------
    choice
        The plan, and why it.
    longest
        What it may come to cost, with drift.
    started_s
        When it was chosen, on the planner's clock.
    stopped
        Whether nobody wants the outcome any more.
    """

    __slots__ = (
        "_audits",
        "_others",
        "_planner",
        "_reached",
        "_request",
        "_row",
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
        self._audits = audits
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
        self._reached: Any = COMPLETE[0]  # or `Halfway`

    def run(self) -> Outcome:
        """Compute features while the budget lasts, and answer.

        What that took is learned from here, so once, whoever has concluded meanwhile.

        Raises
        ------
        BadFeature
            If a feature cannot be computed on this item.
        BadItem
            If the item turns out to be damaged, or has a gap that a model cannot take.
        Abandoned
            If the caller has gone, or it was stopped.
        """
        planner = self._planner
        if self.longest < LEAST_S and not planner.suspects:
            self._compute()
            outcome = self.conclude()
            if outcome.finished_s - outcome.started_s > LEAST_S:
                planner.suspects = True  # the next one is timed
            return outcome
        began_s = planner.busy()
        try:
            self._compute()
        except (Abandoned, BadFeature, BadItem) as error:
            failed = not isinstance(error, Abandoned)
            charged_s, busy_s = self._begun(failed=failed), planner.busy() - began_s
            # what failed may have done so at its very beginning
            if (charged_s and not failed) or busy_s > charged_s:
                planner.learn(charged_s, busy_s)
            raise
        outcome = self.conclude()
        if self._is_charged():
            planner.learn(outcome.charged, planner.busy() - began_s)
        return outcome

    @abstractmethod
    def conclude(self) -> Outcome:
        """Answer with the best model whose features are complete."""

    @abstractmethod
    def _compute(self) -> None:
        """Compute features, as many as are worth it."""

    @abstractmethod
    def _begun(self, *, failed: bool) -> float:
        """Sum up what the curves say of the features begun, the last if it `failed`."""

    @abstractmethod
    def _is_charged(self) -> bool:
        """Say whether features were computed, and no other than are charged."""

    def _refuse_in_vain(self) -> None:
        if self.stopped or self._request.caller.gone:
            raise Abandoned("nobody waits for this answer any more")

    def _left(self) -> float:
        """Tell what may still be spent now, as the curves count."""
        left = self._request.budget.left(self._planner.now())
        return left / self.choice.drift

    def _ask(self, row: int) -> tuple[int, list[float]]:
        """Evaluate a row's whole model; BadItem at a gap that it cannot take."""
        package = self._planner.package
        try:
            return package.models[row].answer(self._row)
        except BadRow as error:
            raise BadItem(_gap_of(package.features, error.column)) from error

    def _follow(self, exits: EarlyExit | MarginExit) -> EarlyAnswer:
        """Evaluate a model as its schedule says; BadItem as `_ask`."""
        try:
            return exits.answer(self._row)
        except BadRow as error:
            features = self._planner.package.features
            raise BadItem(_gap_of(features, error.column)) from error

    def _is_sure(self, plan: Plan, k: int) -> bool:
        """Say whether the model of a plan's checkpoint k leads by enough to answer."""
        margin = plan.margins[k]
        if margin == math.inf:
            return False
        _, scores = self._ask(plan.answers[k])
        second, best = sorted(scores)[-2:]
        return best - second > margin

    def _is_drawn(self, plan: Plan) -> bool:
        """Let the audit draw an answer of a plan that could come early."""
        planner = self._planner
        if not (self._audits and planner.audit.share):
            return False
        stops = planner.early_exits[plan.row] is not None and not self._request.exact
        return (plan.exits or stops) and planner.audit.due()

    def _check_exit(self, plan: Plan, done: int, extraction: Extraction) -> bool | None:
        """Compute the rest of a plan that was sure, and say whether its answer changes.

        None where others came, or time ran out: then what was sure is answered.
        """
        planner, request = self._planner, self._request
        size = request.item.size
        # a batch has set aside what the whole plan takes
        paid = self.choice.late and request.budget.due_s == math.inf
        for k in range(done, len(plan.features)):
            out = self.stopped or request.caller.gone or self._others()
            if out or not (paid or plan.worth_going_on(k, size, self._left())):
                return None
            extraction.compute(plan.features[k])
        models = planner.package.models
        first, last = plan.answers[done], plan.row
        early, _ = self._ask(first)
        whole, _ = self._ask(last)
        return bool(models[first].classes[early] != models[last].classes[whole])

    def _with_model(self, features: float, row: int) -> float:
        """Add to a cost of features that of a row's model; with drift."""
        package = self._planner.package
        seconds = package.checked_s if self._request.exact else package.model_s
        return (features + float(seconds[row])) * self.choice.drift

    def _outcome(
        self,
        row: int,
        reason: Reason | None,
        promised: int,
        charged: float,
        audit: bool | None = None,
        *,
        whole: bool = False,
        drawn: bool = False,
    ) -> Outcome:
        """Have a row's model answer, `whole` or as its schedule says.

        What to expect of it is what is expected of the row `promised`.
        Where the audit has `drawn` this answer, one that comes early is compared with
        the whole model's, which is answered then.
        """
        planner = self._planner
        if planner.intervals:
            return self._number(row, reason, charged)
        exits = None if whole or self._request.exact else planner.early_exits[row]
        scores: list[float] | None
        bounds = used = size = None
        if exits is None:
            code, scores = self._ask(row)
        else:
            code, used, scores, bounds = self._follow(exits)
            size = exits.size
            if scores is None and drawn:
                early, drawn = code, False
                code, scores = self._ask(row)
                audit, used, bounds = code != early, size, None
        labels, choice = planner.labels[row], self.choice
        # In the order of its fields: to name them takes three times as long.
        return Outcome(
            labels[code],
            None if scores is None else dict(zip(labels, scores)),  # noqa: B905
            row,
            choice.cost,
            self.started_s,
            planner.now(),
            "sure" if scores is None and reason is None else reason,
            planner.qualities[promised],
            planner.accuracies[promised],
            charged,
            choice.drift,
            audit,
            drawn,
            None if bounds is None else dict(zip(labels, bounds)),  # noqa: B905
            used,
            size,
        )

    def _number(self, row: int, reason: Reason | None, charged: float) -> Outcome:
        """Have a row's model answer with a number."""
        planner = self._planner
        _, (value,) = self._ask(row)
        low, high = planner.intervals[row]
        return Outcome(
            label=None,
            scores=None,
            row=row,
            predicted=self.choice.cost,
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
    """Say which column of the full row a model misses; None if one is too large."""
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


class Reached(NamedTuple):
    """How far a plan is, as one value that other threads may read.

    `done` features are complete; `sure` says that a checkpoint answers, and `audit` is
    as in `Outcome`. `drawn` says that the audit drew this answer, though no checkpoint
    was sure; `uncharged` that an audit was cut short, so that more was computed than is
    charged.
    """

    done: int = 0
    sure: bool = False
    audit: bool | None = None
    drawn: bool = False
    uncharged: bool = False


# After each number of features, where nothing else is to be said.
COMPLETE = tuple(map(Reached, range(MOST_BITS + 1)))


class PlanExecution(Execution):
    """Computes a plan's features in order while they lead to a better answer in time.

    `audits` says whether exits may be checked; none are where others wait.
    """

    __slots__ = ()

    def conclude(self) -> Outcome:
        """Answer with the best model whose features are complete."""
        plan, choice = self.choice.plan, self.choice
        # read once: the thread that computes may go on
        reached = self._reached
        row, whole = plan.answers[reached.done], reached.done == len(plan.features)
        reason: Reason | None = choice.reason if whole else "overrun"
        promised = row
        if reached.sure:
            reason, promised = "sure", plan.row
        charged = choice.cost
        if not whole:
            features = cost_at(plan.begun[reached.done], self._request.item.size)
            charged = self._with_model(features, row)
        return self._outcome(
            row,
            reason,
            promised,
            charged,
            reached.audit,
            whole=reached.sure or reached.audit is not None,
            drawn=reached.drawn,
        )

    def _compute(self) -> None:
        request, plan = self._request, self.choice.plan
        if type(request.item.payload) is ReadRecord and not plan.exits:
            self._refuse_in_vain()
            # its row was read as a whole
            self._reached = COMPLETE[len(plan.features)]
            if self._is_drawn(plan):
                self._reached = self._reached._replace(drawn=True)
            return
        late, size = self.choice.late, request.item.size
        extraction = self._planner.extractor.begin(request.item, self._row)
        for k, feature in enumerate(plan.features):
            self._refuse_in_vain()
            if not (late or plan.worth_going_on(k, size, self._left())):
                return
            extraction.compute(feature)
            self._reached = COMPLETE[k + 1]
            if self._is_sure(plan, k + 1):
                self._reached = Reached(k + 1, sure=True)
                if self._is_drawn(plan):
                    self._audit_exit(plan, k + 1, extraction)
                return
        if self._is_drawn(plan):
            self._reached = self._reached._replace(drawn=True)

    def _audit_exit(self, plan: Plan, done: int, extraction: Extraction) -> None:
        """Go on with a plan that is sure, and see whether its answer changes."""
        changes = self._check_exit(plan, done, extraction)
        if changes is None:
            self._reached = self._reached._replace(uncharged=True)
        else:
            self._reached = Reached(len(plan.features), audit=changes)

    def _begun(self, *, failed: bool) -> float:
        plan = self.choice.plan
        done = min(self._reached.done + failed, len(plan.features))
        begun = cost_at(plan.begun[done], self._request.item.size)
        return begun * self.choice.drift if done else 0.0

    def _is_charged(self) -> bool:
        return self._reached.done > 0 and not self._reached.uncharged


class Halfway(NamedTuple):
    """How far an any-time execution is, as one value that other threads may read.

    The model of `row` answers, whose features took `high_s` at most. A checkpoint of
    the plan of row `sure` was sure of its answer; -1 where none was. `audit` is as in
    `Outcome`; `drawn` and `uncharged` are as in `Reached`.
    """

    row: int
    high_s: float
    sure: int = -1
    audit: bool | None = None
    drawn: bool = False
    uncharged: bool = False


class AnytimeExecution(Execution):
    """Computes what promises most, feature by feature, as long as it is sure to fit.

    It answers at a checkpoint of the plan that it is aiming at, if that is sure. What
    it would still spend is left to `others` once they come, if what was chosen at the
    beginning is reached.
    """

    __slots__ = (
        "_aimed",
        "_anytime",
        "_computed",
        "_costs",
        "_next",
        "_yielded",
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
        self._anytime = anytime
        self._costs = anytime.at(request.item.size)
        self._computed = 0  # the features, as a mask
        overhead_s = anytime.overhead_s(request.item.size)
        self._reached = Halfway(anytime.answer(0), overhead_s)
        self._yielded = False
        self._aim(left)

    @property
    def worthwhile(self) -> bool:
        """Whether there is a feature to begin with."""
        return self._next >= 0

    def conclude(self) -> Outcome:
        """Answer with the best model whose features are complete."""
        reached = self._reached
        promised = reached.row
        reason = self._reason(self._planner.qualities[promised])
        if reached.sure >= 0:
            reason, promised = "sure", reached.sure
        return self._outcome(
            reached.row,
            reason,
            promised,
            self._with_model(reached.high_s, reached.row),
            reached.audit,
            whole=reached.sure >= 0 or reached.audit is not None,
            drawn=reached.drawn,
        )

    def _compute(self) -> None:
        extraction = self._planner.extractor.begin(self._request.item, self._row)
        self._aim(self._left())
        while self.worthwhile:
            self._refuse_in_vain()
            if self._others() and self._has_enough():
                self._yielded = True
                return
            extraction.compute(self._next)
            reached_s = self._high_s()
            self._computed |= 1 << self._next
            row = self._anytime.answer(self._computed)
            self._reached = Halfway(row, reached_s)
            if self._exits_at_checkpoint(reached_s, extraction):
                return
            self._aim(self._left())
        plan = self._planner.plans[self._reached.row]
        self._reached = self._reached._replace(drawn=self._is_drawn(plan))

    def _exits_at_checkpoint(self, high_s: float, extraction: Extraction) -> bool:
        """Answer where the plan that is aimed at is at a checkpoint, and sure."""
        plan, done = self._planner.plans[self._aimed], self._computed.bit_count()
        first = sum(1 << feature for feature in plan.features[:done])
        if first != self._computed or not self._is_sure(plan, done):
            return False
        self._reached = Halfway(plan.answers[done], high_s, plan.row)
        if self._is_drawn(plan):
            self._audit_exit(plan, done, extraction)
        return True

    def _audit_exit(self, plan: Plan, done: int, extraction: Extraction) -> None:
        """Go on with a plan that is sure, and see whether its answer changes."""
        changes = self._check_exit(plan, done, extraction)
        if changes is None:
            self._reached = self._reached._replace(uncharged=True)
            return
        high_s = self._reached.high_s
        for feature in plan.features[done:]:
            high_s += self._anytime.high_s(self._costs, self._computed, feature)
            self._computed |= 1 << feature
        self._reached = Halfway(plan.row, high_s, audit=changes)

    def _aim(self, left: float) -> None:
        """Choose the feature to compute with so much time left; -1 for none."""
        withheld = self._request.item.withheld
        self._next = self._aimed = self._anytime.target(
            self._costs, self._computed, left, withheld
        )
        if self._aimed >= 0:
            self._next = self._anytime.next(self._aimed, self._computed)

    def _high_s(self) -> float:
        """High seconds of all that is computed and of the next feature."""
        next_s = self._anytime.high_s(self._costs, self._computed, self._next)
        return float(self._reached.high_s + next_s)

    def _has_enough(self) -> bool:
        """Say whether what was chosen at the beginning is reached."""
        qualities = self._planner.qualities
        reached: int = self._reached.row
        return qualities[reached] >= qualities[self.choice.plan.row]

    def _reason(self, quality: float) -> Reason | None:
        """Compare what is reached with what was chosen at the beginning."""
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

    def _begun(self, *, failed: bool) -> float:
        begun_s = self._reached.high_s if self._computed else 0.0
        return (self._high_s() if failed else begun_s) * self.choice.drift

    def _is_charged(self) -> bool:
        return self._computed > 0 and not self._reached.uncharged
