"""The rest of an execution of which a feature failed, without this feature."""

import math

from polydom.features.errors import FeatureFailed
from polydom.features.extract import Extraction

from ...errors import TooLittleLeft
from ...schema.wire import Reason
from ..request import Outcome
from .base_execution import Execution, Progress

SLACK = 1 + 1e-9  # sums of the same costs in another order may round differently


class RestExecution(Execution):
    """The rest of an execution `of` which a feature failed, without this feature.

    The best candidates answer that need no failed feature and fit into the rest of the
    budget. Features and steps that are computed already cost nothing more. If nothing
    fits, the best candidate whose features are computed answers, which may be the
    prior, unless `on_infeasible` wants otherwise. A budget without a deadline loses the
    cost of all features so far, and an infinite one is that of the failed plan.

    `computed` is a mask of the features that `extraction` has computed; these and the
    failed feature cost `spent`, before correction. `failure` is raised if its feature
    does not say "without".
    """

    __slots__ = ("_computed", "_failure", "_rests", "_withheld")

    def __init__(
        self,
        of: Execution,
        computed: int,
        spent: float,
        extraction: Extraction,
        failure: FeatureFailed,
    ) -> None:
        super().__init__(of._planner, of._request, of.choice, of.started_s, of._others)
        self._row = of._row  # which has the values of computed features
        self._extraction = extraction
        self._computed = computed
        self._withheld = self._request.item.withheld
        self._failure: FeatureFailed | None = None
        self._withhold(failure)
        self._rests = self._planner.rests
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

    def _answer(self, progress: Progress) -> tuple[int, Reason | None, float]:
        cost = self._with_model(progress.high_s, progress.row)
        return progress.row, "feature_failed", cost
