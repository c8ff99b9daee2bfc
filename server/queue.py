"""Work that waits, earliest deadline first, and the one thread that does it."""

import asyncio
import heapq
import itertools
import math
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")
Work = Callable[[], None]
_Entry = tuple[float, int, Work]


class WorkQueue:
    """Runs one piece of work at a time, the most urgent of those that wait first.

    The heap belongs to the computing thread alone; others only post into a mailbox,
    which it empties before every choice. So posting takes no lock that the thread
    could hold, and the order is right for all that was posted before a choice.

    Attributes
    ----------
    waiting
        How many questions were posted and are not done yet. Whoever posts them counts
        them, on the event loop; what `patiently` does is none.
    """

    def __init__(self, name: str = "polydom-compute") -> None:
        self._mailbox: SimpleQueue[_Entry | None] = SimpleQueue()
        self._heap: list[_Entry] = []
        self._sequence = itertools.count()
        self._closing = False
        self.waiting = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

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
        """Have `work` done; equal deadlines keep the order of posting.

        Parameters
        ----------
        due_s
            When its answer is due, on the monotonic clock; infinity is allowed.
        work
            Called once, in the computing thread. It must not raise: who posts it
            delivers its errors with its results.
        """
        self._mailbox.put((due_s, next(self._sequence), work))

    async def patiently(self, work: Callable[[], T], due_s: float = math.inf) -> T:
        """Have `work` done while nothing due before waits; give or raise its result."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def deliver(result: T | None, error: BaseException | None) -> None:
            if done.cancelled():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]  # work's own None

        def run() -> None:
            try:
                result = work()
            except BaseException as raised:  # whatever it is, the waiting task gets it
                loop.call_soon_threadsafe(deliver, None, raised)
            else:
                loop.call_soon_threadsafe(deliver, result, None)

        self.post(due_s, run)
        return await done

    def _run(self) -> None:
        while (work := self.take()) is not None:
            work()

    def take(self) -> Work | None:
        """Return the most urgent work, waiting for some; None once all is done."""
        if not self._heap and not self._closing:
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
