"""The seconds for which a key of a fetch holds the event loop."""

from collections import deque

# A call holds the loop about as long again outside its own steps: for its sockets and
# timers, and for the request that waits (benchmarks/waits, `overhead`).
OUTSIDE = 2.0
# Latest calls whose median counts: a step may wait for the interpreter, and the first
# call opens a connection.
LATEST = 9


class Held:
    """Follows for how many `seconds` a key holds the event loop; 0 before any call."""

    __slots__ = ("_latest", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._latest = deque[float](maxlen=LATEST)

    def add(self, steps_s: float) -> None:
        """Add what the steps of a call took for each of its keys, in seconds."""
        self._latest.append(OUTSIDE * steps_s)
        self.seconds = sorted(self._latest)[len(self._latest) // 2]
