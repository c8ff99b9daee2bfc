"""A queue of work, earliest deadline first, and one thread that does the work."""

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

# Share of the thread's time for late work while other work waits. So late work delays
# other work little, but is done in the end.
LATE_SHARE = 0.2


# Long bodies are read in one thread: several would share the interpreter's lock.
_reader = ThreadPoolExecutor(1, "polydom-read")


class WorkQueue:
    """Runs one piece of work at a time, earliest deadline first.

    Other threads post work into a mailbox. Before each piece, the computing thread
    moves all posted work into a heap. Deadlines are seconds on the clock `now`.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._mailbox: SimpleQueue[_Entry | None] = SimpleQueue()
        self._heap: list[_Entry] = []
        self._sequence = itertools.count()
        self._closing = False
        self._now = now
        self._late_due_s = -math.inf
        # Number of jobs that are posted and not done; jobs update it on the event loop
        self.waiting = 0
        # number of pieces of late work that wait behind work still in time
        self.late = 0
        self.busy = False
        self._thread = threading.Thread(
            target=self._run, name="polydom-compute", daemon=True
        )

    @property
    def begun(self) -> bool:
        """True if the thread was ever started."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Start the thread, which also does the work that was posted before."""
        self._thread.start()

    def stop(self) -> None:
        """Do all posted work, then end the thread and wait for its end."""
        self._mailbox.put(None)
        if self.begun:
            self._thread.join()

    def post(self, due_s: float, work: Work) -> None:
        """Add `work` with the deadline `due_s`; infinity means none.

        Work with equal deadlines is done in the order of posting. `work` must not
        raise.
        """
        self._mailbox.put((due_s, next(self._sequence), work))

    def defer(self, cost_s: float, work: Work) -> None:
        """Post late `work` again, behind work that can still be in time.

        `cost_s` is the expected time of the work in seconds. All late work shares
        `LATE_SHARE` of the thread's time, and the new deadline is when the work would
        be done at this rate (the total bandwidth server of Spuri and Buttazzo, 1996).
        Call this only in the computing thread.
        """
        self._late_due_s = max(self._late_due_s, self._now()) + cost_s / LATE_SHARE
        self.late += 1
        self.post(self._late_due_s, partial(self._do_late, work))

    def _do_late(self, work: Work) -> None:
        self.late -= 1
        work()

    async def compute(self, work: Callable[[], T], due_s: float = math.inf) -> T:
        """Do `work` in the computing thread; return its result, or raise its error."""
        done: Future[T] = Future()
        self.post(due_s, partial(settle, done, work))
        return await asyncio.wrap_future(done)

    def _run(self) -> None:
        while (work := self.take()) is not None:
            self.busy = True
            work()
        self.busy = False

    def take(self) -> Work | None:
        """Wait for work; remove and return the piece with the earliest deadline.

        Returns None if the queue is stopped and all work is done.
        """
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
    """Call `work` and store its result or error in the future `done`.

    If `done` is cancelled, `work` is not called.
    """
    if not done.set_running_or_notify_cancel():
        return
    try:
        done.set_result(work())
    except BaseException as error:  # raised again in the waiting task
        done.set_exception(error)


async def run_off_loop(read: Callable[..., T], *arguments: object, size: int) -> T:
    """Return `read(*arguments)`, computed in a thread if `size` exceeds `LARGE`.

    `size` is the number of bytes that `read` has to read.
    """
    if size <= LARGE:
        return read(*arguments)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_reader, read, *arguments)


async def run_in_thread(work: Callable[[], T]) -> T:
    """Call `work` in a daemon thread; return its result or raise its error.

    The event loop's own threads are not used, because they would keep the process from
    stopping.
    """
    done: Future[T] = Future()
    thread = threading.Thread(
        target=settle, args=(done, work), name="polydom-load", daemon=True
    )
    thread.start()
    return await asyncio.wrap_future(done)
