"""Executions whose time is learned from, and whose early exits are audited."""

import math
from abc import abstractmethod
from collections.abc import Callable

from polydom.features.costs.polynomials import cost_at
from polydom.features.errors import BadItem, FeatureFailed
from polydom.features.extract import Extraction

from ...errors import Abandoned
from ..monitoring.cost_drift import LEAST_S
from ..planning.plan import Choice, Plan
from ..planning.planner import Planner
from ..request import Outcome, Request
from .base_execution import Execution
from .rest_execution import RestExecution


class TimedExecution(Execution):
    """An execution whose time the planner's drift learns, and whose exits are audited.

    If a feature fails that says "without", a `RestExecution` goes on.
    """

    __slots__ = ("_audits", "_rest")

    def __init__(
        self,
        planner: Planner,
        request: Request,
        choice: Choice,
        started_s: float,
        others: Callable[[], int] = int,
        audits: bool = True,
    ) -> None:
        super().__init__(planner, request, choice, started_s, others)
        self._audits = audits
        # The execution that goes on without a feature that failed
        self._rest: RestExecution | None = None

    def run(self) -> Outcome:
        """Compute features while the budget lasts, and return the answer.

        The planner's drift learns from the measured time. Raises what `Execution.run`
        raises.
        """
        planner = self._planner
        suspects = planner.suspects and self.choice.plan.features
        timed = self.longest >= LEAST_S or suspects
        began_s = planner.busy() if timed else 0.0
        try:
            self._compute()
        except (Abandoned, FeatureFailed, BadItem) as error:
            failed = not isinstance(error, Abandoned)
            if timed:
                self._learn_unfinished(failed, planner.busy() - began_s)
            if isinstance(error, FeatureFailed):
                return self._go_on_without(error)
            raise
        outcome, progress = self.conclude(), self._progress
        if not timed and outcome.finished_s - outcome.started_s > LEAST_S:
            planner.suspects = True  # time the next plan, as this one was slow
        elif timed and progress.done and not progress.uncharged:
            busy_s = planner.busy() - began_s
            planner.learn(outcome.charged, busy_s, self._waiting_s())
        if planner.corrects and (not timed or outcome.charged < LEAST_S):
            took_s = outcome.finished_s - outcome.started_s
            self._answering.add(took_s > outcome.predicted)
        return outcome

    def rescue(self) -> Outcome:
        """Stop the run, and answer from the features that are complete."""
        self.stopped = True
        rest = self._rest
        return self.conclude() if rest is None else rest.rescue()

    def pause(self) -> None:
        """End the run after the current feature; `go_on` then continues."""
        self.paused = True
        if self._rest is not None:
            self._rest.paused = True

    def go_on(self, request: Request) -> RestExecution:
        """Return the rest of this execution for a record that has more columns now.

        `request` is that of this execution, with the record's new item. This execution
        must have ended, and not by `rescue`.
        """
        if self._rest is not None:
            return self._rest.go_on(request)
        computed, item = self._computed_set(), request.item
        if computed:
            extraction = self._extraction.with_more(item)
        else:
            extraction = self._begin_extraction(item)
        spent = self._cost_so_far(failed=False) / self.choice.drift
        return RestExecution(self, request, computed, spent, extraction)

    def _learn_unfinished(self, failed: bool, busy_s: float) -> None:
        """Let the planner learn from a plan that ended before its last feature."""
        charged_s = self._cost_so_far(failed=failed)
        # the failed feature may have taken almost no time
        if (charged_s and not failed) or busy_s > charged_s:
            self._planner.learn(charged_s, busy_s, self._waiting_s())

    def _waiting_s(self) -> float:
        """Return the predicted time, with drift, that the computed features wait."""
        waiting = self._planner.waiting
        if waiting is None:
            return 0.0
        curve = waiting.of(self._computed_set()).tolist()
        return cost_at(curve, self._request.item.size) * self.choice.drift

    def _go_on_without(self, failure: FeatureFailed) -> Outcome:
        """Answer without a feature that failed; raise `failure` if it must not fail."""
        spent = self._cost_so_far(failed=True) / self.choice.drift
        computed = self._computed_set()
        extraction = self._extraction
        rest = RestExecution(self, self._request, computed, spent, extraction)
        rest.withhold(failure)
        self._rest = rest
        # by a thread that may not have seen `rest`
        if self.stopped:
            rest.stopped = True
        if self.paused:
            rest.paused = True
        return rest.run()

    @abstractmethod
    def _cost_so_far(self, *, failed: bool) -> float:
        """Return the predicted cost, with drift, of the features computed so far.

        If `failed`, the cost of the feature that failed is included.
        """

    def _takes_exit(self, plan: Plan, k: int) -> bool:
        margin = plan.margins[k]
        if margin == math.inf or self._request.threshold is not None:
            return False
        planner, row = self._planner, plan.answers[k]
        code, scores = self._ask(row)
        if (lead := planner.lead(row, scores)) is None or lead <= margin:
            return False
        barred = planner.barred
        return barred is None or planner.package.models[row].classes[code] != barred

    def _audit_draws(self, plan: Plan) -> bool:
        planner = self._planner
        if not (self._audits and planner.audit.share):
            return False
        if self._request.threshold is not None:  # it takes no exit, and labels anew
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
