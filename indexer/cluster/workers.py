"""Spread function calls over processes, and repeat a call if its process dies."""

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

IN_FLIGHT = 2  # calls per process: one running, one waiting
# Retries of a call whose worker was lost. During the last one no other call runs: so no
# call is blamed for another call's death, and the call has all the memory.
RETRIES = 2
LOOK_S = 1.0  # seconds between two counts of the workers
WAIT_S = 10.0  # seconds to wait for workers if a cluster has none
CALL_S = 1.0  # seconds that a call should take, if its caller can divide the work
CURE = (
    "use fewer workers (`--on local:2`) or smaller items, and run it again: what is "
    "done is kept in the cache"
)
CURE_OF_NONE = "start some, and run it again: what is done is kept"
# Errors of engines that mean a lost worker; names, so that no engine is imported.
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
class Countable(Protocol):
    """An executor that knows the current number of its processes."""

    def cores(self) -> int:
        """Return how many calls can run at the same time; 0 if no worker is left."""


@dataclass
class Call:
    """A function call, and the number of workers that were lost while they ran it."""

    number: int  # Position among all calls
    arguments: tuple[Any, ...]  # Arguments of the function
    losses: int = 0  # Number of workers that were lost while they had the call
    alone: bool = False  # True once the call must run while no other call does


@dataclass(frozen=True)
class Workers:
    """An executor that runs calls in processes, and how many it runs at a time."""

    # Executor of `concurrent.futures`; None to run calls in this process.
    executor: Executor | None
    count: int = 1  # Number of calls that the executor runs at a time
    # Requirements that each worker is checked for; None for no check
    check: WorkerCheck | None = None

    @classmethod
    def here(cls, count: int) -> "Workers":
        """Return `Workers` of `count` processes of this machine.

        If `count` is 1, no process is started, and calls run in this process.
        """
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
        """Call a function with each tuple of arguments, and yield the results.

        Other processes must be able to import the function. Results come in the order
        of the arguments if `ordered` is true, otherwise in the order in which calls
        end. `keep` is called with each result as soon as its call ends. If a worker
        dies, its call is repeated. After the last retry, this method raises WorkerLost.
        The error names the `stage` and the call, described by `doing(*arguments)`, and
        ends with the advice `cure`. If a call raises an error, all other calls are
        cancelled, and this method raises the error.
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
    workers: Workers
    executor: Executor
    function: Callable[..., Any]
    arguments: Iterator[tuple[Any, ...]]
    stage: str
    doing: Callable[..., str]
    keep: Callable[[Any], object]
    cure: str
    running: dict["Future[Any]", Call] = field(default_factory=dict)
    again: list[Call] = field(default_factory=list)
    done: "SimpleQueue[Future[Any]]" = field(default_factory=SimpleQueue)
    taken: int = 0

    def ordered(self) -> Iterator[Any]:
        early: dict[int, Any] = {}
        wanted = 0
        for number, result in self.results():
            early[number] = result
            while wanted in early:
                yield early.pop(wanted)
                wanted += 1

    def results(self) -> Iterator[tuple[int, Any]]:
        """Yield (number of the call, result) in the order in which the calls end."""
        try:
            while self._fill():
                future = self._next()
                call = self.running.pop(future)
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
        """Start calls up to the limit. Return True if any call is then open."""
        limit = self.workers.count * IN_FLIGHT
        while len(self.running) < limit and not self._one_is_alone():
            call = self._take()
            if call is None:
                break
            if call.alone and self.running:
                self.again.append(call)
                break
            self._submit(call)
        return bool(self.running)

    def _one_is_alone(self) -> bool:
        return len(self.running) == 1 and next(iter(self.running.values())).alone

    def _take(self) -> Call | None:
        """Return the next call to start, retries first; None if no call is left."""
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
        self.running[future] = call
        future.add_done_callback(self.done.put)

    def _called(self, call: Call) -> tuple[Any, ...]:
        if (check := self.workers.check) is None:
            return self.function, *call.arguments
        return check.call, self.function, *call.arguments

    def _next(self) -> "Future[Any]":
        """Return the future of the call that ends next.

        Raises WorkerLost if the executor has no worker for `WAIT_S` seconds.
        """
        seen_s = time.monotonic()
        while True:
            try:
                return self.done.get(timeout=LOOK_S)
            except Empty:
                executor, now_s = self.executor, time.monotonic()
                if not isinstance(executor, Countable) or executor.cores():
                    seen_s = now_s
                elif now_s - seen_s >= WAIT_S:
                    raise WorkerLost(
                        self.stage,
                        CURE_OF_NONE,
                        f"no worker came for {now_s - seen_s:.0f} s",
                    ) from None

    def _lose(self, call: Call, error: BaseException) -> None:
        """Repeat a call whose worker died; raise `WorkerLost` after the last retry."""
        doing = self.doing(*call.arguments)
        call.losses += 1
        if call.alone:
            raise WorkerLost(
                self.stage,
                self.cure,
                f"a worker process was killed or crashed {call.losses} times"
                f"{f' while {doing}' if doing else ''}, most likely because memory ran "
                "out",
            ) from error
        log.warning(
            "%s: a worker was lost%s; tried again (%d of %d)",
            self.stage,
            f" while {doing}" if doing else "",
            call.losses,
            RETRIES,
        )
        call.alone = call.losses >= RETRIES
        self.again.append(call)

    def _stop(self) -> None:
        gone = isinstance(self.executor, Countable) and not self.executor.cores()
        if gone or not self.running:
            return
        for future in self.running:
            future.cancel()
        if isinstance(self.executor, LocalExecutor):
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
    """Return True if this error means that a worker was killed or crashed."""
    # raised by local processes, and by calls on a cluster that is gone
    if isinstance(error, BrokenExecutor | CancelledError):
        return True
    kinds = type(error).__mro__
    return any(f"{kind.__module__}.{kind.__qualname__}" in LOST for kind in kinds)
