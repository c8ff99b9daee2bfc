"""Executions that choose the next feature by the time that is left."""

import math
from collections.abc import Callable

from polydom.features.extract import Extraction
from polydom.indexer.index.next_feature import AnytimeRule

from ...schema.wire import Reason
from ..planning.plan import Choice, Plan
from ..planning.planner import Planner
from ..request import Request
from .base_execution import Progress
from .timed_execution import TimedExecution


class AnytimeExecution(TimedExecution):
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
        extraction = self._begin_extraction(self._request.item)
        self._extraction = extraction
        self._aim(self._left())
        while self.worthwhile:
            self._refuse_abandoned()
            if self.paused:
                return
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
