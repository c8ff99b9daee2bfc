"""Lets the computing thread answer requests; asyncio tasks wait for the answers."""

import asyncio
import math
from collections.abc import Callable

from msgspec.structs import replace

from ..engine.executions.execution import begin
from ..engine.executions.timed_execution import TimedExecution
from ..engine.planning.plan import Choice
from ..engine.planning.planner import Planner
from ..engine.request import Outcome, Request
from .work_queue import WorkQueue

# uvloop counts whole milliseconds, and fires a timer below half a millisecond at once.
SOONEST_S = 0.0006


class Job:
    """Answers one request in the computing thread, within the request's budget.

    If the budget ends before the answer is computed, the event loop answers with the
    features that are complete. If a request is already late when the thread takes it,
    the job is put back once, behind requests that can still be in time.
    """

    def __init__(
        self,
        planner: Planner,
        request: Request,
        queue: WorkQueue,
        choice: Choice | None = None,
    ) -> None:
        self._planner = planner
        self._request = request
        self._queue = queue
        self._posted_s = planner.now()
        self._may_defer = planner.unit == "s"
        # The execution keeps this function; it must not refer to the job, to avoid a
        # cycle.
        self._others: Callable[[], int] = int
        if planner.unit == "s":
            self._others = lambda: max(queue.waiting - queue.late - 1, 0)
        self._choice = choice
        self._loop = asyncio.get_running_loop()
        self._outcome: asyncio.Future[Outcome] = self._loop.create_future()
        # The execution; None if the budget ended before the thread began
        self.execution: TimedExecution | None = None
        self._alarm: asyncio.Handle | None = None

    def post(self, due_s: float) -> None:
        """Put the job into the queue, with the deadline `due_s`."""
        self._queue.waiting += 1
        self._queue.post(due_s, self.compute)

    def compute(self) -> None:
        """Compute the answer. The computing thread calls this."""
        try:
            if self._outcome.done():
                result: Outcome | BaseException | None = None
            else:
                others = self._others
                execution = begin(
                    self._planner, self._request, others(), others, self._choice
                )
                if execution.choice.late and self._may_defer:
                    self._may_defer = False
                    self._queue.defer(execution.choice.cost, self.compute)
                    return
                self.execution = execution
                result = execution.run()
        except BaseException as error:  # raised again in the waiting task
            result = error
        self._loop.call_soon_threadsafe(self._deliver, result)

    async def result(self) -> Outcome:
        """Return the outcome when it is known, at the latest when the budget ends.

        Without a deadline, or if `on_infeasible` is "cheapest", wait without a limit.
        """
        request = self._request
        if request.on_infeasible == "cheapest" or request.budget.due_s == math.inf:
            return await self._outcome
        self._rescue_when_due()
        try:
            return await self._outcome
        finally:
            if self._alarm is not None:
                self._alarm.cancel()

    def _rescue_when_due(self) -> None:
        """Call `_rescue` when the budget ends; if a timer fires earlier, wait again."""
        left_s = self._request.budget.left(self._planner.now())
        if left_s > 0:
            wait_s = max(left_s, SOONEST_S)
            self._alarm = self._loop.call_later(wait_s, self._rescue_when_due)
        else:
            self._alarm = self._loop.call_soon(self._rescue)

    def _deliver(self, result: Outcome | BaseException | None) -> None:
        self._queue.waiting -= 1
        if self._outcome.done():
            return
        if isinstance(result, Outcome):
            self._outcome.set_result(result)
        elif result is not None:
            self._outcome.set_exception(result)

    def _rescue(self) -> None:
        """Answer from the features that are complete, and stop the thread's work."""
        if self._outcome.done():
            return
        execution = self.execution
        try:
            if execution is None:
                # the thread has not begun, so `on_infeasible` decides about the answer
                since_s = min(self._posted_s, self._request.waits_since_s)
                waited = replace(self._request, waits_since_s=since_s)
                execution = begin(self._planner, waited)
            self._outcome.set_result(execution.rescue())
        except Exception as error:
            self._outcome.set_exception(error)
