"""The planner, which chooses a plan for an item and the rest of a request's budget."""

import math
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np

from polydom.features.costs.polynomials import cost_at, costs_at
from polydom.features.costs.stopwatch import busy_clock
from polydom.features.errors import BadItem, BadRow, FeatureFailed
from polydom.features.extract import Extractor
from polydom.features.items import Item, ReadRecord
from polydom.features.sizes import Size
from polydom.features.wording import listed
from polydom.indexer.index.column_needs import coming_together
from polydom.indexer.index.index import Index
from polydom.indexer.index.lookup import Lookup
from polydom.indexer.index.package import Package, mean_costs
from polydom.indexer.index.partial_lookup import PartialLookup

from ...errors import NotFetched, TooHighQuality, TooLittleLeft
from ...schema.wire import Reason
from ..monitoring.answering_time import AnsweringTime
from ..monitoring.cost_drift import LEAST_S, CostDrift
from ..monitoring.exit_audit import ExitAudit
from ..monitoring.feature_failures import FeatureFailures
from ..monitoring.input_sketch import InputSketch
from ..request import Request
from .index_terms import (
    REMEMBERED,
    barred_class,
    least_cost,
    make_anytime,
    promised_shares,
    rank,
    remember_costs,
    remember_tops,
    waiting_costs,
)
from .ladder import make_ladders
from .plan import Choice, make_plans
from .rest import RestCosts

Clock = Callable[[], float]

# Penalty per second for each waiting request, as a multiple of the mean gain of quality
# per second of budget; chosen by simulation (test_pressure).
PRESSURE = 0.2
# Number of masks of withheld features whose look-up is cached; each takes some
# kilobytes.
PATTERNS = 256


class Planner:
    """Chooses a plan for each request, with one index; threads may share the planner.

    The index must have a package. `now` is a monotonic clock. `busy` is a clock of the
    calling thread's processor time, in seconds; if only `now` is passed, it replaces
    both clocks. If `corrects`, predicted times are corrected by the measured times of
    earlier plans. `audit` is the share of answers, in [0, 1], that are drawn for an
    exit audit.
    """

    def __init__(
        self,
        index: Index,
        extractor: Extractor,
        *,
        now: Clock = time.monotonic,
        busy: Clock | None = None,
        corrects: bool = True,
        audit: float = 0.0,
    ) -> None:
        assert index.package is not None
        self.extractor = extractor
        self.now = now
        self.busy = busy or (busy_clock() if now is time.monotonic else now)
        self.drift = CostDrift(float(index.package.meta.get("quantile", 0.99)))
        self.unit = str(index.package.meta.get("unit", "s"))
        self.corrects = corrects and self.unit == "s"
        # True if a plan too short to be timed took long; then the next plan is timed.
        self.suspects = False
        self.audit = ExitAudit(promised_shares(index), audit)
        self.barred = barred_class(index)
        self.failures = FeatureFailures(now)
        # Compares items with the build's, if a server wants it; None otherwise
        self.sketch: InputSketch | None = None
        # Costs of waiting, which no machine's speed changes; None if no feature waits
        self.waiting = waiting_costs(index.package)
        self.adopt(index, index.package)

    def adopt(self, index: Index, package: Package) -> None:
        """Set the index; call this only before the first request.

        A later index must have the same candidates as the first; only costs may differ.
        """
        self.index = index
        self.package = package
        self.plans = make_plans(index)
        count = len(self.plans)
        overhead_s = float(package.costs.overhead[0])
        quantile = float(package.meta.get("quantile", 0.99))
        # Estimates of what an answer takes besides its features and model: with a plan
        # that was chosen beforehand, and with features chosen one by one
        self.answering = AnsweringTime(overhead_s, quantile)
        self.anytime_answering = AnsweringTime(overhead_s, quantile)
        # Early-exit evaluator of each row's model; None without a schedule.
        self.early_exits = package.early_exits or (None,) * count
        # How far each row's model is evaluated if time runs out; None if always whole.
        self.ladders = make_ladders(package)
        whole = np.array(package.base_models) == 0
        self.has_parts = not whole.all()
        more = (package.checked_s - package.model_s)[whole]
        self._most_more_s = float(more.max(initial=0.0))
        self.feature_names = tuple(map(package.names, range(count)))
        # (C, T): polynomials of mean costs, which include the savings of early exits.
        self.mean_costs = mean_costs(package, index.coefficients)
        # Rule that chooses the next feature while time is left; None if plans are
        # fixed.
        self.anytime = make_anytime(index, self.unit)
        self._curves: list[list[float]] = index.coefficients.tolist()
        self.prior = self.package.masks.tolist().index(0)
        # No larger answer costs less, whatever the item's size.
        self.least = least_cost(index, self.prior)
        # (C,): expected quality and accuracy of each row; no accuracy if answers are
        # numbers.
        self.qualities: tuple[float, ...] = tuple(index.qualities.tolist())
        self.accuracies = tuple(map(index.accuracy, range(count)))
        # Costs of going on after a feature has failed.
        self.rests = RestCosts(package, index.qualities)
        self._rest_curve = lru_cache(PATTERNS)(self.rests.curve_of)
        # Seconds of the slowest model, as it may stop early and whole
        models = package.model_s, package.checked_s
        self._slowest_s = tuple(float(seconds.max()) for seconds in models)
        # Function from a size to the most accurate row and its cost.
        self.top = remember_tops(index)
        # Function from a size to the costs of all candidates, and the candidates, the
        # best first: all, and those that evaluate whole models.
        self._costs = remember_costs(index)
        self._ranked = rank(index, parts=True), rank(index, parts=False)
        together = coming_together(package.features)
        given = partial(PartialLookup, index, together=together)
        # Function from a mask of withheld features to the look-up without these
        # features.
        self.given = lru_cache(PATTERNS)(given)
        # The same without candidates that answer with parts of models.
        whole_only = partial(given, parts=False)
        self.given_whole = lru_cache(PATTERNS)(whole_only)
        # The best row and its cost by a mask of features to do without, a size, and
        # whether scores are exact. No cached method: it would keep the planner alive.
        self._tops: dict[tuple[int, Size, bool], tuple[int, float]] = {}
        # Class names of each row's model; empty if answers are numbers.
        self.labels = tuple(
            tuple(self.package.labels[code] for code in model.classes)
            for model in self.package.models
            if not package.numeric
        )
        # Scores from which a row's model chooses the second of two classes; None if it
        # chooses the larger score.
        self.borders = self.package.borders()
        # Of each row, its positive class and the score from which it is chosen; all
        # None if every row chooses the larger score.
        self.thresholds = self.package.thresholds()
        # Bounds of each row's expected residuals; empty if answers are classes.
        self.intervals = tuple((low, high) for low, high in package.intervals.tolist())

    def code_by(self, row: int, scores: Sequence[float], threshold: float) -> int:
        """Return the class, as a position in a row's labels, that a threshold chooses.

        `threshold` is the score from which the index's positive class is chosen.
        """
        labels, positive = self.labels[row], self.package.positive
        if positive not in labels:
            return 0
        at = labels.index(positive)
        return at if scores[at] >= threshold or len(labels) == 1 else 1 - at

    def choose(self, request: Request, now_s: float, waiting: int = 0) -> Choice:
        """Choose a plan for the budget that the request has left at `now_s`.

        The plan has the largest quality - penalty * cost among those that fit the
        budget (drift plus penalty: Neely, Stochastic Network Optimization, 2010). The
        penalty is proportional to `waiting`, the number of other requests that wait.
        If no acceptable plan fits, `request.on_infeasible` decides.
        """
        item, qualities = request.item, self.qualities
        size = item.size
        drift, remaining = self._drift_at(now_s), request.budget.left(now_s)
        more = self._more(request)
        left = self._for_plan(request, remaining, drift)
        if left < self.least:
            return self._choose_infeasible(request, now_s, drift)
        gaps = item.gaps
        whole = gaps is None or not gaps.withheld
        best, best_cost = self.top(size) if whole else self.top_of(item)
        fits = left > 0 and best_cost <= left
        if fits and whole and not waiting and qualities[best] >= request.min_quality:
            return Choice(self.plans[best], (best_cost + more) * drift, None, drift)
        row = best if fits else self._best(request, left)
        if not self._serves(row, request):
            return self._choose_infeasible(request, now_s, drift)
        reason: Reason | None = None
        if waiting:
            penalty = self._penalty(request, waiting, drift)
            cheaper = self._best_with_penalty(request, left, penalty)
            if cheaper != row:
                row, reason = cheaper, "pressure"
        if reason is None:
            reason = self._falls_short(row, request, now_s, drift)
        return self._choice(row, size, reason, drift, more, left=remaining)

    def lookup_of(self, request: Request) -> Lookup[Size] | PartialLookup:
        """Return the look-up over the candidates that can answer a request.

        They need no column that the item lacks. If the request asks for exact scores,
        they evaluate whole models.
        """
        return self._lookup_of(request.item.withheld, request.exact)

    def _lookup_of(self, withheld: int, exact: bool) -> Lookup[Size] | PartialLookup:
        if exact and self.has_parts:
            return self.given_whole(withheld)
        return self.given(withheld) if withheld else self.index.lookup

    def best_without(self, withheld: int, request: Request, left: float) -> int:
        """Return the best row without the features in the mask `withheld`.

        The row fits into `left`, a part of the request's budget; without such a row it
        is the prior.
        """
        left = self._for_plan(request, left, self._drift_at(self.now()))
        size, exact = request.item.size, request.exact
        row, cost = self._top_without(withheld, size, exact)
        return row if cost <= left else self._first(withheld, size, exact, left)[0]

    def fits_any(self, request: Request, left: float) -> bool:
        """Return True if `left`, a part of the request's budget, pays for every row."""
        left = self._for_plan(request, left, self._drift_at(self.now()))
        return max(self._costs(request.item.size)) <= left

    def _top_without(self, withheld: int, size: Size, exact: bool) -> tuple[int, float]:
        tops, key = self._tops, (withheld, size, exact)
        found = tops.get(key)
        if found is None:
            if len(tops) >= REMEMBERED:
                tops.clear()
            found = tops[key] = self._first(withheld, size, exact, math.inf)
        return found

    def _first(
        self, withheld: int, size: Size, exact: bool, left: float
    ) -> tuple[int, float]:
        """Return the best row without some features that fits, and its cost.

        Of equal rows it is the cheapest, and without such a row the prior. No look-up
        is made, as there may be as many masks of withheld features as there are sets of
        fetches.
        """
        costs, found, best = self._costs(size), self.prior, -math.inf
        for quality, mask, row in self._ranked[exact] if left > 0 else ():
            if quality < best:
                break
            if not mask & withheld and costs[row] <= left:
                if best == -math.inf or costs[row] < costs[found]:
                    found = row
                best = quality
        return found, costs[found]

    def time_s(self, row: int, request: Request) -> float:
        """Return the predicted seconds of answering a request by a row.

        It is the least rest of a budget at which `choose` may still choose the row.
        """
        cost = self.cost(row, request.item.size) + self._more(request)
        return cost * self._drift_at(self.now()) + self.answering.more_s

    def rest_s(self, features: int, request: Request) -> float:
        """Return the predicted seconds of some features, and of the slowest model."""
        cost = cost_at(self._rest_curve(features), request.item.size)
        cost += self._slowest_s[request.exact]
        return cost * self._drift_at(self.now()) + self.answering.more_s

    def margin(self, row: int, item: Item) -> float | None:
        """Return by how much a row's best class leads the second for an item.

        Returns None if the row of features is not read yet, or if the row's model has
        fewer than two classes or cannot use the item.
        """
        if type(item.payload) is not ReadRecord or self.package.numeric:
            return None
        try:
            _, scores = self.package.models[row].answer(item.payload.row)
        except BadRow:
            return None
        return self.lead(row, scores)

    def lead(self, row: int, scores: Sequence[float]) -> float | None:
        """Return by how much the best score leads, or the distance from a threshold.

        Where a row's model chooses by a threshold, it is twice the distance from it.
        """
        if len(scores) < 2:
            return None
        border = self.borders[row]
        if border is not None:
            return 2 * abs(scores[1] - border)
        second, best = sorted(scores)[-2:]
        return best - second

    def top_of(self, item: Item) -> tuple[int, float]:
        """Return (row, cost) of the best candidate that needs no missing column."""
        if not item.withheld:
            return self.top(item.size)
        row = self.given(item.withheld).best(item.size, math.inf)
        return row, self.cost(row, item.size)

    def wanted(
        self,
        item: Item,
        left: float,
        above: float,
        least: float = 0.0,
        never: int = 0,
    ) -> int:
        """Return the row of a candidate that needs columns which the item lacks, or -1.

        The candidate's cost, before correction by the drift, is at most `left`. Its
        quality is above `above` and at least `least`, and it does without the features
        in the mask `never`. Candidates that need the columns of only one more feature
        are tried first.
        """
        if not item.withheld or not left >= 0:
            return -1
        rows: Sequence[int] = self.given(item.withheld).wanting(item.size, left)
        if never:
            rows = (*rows, self.given(never).best(item.size, left))
            masks = [int(self.package.masks[row]) for row in rows]
            rows = [
                row
                for row, mask in zip(rows, masks, strict=True)
                if mask & item.withheld and not mask & never
            ]
        for row in rows:
            quality = self.qualities[row]
            if row >= 0 and quality > above and quality >= least:
                return row
        return -1

    def wanted_for(
        self,
        request: Request,
        quality: float,
        now_s: float,
        drift: float,
        never: int = 0,
    ) -> int:
        """Call `wanted` with the budget left at `now_s`; `above` is `quality`."""
        left = self._for_plan(request, request.budget.left(now_s), drift)
        return self.wanted(request.item, left, quality, never=never)

    def holds(self, choice: Choice, request: Request, now_s: float) -> bool:
        """Return True if `choose` would return `choice` again, if no request waited."""
        left, drift = request.budget.left(now_s), choice.drift
        if choice.late or not choice.cost <= left <= choice.left:
            return False
        if drift != self._drift_at(now_s):
            return False
        if choice.reason is None:
            return True
        row = choice.plan.row
        if not self._serves(row, request):
            return False
        return choice.reason == self._falls_short(row, request, now_s, drift)

    def choose_row(self, row: int, request: Request, now_s: float) -> Choice:
        """Choose the plan of the candidate `row`, even if it exceeds the budget.

        The reason is "budget" if a better candidate exists, and "missing" if a better
        candidate needs columns that the item lacks.
        """
        item, package = request.item, self.package
        whole_s, own_s = package.checked_s[row], package.model_s[row]
        more = float(whole_s - own_s) if request.exact else 0.0
        reason: Reason | None = None
        if self.qualities[row] < self.qualities[self.top_of(item)[0]]:
            reason = "budget"
        elif self.wanted(item, math.inf, self.qualities[row]) >= 0:
            reason = "missing"
        drift = self._drift_at(now_s)
        return self._choice(row, item.size, reason, drift, more, late=True)

    def cost(self, row: int, size: Size) -> float:
        """Return the cost of a row on an item of a size, before correction."""
        return cost_at(self._curves[row], size)

    def buys_nothing(self, amount: float) -> bool:
        """Return True if a budget pays only for the prior, whatever the item's size."""
        drift = self._drift_at(self.now())
        return (amount - self.answering.more_s) / drift < self.least

    def _penalty(self, request: Request, waiting: int, drift: float) -> float:
        """Return the penalty per second of a plan, for delaying waiting requests."""
        in_all = request.budget.whole / drift
        row = self._best(request, in_all)
        gain = self.qualities[row] - self.qualities[self.prior]
        return PRESSURE * waiting * gain / in_all if gain > 0 else 0.0

    def _more(self, request: Request) -> float:
        """Return the cost to add to cost curves if the request asks for exact scores.

        Cost curves assume that models may stop early. The result is the longest
        additional time, in seconds, that any model needs without early exits. It is 0
        if the request does not ask for exact scores.
        """
        return self._most_more_s if request.exact else 0.0

    def _for_plan(self, request: Request, left: float, drift: float) -> float:
        """Return how much of the rest of a budget a plan may cost by the cost curves.

        The other part is for answering, the drift, and scores that have to be exact.
        """
        return (left - self.answering.more_s) / drift - self._more(request)

    def _unhindered(self, request: Request, now_s: float, drift: float) -> int:
        """Return the best row for the budget that the request had before it waited."""
        left = request.budget.left(min(now_s, request.waits_since_s))
        return self._best(request, self._for_plan(request, left, drift))

    def _falls_short(
        self, row: int, request: Request, now_s: float, drift: float
    ) -> Reason | None:
        """Return the reason why a better row than `row` was not chosen.

        None if `row` is the best row.
        """
        item, qualities = request.item, self.qualities
        if qualities[row] < qualities[self.top_of(item)[0]]:
            if request.waits_since_s >= now_s:
                return "budget"
            unhindered = self._unhindered(request, now_s, drift)
            return "waited" if qualities[unhindered] > qualities[row] else "budget"
        if not item.withheld:
            return None
        wanted = self.wanted_for(request, qualities[row], now_s, drift)
        return "missing" if wanted >= 0 else None

    def _serves(self, row: int, request: Request) -> bool:
        if self.qualities[row] < request.min_quality:
            return False
        return row != self.prior or row == self.top(request.item.size)[0]

    def _best_with_penalty(self, request: Request, left: float, penalty: float) -> int:
        """Return the affordable row with the highest quality - penalty * mean cost."""
        size = request.item.size
        rows = self.lookup_of(request).skyline(size)
        costs = costs_at(self.index.coefficients[rows], size)
        means = costs_at(self.mean_costs[rows], size)
        qualities = self.index.qualities[rows]
        fits = (costs <= left) & (qualities >= request.min_quality)
        values = np.where(fits, qualities - penalty * means, -np.inf)
        return int(rows[values.argmax()])

    def _best(self, request: Request, left: float) -> int:
        size = request.item.size
        row = self.lookup_of(request).best(size, left) if left > 0 else -1
        return row if row >= 0 else self.prior

    def quality_within(self, request: Request, left_s: float, now_s: float) -> float:
        """Return the expected quality of an answer computed within `left_s` seconds.

        The result is 0 if the quality is below the request's `min_quality`.
        """
        if not left_s > 0:
            return 0.0
        left = self._for_plan(request, left_s, self._drift_at(now_s))
        row = self._best(request, left)
        quality = self.qualities[row]
        return quality if quality >= request.min_quality else 0.0

    def _drift_at(self, now_s: float) -> float:
        return 1.0 if self.drift.factor == 1.0 else self.drift.at(now_s)

    def _choice(
        self,
        row: int,
        size: Size,
        reason: Reason | None,
        drift: float,
        more: float,
        *,
        late: bool = False,
        left: float = math.inf,
    ) -> Choice:
        cost = (self.cost(row, size) + more) * drift
        return Choice(self.plans[row], cost, reason, drift, late, left)

    def _choose_infeasible(
        self, request: Request, now_s: float, drift: float
    ) -> Choice:
        """Choose or raise as `on_infeasible` says, because no acceptable plan fits."""
        size, left = request.item.size, request.budget.left(now_s)
        waited = request.waits_since_s < now_s and self._serves(
            self._unhindered(request, now_s, drift), request
        )
        wanted = -1
        if request.item.withheld:
            prior, least = self.qualities[self.prior], request.min_quality
            for_plan = self._for_plan(request, left, drift)
            wanted = self.wanted(request.item, for_plan, prior, least)
        reason: Reason = "waited" if waited else "infeasible"
        if wanted >= 0 and not waited:
            reason = "missing"
        if request.on_infeasible == "prior":
            return self._choice(self.prior, size, reason, drift, 0.0, left=left)
        if request.on_infeasible == "error":
            fetches = request.fetches
            if fetches and fetches.possible > self.qualities[self.prior]:
                states = {name: one.state for name, one in fetches.fetched.items()}
                raise NotFetched(states)
            if reason == "missing":
                raise BadItem(self._what_lacks(request.item, wanted))
        more = self._more(request)
        cheapest = self._cheapest(self.lookup_of(request), request)
        if request.on_infeasible == "error":
            if cheapest == self.prior:  # so that the error names some cost
                cheapest = self._cheapest(self.index.lookup, request)
            if self.qualities[cheapest] < request.min_quality:
                best = self.qualities[self.top_of(request.item)[0]]
                raise TooHighQuality(wanted=request.min_quality, best=best)
            raise TooLittleLeft(
                left=max(left, 0.0),
                amount=request.budget.amount,
                cheapest=(self.cost(cheapest, size) + more) * drift,
                size=size,
                unit=self.unit,
            )
        return self._choice(cheapest, size, reason, drift, more, late=True)

    def learn(self, charged_s: float, busy_s: float, waiting_s: float = 0.0) -> None:
        """Update the drift after a plan that took `busy_s` seconds.

        `charged_s` is the predicted time, corrected by the drift, and `waiting_s` the
        part of it in which features wait, as for a network. `busy_s` is processor time,
        because elapsed time would include waiting for a processor. A plan that mostly
        waits computes too little to tell the machine's speed, so nothing is learned
        from it, unless it computes for longer than the whole prediction.
        """
        if waiting_s > charged_s / 2 and busy_s <= charged_s:
            return
        charged_s -= waiting_s
        exceeded = busy_s > max(charged_s, LEAST_S)
        self.suspects = exceeded
        if self.corrects and (exceeded or charged_s >= LEAST_S):
            self.drift.add(exceeded, self.now())

    def count_failure(self, failure: FeatureFailed) -> None:
        """Count a feature that failed, and log its error."""
        assert failure.feature is not None
        self.failures.add(self.extractor.features[failure.feature].name, failure)

    def _what_lacks(self, item: Item, wanted: int) -> str:
        lacking = int(self.package.masks[wanted]) & item.withheld
        names = [
            feature.name
            for k, feature in enumerate(self.package.features)
            if lacking >> k & 1
        ]
        return (
            "the record lacks columns without which nothing that was asked for can be "
            f"answered: give those of {listed(names)}"
        )

    def _cheapest(self, lookup: Lookup[Size] | PartialLookup, request: Request) -> int:
        """Return the cheapest row, except the prior, of quality `min_quality` or more.

        If there is no such row, return the best row.
        """
        rows: list[int] = lookup.skyline(request.item.size).tolist()
        for row in rows:
            if row != self.prior and self.qualities[row] >= request.min_quality:
                return row
        return rows[-1]
