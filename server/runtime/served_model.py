"""One index that is served: its requests begin at once, or wait for their turn."""

import asyncio
import functools
import math
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from polydom.features.items import Item

from ..engine.budget import MoneyBudget
from ..engine.execution import begin
from ..engine.outcome import Outcome
from ..engine.planner import Choice
from ..engine.request import Caller, Request
from ..engine.send_time import WINDOW, SendTime, SendTimes
from ..errors import Overloaded, not_ready
from ..metrics.counts import Metrics, Timed, timed
from ..schema.facts import CurvesFacts, IndexFacts
from ..schema.wire import PredictRequest, Terms, encode
from .describe_index import describe_curves, describe_index
from .job import Job
from .record_answerer import RecordAnswerer
from .translator import Translator
from .warm_up import WarmUp
from .work_queue import WorkQueue, run_off_loop

# A plan that costs no more than this is carried out on the event loop if nothing
# waits: two changes of thread cost more, and the loop is kept from reading requests no
# longer than the computing thread may keep the interpreter from it (server/app.py).
QUICK_S = 0.0005
# A reload rests this many times as long as a piece of its warm-up took: it has the
# computing thread for a fifth of the time at most.
REST = 4.0
LONGEST_REST_S = 0.1


class ServedModel:
    """Answers with one index; all but the computing happens on the event loop.

    Parameters
    ----------
    translator
        Knows the index and the terms.
    queue
        Of the computing thread, which this index may share with others; whoever made
        it starts and stops it.
    metrics
        Where to count; an index that takes another's place goes on with its counts.

    Attributes
    ----------
    planner
        Of the index.
    version
        Checksum of the index.
    warm_up
        What `start` does first.
    ready
        Whether every feature and model has run and the reserves are measured.
    send_times
        What is kept of a budget between a plan's end and its answer's.
    """

    def __init__(
        self, translator: Translator, queue: WorkQueue, metrics: Metrics | None = None
    ) -> None:
        self.translator = translator
        self.planner = translator.planner
        self.metrics = Metrics() if metrics is None else metrics
        self.version = self.planner.index.version
        self.now = self.planner.now
        self.ready = False
        self.send_times = SendTimes(SendTime(), SendTime())
        self._times_of: dict[tuple[str, int], SendTimes] = {}
        self.queue = queue
        self.warm_up = WarmUp(self.planner, rescales=translator.settings.rescale)
        self._time_counts = translator.unit == "s"

    def facts(self, *, shows_items: bool = False) -> IndexFacts:
        """Say what is being served; `shows_items` as in `describe_index`."""
        planner = self.planner
        drift = planner.drift.at(planner.now())
        return describe_index(
            planner.index, self.warm_up.rescaling, drift, shows_items=shows_items
        )

    def curves(self) -> CurvesFacts:
        """Say what features cost."""
        steps = [step.name for step in self.planner.extractor.steps]
        return describe_curves(self.planner.index, self.warm_up.rescaling, steps)

    @property
    def samples(self) -> list[Any]:
        """Payloads of the training items that the index carries."""
        return list(self.planner.package.meta.get("samples", []))

    async def start(self, old: "ServedModel | None" = None) -> None:
        """Warm everything up, then be ready; the queue's thread must be running.

        The warming is done in small pieces while no request waits, or once those of a
        whole largest budget were answered. With an `old` one, whose place this will
        take under load, there is a rest after each piece, and the reserves are its own:
        to measure them now would tell of the load and add to it.
        """
        self.metrics.planners.add(self.planner)
        steps = self.warm_up.steps()
        done = object()
        began_s = self.now()
        step = functools.partial(next, steps, done)
        while await self.queue.compute(step, self._in_the_end_s()) != done:
            if old is not None:
                took_s = self.now() - began_s
                await asyncio.sleep(min(REST * took_s, LONGEST_REST_S))
                began_s = self.now()
        if old is not None and old.ready:
            self.send_times, self._times_of = old.send_times, old._times_of
        elif self.warm_up.samples:
            loop = await self._measure(by_thread=False)
            self.send_times = SendTimes(loop, await self._measure(by_thread=True))
        self.ready = True

    def send_times_of(self, transport: str, items: int) -> SendTimes:
        """Return what is kept where about so many items are answered together."""
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
        """Answer a request whose first byte was read at `arrived_s`.

        A quick plan is carried out at once if nothing waits, others in their turn. What
        comes of it, and of what request, is for `translator.answer`, then for `sent`.

        Raises
        ------
        NotReady
            Before the warm-up is over, and while stopping.
        Overloaded
            If too many wait already.
        BadInput, BadItem
            If the request's terms or its item cannot be used.
        BadFeature, TooLittleLeft, Abandoned
            As `execution.execute`.
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
    ) -> tuple[Request, Outcome | Choice | None]:
        """Plan a request, and carry the plan out if it is quick and nothing waits.

        Returns the request with its outcome, or with the plan that was chosen; neither
        where requests wait or costs are money. Raises what `answer` raises.
        """
        times = times or self.send_times
        request = self.translator.request(terms, item, arrived_s, caller, times.loop)
        if times.weighs:
            request = self.translator.weighed(request)
        return request, self._at_once(request)

    async def answer_in_turn(
        self,
        request: Request,
        choice: Choice | None = None,
        times: SendTimes | None = None,
    ) -> tuple[Request, Outcome]:
        """Have the computing thread answer a request that `begin` planned."""
        if not self.ready:
            raise not_ready(self.queue.begun)
        times = times or self.send_times
        since_s = request.waits_since_s
        if self.queue.waiting or self.queue.busy:
            choice, since_s = None, min(since_s, request.read_s)
        budget = request.budget.keeping(times.thread.at(request.read_s))
        request = replace(
            request, budget=budget, waits_since_s=since_s, send_time=times.thread
        )
        if times.weighs:
            request = self.translator.weighed(request)
        return request, await self._ask_thread(request, choice)

    @functools.cached_property
    def records(self) -> RecordAnswerer:
        """Answers usual requests about records; asked for once this is ready."""
        return RecordAnswerer(self.translator, self.send_times.loop, self.all_sent)

    def sent(
        self, request: Request, outcome: Outcome, sent_s: float | None = None
    ) -> None:
        """Count an answer whose last byte was written at `sent_s`, by default now."""
        if sent_s is None:
            sent_s = self.now()
        features = self.planner.feature_names[outcome.row]
        self.all_sent([timed(request, outcome, features)], sent_s)

    def all_sent(self, answers: Sequence[Timed], sent_s: float) -> None:
        """Count answers whose last bytes were written at `sent_s`."""
        for one in answers:
            if one.send_time is not None:
                one.send_time.add(sent_s - one.finished_s, sent_s)
        self.metrics.answered(answers, sent_s)

    def count(self, request: Request, outcome: Outcome, sent_s: float) -> None:
        """Count one of several answers that are sent together."""
        features = self.planner.feature_names[outcome.row]
        self.metrics.answered([timed(request, outcome, features)], sent_s)

    def _at_once(self, request: Request) -> Outcome | Choice | None:
        """Answer where that is quick and nothing waits, else tell what was chosen."""
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
        if self.queue.waiting >= self.translator.settings.queue_limit:
            raise Overloaded(f"{self.queue.waiting} requests wait already")
        due_s = request.budget.due_s
        job = Job(self.planner, request, self.queue, choice)
        job.post(due_s if due_s < math.inf else self._in_the_end_s())
        outcome = await job.result()
        self.planner.audit.answered(outcome)
        return outcome

    def _in_the_end_s(self) -> float:
        """When work that no deadline drives is due: behind every request of now."""
        return self.now() + self.translator.settings.max_budget_s

    async def _measure(self, *, by_thread: bool) -> SendTime:
        """Find what a way of asking takes from a plan's end to the encoded answer."""
        after_s = []
        for _ in range(WINDOW):
            now_s = self.now()
            # nothing buys the prior, and what follows the plan is the same for all
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
    """Estimate the bytes that are looked at to make an item: of an image its header."""
    if ask.record is not None:
        return 16 * len(ask.record)
    return len(ask.text or "")
