"""A served index: the event loop computes quick plans, and a thread all other plans."""

import asyncio
import functools
import math
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from polydom.features.errors import BadItem, PolydomError
from polydom.features.items import Item

from ..engine.budget import MoneyBudget
from ..engine.executions.execution import begin
from ..engine.monitoring.input_sketch import InputSketch
from ..engine.monitoring.traffic_counts import TrafficCounts
from ..engine.planning.plan import Choice
from ..engine.request import Caller, Outcome, Request, with_fetches
from ..engine.send_time import WINDOW, SendTime, SendTimes
from ..errors import Overloaded, not_ready
from ..fetching.fetcher import Fetcher
from ..metrics.answer_batch import EVERY, Batch
from ..metrics.counts import Metrics, timed
from ..schema.facts import CurvesFacts, IndexFacts, InputsFacts
from ..schema.wire import PredictRequest, Terms, encode
from .admission_control.usual_budget import UsualBudget
from .describe_index import describe_curves, describe_index
from .describe_shifts import describe_shifts
from .job import Job
from .record_answerer import RecordAnswerer
from .request_fetches import RequestFetches
from .rollout.split import Split
from .translator import Translator
from .waiting import Waiting
from .warm_up import WarmUp
from .work_queue import WorkQueue, run_off_loop

# The event loop itself carries out plans of up to this many seconds, if no work waits,
# because two thread switches would cost more. It reads no requests meanwhile; the
# computing thread may hold the interpreter equally long (server/app.py).
QUICK_S = 0.0005
# After each step of its warm-up, a reload pauses for REST times the step's time. So it
# takes at most a fifth of the computing thread's time.
REST = 4.0
LONGEST_REST_S = 0.1
# What `begin` returns without an outcome.
Begun = Choice | Waiting | None


class ServedModel:
    """Answers requests with one index.

    Only the event loop may use this object. Several indexes may share a `queue`; the
    caller starts and stops the queue. A reloaded index continues the `metrics` of the
    old index. `ready` is True when the warm-up has ended and the index answers
    requests.
    """

    def __init__(
        self,
        translator: Translator,
        queue: WorkQueue,
        metrics: Metrics | None = None,
        fetchers: Sequence[Fetcher | None] = (),
        usual_budget: UsualBudget | None = None,
    ) -> None:
        self.translator = translator
        self.planner = translator.planner
        self.metrics = Metrics() if metrics is None else metrics
        columns = translator.known_columns
        if translator.settings.input_drift:
            self.planner.sketch = InputSketch.of(
                self.planner.package, self.planner.extractor, self.planner.index.pairs
            )
        self.sketch = self.planner.sketch
        self.traffic = TrafficCounts(
            self.planner.package.labels, columns.bits, columns.texts, columns.named
        )
        self.usual_budget = usual_budget or UsualBudget(translator.settings.budget_s)
        self.version = self.planner.index.version
        self.now = self.planner.now
        self.ready = False
        # Divides requests among this index and a candidate; None without a candidate
        self.split: Split[ServedModel] | None = None
        self.send_times = SendTimes(SendTime(), SendTime())
        self._times_of: dict[tuple[str, int], SendTimes] = {}
        self.queue = queue
        self.warm_up = WarmUp(self.planner, rescales=translator.settings.rescale)
        self._time_counts = translator.unit == "s"
        # Fetches columns that records lack; None for an index without fetches
        self.fetches = RequestFetches(translator, fetchers) if fetchers else None

    def facts(self, *, shows_items: bool = False) -> IndexFacts:
        """Return the body of `GET /v1/index`.

        If `shows_items` is True, it includes the words in columns and the number of
        samples.
        """
        planner = self.planner
        drift = planner.drift.at(planner.now())
        return describe_index(
            planner.index, self.warm_up.rescaling, drift, shows_items=shows_items
        )

    def curves(self) -> CurvesFacts:
        """Return the body of `GET /v1/index/curves`: the features' cost curves."""
        steps = [step.name for step in self.planner.extractor.steps]
        return describe_curves(self.planner.index, self.warm_up.rescaling, steps)

    def inputs(self, *, shows_items: bool = False) -> InputsFacts:
        """Return the body of `GET /v1/index/inputs`: how items differ from the build's.

        If `shows_items` is True, it includes the words in columns.
        """
        now_s = self.now()
        return describe_shifts(
            self.version, self.sketch, now_s, shows_items=shows_items
        )

    @property
    def samples(self) -> list[Any]:
        """The training items that the index contains, as texts, bytes or records."""
        return list(self.planner.package.meta.get("samples", []))

    async def start(self, old: "ServedModel | None" = None) -> None:
        """Warm up, then set `ready`. The queue's thread must be running.

        The thread warms up in small steps. The deadline of each step is as late as that
        of a request with the largest budget, so most requests are computed first. If an
        `old` index still answers, the thread pauses after each step, and the send times
        of `old` are copied, because measurements under load would be too long, and so
        is what it knows of prices and waits.
        """
        self.metrics.planners.add(self.planner, self.traffic)
        steps = self.warm_up.steps()
        done = object()
        began_s = self.now()
        step = functools.partial(next, steps, done)
        while await self.queue.compute(step, self._latest_due_s()) != done:
            if old is not None:
                took_s = self.now() - began_s
                await asyncio.sleep(min(REST * took_s, LONGEST_REST_S))
                began_s = self.now()
        if old is not None and old.ready:
            self.send_times, self._times_of = old.send_times, old._times_of
            if self.fetches and old.fetches:
                self.fetches.go_on_from(old.fetches)
        elif self.warm_up.samples:
            loop = await self._measure(by_thread=False)
            self.send_times = SendTimes(loop, await self._measure(by_thread=True))
        self.ready = True

    def send_times_of(self, transport: str, items: int) -> SendTimes:
        """Return the send times of answers to about `items` items over `transport`."""
        key = transport, items.bit_length()
        times = self._times_of.get(key)
        if times is None:
            loop, thread = (SendTime(usual=like.usual) for like in self.send_times[:2])
            times = self._times_of[key] = SendTimes(loop, thread, weighs=items == 1)
        return times

    async def answer(
        self,
        ask: PredictRequest,
        arrived_s: float,
        caller: Caller,
        times: SendTimes | None = None,
    ) -> tuple[Request, Outcome]:
        """Compute the outcome of a request that arrived at `arrived_s`.

        Returns the planned request and its outcome. The caller then encodes both with
        `translator.answer`, sends the answer, and calls `sent`.
        """
        if not self.ready:
            raise not_ready(self.queue.begun)
        item = await run_off_loop(self.translator.item, ask, size=_size(ask))
        request, done = self.begin(ask, item, arrived_s, caller, times)
        if isinstance(done, Outcome):
            return request, done
        return await self.answer_in_turn(request, done, times)

    def begin(
        self,
        terms: Terms,
        item: Item,
        arrived_s: float,
        caller: Caller,
        times: SendTimes | None = None,
    ) -> tuple[Request, Outcome | Begun]:
        """Plan a request, and compute its answer if the plan is quick.

        The second value is the outcome if the plan is quick, otherwise the chosen plan.
        It is a `Waiting` if the record waits for fetches, which are sent now. It is
        None if other requests wait or if costs are money, because then the computing
        thread chooses the plan. Without an outcome, call `answer_in_turn`.
        """
        times = times or self.send_times
        gaps, fetches = item.gaps, self.fetches
        meanwhile = fetches and fetches.overlaps and gaps and gaps.unfetched
        sender = times.thread if meanwhile else times.loop
        request = self.translator.request(terms, item, arrived_s, caller, sender)
        if times.weighs:
            request = self.translator.weighed(request)
        waiting = self.fetches and self.fetches.send(request, terms)
        if waiting and self.fetches:
            if waiting.pending or waiting.undecided:
                return request, waiting
            request = self.fetches.settled(request, waiting)
            request = replace(request, send_time=times.loop)
        done = self._at_once(request)
        if isinstance(done, Outcome):
            done = with_fetches(request, done)
        return request, done

    async def answer_in_turn(
        self,
        request: Request,
        begun: Begun = None,
        times: SendTimes | None = None,
    ) -> tuple[Request, Outcome]:
        """Answer a request for which `begin` had no outcome.

        `begun` is the second value from `begin`. A record waits for its fetches, and
        holds no thread meanwhile. Then the computing thread answers, unless the plan is
        quick. Returns the request, now with all columns that came and the send time of
        the thread that answered, and its outcome.
        """
        if not self.ready:
            raise not_ready(self.queue.begun)
        times = times or self.send_times
        if not isinstance(begun, Waiting):
            return await self._answer_in_thread(request, begun, times)
        assert self.fetches is not None
        if self.computes_meanwhile(begun):
            return await self._answer_meanwhile(request, begun, times)
        request = await self.fetches.arrive(request, begun)
        return await self._answer_fetched(request, times)

    def computes_meanwhile(self, waiting: Waiting) -> bool:
        """Return True if the thread computes features while a record waits."""
        overlaps = self.fetches is not None and self.fetches.overlaps
        return overlaps and bool(waiting.pending or waiting.undecided)

    def begin_fetched(
        self, request: Request
    ) -> tuple[Request, Outcome | Choice | None]:
        """Answer a record whose fetches have come or are left behind, if this is quick.

        Returns what `begin` returns about a request that does not wait.
        """
        request = self.translator.weighed_late(request)
        done = self._at_once(request)
        if isinstance(done, Outcome):
            done = with_fetches(request, done)
        return request, done

    async def answer_fetched(
        self, fetched: Request, terms: Terms, began_s: float, times: SendTimes
    ) -> tuple[Request, Outcome]:
        """Answer one of several records, whose fetches have ended, by its own `terms`.

        `fetched` comes from `RequestFetches.arrive_all`; its budget was that of all the
        records. The budget in `terms` begins at `began_s`.
        """
        request = self.translator.request(
            terms, fetched.item, began_s, fetched.caller, times.loop
        )
        return await self._answer_fetched(
            replace(request, fetches=fetched.fetches), times
        )

    async def _answer_meanwhile(
        self, request: Request, waiting: Waiting, times: SendTimes
    ) -> tuple[Request, Outcome]:
        """Let the thread compute what needs no fetch, while the record waits.

        If fetches come, the thread pauses after the current feature. It then computes
        the best that fits, counting on what has come and what is computed.
        """
        assert self.fetches is not None
        send_s = times.thread.at(request.read_s)
        budget = request.budget.keeping(send_s + waiting.after_s)
        first = replace(request, budget=budget, send_time=times.thread)
        job = self._post(first)
        # counted for audits only if it is what the caller gets
        computing = asyncio.create_task(job.result())
        computing.add_done_callback(functools.partial(self._answered_first, waiting))
        arrived = await self.fetches.arrive(request, waiting)
        first = replace(first, fetches=arrived.fetches)
        if waiting.came and job.execution is not None:
            job.execution.pause()  # what is left is chosen anew
        try:
            outcome = await computing
        except PolydomError as error:
            if not waiting.came and not isinstance(error, BadItem):
                raise
            return await self._answer_fetched(arrived, times)
        execution = job.execution
        if not waiting.came or execution is None or execution.stopped:
            # the answer was computed long ago, but can be sent only now
            now_s = self.now()
            begun_s = now_s - (outcome.finished_s - outcome.started_s)
            outcome = replace(outcome, started_s=begun_s, finished_s=now_s)
            first = replace(first, read_s=begun_s)
            self.planner.audit.answered(outcome)
            return first, with_fetches(first, outcome)
        rest = execution.go_on(arrived)
        took_s = outcome.finished_s - outcome.started_s
        rest.go_on_after(took_s)
        arrived = replace(arrived, read_s=arrived.read_s - took_s)
        due_s = request.budget.due_s
        try:
            async with asyncio.timeout(max(due_s - send_s - self.now(), 0.0)):
                outcome = await self.queue.compute(rest.run, due_s)
        except TimeoutError:
            outcome = rest.rescue()
        self.planner.audit.answered(outcome)
        return arrived, with_fetches(arrived, outcome)

    def _answered_first(
        self, waiting: Waiting, computing: "asyncio.Task[Outcome]"
    ) -> None:
        if self.fetches and not computing.cancelled() and not computing.exception():
            self.fetches.answered_first(waiting, computing.result())

    async def _answer_fetched(
        self, request: Request, times: SendTimes
    ) -> tuple[Request, Outcome]:
        request, done = self.begin_fetched(request)
        if not isinstance(done, Outcome):
            return await self._answer_in_thread(request, done, times)
        return request, done

    async def _answer_in_thread(
        self, request: Request, choice: Choice | None, times: SendTimes
    ) -> tuple[Request, Outcome]:
        since_s = request.waits_since_s
        if self.queue.waiting or self.queue.busy:
            choice, since_s = None, min(since_s, request.read_s)
        budget = request.budget.keeping(times.thread.at(request.read_s))
        request = replace(
            request, budget=budget, waits_since_s=since_s, send_time=times.thread
        )
        if times.weighs:
            request = self.translator.weighed(request)
        outcome = await self._ask_thread(request, choice)
        return request, with_fetches(request, outcome)

    @functools.cached_property
    def records(self) -> RecordAnswerer:
        """The fast path for requests about records. Use it only after the warm-up."""
        return RecordAnswerer(
            self.translator,
            self.send_times.loop,
            self.sent_together,
            self.traffic.lacks,
            self.sketch,
        )

    def sent(
        self, request: Request, outcome: Outcome, sent_s: float | None = None
    ) -> None:
        """Count an answer whose last byte was written at `sent_s`, by default now."""
        if sent_s is None:
            sent_s = self.now()
        features = self.planner.feature_names[outcome.row]
        one = timed(request, outcome, features)
        if one.send_time is not None:
            one.send_time.add(sent_s - one.finished_s, sent_s)
        self.usual_budget.add(one.due_s - one.arrived_s)
        self.metrics.answered(one, sent_s)
        if outcome.label is not None:
            self.traffic.labels[outcome.label] += 1
        if request.trace is not None:
            facts = {
                "polydom.model": self.metrics.name,
                "polydom.version": self.version,
                "polydom.plan": features,
                "polydom.unit": self.translator.unit,
            }
            request.trace.answered(request, outcome, sent_s, facts)
        self.note(request.item, outcome, self.traffic)

    def sent_together(self, features: tuple[str, ...], batch: Batch) -> None:
        """Count answers of the fast path for records, which have the same features."""
        for k in range(0, len(batch.answers), EVERY):
            sent_s = float(batch.sent_s[k])
            self.send_times.loop.add(sent_s - float(batch.finished_s[k]), sent_s)
            self.usual_budget.add(float(batch.due_s[k] - batch.arrived_s[k]))
        self.metrics.answered_together(features, batch)
        if self.planner.labels:
            self.traffic.labels.update([one for one in batch.answers if one])

    def count(self, request: Request, outcome: Outcome, sent_s: float) -> None:
        """Count one of several answers sent together; its send time is not recorded."""
        features = self.planner.feature_names[outcome.row]
        self.metrics.answered(timed(request, outcome, features), sent_s)
        if outcome.label is not None:
            self.traffic.labels[outcome.label] += 1
        self.note(request.item, outcome, self.traffic)

    def note(self, item: Item, outcome: Outcome, traffic: TrafficCounts) -> None:
        """Note an answered item: what it lacks, a size not measured, and its values.

        The former two are counted in `traffic`. Any thread may call this.
        """
        if self.sketch is not None:
            self.sketch.offer(item, outcome)
        if item.gaps is not None:
            traffic.lacks(item.gaps)
        if not self.planner.index.covers(item.size):
            traffic.outside += 1

    def _at_once(self, request: Request) -> Outcome | Choice | None:
        """Return the outcome if the plan is quick and no work waits.

        Otherwise return the chosen plan, or None if no plan is chosen yet.
        """
        if self.queue.waiting or not self._time_counts:
            return None
        execution = begin(self.planner, request)
        if execution.longest > QUICK_S:
            return execution.choice
        outcome = execution.run()
        self.planner.audit.answered(outcome)
        return outcome

    async def _ask_thread(
        self, request: Request, choice: Choice | None = None
    ) -> Outcome:
        return await self._result(self._post(request, choice))

    def _post(self, request: Request, choice: Choice | None = None) -> Job:
        """Give a request to the computing thread."""
        if self.queue.waiting >= self.translator.settings.queue_limit:
            raise Overloaded(f"{self.queue.waiting} requests wait already")
        due_s = request.budget.due_s
        job = Job(self.planner, request, self.queue, choice)
        job.post(due_s if due_s < math.inf else self._latest_due_s())
        return job

    async def _result(self, job: Job) -> Outcome:
        outcome = await job.result()
        self.planner.audit.answered(outcome)
        return outcome

    def _latest_due_s(self) -> float:
        """Return the deadline of a request with the largest budget that arrives now.

        Work without a deadline of its own gets this deadline.
        """
        return self.now() + self.translator.settings.max_budget_s

    async def _measure(self, *, by_thread: bool) -> SendTime:
        """Measure the time from the end of a plan until its answer is encoded.

        The computing thread answers if `by_thread`; otherwise the event loop does.
        """
        after_s = []
        for _ in range(WINDOW):
            now_s = self.now()
            # a budget of 0 pays for the prior only, but the work after the plan is the
            # same
            sample, budget = self.warm_up.samples[0], MoneyBudget(0.0)
            request = Request(sample, budget, arrived_s=now_s, read_s=now_s)
            if by_thread:
                outcome: object = await self._ask_thread(request)
            else:
                outcome = self._at_once(request)
            if isinstance(outcome, Outcome):
                encode(self.translator.answer(request, outcome))
                after_s.append(self.now() - outcome.finished_s)
        return SendTime(after_s, self.now())


def _size(ask: PredictRequest) -> int:
    """Return roughly how many bytes must be decoded; 0 for an image."""
    if ask.record is not None:
        return 16 * len(ask.record)
    return len(ask.text or "")  # of an image, only the header is decoded
