"""Questions wait for the computing thread, and their tasks for the answers."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from ..features.items import Item
from .attempt import Attempt
from .budget import Allowance
from .desk import Desk
from .errors import NotReady, Overloaded, TooLittleLeft
from .job import Job
from .metrics import Metrics
from .outcome import Outcome
from .question import Caller, Question
from .queue import WorkQueue
from .reserve import WINDOW, Reserve
from .wire import Answer, Ask, Terms, encode

# A plan that costs no more than this is carried out on the event loop if nothing
# waits: two changes of thread cost more, and the loop is kept from reading requests no
# longer than the computing thread may keep the interpreter from it (app.py).
QUICK_S = 0.0005
FIRST_RESERVE_S = 1e-4
# A reload rests this many times as long as a piece of its warm-up took: it has the
# computing thread for a fifth of the time at most.
REST = 4.0
LONGEST_REST_S = 0.1


class Reply(NamedTuple):
    """An answer and what it came of.

    `asked_s` is when the question had been read; `reserves` are to be given the seconds
    that the rest of the answer's way took.
    """

    answer: Answer
    outcome: Outcome
    asked_s: float
    reserves: tuple[Reserve, ...]


class Serving:
    """Answers with one index; all but the computing happens on the event loop.

    Parameters
    ----------
    desk
        Knows the index and the terms.
    queue
        Of the computing thread, which this index may share with others; whoever made
        it starts and stops it.
    metrics
        Where to count; an index that takes another's place goes on with its counts.

    Attributes
    ----------
    queue
        As given.
    version
        Checksum of the index.
    ready
        Whether every feature and model has run and the reserves are measured.
    loop_reserve, thread_reserve
        What is kept of every budget for the way from a plan's end to the wire, where
        the event loop carried it out and where the computing thread did. The way from
        the thread begins with the loop's waking up and is then the same, so what the
        loop took is a lower bound for it, and counts in both: old stalls leave the
        thread's even while it has nothing to do, at the price that it is then too
        small for the thread's next answers.
    """

    def __init__(
        self, desk: Desk, queue: WorkQueue, metrics: Metrics | None = None
    ) -> None:
        self.desk = desk
        self.metrics = Metrics() if metrics is None else metrics
        self.version = desk.engine.index.version
        self.now = desk.engine.now
        self.ready = False
        self.loop_reserve = Reserve([FIRST_RESERVE_S])
        self.thread_reserve = Reserve([FIRST_RESERVE_S])
        self.queue = queue
        self._time_counts = desk.unit == "s"

    @property
    def waiting(self) -> int:
        """How many questions the computing thread has not done yet, of any index."""
        return self.queue.waiting

    async def start(self, old: "Serving | None" = None) -> None:
        """Warm everything up, then be ready; the queue's thread must be running.

        The warming is done in small pieces while no question waits. With an `old` one,
        whose place this will take under load, there is a rest after each piece, since
        a question that comes meanwhile waits for its end; and the reserves are the old
        one's: to measure them now would tell of the load and add to it.
        """
        self.metrics.engines.add(self.desk.engine)
        steps = self.desk.warm_up_steps()
        done = object()
        began_s = self.now()
        while await self.queue.patiently(functools.partial(next, steps, done)) != done:
            if old is not None:
                took_s = self.now() - began_s
                await asyncio.sleep(min(REST * took_s, LONGEST_REST_S))
                began_s = self.now()
        if old is not None and old.ready:
            self.loop_reserve = old.loop_reserve
            self.thread_reserve = old.thread_reserve
        elif self.desk.samples:
            self.loop_reserve = await self._measure(self._ask_loop)
            self.thread_reserve = await self._measure(self._ask_thread)
        self.ready = True

    async def answer(self, ask: Ask, arrived_s: float, caller: Caller) -> Reply:
        """Answer a request whose first byte was read at `arrived_s`.

        A quick plan is carried out at once if nothing waits, others in their turn.

        Raises
        ------
        NotReady
            Before the warm-up is over, and while stopping.
        Overloaded
            If too many wait already.
        BadInput, BadItem
            If the request's terms or its item cannot be used.
        BadFeature, NothingFits, Abandoned
            As `Engine.answer`.
        """
        if not self.ready:
            raise NotReady("the index is still being warmed up; see /readyz")
        kept_s = self.loop_reserve.seconds
        question = self.desk.question(ask, arrived_s, caller, kept_s)
        asked_s = self.now()
        try:
            outcome = self._at_once(question)
            by_thread = outcome is None
            if outcome is None:
                budget = question.budget.keeping(self.thread_reserve.seconds)
                question = msgspec.structs.replace(question, budget=budget)
                outcome = await self._ask_thread(question)
        except TooLittleLeft as error:
            self.desk.engine.refused(error)
            raise
        return self._reply(question, outcome, arrived_s, asked_s, by_thread=by_thread)

    def answer_at_once(
        self, ask: Ask | tuple[Terms, Item], arrived_s: float, caller: Caller
    ) -> Reply | None:
        """Answer as `answer` does if that need not wait for anything, else do nothing.

        `ask` may also be what the desk's reader made of a request.

        Raises
        ------
        PolydomError
            As `answer`, which is to be asked then too, and answers for what it raises.
        """
        if not self.ready:
            return None
        kept_s = self.loop_reserve.seconds
        question = self.desk.question(ask, arrived_s, caller, kept_s)
        asked_s = self.now()
        outcome = self._at_once(question)
        if outcome is None:
            return None
        return self._reply(question, outcome, arrived_s, asked_s)

    def sent(self, reply: Reply, arrived_s: float) -> None:
        """Count an answer that has just been handed over to be sent."""
        sent_s = self.now()
        for reserve in reply.reserves:
            reserve.add(sent_s - reply.outcome.finished_s)
        self.metrics.answered(reply, arrived_s, sent_s)

    def _reply(
        self,
        question: Question,
        outcome: Outcome,
        arrived_s: float,
        asked_s: float,
        *,
        by_thread: bool = False,
    ) -> Reply:
        if self._time_counts and self.desk.settings.correct:
            self.desk.engine.follow(outcome, question)
        self.desk.engine.audit.answered(outcome)
        answer = self.desk.answer(question, outcome, arrived_s, asked_s)
        both = (self.loop_reserve, self.thread_reserve)
        return Reply(answer, outcome, asked_s, both[1:] if by_thread else both)

    def _at_once(self, question: Question) -> Outcome | None:
        """Answer at once where that is quick and nothing waits; else None."""
        if self.waiting or not self._time_counts:
            return None
        attempt = Attempt(self.desk.engine, question)
        return attempt.run() if attempt.longest <= QUICK_S else None

    async def _ask_loop(self, question: Question) -> Outcome | None:
        return self._at_once(question)

    async def _ask_thread(self, question: Question) -> Outcome:
        if self.waiting >= self.desk.settings.queue_limit:
            raise Overloaded(f"{self.waiting} requests wait already")
        job = Job(self.desk.engine, question, self._pressure, self._one_less)
        self.queue.waiting += 1
        self.queue.post(question.budget.due_s, job.compute)
        return await job.result()

    def _pressure(self) -> int:
        """How many wait; none where time is not what the costs count."""
        return self.waiting if self._time_counts else 0

    def _one_less(self) -> None:
        self.queue.waiting -= 1

    async def _measure(
        self, ask: Callable[[Question], Awaitable[Outcome | None]]
    ) -> Reserve:
        """Find what a way of asking takes from a plan's end to the encoded answer."""
        after_s = []
        for _ in range(WINDOW):
            arrived_s = self.now()
            # nothing buys the prior, and what follows the plan is the same for all
            question = Question(self.desk.samples[0], Allowance(0.0))
            if (outcome := await ask(question)) is not None:
                encode(self.desk.answer(question, outcome, arrived_s, arrived_s))
                after_s.append(self.now() - outcome.finished_s)
        return Reserve(after_s or [FIRST_RESERVE_S])
