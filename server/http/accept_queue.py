"""Connections that wait in the kernel to be accepted, and those refused there."""

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Sequence

# Longest time in seconds for refusing connections in one turn of the event loop.
REFUSING_S = 0.002
# The first bytes of requests that are refused; probes and pages are asked with GET.
REFUSED = b"POST "
# Bytes read of a refused request. If bytes are left unread, the kernel resets the
# connection, and the caller may lose the reply.
LONGEST = 1 << 16


class AcceptQueue:
    """The connections that a server's listening sockets have not accepted yet.

    `take` makes an ordinary connection of an accepted socket. `refusal` returns the
    bytes of a reply with status 429, after which the connection closes.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        take: Callable[[socket.socket], object],
        refusal: Callable[[], bytes],
    ) -> None:
        self._listeners = list(listeners)
        self._take, self._refusal = take, refusal

    def shorten(self, room: int) -> float:
        """Refuse the oldest connections until about `room` of them are left.

        Connections whose bytes do not begin with `REFUSED` are taken: those of probes,
        and those on which nothing came yet. Returns how many seconds this took.
        """
        began_s = now_s = time.monotonic()
        for listener in self._listeners:
            for _ in range(waiting_at(listener) - room):
                if now_s > began_s + REFUSING_S:
                    break
                try:
                    connection, _ = listener.accept()
                except OSError:  # nobody is left, or no file descriptor is
                    break
                self._refuse_or_take(connection)
                now_s = time.monotonic()
        return now_s - began_s

    def _refuse_or_take(self, connection: socket.socket) -> None:
        came, peeks = b"", socket.MSG_DONTWAIT | socket.MSG_PEEK
        with contextlib.suppress(OSError):
            came = connection.recv(len(REFUSED), peeks)
        if came != REFUSED:
            self._take(connection)
            return
        with connection, contextlib.suppress(OSError):
            connection.recv(LONGEST, socket.MSG_DONTWAIT)
            connection.send(self._refusal(), socket.MSG_DONTWAIT)


def waiting_at(listener: socket.socket) -> int:
    """Return how many connections wait to be accepted; 0 if that is not known."""
    if not hasattr(socket, "TCP_INFO"):  # only Linux has it
        return 0
    info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
    # for a listening socket, `tcpi_unacked` is the length of its accept queue
    return int(struct.unpack_from("=I", info, 24)[0])
