"""A request in the hands of the computing thread, and the task that waits for it."""

import asyncio
import math
from collections.abc import Callable

from msgspec.structs import replace

from ..engine.execution import Execution, begin
from ..engine.outcome import Outcome
from ..engine.planner import Choice, Planner
from ..engine.request import Request


class Job:
    """Computed by one thread, awaited on the event loop, and never late for long.

    When the budget is up before the thread is done, or has begun, the event loop itself
    answers from the features that are complete, and the thread's work is in vain.

    Parameters
    ----------
    planner, request
        What to answer, and who does.
    waiting
        Says how many jobs are not computed yet, this one included; called when the
        thread begins with the job, so that its plan suits the pressure then.
    when_computed
        Called on the event loop when the thread is done with the job.
    defer
        Takes seconds and what to call then: where it turns out to be too late for this
        job when its turn comes, it waits again, once, behind those that can be in time.
    choice
        Made on the event loop; the thread takes it where it still holds.
    """

    def __init__(
        self,
        planner: Planner,
        request: Request,
        waiting: Callable[[], int],
        when_computed: Callable[[], None],
        defer: Callable[[float, Callable[[], None]], None] | None = None,
        choice: Choice | None = None,
    ) -> None:
        self._planner = planner
        self._request = request
        self._posted_s = planner.now()
        # kept by the execution, so it must not hold this job
        self._others: Callable[[], int] = lambda: max(waiting() - 1, 0)
        self._when_computed = when_computed
        self._defer = defer
        self._choice = choice
        self._loop = asyncio.get_running_loop()
        self._outcome: asyncio.Future[Outcome] = self._loop.create_future()
        self._execution: Execution | None = None

    def compute(self) -> None:
        """Answer the request; for the computing thread."""
        try:
            if self._outcome.done():
                result: Outcome | BaseException | None = None
            else:
                others = self._others
                execution = begin(
                    self._planner, self._request, others(), others, self._choice
                )
                if execution.choice.late and self._defer is not None:
                    defer, self._defer = self._defer, None
                    defer(execution.choice.cost, self.compute)
                    return
                self._execution = execution
                result = execution.run()
        except BaseException as error:  # whatever it is, the waiting task gets it
            result = error
        self._loop.call_soon_threadsafe(self._deliver, result)

    async def result(self) -> Outcome:
        """Wait for the outcome, until the budget is up."""
        request = self._request
        if request.on_infeasible == "cheapest" or request.budget.due_s == math.inf:
            return await self._outcome
        left_s = request.budget.left(self._planner.now())
        alarm = self._loop.call_later(max(left_s, 0.0), self._rescue)
        try:
            return await self._outcome
        finally:
            alarm.cancel()

    def _deliver(self, result: Outcome | BaseException | None) -> None:
        self._when_computed()
        if self._outcome.done():
            return
        if isinstance(result, Outcome):
            self._outcome.set_result(result)
        elif result is not None:
            self._outcome.set_exception(result)

    def _rescue(self) -> None:
        """Answer now; the thread stops at its next checkpoint."""
        if self._outcome.done():
            return
        execution = self._execution
        try:
            if execution is None:
                # not begun, and nothing is left: what was asked for that case
                since_s = min(self._posted_s, self._request.waits_since_s)
                waited = replace(self._request, waits_since_s=since_s)
                execution = begin(self._planner, waited)
            execution.stopped = True
            self._outcome.set_result(execution.conclude())
        except Exception as error:
            self._outcome.set_exception(error)
