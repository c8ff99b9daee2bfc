"""Loads a server from one thread: at fixed times, or as fast as it answers.

At fixed times (an open loop) a request's latency counts from when it was *due*: one
that could not be sent, because the server had all connections busy with those before
it, has waited all the same. A client that only sends after an answer (a closed loop)
does not see that wait.
"""

import selectors
import socket
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..fine_selector import FineSelector

READ_BYTES = 1 << 16
SPIN_S = 2e-3  # a wait for a socket is exact to a millisecond only
GRACE_S = 10.0  # so long after the end for what is still under way


class Exchange(NamedTuple):
    """One request and what came of it; `status` is 0 where no answer came.

    Times are on `time.perf_counter`'s clock; `number` counts the requests from 0.
    """

    number: int
    due_s: float
    sent_s: float
    done_s: float
    status: int
    body: bytes


class Connection:
    """One kept connection, with at most one request under way."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        self.number = -1
        self.due_s = self.sent_s = 0.0

    def send(self, request: bytes, number: int, due_s: float) -> None:
        """Send a whole request; the former answer was received."""
        self.number, self.due_s, self.received = number, due_s, b""
        self.sent_s = time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> Exchange | None:
        """Read what is there; the exchange, once its answer is whole or lost."""
        try:
            data = self.socket.recv(READ_BYTES)
        except ConnectionError:
            data = b""
        self.received += data
        status, body = read_reply(self.received)
        if body is None and data:
            return None
        done_s = time.perf_counter()
        times = (self.due_s, self.sent_s, done_s)
        return Exchange(
            self.number, *times, status if body is not None else 0, body or b""
        )


def read_reply(received: bytes) -> tuple[int, bytes | None]:
    """Status and body of an answer that says its length; None while not whole."""
    head, blank, rest = received.partition(b"\r\n\r\n")
    if not blank:
        return 0, None
    _, _, after = head.lower().partition(b"content-length:")
    length = int(after.partition(b"\r\n")[0])
    return int(head[9:12]), rest if len(rest) >= length else None


class Load:
    """Connections to one port, and what goes over them.

    If `spins`, it does not sleep in the last milliseconds before a request is due. Else
    it does, and leaves its core to others; requests then go some 0.1 ms late.
    """

    def __init__(
        self,
        port: int,
        requests: Sequence[bytes],
        connections: int,
        *,
        spins: bool = True,
    ) -> None:
        self._requests = requests
        self._selector = selectors.DefaultSelector() if spins else FineSelector()
        self._spin_s = SPIN_S if spins else 0.0
        self._port = port
        self._free = [self._connect() for _ in range(connections)]
        self._busy = 0
        self._exchanges: list[Exchange] = []

    def closed(self, seconds: float) -> list[Exchange]:
        """Send the next request whenever an answer has come, and at least one."""
        end_s = time.perf_counter() + seconds
        number = 0
        while self._busy or not number or time.perf_counter() < end_s:
            while self._free and (not number or time.perf_counter() < end_s):
                self._send(number, time.perf_counter())
                number += 1
            self._wait(GRACE_S)
        return self._finish()

    def open(self, rate: float, seconds: float) -> list[Exchange]:
        """Send `rate` requests a second, due at equal distances."""
        count = max(1, round(rate * seconds))
        return self.at([k / rate for k in range(count)])

    def at(self, times_s: Sequence[float]) -> list[Exchange]:
        """Send requests that are due at ascending times, in seconds from the start."""
        start_s = time.perf_counter() + 0.01
        due = deque((k, start_s + time_s) for k, time_s in enumerate(times_s))
        last_s = start_s + times_s[-1] + GRACE_S
        while due or self._busy:
            now_s = time.perf_counter()
            if now_s > last_s:
                break
            while due and self._free and due[0][1] <= now_s:
                self._send(*due.popleft())
            left_s = due[0][1] - time.perf_counter() if due and self._free else 2e-3
            self._wait(max(left_s - self._spin_s, 0.0))
        late_s = time.perf_counter()
        unsent = [Exchange(k, due_s, late_s, late_s, 0, b"") for k, due_s in due]
        return self._finish() + unsent

    def _connect(self) -> Connection:
        connection = Connection(self._port)
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)
        return connection

    def _send(self, number: int, due_s: float) -> None:
        connection = self._free.pop()
        try:
            request = self._requests[number % len(self._requests)]
            connection.send(request, number, due_s)
        except ConnectionError:  # the server gave this connection up
            connection.due_s, connection.number = due_s, number
        self._busy += 1

    def _wait(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            connection: Connection = key.data
            exchange = connection.receive()
            if exchange is None:
                continue
            if (
                exchange.status == 0
                or b"connection: close" in connection.received[:512]
            ):
                self._selector.unregister(connection.socket)
                connection.socket.close()
                fresh = self._connect()
                if connection in self._free:  # closed while nothing was asked of it
                    self._free[self._free.index(connection)] = fresh
                    continue
                connection = fresh
            self._exchanges.append(exchange)
            self._busy -= 1
            self._free.append(connection)

    def _finish(self) -> list[Exchange]:
        for key in list(self._selector.get_map().values()):
            connection: Connection = key.data
            connection.socket.close()
        self._selector.close()
        return self._exchanges


def latencies_s(exchanges: Sequence[Exchange]) -> NDArray[np.float64]:
    """Seconds from due to answered; infinite where no answer came."""
    return np.array([e.done_s - e.due_s if e.status else np.inf for e in exchanges])
