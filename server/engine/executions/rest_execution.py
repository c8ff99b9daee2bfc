"""The rest of an execution: without a failed feature, or with columns that came."""

import math

from polydom.features.errors import FeatureFailed
from polydom.features.extract import Extraction

from ...errors import TooLittleLeft
from ...schema.wire import Reason
from ..request import Outcome, Request
from .base_execution import Execution, Progress

SLACK = 1 + 1e-9  # sums of the same costs in another order may round differently


class RestExecution(Execution):
    """The rest of an execution that goes on with other features than planned.

    The best candidates answer that need no withheld feature and fit into the rest of
    the budget. Features and steps that are computed already cost nothing more. If
    nothing fits, the best candidate whose features are computed answers, which may be
    the prior, unless `on_infeasible` wants otherwise. A budget without a deadline loses
    the cost of all features so far, and an infinite one is that of the failed plan.

    `computed` is a mask of the features that `extraction` has computed; these, and
    features that failed, cost `spent`, before correction. `request` is that of the
    execution `of`, whose item may have more columns now. Features in the mask
    `withheld` are left out, as are those that the item lacks columns for.
    """

    __slots__ = ("_computed", "_failed", "_failure", "_rests", "_took_s", "_withheld")

    def __init__(
        self,
        of: Execution,
        request: Request,
        computed: int,
        spent: float,
        extraction: Extraction,
        withheld: int = 0,
    ) -> None:
        super().__init__(of._planner, request, of.choice, of.started_s, of._others)
        self._row = of._row  # which has the values of computed features
        self._extraction, self._parts = extraction, of._parts
        self._computed = computed
        self._withheld = withheld | request.item.withheld
        self._failed = False
        self._failure: FeatureFailed | None = None
        # Seconds of work before a wait that this execution goes on after
        self._took_s: float | None = None
        self._rests = self._planner.rests
        row = self._rests.ready(computed)
        self._progress = Progress(computed.bit_count(), row=row, high_s=spent)

    def run(self) -> Outcome:
        """Compute features while the budget lasts, and return the answer.

        Raises what `Execution.run` raises, and TooLittleLeft if nothing fits and
        `on_infeasible` is "error".
        """
        if self._took_s is not None:
            self.go_on_after(self._took_s)
        self._compute()
        if self._audit_draws():
            self._progress = self._progress._replace(drawn=True)
        return self.conclude()

    def go_on_after(self, took_s: float) -> None:
        """Count the work as begun `took_s` seconds ago, without the wait before now."""
        self._took_s = took_s
        self.started_s = self._planner.now() - took_s

    def withhold(self, failure: FeatureFailed) -> None:
        """Go on without a feature that failed; raise `failure` if it must not fail."""
        self._planner.count_failure(failure)
        withheld = self._planner.extractor.withheld_by(failure)
        if not withheld:
            raise failure
        self._withheld |= withheld
        self._failed, self._failure = True, failure

    def _audit_draws(self) -> bool:
        planner, request = self._planner, self._request
        if not planner.audit.share or request.exact or request.threshold is not None:
            return False
        stops = planner.early_exits[self._progress.row] is not None
        return stops and not self._others() and planner.audit.due()

    def _computed_set(self) -> int:
        return self._computed

    def _failed_set(self) -> int:
        return self._withheld & ~self._request.item.withheld

    def _compute(self) -> None:
        size, extraction = self._request.item.size, self._extraction
        while (feature := self._next()) >= 0:
            self._refuse_abandoned()
            if self.paused:
                return
            cost = self._rests.of_feature(feature, size, extraction.run_steps())
            progress = self._progress
            spent = progress.high_s + cost
            try:
                extraction.compute(feature)
            except FeatureFailed as failure:
                self._progress = progress._replace(high_s=spent)
                self.withhold(failure)
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

    def _answer(self, progress: Progress) -> tuple[int, Reason | None, float]:
        row = progress.row
        reason: Reason | None = "feature_failed"
        if not self._failed:
            reason = self._reason(self._planner.qualities[row])
        return row, reason, self._with_model(progress.high_s, row)

    def go_on(self, request: Request) -> "RestExecution":
        """Return the rest of this execution for a record that has more columns now."""
        rest = RestExecution(
            self,
            request,
            self._computed,
            self._progress.high_s,
            self._extraction.with_more(request.item),
            self._withheld & ~self._request.item.withheld,
        )
        rest._failed = self._failed
        return rest
