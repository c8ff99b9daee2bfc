"""A call in flight."""

import asyncio
from math import inf

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
    first
        The call that this one repeats, if it is a second call for the same keys.
    second
        The call that repeats this one.
    came_s
        Time when it brought values; infinity if it did not in time.
    held_s
        Seconds for which its steps have held the event loop.
    is_over
        True once it has come or failed, though the task may go on.
    task
        Task that runs the call.
    timer
        Timer that sends a second call, lets this one fail, or cancels the task.
    """

    __slots__ = (
        "arrivals",
        "came_s",
        "first",
        "held_s",
        "is_over",
        "second",
        "sent_s",
        "task",
        "timer",
    )

    task: "asyncio.Task[None]"
    timer: asyncio.TimerHandle

    def __init__(
        self, arrivals: list[Arrival], sent_s: float, first: "Call | None" = None
    ) -> None:
        self.arrivals = arrivals
        self.sent_s = sent_s
        self.first = first
        self.second: Call | None = None
        self.came_s = inf
        self.held_s = 0.0
        self.is_over = False

    @property
    def waits(self) -> bool:
        """True if its keys wait: neither it nor the other call has ended them."""
        return self.arrivals[0].state == "waiting"

    def keys(self) -> list[Key]:
        """Return its keys."""
        return [arrival.key[0] for arrival in self.arrivals]

    def failures(self, error: Exception) -> list[Exception]:
        """Return what its keys brought if it failed with an error."""
        return [error] * len(self.arrivals)

    def tell(self) -> None:
        """Call what waits for the arrivals, if they have ended."""
        if not self.waits:
            for arrival in self.arrivals:
                arrival.tell()
