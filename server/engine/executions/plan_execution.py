"""Executions of a plan whose features have a fixed order."""

from polydom.features.costs.polynomials import cost_at
from polydom.features.extract import Extraction
from polydom.features.items import ReadRecord

from ...schema.wire import Reason
from ..planning.plan import Plan
from .base_execution import COMPLETE, Progress
from .timed_execution import TimedExecution
from .timed_parts import read_part


class PlanExecution(TimedExecution):
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
            # a trace does without them, as they take no time of their own
            if self._parts is not None and request.explain:
                given = self._planner, request, self.choice.drift
                self._parts += (read_part(*given, one) for one in plan.features)
            if self._audit_draws(plan):
                self._progress = self._progress._replace(drawn=True)
            return
        late, size = self.choice.late, request.item.size
        extraction = self._begin_extraction(request.item)
        self._extraction = extraction
        for k, feature in enumerate(plan.features):
            self._refuse_abandoned()
            if self.paused:
                return
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
