"""Calls spread over processes of any engine, and what to do when one of them dies."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Protocol, runtime_checkable

from polydom.features.errors import WorkerLost

from .check import OtherWorker, WorkerCheck
from .local import LocalExecutor

log = logging.getLogger("polydom")

IN_FLIGHT = 2  # calls per process: one under way, one that waits for it
RETRIES = 2
LOOK_S = 1.0  # between two looks at whether any worker is left
WAIT_S = 10.0
CALL_S = 1.0
CURE = (
    "use fewer workers (`--on local:2`) or smaller items, and run it again: what is "
    "done is kept in the cache"
)
CURE_OF_NONE = "start some, and run it again: what is done is kept"
# By name: no engine is imported to be told apart.
LOST = frozenset(
    {
        "distributed.client.FutureCancelledError",
        "distributed.comm.core.CommClosedError",
        "distributed.scheduler.KilledWorker",
        "ray.exceptions.LocalRayletDiedError",
        "ray.exceptions.NodeDiedError",
        "ray.exceptions.ObjectLostError",
        "ray.exceptions.OutOfMemoryError",
        "ray.exceptions.OwnerDiedError",
        "ray.exceptions.WorkerCrashedError",
    }
)


@runtime_checkable
class Killable(Protocol):
    """An executor whose processes can be ended amid a call."""

    def kill(self) -> None:
        """End them."""


@runtime_checkable
class Countable(Protocol):
    """An executor that knows how many processes it has by now."""

    def cores(self) -> int:
        """Count calls that can be carried out at a time; 0 where no worker is left."""


@dataclass
class Call:
    """A call under way.

    Attributes
    ----------
    number
        Its place among all calls.
    losses
        How often a worker was lost that had it.
    alone
        Whether it is tried while nothing else is under way.
    """

    number: int
    arguments: tuple[Any, ...]
    losses: int = 0
    alone: bool = False


@dataclass(frozen=True)
class Workers:
    """Processes that calls are spread over.

    Attributes
    ----------
    executor
        Any `concurrent.futures.Executor`; None to carry calls out in this process.
    count
        Calls that it carries out at a time.
    retries
        How often a call is tried again whose worker was lost. The last time nothing
        else is under way: so no call is blamed for another's death, and it has all the
        memory that there is.
    in_flight
        Calls given to the executor at a time, for each that it carries out.
    wait_s
        How long to wait for workers where a cluster has none.
    call_s
        How long a call is to take where who makes it can choose.
    check
        What a worker must have; None where all are known to have it.
    """

    executor: Executor | None
    count: int = 1
    retries: int = RETRIES
    in_flight: int = IN_FLIGHT
    wait_s: float = WAIT_S
    call_s: float = CALL_S
    check: WorkerCheck | None = None

    @classmethod
    def here(cls, count: int) -> "Workers":
        """Take so many processes of this machine; of one, this process itself."""
        return cls(LocalExecutor(count) if count > 1 else None, count)

    def run(
        self,
        function: Callable[..., Any],
        arguments: Iterable[tuple[Any, ...]],
        *,
        stage: str,
        ordered: bool = True,
        doing: Callable[..., str] | None = None,
        keep: Callable[[Any], object] | None = None,
        cure: str = CURE,
    ) -> Iterator[Any]:
        """Call a function with each tuple of arguments; give what it returns.

        Parameters
        ----------
        function
            One that other processes can import.
        arguments
            Taken as workers become free.
        stage
            What is done by all calls, for the error.
        ordered
            Give results in the order of the arguments, not as they come.
        doing
            Says of a call's arguments what it does, for the error.
        keep
            Called with each result as soon as it comes, whatever is given first.
        cure
            What may help where workers are lost.

        Raises
        ------
        WorkerLost
            If a worker ended before it answered, as one that is out of memory does, and
            so did those that tried again.

        What a call raises is raised, and ends all others.
        """
        keep = keep or (lambda result: None)
        if self.executor is None:
            return _call_here(function, arguments, keep)
        describe = doing or (lambda *own: "")
        calls = iter(arguments)
        run = _Run(self, self.executor, function, calls, stage, describe, keep, cure)
        return run.ordered() if ordered else (result for _, result in run.results())


@dataclass
class _Run:
    """One stage's calls on an executor."""

    workers: Workers
    executor: Executor
    function: Callable[..., Any]
    arguments: Iterator[tuple[Any, ...]]
    stage: str
    doing: Callable[..., str]
    keep: Callable[[Any], object]
    cure: str
    under_way: dict["Future[Any]", Call] = field(default_factory=dict)
    again: list[Call] = field(default_factory=list)
    done: "SimpleQueue[Future[Any]]" = field(default_factory=SimpleQueue)
    taken: int = 0

    def ordered(self) -> Iterator[Any]:
        """Give results in the order of the calls."""
        early: dict[int, Any] = {}
        wanted = 0
        for number, result in self.results():
            early[number] = result
            while wanted in early:
                yield early.pop(wanted)
                wanted += 1

    def results(self) -> Iterator[tuple[int, Any]]:
        """Give the numbers of calls and their results, as they come."""
        try:
            while self._fill():
                future = self._next()
                call = self.under_way.pop(future)
                error = _error_of(future)
                if error is None:
                    self.keep(future.result())
                    yield call.number, future.result()
                elif means_lost(error):
                    self._lose(call, error)
                elif isinstance(error, OtherWorker) and self.workers.check:
                    self.workers.check.refuse(error.facts.host, error.facts)
                else:
                    raise error
        finally:
            self._stop()

    def _fill(self) -> bool:
        """Have as many calls under way as there may be; say whether there are any."""
        limit = self.workers.count * self.workers.in_flight
        while len(self.under_way) < limit and not self._one_is_alone():
            call = self._take()
            if call is None:
                break
            if call.alone and self.under_way:
                self.again.append(call)
                break
            self._submit(call)
        return bool(self.under_way)

    def _one_is_alone(self) -> bool:
        return len(self.under_way) == 1 and next(iter(self.under_way.values())).alone

    def _take(self) -> Call | None:
        """Take the next call: those that are tried again first."""
        for place, call in enumerate(self.again):
            if not call.alone:
                return self.again.pop(place)
        if self.again:
            return self.again.pop()
        for own in self.arguments:
            self.taken += 1
            return Call(self.taken - 1, own)
        return None

    def _submit(self, call: Call) -> None:
        try:
            future = self.executor.submit(*self._called(call))
        except Exception as error:
            if not means_lost(error):
                raise
            self._lose(call, error)
            return
        self.under_way[future] = call
        future.add_done_callback(self.done.put)

    def _called(self, call: Call) -> tuple[Any, ...]:
        if (check := self.workers.check) is None:
            return self.function, *call.arguments
        return check.call, self.function, *call.arguments

    def _next(self) -> "Future[Any]":
        """Wait for a call to end, while there is any worker."""
        seen_s = time.monotonic()
        while True:
            try:
                return self.done.get(timeout=LOOK_S)
            except Empty:
                executor, now_s = self.executor, time.monotonic()
                if not isinstance(executor, Countable) or executor.cores():
                    seen_s = now_s
                elif now_s - seen_s >= self.workers.wait_s:
                    raise WorkerLost(
                        self.stage,
                        CURE_OF_NONE,
                        f"no worker came for {now_s - seen_s:.0f} s",
                    ) from None

    def _lose(self, call: Call, error: BaseException) -> None:
        """Note that a call's worker was lost; raise where it was tried often enough."""
        retries = self.workers.retries
        doing = self.doing(*call.arguments)
        call.losses += 1
        if call.alone or not retries:
            times = f" {call.losses} times" if call.losses > 1 else ""
            raise WorkerLost(
                self.stage,
                self.cure,
                f"a worker process was killed or crashed{times}"
                f"{f' while {doing}' if doing else ''}, most likely because memory ran "
                "out",
            ) from error
        log.warning(
            "%s: a worker was lost%s; tried again (%d of %d)",
            self.stage,
            f" while {doing}" if doing else "",
            call.losses,
            retries,
        )
        call.alone = call.losses >= retries
        self.again.append(call)

    def _stop(self) -> None:
        """End what nobody waits for any more."""
        gone = isinstance(self.executor, Countable) and not self.executor.cores()
        if gone or not self.under_way:
            return
        for future in self.under_way:
            future.cancel()
        if isinstance(self.executor, Killable):
            self.executor.kill()


def _call_here(
    function: Callable[..., Any],
    arguments: Iterable[tuple[Any, ...]],
    keep: Callable[[Any], object],
) -> Iterator[Any]:
    for own in arguments:
        result = function(*own)
        keep(result)
        yield result


def _error_of(future: "Future[Any]") -> BaseException | None:
    return CancelledError() if future.cancelled() else future.exception()


def means_lost(error: BaseException) -> bool:
    """Say whether an error means that a worker was killed or crashed.

    Processes of this machine raise a `BrokenExecutor`, whichever library has them; a
    call that is cancelled, and not by who asked for it, was on a cluster that is gone.
    """
    if isinstance(error, BrokenExecutor | CancelledError):
        return True
    kinds = type(error).__mro__
    return any(f"{kind.__module__}.{kind.__qualname__}" in LOST for kind in kinds)
