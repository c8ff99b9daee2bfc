"""Questions wait for the computing thread, and their tasks for the answers."""

import asyncio

import numpy as np

from .budget import Deadline
from .desk import Desk
from .engine import Attempt, Caller, Outcome, Question
from .errors import NotReady, Overloaded
from .job import Job
from .queue import WorkQueue
from .reserve import QUANTILE, Reserve
from .wire import Answer, Ask, encode

# A plan that costs no more than this is carried out on the event loop if nothing
# waits: two changes of thread cost more, and the loop is kept from reading requests no
# longer than the computing thread may keep the interpreter from it (app.py).
QUICK_S = 0.0005
WARM_UP_QUESTIONS = 200


class Serving:
    """Answers with one index; all but the computing happens on the event loop.

    Attributes
    ----------
    desk
        Knows the index and the terms.
    ready
        Whether every feature and model has run and the reserve is measured.
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.now = desk.engine.now
        self.ready = False
        self._queue = WorkQueue()
        self._waiting = 0
        self._time_counts = desk.unit == "s"

    async def start(self) -> None:
        """Start the computing thread, warm everything up, then be ready."""
        self._queue.start()
        await asyncio.to_thread(self.desk.warm_up)
        if self.desk.samples:
            self.desk.reserve = Reserve(await self._measure_reserve())
        self.ready = True

    async def stop(self) -> None:
        """Take no more questions, and finish those that wait."""
        self.ready = False
        await asyncio.get_running_loop().run_in_executor(None, self._queue.stop)

    async def answer(
        self, ask: Ask, arrived_s: float, caller: Caller
    ) -> tuple[Answer, float]:
        """Answer a request whose first byte was read at `arrived_s`.

        Returns
        -------
        The answer, and when the computing of it ended.

        Raises
        ------
        NotReady
            Before the warm-up is over, and while stopping.
        BadInput, BadItem
            If the request's terms or its item cannot be used.
        BadFeature, NothingFits, Abandoned
            As `Engine.answer`.
        """
        if not self.ready:
            raise NotReady("the index is still being warmed up; see /readyz")
        question = self.desk.question(ask, arrived_s, caller)
        asked_s = self.now()
        outcome = await self.ask(question)
        answer = self.desk.answer(question, outcome, arrived_s, asked_s)
        return answer, outcome.finished_s

    async def ask(self, question: Question) -> Outcome:
        """Have a question answered: at once if that is quick, else in its turn.

        Raises
        ------
        Overloaded
            If too many wait already.
        """
        if not self._waiting and self._time_counts:
            attempt = Attempt(self.desk.engine, question)
            if attempt.choice.cost <= QUICK_S:
                return attempt.run()
        if self._waiting >= self.desk.settings.queue_limit:
            raise Overloaded(f"{self._waiting} requests wait already")
        job = Job(self.desk.engine, question, self._pressure, self._one_less)
        self._waiting += 1
        self._queue.post(question.budget.due_s, job.compute)
        return await job.result()

    def _pressure(self) -> int:
        """How many wait; none where time is not what the costs count."""
        return self._waiting if self._time_counts else 0

    def _one_less(self) -> None:
        self._waiting -= 1

    async def _measure_reserve(self) -> float:
        """High quantile of the seconds from a plan's end to its encoded answer."""
        after_s = []
        for _ in range(WARM_UP_QUESTIONS):
            arrived_s = self.now()
            question = Question(self.desk.samples[0], Deadline(arrived_s, 0.0))
            outcome = await self.ask(question)
            encode(self.desk.answer(question, outcome, arrived_s, arrived_s))
            after_s.append(self.now() - outcome.finished_s)
        return float(np.quantile(after_s, QUANTILE))
