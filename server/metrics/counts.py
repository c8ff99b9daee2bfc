"""Counts of each model's requests: answers, errors, times of stages, and reloads.

Only the event loop's thread changes these plain numbers. So they need no locks, unlike
the metrics of the Prometheus library. `prometheus.py` exports the counts.
"""

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from math import inf, nan
from struct import Struct
from weakref import ref

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import without_frames

from ..engine.monitoring.cost_drift import CostDrift
from ..engine.monitoring.exit_audit import ExitAudit
from ..engine.monitoring.feature_failures import FeatureFailures
from ..engine.monitoring.traffic_counts import TrafficCounts
from ..engine.planning.planner import Planner
from ..engine.request import Outcome, Request
from ..engine.send_time import SendTime
from ..errors import UNEXPECTED, Failure, describe
from ..schema.wire import Reason
from .answer_batch import Batch

# Bounds of buckets in seconds, from 10 us to 10 s in steps of 1, 2 and 5.
SECONDS = (*(m * 10.0**e for e in range(-5, 1) for m in (1, 2, 5)), 10.0)
# Samples by the metric's name; each sample has a name, labels and a value.
Samples = dict[str, list[tuple[str, dict[str, str], float]]]
# The features of an answer; its reason or ""; True if its budget was met.
AnswerKind = tuple[tuple[str, ...], str, bool]
# Number of answers that are collected before they are added to the histograms.
AT_ONCE = 1024
RATIOS = (0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 5.0, 10.0)
# Upper bounds of the histograms. Each answer adds one value to each. "request": seconds
# from the first byte until the answer is written. "queue": from the request read until
# work on it begins. "plan": seconds for features and model. "encode": from the plan's
# end until the answer is written. "ratio": the plan's actual time over its predicted
# time, if costs are times.
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
    """Counts values in buckets.

    The ascending `bounds`, shape (B,), are the upper bounds of the first B buckets.
    `counts` has shape (B + 1,); its last entry counts the values above all bounds.
    `total` is the sum of all values.
    """

    __slots__ = ("_edges", "bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self._edges = np.array(bounds)
        self.counts = np.zeros(len(bounds) + 1, np.int64)
        self.total = 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        """Add many values at once, ten times as fast as one by one."""
        places = np.searchsorted(self._edges, values)
        self.counts += np.bincount(places, minlength=len(self.counts))
        self.total += float(values.sum())

    def add_one(self, value: float) -> None:
        """Add a single value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> tuple[list[tuple[str, float]], float]:
        """Return (bound, cumulative count) of each bucket, and the sum of values."""
        bounds = [*map(str, self.bounds), "+Inf"]
        counts = map(float, accumulate(self.counts.tolist()))
        return list(zip(bounds, counts, strict=True)), self.total


class Timed(msgspec.Struct, frozen=True, gc=False):
    """One answer for the metrics: its features, its reason, and times of stages.

    Times are seconds on the planner's clock.
    """

    features: tuple[str, ...]  # Names of the features that answered
    # `reason` and `predicted`: as in `Outcome`
    reason: Reason | None
    predicted: float
    # `arrived_s`, `read_s`, `started_s`, `finished_s`: as in `Request` and `Outcome`
    arrived_s: float
    read_s: float
    started_s: float
    finished_s: float
    # Time by which the answer must be written. If the index's unit is not time:
    # infinity if the plan was within the budget, otherwise minus infinity.
    due_s: float
    # The estimate of the time to send that this answer updates; None for no update
    send_time: SendTime | None


def timed(request: Request, outcome: Outcome, features: tuple[str, ...]) -> Timed:
    """Return the `Timed` of an answer, to be counted by `Metrics.answered`."""
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


# A planner, and those of its parts whose counts outlive it.
_Followed = tuple[ref[Planner], CostDrift, ExitAudit, FeatureFailures, TrafficCounts]
# Counts by name, and by class, feature or column; the latter is empty if there is none.
PlannerTotals = Counter[tuple[str, str]]


class PlannerCounts:
    """Sums the counts of all planners that ever answered for one model.

    A reload replaces the planner, but the old planner still finishes its requests. Its
    last counts stay in the sums after it is deleted.
    """

    def __init__(self) -> None:
        self._gone: PlannerTotals = Counter()
        self._known: list[_Followed] = []

    def add(self, planner: Planner, traffic: TrafficCounts) -> None:
        """Add a new planner, whose counts are still zero, and the `traffic` it has."""
        self.totals()  # moves the counts of deleted planners to the sums
        drift, audit, failures = planner.drift, planner.audit, planner.failures
        self._known.append((ref(planner), drift, audit, failures, traffic))

    def totals(self) -> PlannerTotals:
        """Return the sums of all planners' counts until now."""
        total, known = self._gone.copy(), []
        for one in self._known:
            planner, drift, audit, failures, traffic = one
            # checked first: if the planner is gone, the counts read below are final
            gone = planner() is None
            own = audit.counts()
            own["bound_hits", ""] = drift.bound_hits
            own.update(traffic.counts())
            for feature, count in failures.counts().items():
                own["failures", feature] = count
            total.update(own)  # unlike `+`, keeps counts that are zero
            if gone:
                self._gone.update(own)
            else:
                known.append(one)
        self._known = known
        return total


class Metrics:
    """The counts of the requests of the model called `name`.

    A reload of the model keeps the counts. The name is empty for the counts of requests
    that reached no model. Only the event loop may use this object.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._histograms = tuple(map(Histogram, BOUNDS.values()))
        self._pack = Struct(f"{len(BOUNDS)}d").pack_into
        # answers that are not in the histograms yet, one per row
        self._latest = np.empty((AT_ONCE, len(BOUNDS)))
        self._bytes = self._latest.data.cast("B")
        self.pending = 0  # number of answers that the histograms do not contain yet
        self.answers: Counter[AnswerKind] = Counter()
        self.errors: Counter[str] = Counter()  # by code
        # Sum over failed requests of the seconds from the first byte to the error
        self.failed_s = 0.0
        self.answered_s = 0.0  # Monotonic time of the last answer; 0 before the first
        self.reloads = Counter({"ok": 0, "failed": 0, "refused": 0})
        self.planners = PlannerCounts()

    def answered(self, one: Timed, sent_s: float) -> None:
        """Count an answer whose last byte was written at `sent_s`."""
        started_s, finished_s, due_s = one.started_s, one.finished_s, one.due_s
        took_s, ratio = finished_s - started_s, nan
        if -inf < due_s < inf and one.predicted > 0:
            ratio = took_s / one.predicted
        self.answers[one.features, one.reason or "", sent_s <= due_s] += 1
        after_s = sent_s - finished_s
        queue_s, whole_s = started_s - one.read_s, sent_s - one.arrived_s
        end = self.pending * ROW_BYTES
        self._pack(self._bytes, end, whole_s, queue_s, took_s, after_s, ratio)
        self.pending += 1
        if self.pending == AT_ONCE:
            self._count()
        self.answered_s = sent_s

    def answered_together(self, features: tuple[str, ...], batch: Batch) -> None:
        """Count answers with the same features, as `answered` counts them."""
        took_s, ratio = batch.finished_s - batch.read_s, np.full(len(batch.due_s), nan)
        known = np.isfinite(batch.due_s) & (batch.predicted > 0)
        np.divide(took_s, batch.predicted, out=ratio, where=known)
        met = (batch.sent_s <= batch.due_s).tolist()
        kinds = Counter(zip(batch.reasons, met, strict=True))
        for (reason, in_time), count in kinds.items():
            self.answers[features, reason or "", in_time] += count
        after_s = batch.sent_s - batch.finished_s
        whole_s = batch.sent_s - batch.arrived_s
        rows = np.column_stack((whole_s, 0 * took_s, took_s, after_s, ratio))
        while len(rows):
            now, rows = np.split(rows, [AT_ONCE - self.pending])
            self._latest[self.pending : self.pending + len(now)] = now
            self.pending += len(now)
            if self.pending == AT_ONCE:
                self._count()
        self.answered_s = float(batch.sent_s[-1])

    def histogram(self, name: str) -> Histogram:
        """Return the histogram called `name` in `BOUNDS`, with all answers so far."""
        self._count()
        return self._histograms[[*BOUNDS].index(name)]

    def _count(self) -> None:
        noted = self._latest[: self.pending]
        self.pending = 0
        for histogram, values in zip(self._histograms, noted.T, strict=True):
            histogram.add(values[~np.isnan(values)])

    def failed(
        self, error: Exception, what: str = "a request failed"
    ) -> tuple[int, Failure]:
        """Count an error; return its HTTP status and the body of the response.

        Unexpected errors are logged with the message `what`. The error's traceback is
        removed, because it would keep the request in memory.
        """
        status, failure = describe(error)
        self.errors[failure.code] += 1
        if failure is UNEXPECTED:
            log.error(what, exc_info=error)
        without_frames(error)
        return status, failure

    def without(self, other: "Metrics") -> "Metrics":
        """Return the counts of answers and errors that are not in `other`.

        All counts in `other` must be in these counts, too.
        """
        rest = Metrics()
        rest.answers.update(self.answers)
        rest.answers.subtract(other.answers)
        rest.errors.update(self.errors)
        rest.errors.subtract(other.errors)
        for name in BOUNDS:
            own, less = self.histogram(name), other.histogram(name)
            left = rest.histogram(name)
            left.counts += own.counts - less.counts
            left.total = own.total - less.total
        return rest


class CandidateMetrics(Metrics):
    """The counts of a candidate's answers, which `whole`, of its model, has, too."""

    def __init__(self, whole: Metrics) -> None:
        super().__init__(whole.name)
        self._whole = whole

    def answered(self, one: Timed, sent_s: float) -> None:
        """Count an answer, here and for the model."""
        super().answered(one, sent_s)
        self._whole.answered(one, sent_s)

    def answered_together(self, features: tuple[str, ...], batch: Batch) -> None:
        """Count answers, here and for the model."""
        super().answered_together(features, batch)
        self._whole.answered_together(features, batch)

    def failed(
        self, error: Exception, what: str = "a request failed"
    ) -> tuple[int, Failure]:
        """Count an error, here and for the model."""
        status, failure = super().failed(error, what)
        self._whole.errors[failure.code] += 1
        return status, failure
