"""What a server counts, on the event loop; http/prometheus.py shows it to Prometheus.

Requests only add to plain numbers, without the locks of the Prometheus library's own.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import NamedTuple
from weakref import ref

import numpy as np

from ..engine.cost_drift import CostDrift
from ..engine.exit_audit import ExitAudit
from ..engine.outcome import Outcome
from ..engine.planner import Planner
from ..engine.request import Request
from ..errors import UNEXPECTED, Failure, describe

# 10 us to 10 s, in steps of 1, 2 and 5
SECONDS = (*(m * 10.0**e for e in range(-5, 1) for m in (1, 2, 5)), 10.0)
# Of each metric by name: names, labels and values of its samples.
Samples = dict[str, list[tuple[str, dict[str, str], float]]]
# features, why it is not the best or "", and whether the budget was met
AnswerKind = tuple[tuple[str, ...], str, bool]
# So many values are counted together.
AT_ONCE = 256
RATIOS = (0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 5.0, 10.0)

log = logging.getLogger("polydom")


class Histogram:
    """Counts values by the first of its ascending bounds that is not below them.

    Attributes
    ----------
    bounds : (B,)
    add
        Notes one value; whoever adds many calls `count` now and then.
    latest
        What was noted and is not counted yet.
    """

    __slots__ = ("_counts", "_total", "add", "bounds", "latest")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self._counts = np.zeros(len(bounds) + 1, np.int64)
        self._total = 0.0
        self.latest: list[float] = []
        self.add = self.latest.append

    def count(self) -> None:
        """Count what was noted: many at once take a tenth of the time of each."""
        if self.latest:
            places = np.searchsorted(self.bounds, self.latest)
            self._counts += np.bincount(places, minlength=len(self._counts))
            self._total += sum(self.latest)
            self.latest.clear()

    @property
    def counts(self) -> list[int]:
        """(B + 1,), the last of values above all bounds."""
        self.count()
        counts: list[int] = self._counts.tolist()
        return counts

    @property
    def total(self) -> float:
        """Sum of all values."""
        self.count()
        return self._total


class PlannerTotals(NamedTuple):
    """Sums of what `CostDrift` and `ExitAudit` count."""

    bound_hits: int = 0
    exits: int = 0
    audited: int = 0
    changed: int = 0
    used: int = 0
    left: int = 0


class PlannerCounts:
    """Sums what planners count, over all that ever answered for one model.

    One that was replaced goes on counting until it is gone; then its counts stay.
    """

    def __init__(self) -> None:
        self._gone = PlannerTotals()
        self._known: list[tuple[ref[Planner], CostDrift, ExitAudit]] = []

    def add(self, planner: Planner) -> None:
        """Count what a planner counts, too."""
        self.totals()  # forget those that are gone
        self._known.append((ref(planner), planner.drift, planner.audit))

    def totals(self) -> PlannerTotals:
        """Sum up to now."""
        total, known = self._gone, []
        for one in self._known:
            planner, drift, audit = one
            gone = planner() is None  # and if so, it counts no more
            own = PlannerTotals(
                drift.bound_hits,
                audit.exits,
                audit.audited,
                audit.changed,
                audit.used,
                audit.left,
            )
            total = _added(total, own)
            if gone:
                self._gone = _added(self._gone, own)
            else:
                known.append(one)
        self._known = known
        return total


def _added(totals: PlannerTotals, own: tuple[int, ...]) -> PlannerTotals:
    return PlannerTotals(*(a + b for a, b in zip(totals, own, strict=True)))


class Metrics:
    """What became of one model's requests; for the event loop alone.

    It outlives the versions of the model, so that no count ever falls.

    Attributes
    ----------
    request, queue, plan, encode : Histogram
        Seconds: first byte to answer written, request read to work begun, features and
        model, plan's end to answer written.
    ratio : Histogram
        Actual over predicted time of plans; stays empty where costs are no time.
    answers
        How often each (features, reason, budget met) came.
    errors
        How often each error's code came.
    failed_s
        Seconds that requests took which got an error, from their first byte.
    answered_s
        When the last answer was written, on the monotonic clock; 0 before the first.
    reloads
        How often an index was to be loaded while serving: "ok", "failed".
    planners
        What the planners of all its versions counted themselves.
    """

    def __init__(self) -> None:
        self.request = Histogram(SECONDS)
        self.queue = Histogram(SECONDS)
        self.plan = Histogram(SECONDS)
        self.encode = Histogram(SECONDS)
        self.ratio = Histogram(RATIOS)
        self.answers: Counter[AnswerKind] = Counter()
        self.errors: Counter[str] = Counter()
        self.failed_s = 0.0
        self.answered_s = 0.0
        self.reloads = Counter({"ok": 0, "failed": 0})
        self.planners = PlannerCounts()

    def answered(
        self,
        request: Request,
        outcome: Outcome,
        features: tuple[str, ...],
        sent_s: float,
    ) -> None:
        """Count an answer by some features, whose last byte was written at `sent_s`.

        Where time counts, that decides whether the budget was met.
        """
        took_s = outcome.finished_s - outcome.started_s
        self.answered_s = sent_s
        self.request.add(sent_s - request.arrived_s)
        self.queue.add(outcome.started_s - request.read_s)
        self.plan.add(took_s)
        self.encode.add(sent_s - outcome.finished_s)
        due_s = request.budget.due_s
        met = sent_s <= due_s
        if due_s == inf:
            met = outcome.predicted <= request.budget.amount
        elif outcome.predicted > 0:
            self.ratio.add(took_s / outcome.predicted)
        self.answers[features, outcome.reason or "", met] += 1
        if len(self.plan.latest) >= AT_ONCE:
            for one in (self.request, self.queue, self.plan, self.encode, self.ratio):
                one.count()

    def failed(
        self, error: Exception, what: str = "a request failed"
    ) -> tuple[int, Failure]:
        """Count an error; HTTP's status and body. What nobody expected is logged."""
        status, failure = describe(error)
        self.errors[failure.code] += 1
        if failure is UNEXPECTED:
            log.error(what, exc_info=error)
        return status, failure
