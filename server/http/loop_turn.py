"""When a turn of the event loop began, what is done at its end, and in later ones."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary

# Seconds of a turn for what was left for later, but for the last that is called.
LATER_S = 0.004


class LoopTurn:
    """When the event loop began to read what it had found ready.

    It reads one connection after the other, and answers what is quick in between. All
    that it reads in one turn was there when the turn began, so that is when each
    request's time begins to run: to wait for others' answers is part of it.
    """

    __slots__ = ("_at_end", "_began_s", "_is_on", "_later", "_later_is_due")

    def __init__(self) -> None:
        self._began_s = 0.0
        self._is_on = False
        self._at_end: list[Callable[[], object]] = []
        self._later = deque[Callable[[], object]]()
        self._later_is_due = False

    def began_s(self, now_s: float, loop: asyncio.AbstractEventLoop) -> float:
        """Return when this turn began: `now_s` for what is read first in it."""
        if not self._is_on:
            self._is_on, self._began_s = True, now_s
            loop.call_soon(self._end)  # before anything is read in the next
        return self._began_s

    def at_end(self, call: Callable[[], object]) -> None:
        """Call something once this turn is over, and what it gave was written.

        Also where nothing was read in it: a request that had to wait is begun then.
        """
        if not (self._is_on or self._at_end):
            asyncio.get_running_loop().call_soon(self._end)
        self._at_end.append(call)

    def later(self, call: Callable[[], object]) -> None:
        """Call something in a turn to come, each in its turn.

        So no turn is long, however many connections have much to be looked at.
        """
        self._later.append(call)
        self._call_later_ones()

    def _call_later_ones(self) -> None:
        if self._later and not self._later_is_due:
            self._later_is_due = True
            asyncio.get_running_loop().call_soon(self._have_them_called)

    def _have_them_called(self) -> None:
        """Call those that are there, each once, for as long as a turn may do so."""
        self._later_is_due = False
        until_s = time.monotonic() + LATER_S
        try:
            for _ in range(len(self._later)):
                self._later.popleft()()
                if time.monotonic() > until_s:
                    break
        finally:
            self._call_later_ones()

    def _end(self) -> None:
        self._is_on = False
        calls, self._at_end = self._at_end, []
        for call in calls:
            call()


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopTurn] = WeakKeyDictionary()


def turn_of(loop: asyncio.AbstractEventLoop) -> LoopTurn:
    """Return the one that all connections of an event loop share."""
    return _TURNS.setdefault(loop, LoopTurn())
