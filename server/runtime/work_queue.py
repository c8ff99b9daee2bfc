"""Work that waits, earliest deadline first, and the one thread that does it."""

import asyncio
import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from ..schema.bounds import LARGE

T = TypeVar("T")
Work = Callable[[], None]
_Entry = tuple[float, int, Work]

# What late work gets of the thread's time while other work waits; never more, and it
# never has to wait for ever.
LATE_SHARE = 0.2


# One: several would leave the loop a part of the interpreter each, and be no faster.
_reader = ThreadPoolExecutor(1, "polydom-read")


class WorkQueue:
    """Runs one piece of work at a time, the most urgent of those that wait first.

    The heap belongs to the computing thread alone; others only post into a mailbox,
    which it empties before every choice.

    Parameters
    ----------
    now
        Monotonic clock of all that is due.

    Attributes
    ----------
    waiting
        How many jobs were posted and are not done yet. They count themselves, on the
        event loop.
    late
        How many pieces of late work wait behind what can be in time.
    busy
        Whether the thread does some work.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._mailbox: SimpleQueue[_Entry | None] = SimpleQueue()
        self._heap: list[_Entry] = []
        self._sequence = itertools.count()
        self._closing = False
        self._now = now
        self._late_due_s = -math.inf
        self.waiting = self.late = 0
        self.busy = False
        self._thread = threading.Thread(
            target=self._run, name="polydom-compute", daemon=True
        )

    @property
    def begun(self) -> bool:
        """Whether it was ever started."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Start computing; what was posted before is then chosen from."""
        self._thread.start()

    def stop(self) -> None:
        """Do what was posted so far, then end the thread, and wait for that."""
        self._mailbox.put(None)
        if self.begun:
            self._thread.join()

    def post(self, due_s: float, work: Work) -> None:
        """Have `work` done that is due then; infinity is allowed.

        Equal deadlines keep the order of posting. It must not raise: who posts it
        delivers its errors with its results.
        """
        self._mailbox.put((due_s, next(self._sequence), work))

    def defer(self, cost_s: float, work: Work) -> None:
        """Have late `work` of `cost_s` done behind what can still be in time.

        It gets a deadline that it can keep: the time at which a thread that gives late
        work `LATE_SHARE` of its time has done it, and all before it (the total
        bandwidth server of Spuri and Buttazzo, 1996). For the computing thread.
        """
        self._late_due_s = max(self._late_due_s, self._now()) + cost_s / LATE_SHARE
        self.late += 1
        self.post(self._late_due_s, partial(self._do_late, work))

    def _do_late(self, work: Work) -> None:
        self.late -= 1
        work()

    async def compute(self, work: Callable[[], T], due_s: float = math.inf) -> T:
        """Have `work` done while nothing due before waits; give or raise its result."""
        done: Future[T] = Future()
        self.post(due_s, partial(settle, done, work))
        return await asyncio.wrap_future(done)

    def _run(self) -> None:
        while (work := self.take()) is not None:
            self.busy = True
            work()
        self.busy = False

    def take(self) -> Work | None:
        """Return the most urgent work, waiting for some; None once all is done."""
        if not self._heap and not self._closing:
            self.busy = False
            self._receive(self._mailbox.get())
        while True:
            try:
                self._receive(self._mailbox.get_nowait())
            except Empty:
                break
        return heapq.heappop(self._heap)[2] if self._heap else None

    def _receive(self, entry: _Entry | None) -> None:
        if entry is None:
            self._closing = True
        else:
            heapq.heappush(self._heap, entry)


def settle(done: "Future[T]", work: Callable[[], T]) -> None:
    """Do some work unless nobody wants it any more; have a future give or raise it."""
    if not done.set_running_or_notify_cancel():
        return
    try:
        done.set_result(work())
    except BaseException as error:  # whatever it is, the waiting task gets it
        done.set_exception(error)


async def run_off_loop(read: Callable[..., T], *arguments: object, size: int) -> T:
    """Call `read`; where there are many bytes not on the loop, and in short pieces."""
    if size <= LARGE:
        return read(*arguments)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_reader, read, *arguments)


async def run_in_thread(work: Callable[[], T]) -> T:
    """Do some work in a thread that ends with the process; give or raise its result.

    The event loop's own threads would keep a process from stopping.
    """
    done: Future[T] = Future()
    thread = threading.Thread(
        target=settle, args=(done, work), name="polydom-load", daemon=True
    )
    thread.start()
    return await asyncio.wrap_future(done)
