"""Questions wait for the computing thread, and their tasks for the answers."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NamedTuple

from .budget import Allowance
from .desk import Desk
from .engine import Attempt, Caller, Outcome, Question
from .errors import NotReady, Overloaded
from .job import Job
from .queue import WorkQueue
from .reserve import WINDOW, Reserve
from .wire import Answer, Ask, encode

# A plan that costs no more than this is carried out on the event loop if nothing
# waits: two changes of thread cost more, and the loop is kept from reading requests no
# longer than the computing thread may keep the interpreter from it (app.py).
QUICK_S = 0.0005
FIRST_RESERVE_S = 1e-4


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

    Attributes
    ----------
    desk
        Knows the index and the terms.
    ready
        Whether every feature and model has run and the reserves are measured.
    waiting
        How many questions the computing thread has not done yet.
    loop_reserve, thread_reserve
        What is kept of every budget for the way from a plan's end to the wire, where
        the event loop carried it out and where the computing thread did. The way from
        the thread begins with the loop's waking up and is then the same, so what the
        loop took is a lower bound for it, and counts in both: old stalls leave the
        thread's even while it has nothing to do, at the price that it is then too
        small for the thread's next answers.
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.now = desk.engine.now
        self.ready = False
        self.loop_reserve = Reserve([FIRST_RESERVE_S])
        self.thread_reserve = Reserve([FIRST_RESERVE_S])
        self._queue = WorkQueue()
        self.waiting = 0
        self._time_counts = desk.unit == "s"

    async def start(self) -> None:
        """Start the computing thread, warm everything up, then be ready."""
        self._queue.start()
        await asyncio.to_thread(self.desk.warm_up)
        if self.desk.samples:
            self.loop_reserve = await self._measure(self._ask_loop)
            self.thread_reserve = await self._measure(self._ask_thread)
        # What is alive now stays so: a collection while a request waits need not
        # walk the index, the models and every imported module.
        gc.collect()
        gc.freeze()
        self.ready = True

    async def stop(self) -> None:
        """Take no more questions, and finish those that wait."""
        self.ready = False
        gc.unfreeze()
        await asyncio.get_running_loop().run_in_executor(None, self._queue.stop)

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
        reserves: tuple[Reserve, ...] = (self.loop_reserve, self.thread_reserve)
        asked_s = self.now()
        outcome = await self._ask_loop(question)
        if outcome is None:
            reserves = (self.thread_reserve,)
            budget = question.budget.keeping(self.thread_reserve.seconds)
            question = replace(question, budget=budget)
            outcome = await self._ask_thread(question)
        answer = self.desk.answer(question, outcome, arrived_s, asked_s)
        return Reply(answer, outcome, asked_s, reserves)

    async def _ask_loop(self, question: Question) -> Outcome | None:
        """Answer at once where that is quick and nothing waits; else None."""
        if self.waiting or not self._time_counts:
            return None
        attempt = Attempt(self.desk.engine, question)
        return attempt.run() if attempt.choice.cost <= QUICK_S else None

    async def _ask_thread(self, question: Question) -> Outcome:
        if self.waiting >= self.desk.settings.queue_limit:
            raise Overloaded(f"{self.waiting} requests wait already")
        job = Job(self.desk.engine, question, self._pressure, self._one_less)
        self.waiting += 1
        self._queue.post(question.budget.due_s, job.compute)
        return await job.result()

    def _pressure(self) -> int:
        """How many wait; none where time is not what the costs count."""
        return self.waiting if self._time_counts else 0

    def _one_less(self) -> None:
        self.waiting -= 1

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
