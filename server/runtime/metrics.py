"""What a server counts, on the event loop; http/prometheus.py shows it to Prometheus.

Requests only add to plain numbers, without the locks of the Prometheus library's own.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf, nan
from struct import Struct
from typing import NamedTuple
from weakref import ref

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import without_frames

from ..engine.cost_drift import CostDrift
from ..engine.exit_audit import ExitAudit
from ..engine.outcome import Outcome
from ..engine.planner import Planner
from ..engine.request import Request
from ..engine.send_time import SendTime
from ..errors import UNEXPECTED, Failure, describe
from ..schema.predict import Reason

# 10 us to 10 s, in steps of 1, 2 and 5
SECONDS = (*(m * 10.0**e for e in range(-5, 1) for m in (1, 2, 5)), 10.0)
# Of each metric by name: names, labels and values of its samples.
Samples = dict[str, list[tuple[str, dict[str, str], float]]]
# features, why it is not the best or "", and whether the budget was met
AnswerKind = tuple[tuple[str, ...], str, bool]
# So many values are counted together.
AT_ONCE = 1024
RATIOS = (0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 5.0, 10.0)
# What is counted of every answer, in seconds: first byte to answer written, request
# read to work begun, features and model, plan's end to answer written. Then actual over
# predicted time of the plan, where costs are times.
BOUNDS = {
    "request": SECONDS,
    "queue": SECONDS,
    "plan": SECONDS,
    "encode": SECONDS,
    "ratio": RATIOS,
}
ROW_BYTES = 8 * len(BOUNDS)

log = logging.getLogger("polydom")


class Histogram:
    """Counts values by the first of its ascending bounds that is not below them.

    Attributes
    ----------
    bounds : (B,)
    counts : (B + 1,)
        The last of values above all bounds.
    total
        Sum of all values.
    """

    __slots__ = ("_edges", "bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self._edges = np.array(bounds)
        self.counts = np.zeros(len(bounds) + 1, np.int64)
        self.total = 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        """Count values: of many at once each takes a tenth of the time of one."""
        places = np.searchsorted(self._edges, values)
        self.counts += np.bincount(places, minlength=len(self.counts))
        self.total += float(values.sum())


class Timed(msgspec.Struct, frozen=True, gc=False):
    """When the stages of one answer were, on the planner's clock, and of what kind.

    Attributes
    ----------
    features
        Of the set that answered.
    reason
        As in `Outcome`.
    predicted
        As in `Outcome`.
    arrived_s, read_s, started_s, finished_s
        As in `Request` and `Outcome`.
    due_s
        When it had to be out. Where time does not count: infinity if it cost no more
        than it might, else minus infinity.
    send_time
        What is kept of budgets like its own; None where nothing is.
    """

    features: tuple[str, ...]
    reason: Reason | None
    predicted: float
    arrived_s: float
    read_s: float
    started_s: float
    finished_s: float
    due_s: float
    send_time: SendTime | None


def timed(request: Request, outcome: Outcome, features: tuple[str, ...]) -> Timed:
    """Say when what came of a request did, for it to be counted."""
    due_s = request.budget.due_s
    if due_s == inf and outcome.predicted > request.budget.amount:
        due_s = -inf
    return Timed(
        features,
        outcome.reason,
        outcome.predicted,
        request.arrived_s,
        request.read_s,
        outcome.started_s,
        outcome.finished_s,
        due_s,
        request.send_time,
    )


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
        self._histograms = tuple(map(Histogram, BOUNDS.values()))
        self._pack = Struct(f"{len(BOUNDS)}d").pack_into
        # what was noted, and is not counted yet
        self._latest = np.empty((AT_ONCE, len(BOUNDS)))
        self._bytes = self._latest.data.cast("B")
        self._end = 0
        self.answers: Counter[AnswerKind] = Counter()
        self.errors: Counter[str] = Counter()
        self.failed_s = 0.0
        self.answered_s = 0.0
        self.reloads = Counter({"ok": 0, "failed": 0})
        self.planners = PlannerCounts()

    def answered(self, answers: Iterable[Timed], sent_s: float) -> None:
        """Count answers whose last bytes were written at `sent_s`.

        Where time counts, that decides whether the budget was met.
        """
        counts, pack, buffer, end = self.answers, self._pack, self._bytes, self._end
        for one in answers:
            started_s, finished_s, due_s = one.started_s, one.finished_s, one.due_s
            took_s, ratio = finished_s - started_s, nan
            if -inf < due_s < inf and one.predicted > 0:
                ratio = took_s / one.predicted
            counts[one.features, one.reason or "", sent_s <= due_s] += 1
            after_s = sent_s - finished_s
            queue_s, whole_s = started_s - one.read_s, sent_s - one.arrived_s
            pack(buffer, end, whole_s, queue_s, took_s, after_s, ratio)
            end += ROW_BYTES
            if end == AT_ONCE * ROW_BYTES:
                self._end = end
                self._count()
                end = 0
        self._end, self.answered_s = end, sent_s

    @property
    def pending(self) -> int:
        """How many answers were noted and are not in the histograms yet."""
        return self._end // ROW_BYTES

    def histogram(self, name: str) -> Histogram:
        """Return what one of `BOUNDS` came to, with all that was noted."""
        self._count()
        return self._histograms[[*BOUNDS].index(name)]

    def _count(self) -> None:
        noted = self._latest[: self.pending]
        self._end = 0
        for histogram, values in zip(self._histograms, noted.T, strict=True):
            histogram.add(values[~np.isnan(values)])

    def failed(
        self, error: Exception, what: str = "a request failed"
    ) -> tuple[int, Failure]:
        """Count an error; HTTP's status and body. What nobody expected is logged.

        Nothing of the request stays with the error, wherever that is kept.
        """
        status, failure = describe(error)
        self.errors[failure.code] += 1
        if failure is UNEXPECTED:
            log.error(what, exc_info=error)
        without_frames(error)
        return status, failure
