"""Connections that rest: they are not read, as their callers were just refused."""

import asyncio
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary

# While connections rest, it is looked every so many seconds whose rest ends.
EVERY_S = 0.001
# In Linux's `struct tcp_info`, the position of `tcpi_last_data_recv`: milliseconds
# since the latest bytes came. The kernel counts them in ticks of up to TICK_S.
_LAST_CAME, TICK_S = 52, 0.004


class Rests:
    """The connections of an event loop that are not read for a while.

    Rests end in the order in which they began, since admission control lets each last
    at least until the one before it ends. They end early if the server has room.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_later = loop.call_later
        self._resting = deque[tuple[float, Callable[[], object]]]()

    def add(
        self, rest_s: float, end: Callable[[], object], room: Callable[[], int]
    ) -> None:
        """Call `end` in `rest_s` seconds, or earlier.

        `room` returns how many requests could begin now.
        """
        if not self._resting:
            self._call_later(EVERY_S, self._end_some, room)
        self._resting.append((time.monotonic() + rest_s, end))

    def _end_some(self, room: Callable[[], int]) -> None:
        now_s, left = time.monotonic(), room()
        while self._resting and (left > 0 or self._resting[0][0] <= now_s):
            self._resting.popleft()[1]()
            left -= 1
        if self._resting:
            self._call_later(EVERY_S, self._end_some, room)


_RESTS: WeakKeyDictionary[asyncio.AbstractEventLoop, Rests] = WeakKeyDictionary()


def rests_of(loop: asyncio.AbstractEventLoop) -> Rests:
    """Return the `Rests` of an event loop; all its connections share one."""
    rests = _RESTS.get(loop)
    if rests is None:
        rests = _RESTS[loop] = Rests(loop)
    return rests


def seconds_unread(transport: asyncio.BaseTransport) -> float:
    """Return at least how many seconds ago the latest bytes came; 0 if unknown."""
    if not hasattr(socket, "TCP_INFO"):  # only Linux has it
        return 0.0
    connection = transport.get_extra_info("socket")
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 64)
    except OSError:  # the connection is lost, or is no TCP connection
        return 0.0
    came_ms: int = struct.unpack_from("=I", info, _LAST_CAME)[0]
    return max(came_ms / 1e3 - TICK_S, 0.0)
