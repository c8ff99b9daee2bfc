"""One turn of the event loop, and functions to call at its end or in a later turn."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary

# After this many seconds of a turn, no more `later` functions are called.
LATER_S = 0.002


class LoopTurn:
    """The current turn of an event loop: one pass over the connections with new bytes.

    The loop reads the connections one by one, and may answer a request before it reads
    the next connection. All bytes that it reads in a turn had arrived when the turn
    began. So the time of each request is counted from the beginning of the turn.
    """

    __slots__ = ("_at_end", "_began_s", "_is_on", "_later", "_later_is_due")

    def __init__(self) -> None:
        self._began_s = 0.0
        self._is_on = False
        self._at_end: list[Callable[[], object]] = []
        self._later = deque[Callable[[], object]]()
        self._later_is_due = False

    def began_s(self, now_s: float, loop: asyncio.AbstractEventLoop) -> float:
        """Return the time when this turn began.

        The first call in a turn sets this time to `now_s`.
        """
        if not self._is_on:
            self._is_on, self._began_s = True, now_s
            loop.call_soon(self._end)  # runs before the next turn reads
        return self._began_s

    def at_end(self, call: Callable[[], object]) -> None:
        """Schedule `call` for the end of this turn, after its answers are written.

        If no connection was read in this turn, `call` runs in the loop's next turn.
        """
        if not (self._is_on or self._at_end):
            asyncio.get_running_loop().call_soon(self._end)
        self._at_end.append(call)

    def later(self, call: Callable[[], object]) -> None:
        """Schedule `call` for a later turn; functions run in the order of scheduling.

        Each turn spends about `LATER_S` seconds on such functions. So turns stay short
        even if many connections have bytes to parse.
        """
        self._later.append(call)
        self._schedule_later()

    @property
    def waiting(self) -> int:
        """The number of functions that wait for a later turn."""
        return len(self._later)

    def _schedule_later(self) -> None:
        if self._later and not self._later_is_due:
            self._later_is_due = True
            asyncio.get_running_loop().call_soon(self._call_later)

    def _call_later(self) -> None:
        self._later_is_due = False
        until_s = time.monotonic() + LATER_S
        try:
            for _ in range(len(self._later)):
                self._later.popleft()()
                if time.monotonic() > until_s:
                    break
        finally:
            self._schedule_later()

    def _end(self) -> None:
        self._is_on = False
        calls, self._at_end = self._at_end, []
        for call in calls:
            call()


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopTurn] = WeakKeyDictionary()


def turn_of(loop: asyncio.AbstractEventLoop) -> LoopTurn:
    """Return the `LoopTurn` of an event loop; all its connections share one."""
    turn = _TURNS.get(loop)
    if turn is None:
        turn = _TURNS[loop] = LoopTurn()
    return turn
