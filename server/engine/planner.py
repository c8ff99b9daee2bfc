"""From an item and what is left of its budget to a plan."""

import math
import time
from collections.abc import Callable
from functools import lru_cache, partial

import msgspec
import numpy as np

from polydom.features.costs.polynomials import costs_at
from polydom.features.costs.stopwatch import busy_clock
from polydom.features.errors import BadItem
from polydom.features.extract import Extractor
from polydom.features.items import Item
from polydom.features.sizes import Size
from polydom.features.wording import listed
from polydom.indexer.index.built_facts import exits_of
from polydom.indexer.index.column_needs import coming_together
from polydom.indexer.index.index import Index
from polydom.indexer.index.lookup import Lookup
from polydom.indexer.index.mean_costs import mean_costs
from polydom.indexer.index.next_feature import AnytimeRule
from polydom.indexer.index.package import Package
from polydom.indexer.index.partial_lookup import PartialLookup

from ..errors import TooLittleLeft
from ..schema.wire import Reason
from .cost_drift import LEAST_S, CostDrift
from .exit_audit import ExitAudit
from .plan import Plan, make_plans
from .request import Request

Clock = Callable[[], float]

# How much every waiting request raises the price of a second, in mean gains of
# quality per second of budget; chosen by simulation (test_pressure).
PRESSURE = 0.2
# Sizes of which the most accurate row is remembered; records have one, and images of
# one camera few.
REMEMBERED = 1024
# Patterns of features withheld of which the look-up is kept, some kilobytes each.
PATTERNS = 256


class Choice(msgspec.Struct, frozen=True):
    """A plan, what it should cost here, and why it is not the best there is.

    Attributes
    ----------
    plan
        What to carry out.
    cost
        What the curves say of it, with the correction of that moment.
    reason
        None for the most accurate plan at this size; "budget" where what was left of
        the budget buys no better; "waited" where it would have, had the request not
        waited for others; "pressure" where others wait and a cheaper one was taken for
        their sake; "missing" where it would have, had more columns come; "infeasible"
        where what was left buys nothing that was asked for.
    drift
        That correction.
    late
        Whether the plan does not fit and is to be carried out all the same.
    left
        With how much of the budget left it was chosen; infinite where more of it would
        have bought the same.
    """

    plan: Plan
    cost: float
    reason: Reason | None
    drift: float = 1.0
    late: bool = False
    left: float = math.inf


class Planner:
    """Plans with one index; safe to share between threads.

    Parameters
    ----------
    index
        An index with a package.
    extractor
        The code of the package's features, in its order.
    now
        The monotonic clock.
    busy
        Clock of the seconds that the calling thread has had of a processor; where
        another `now` is given, that by default.
    corrects
        Whether predicted times follow those that plans turn out to take.
    audit
        Share of the early exits to check, in [0, 1].

    Attributes
    ----------
    unit
        What costs are counted in; "s" or a currency.
    top
        Gives the most accurate row at a size, and its cost by the curves.
    given
        Gives the look-up for a mask of features that cannot be computed.
    labels
        Names of the classes of each row's model; none where answers are numbers.
    intervals
        Residuals between which each row's labels are expected; empty where answers are
        classes.
    feature_names
        Of each row's set, in computing order.
    qualities, accuracies : (C,)
        Expected of each row; no accuracies where answers are numbers.
    mean_costs : (C, T)
        Cost polynomials that hold on average, of plans that may answer early.
    early_exits
        What follows the schedule of each row's model; None where it has none.
    anytime
        How to go on while time is left; None where plans are kept to.
    drift
        Corrects every predicted cost by what plans turn out to take.
    corrects
        Whether it does; never where the costs are no times.
    suspects
        Whether a plan too cheap to be judged seemed to take long.
    audit
        Says which early exits to check.
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
        self.suspects = False
        self.audit = ExitAudit(promised_alpha(index), audit)
        self.adopt(index, index.package)

    def adopt(self, index: Index, package: Package) -> None:
        """Plan with an index of the same candidates, before anything is asked."""
        self.index = index
        self.package = package
        self.plans = make_plans(index)
        count = len(self.plans)
        self.early_exits = package.early_exits or (None,) * count
        more = package.checked_s - package.model_s
        self._most_more_s = float(more.max(initial=0.0))
        self.feature_names = tuple(map(package.names, range(len(self.plans))))
        self.mean_costs = mean_costs(package, index.coefficients)
        self.anytime = make_anytime(index, self.unit)
        self.prior = self.package.masks.tolist().index(0)
        self.qualities: tuple[float, ...] = tuple(index.qualities.tolist())
        self.accuracies = tuple(map(index.accuracy, range(count)))
        self.top = remember_tops(index)
        given = partial(
            PartialLookup, index, together=coming_together(package.features)
        )
        self.given = lru_cache(PATTERNS)(given)
        self.labels = tuple(
            tuple(self.package.labels[code] for code in model.classes)
            for model in self.package.models
            if not package.numeric
        )
        self.intervals = tuple((low, high) for low, high in package.intervals.tolist())

    def choose(self, request: Request, now_s: float, waiting: int = 0) -> Choice:
        """Pick the plan for what the request's budget still allows at `now_s`.

        Parameters
        ----------
        waiting
            How many other requests wait. The more, the higher the price of a second;
            the plan is the one of best quality minus price times cost (drift plus
            penalty: Neely, Stochastic Network Optimization, 2010).

        Raises
        ------
        TooLittleLeft
            If nothing that was asked for fits and the request wants an error then.
        """
        item, qualities = request.item, self.qualities
        size = item.size
        drift, remaining = self._drift_at(now_s), request.budget.left(now_s)
        more = self._more(request)
        left = remaining / drift - more  # as the curves count
        gaps = item.gaps
        whole = gaps is None or not gaps.withheld
        best, best_cost = self.top(size) if whole else self.top_of(item)
        fits = left > 0 and best_cost <= left
        if fits and whole and not waiting and qualities[best] >= request.min_quality:
            return Choice(self.plans[best], (best_cost + more) * drift, None, drift)
        row = best if fits else self._best(item, left)
        if not self._serves(row, request):
            return self._choose_infeasible(request, now_s, drift)
        reason: Reason | None = None
        if waiting:
            price = self._price(request, waiting, drift)
            worth = self._most_worth(request, left, price)
            if worth != row:
                row, reason = worth, "pressure"
        if reason is None:
            reason = self._falls_short(row, request, now_s, drift)
        return self._choice(row, size, reason, drift, more, left=remaining)

    def lookup_of(self, item: Item) -> Lookup[Size] | PartialLookup:
        """Give the look-up among what can be computed of an item."""
        withheld = item.withheld
        return self.given(withheld) if withheld else self.index.lookup

    def top_of(self, item: Item) -> tuple[int, float]:
        """Give the most accurate row for what came of an item, and its cost."""
        if not item.withheld:
            return self.top(item.size)
        row = self.given(item.withheld).best(item.size, math.inf)
        return row, self.index.cost_s(row, item.size)

    def wanted(self, item: Item, left: float, above: float, least: float = 0.0) -> int:
        """Row that would answer better within what is left, had more columns come.

        Of those that want the columns of one more feature, where there is one, else
        any; -1 for none.

        Parameters
        ----------
        left
            As the curves count.
        above, least
            Quality that it has to exceed, and to reach.
        """
        if not item.withheld or not left >= 0:
            return -1
        for row in self.given(item.withheld).wanting(item.size, left):
            quality = self.qualities[row]
            if row >= 0 and quality > above and quality >= least:
                return row
        return -1

    def wanted_for(
        self, request: Request, quality: float, now_s: float, drift: float
    ) -> int:
        """Row that would be better than such a quality: `wanted` at that moment."""
        left = request.budget.left(now_s) / drift - self._more(request)
        return self.wanted(request.item, left, quality)

    def holds(self, choice: Choice, request: Request, now_s: float) -> bool:
        """Say whether `choose` would choose the same now, were nobody waiting."""
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
        """Take a row whatever it costs; "budget" where it is not the best.

        "missing" where it is the best of what came.
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

    def _price(self, request: Request, waiting: int, drift: float) -> float:
        """Quality that a second is worth to so many others."""
        in_all = request.budget.whole / drift
        row = self._best(request.item, in_all)
        gain = self.qualities[row] - self.qualities[self.prior]
        return PRESSURE * waiting * gain / in_all if gain > 0 else 0.0

    def _more(self, request: Request) -> float:
        """Most that any model takes beyond its curve where it must be evaluated whole.

        Curves count what models take that stop early where they may.
        """
        return self._most_more_s if request.exact else 0.0

    def _unhindered(self, request: Request, now_s: float, drift: float) -> int:
        """Row that would be bought if nobody else had been in the way."""
        begun_s = min(now_s, request.waits_since_s)
        left = request.budget.left(begun_s) / drift - self._more(request)
        return self._best(request.item, left)

    def _falls_short(
        self, row: int, request: Request, now_s: float, drift: float
    ) -> Reason | None:
        """Say why a row is not the best; None if it is.

        Others were first, the budget is small, or columns are missing.
        """
        item, qualities = request.item, self.qualities
        if qualities[row] < qualities[self.top_of(item)[0]]:
            unhindered = self._unhindered(request, now_s, drift)
            return "waited" if qualities[unhindered] > qualities[row] else "budget"
        wanted = self.wanted_for(request, qualities[row], now_s, drift)
        return "missing" if wanted >= 0 else None

    def _serves(self, row: int, request: Request) -> bool:
        """Say whether a row is what was asked for: good enough, and no mere prior."""
        if self.qualities[row] < request.min_quality:
            return False
        return row != self.prior or row == self.top(request.item.size)[0]

    def _most_worth(self, request: Request, left: float, price: float) -> int:
        """Row of best quality minus price times mean cost that fits and is enough."""
        size = request.item.size
        rows = self.lookup_of(request.item).skyline(size)
        costs = costs_at(self.index.coefficients[rows], size)
        means = costs_at(self.mean_costs[rows], size)
        qualities = self.index.qualities[rows]
        fits = (costs <= left) & (qualities >= request.min_quality)
        worths = np.where(fits, qualities - price * means, -np.inf)
        return int(rows[worths.argmax()])

    def _best(self, item: Item, left: float) -> int:
        row = self.lookup_of(item).best(item.size, left) if left > 0 else -1
        return row if row >= 0 else self.prior

    def quality_within(self, request: Request, left_s: float, now_s: float) -> float:
        """Return the quality that so much buys at `now_s`; 0 if that is of no use."""
        if not left_s > 0:
            return 0.0
        left = left_s / self._drift_at(now_s) - self._more(request)
        row = self._best(request.item, left)
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
        cost = (self.index.cost_s(row, size) + more) * drift
        return Choice(self.plans[row], cost, reason, drift, late, left)

    def _choose_infeasible(
        self, request: Request, now_s: float, drift: float
    ) -> Choice:
        """Do what the request wants where nothing that it asked for fits."""
        size, left = request.item.size, request.budget.left(now_s)
        more = self._more(request)
        waited = self._serves(self._unhindered(request, now_s, drift), request)
        prior, least = self.qualities[self.prior], request.min_quality
        wanted = self.wanted(request.item, left / drift - more, prior, least)
        reason: Reason = "waited" if waited else "infeasible"
        if wanted >= 0 and not waited:
            reason = "missing"
        if request.on_infeasible == "prior":
            return self._choice(self.prior, size, reason, drift, 0.0, left=left)
        if request.on_infeasible == "error" and reason == "missing":
            raise BadItem(self._what_lacks(request.item, wanted))
        cheapest = self._cheapest(self.lookup_of(request.item), request)
        if request.on_infeasible == "error":
            if cheapest == self.prior:  # whatever it costs
                cheapest = self._cheapest(self.index.lookup, request)
            raise TooLittleLeft(
                left=max(left, 0.0),
                amount=request.budget.amount,
                cheapest=(self.index.cost_s(cheapest, size) + more) * drift,
                size=size,
                unit=self.unit,
            )
        return self._choice(cheapest, size, reason, drift, more, late=True)

    def learn(self, charged_s: float, busy_s: float) -> None:
        """Learn from what was computed whether the curves still hold.

        `charged_s` is what they say of it, with drift; `busy_s` what it took of a
        processor: a thread that waits for one is late however cheap its plan is.
        """
        exceeded = busy_s > max(charged_s, LEAST_S)
        self.suspects = exceeded
        if self.corrects and (exceeded or charged_s >= LEAST_S):
            self.drift.add(exceeded, self.now())

    def _what_lacks(self, item: Item, wanted: int) -> str:
        """Say in words what a row wants that an item lacks."""
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
        """Cheapest row beyond the prior that is accurate enough, else the best."""
        rows: list[int] = lookup.skyline(request.item.size).tolist()
        for row in rows:
            if row != self.prior and self.qualities[row] >= request.min_quality:
                return row
        return rows[-1]


def promised_alpha(index: Index) -> float | None:
    """Share of answers that the index's exits may change; None without exits."""
    exits = exits_of(index.package.meta) if index.package else None
    return exits.alpha if exits else None


def make_anytime(index: Index, unit: str) -> AnytimeRule | None:
    """Make the rule by which an execution goes on; None where plans are kept to."""
    package = index.package
    assert package is not None
    # costs that time does not reduce leave nothing over
    if unit != "s" or not len(package.typical):
        return None
    quantile = float(package.meta.get("quantile", 0.99))
    return AnytimeRule.of(package, index.qualities, quantile)


def remember_tops(index: Index) -> Callable[[Size], tuple[int, float]]:
    """Look up the most accurate row at a size, and its cost, once for each size."""

    @lru_cache(REMEMBERED)
    def top(size: Size) -> tuple[int, float]:
        row = index.lookup.best(size, math.inf)
        return row, index.cost_s(row, size)

    return top
