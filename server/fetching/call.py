"""A call in flight."""

import asyncio

from polydom.features.fetches.fetch import Key

from .arrival import Arrival


class Call:
    """A call in flight: its keys, and the task and the timer that may end it.

    Attributes
    ----------
    arrivals
        Arrivals of its keys.
    sent_s
        Time when the call was sent.
    is_over
        True once the arrivals have ended, though the task may go on.
    task
        Task that runs the call.
    timer
        Timer that lets the arrivals fail; then the one that cancels the task.
    """

    __slots__ = ("arrivals", "is_over", "sent_s", "task", "timer")

    task: "asyncio.Task[None]"
    timer: asyncio.TimerHandle

    def __init__(self, arrivals: list[Arrival], sent_s: float) -> None:
        self.arrivals = arrivals
        self.sent_s = sent_s
        self.is_over = False

    def keys(self) -> list[Key]:
        """Return its keys."""
        return [arrival.key[0] for arrival in self.arrivals]

    def failures(self, error: Exception) -> list[Exception]:
        """Return what its keys brought if it failed with an error."""
        return [error] * len(self.arrivals)

    def tell(self) -> None:
        """Call what waits for the arrivals, which have ended."""
        for arrival in self.arrivals:
            arrival.tell()
