"""When a turn of the event loop began, and what is to be done at its end."""

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary


class LoopTurn:
    """When the event loop began to read what it had found ready.

    It reads one connection after the other, and answers what is quick in between. All
    that it reads in one turn was there when the turn began, so that is when each
    request's time begins to run: to wait for others' answers is part of it.
    """

    __slots__ = ("_at_end", "_began_s", "_is_on")

    def __init__(self) -> None:
        self._began_s = 0.0
        self._is_on = False
        self._at_end: list[Callable[[], object]] = []

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

    def _end(self) -> None:
        self._is_on = False
        calls, self._at_end = self._at_end, []
        for call in calls:
            call()


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopTurn] = WeakKeyDictionary()


def turn_of(loop: asyncio.AbstractEventLoop) -> LoopTurn:
    """Return the one that all connections of an event loop share."""
    return _TURNS.setdefault(loop, LoopTurn())
