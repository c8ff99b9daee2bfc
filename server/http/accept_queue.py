"""Connections that wait in the kernel to be accepted, and those refused there."""

import contextlib
import math
import socket
import struct
import time
from collections.abc import Callable, Sequence

from .raw_request import ORDERS

# Longest time in seconds for refusing connections in one turn of the event loop.
REFUSING_S = 0.002
# Seconds between two moments at which the kernel may keep twice as many connections as
# before, if it does not have to drop any then.
WIDEN_S = 0.1
# The first bytes of requests that may be refused, and how many bytes tell which are.
REFUSED, TELLING = b"POST ", max(map(len, ORDERS))
# Bytes read of a refused request. If bytes are left unread, the kernel resets the
# connection, and the caller may lose the reply.
LONGEST = 1 << 16


class AcceptQueue:
    """The connections that a server's listening sockets have not accepted yet.

    `take` makes an ordinary connection of an accepted socket. `refusal` returns the
    bytes of a reply with status 429, after which the connection closes. `backlog` is
    the number of connections that each socket keeps. `call_later` is the method of the
    event loop.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        take: Callable[[socket.socket], object],
        refusal: Callable[[], bytes],
        backlog: int,
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._listeners = list(listeners)
        self._take, self._refusal = take, refusal
        self._backlog = self._kept = backlog
        self._call_later = call_later
        # Number of connections that were left when the time for refusing ended; it is
        # infinity if the time sufficed
        self._left = math.inf

    def shorten(self, room: int) -> float:
        """Refuse the oldest connections until about `room` of them are left.

        Connections are taken if nothing came on them yet, or a request that is never
        refused. If they come faster than they are refused, the kernel will drop those
        that come while `room` connections wait: so the others are fresh, and a dropped
        caller tries again after a second. Returns how many seconds this took.
        """
        began_s = now_s = time.monotonic()
        suffices, refused = True, 0
        for listener in self._listeners:
            for _ in range(waiting_at(listener) - room):
                if now_s > began_s + REFUSING_S:
                    suffices = False
                    break
                try:
                    connection, _ = listener.accept()
                except OSError:  # nobody is left, or no file descriptor is
                    break
                refused += self._refuses(connection)
                now_s = time.monotonic()
        before, self._left = self._left, math.inf
        if refused and not suffices:
            self._left = sum(map(waiting_at, self._listeners))
            if self._left >= before:
                self._narrow(room)
        return now_s - began_s

    def _narrow(self, room: int) -> None:
        if self._kept == self._backlog:
            self._call_later(WIDEN_S, self._widen)
        if room < self._kept:
            self._keep(room)

    def _widen(self) -> None:
        if any(one.fileno() < 0 for one in self._listeners):  # the server stopped
            return
        if all(waiting_at(one) <= self._kept for one in self._listeners):
            self._keep(min(2 * self._kept, self._backlog))
        if self._kept < self._backlog:
            self._call_later(WIDEN_S, self._widen)

    def _keep(self, count: int) -> None:
        """Let the kernel keep `count` connections of each socket, and one more."""
        self._kept = count
        for listener in self._listeners:
            listener.listen(count)

    def _refuses(self, connection: socket.socket) -> bool:
        """Refuse an accepted connection and return True, or take it."""
        came, peeks = b"", socket.MSG_DONTWAIT | socket.MSG_PEEK
        with contextlib.suppress(OSError):
            came = connection.recv(TELLING, peeks)
        if not came.startswith(REFUSED) or came.startswith(ORDERS):
            self._take(connection)
            return False
        with connection, contextlib.suppress(OSError):
            connection.recv(LONGEST, socket.MSG_DONTWAIT)
            connection.send(self._refusal(), socket.MSG_DONTWAIT)
        return True


def waiting_at(listener: socket.socket) -> int:
    """Return how many connections wait to be accepted; 0 if that is not known."""
    if not hasattr(socket, "TCP_INFO"):  # only Linux has it
        return 0
    info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
    # for a listening socket, `tcpi_unacked` is the length of its accept queue
    return int(struct.unpack_from("=I", info, 24)[0])
