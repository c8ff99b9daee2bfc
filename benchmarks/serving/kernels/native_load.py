"""Loads a server from compiled code, which sends a million requests a second.

The loops are Numba's and call the C library, so that the generator is not slower than
what it measures. Requests are due at times that were drawn before, whatever the server
does; a latency counts from when its request was due.

A connection that is kept has at most `depth` requests under way. With a depth of 1 it
is one of a caller's pool. With more, requests are pipelined: each is sent when it is
due, whatever came of those before it. A request that finds no connection free within
`patience_s` is given up, as a pool gives up. Only Linux has the calls.
"""

import ctypes
import select
import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

GIVEN_UP, CLOSED, NOTHING = -2, -1, 0  # besides the statuses of HTTP
GRACE_S = 1.0  # so long after the end for what is still under way
PROBE = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"
PROBE_EVERY_S = 0.01
HEAD = 4096  # bytes of the longest head of an answer
READ = 1 << 18
EVENTS = 512
EVENT_WORDS = 3  # a packed epoll_event has 12 bytes
DONT_WAIT = 0x40 | 0x4000  # MSG_DONTWAIT | MSG_NOSIGNAL
STREAM = 1 | 0o4000  # SOCK_STREAM | SOCK_NONBLOCK
AF_INET = 2
IN, OUT = 1, 4  # EPOLLIN, EPOLLOUT
ADD, REMOVE, CHANGE = 1, 2, 3  # EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD
AT_ONCE = 64  # requests between two looks at what came

_C = ctypes.CDLL(None)
_INT, _PLACE, _SIZE = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t


def _call(name: str, returns: Any, *takes: Any) -> Any:
    function = getattr(_C, name)
    function.argtypes, function.restype = list(takes), returns
    return function


_send = _call("send", ctypes.c_ssize_t, _INT, _PLACE, _SIZE, _INT)
_recv = _call("recv", ctypes.c_ssize_t, _INT, _PLACE, _SIZE, _INT)
_epoll_wait = _call("epoll_wait", _INT, _INT, _PLACE, _INT, _INT)
_epoll_ctl = _call("epoll_ctl", _INT, _INT, _INT, _INT, _PLACE)
_clock = _call("clock_gettime", _INT, _INT, _PLACE)
_socket = _call("socket", _INT, _INT, _INT, _INT)
_connect = _call("connect", _INT, _INT, _PLACE, ctypes.c_uint)
_close = _call("close", _INT, _INT)


class Came(NamedTuple):
    """What came of each request, in the order in which they were due.

    Times are seconds from the start; NaN where it never came to that.
    """

    due_s: NDArray[np.float64]
    sent_s: NDArray[np.float64]
    done_s: NDArray[np.float64]
    status: NDArray[np.int64]  # of HTTP, or GIVEN_UP, CLOSED, NOTHING
    # Seconds until each probe of `/livez` was answered, on a connection of its own
    probes_s: NDArray[np.float64]

    @property
    def took_s(self) -> NDArray[np.float64]:
        """Seconds from when each was due until its answer was whole."""
        return self.done_s - self.due_s


def over_kept(
    port: int,
    requests: Sequence[bytes],
    rate: float,
    seconds: float,
    *,
    connections: int,
    depth: int = 1,
    patience_s: float = np.inf,
) -> Came:
    """Send `rate` requests a second over kept connections, in turn."""
    due_s = _due(rate, seconds)
    plan = (connections, depth, patience_s, seconds + GRACE_S)
    return _over_kept(port, requests, due_s, *plan)


def closed_loop(
    port: int, requests: Sequence[bytes], seconds: float, *, connections: int
) -> Came:
    """Send requests so that each connection always waits for one."""
    due_s = np.zeros(int(300_000 * seconds))
    return _over_kept(port, requests, due_s, connections, 1, np.inf, seconds)


def capacity_of(
    port: int, requests: Sequence[bytes], seconds: float, *, connections: int
) -> float:
    """Answers with 200 a second where each connection always waits for one."""
    came = closed_loop(port, requests, seconds, connections=connections)
    return float((came.status == 200).sum()) / seconds


def over_new(port: int, requests: Sequence[bytes], rate: float, seconds: float) -> Came:
    """Send `rate` requests a second, each over a connection of its own."""
    data, ends = _joined([_closing(request) for request in requests])
    address = np.zeros(16, np.uint8)  # a sockaddr_in
    address[0] = AF_INET
    address[2:4] = [*port.to_bytes(2, "big")]
    address[4:8] = 127, 0, 0, 1
    came = _nothing_yet(_due(rate, seconds))
    with select.epoll() as epoll, _connected(port) as probe:
        asked = (probe.fileno(), np.frombuffer(PROBE, np.uint8).copy())
        plan = (came.due_s, seconds + GRACE_S)
        _run_new(epoll.fileno(), *asked, address, data, ends, *plan, *came[1:])
    return came


def _over_kept(
    port: int,
    requests: Sequence[bytes],
    due_s: NDArray[np.float64],
    connections: int,
    depth: int,
    patience_s: float,
    stop_s: float,
) -> Came:
    came = _nothing_yet(due_s)
    sockets = [_connected(port) for _ in range(connections)]
    numbers = np.array([one.fileno() for one in sockets], np.int32)
    places = np.zeros(numbers.max() + 1, np.int64)
    places[numbers] = np.arange(connections)
    with select.epoll() as epoll, _connected(port) as probe:
        for one in sockets:
            epoll.register(one.fileno(), select.EPOLLIN)
        data, ends = _joined(requests)
        asked = (probe.fileno(), np.frombuffer(PROBE, np.uint8).copy())
        given = (numbers, places, data, ends, due_s, depth, patience_s, stop_s)
        _run_kept(epoll.fileno(), *asked, *given, *came[1:])
    for one in sockets:
        one.close()
    return came


def _connected(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _closing(request: bytes) -> bytes:
    head, blank, body = request.partition(b"\r\n\r\n")
    return head + b"\r\nconnection: close" + blank + body


def _due(rate: float, seconds: float) -> NDArray[np.float64]:
    draw = np.random.default_rng(0)
    return np.cumsum(draw.exponential(1 / rate, max(int(rate * seconds), 1)))


def _nothing_yet(due_s: NDArray[np.float64]) -> Came:
    never, count = np.full(len(due_s), np.nan), len(due_s)
    probes_s = np.full(100_000, np.nan)
    return Came(due_s, never, never.copy(), np.zeros(count, np.int64), probes_s)


def _joined(requests: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """All requests' bytes, one after the other, and where each begins and ends."""
    ends = np.cumsum([0, *map(len, requests)])
    return np.frombuffer(b"".join(requests), np.uint8).copy(), ends


@njit
def _now(parts: Any) -> Any:
    _clock(1, parts.ctypes)
    return parts[0] + parts[1] * 1e-9


@njit
def _probe(
    number: int, asked: Any, now_s: float, at: Any, got: Any, took_s: Any
) -> None:
    """Send the probe that is due, or read the answer to the one under way.

    `at` has when the next one is due, whether one is under way, and their count.
    """
    if at[1] == 0:
        if now_s >= at[0] and at[2] < len(took_s):
            _send(number, asked.ctypes, len(asked), DONT_WAIT)
            at[1] = 1
    elif _recv(number, got.ctypes, READ, DONT_WAIT) > 0:
        took_s[int(at[2])] = now_s - at[0]
        at[0] = max(at[0] + PROBE_EVERY_S, now_s)
        at[1], at[2] = 0, at[2] + 1


@njit
def _status(head: Any) -> Any:
    return 100 * (head[9] - 48) + 10 * (head[10] - 48) + head[11] - 48


@njit
def _length(head: Any, end: int) -> int:
    """The number after `content-length:`; 0 without one."""
    for k in range(end - 16):
        if (
            head[k] == 10
            and (head[k + 1] | 32) == 99  # c
            and (head[k + 9] | 32) == 108  # l
            and head[k + 15] == 58  # :
        ):
            at, length = k + 16, 0
            while head[at] == 32:
                at += 1
            while 48 <= head[at] < 58:
                length = 10 * length + head[at] - 48
                at += 1
            return length
    return 0


@njit
def _put(number: int, data: Any, begin: int, end: int) -> Any:
    """Send what fits into the connection's buffer; the number of bytes, or -1."""
    return _send(number, data.ctypes.data + begin, end - begin, DONT_WAIT)


@njit
def _free(turn: int, under_way: Any, depth: int, cut: Any) -> int:
    """The next connection that takes a request; -1 if there is none."""
    for k in range(len(under_way)):
        c = (turn + k) % len(under_way)
        if under_way[c] < depth and cut[c] == 0:
            return c
    return -1


@njit(nogil=True)
def _run_kept(
    epoll: int,
    probe: int,
    asked: Any,
    numbers: Any,
    places: Any,
    data: Any,
    ends: Any,
    due_s: Any,
    depth: int,
    patience_s: float,
    stop_s: float,
    sent_s: Any,
    done_s: Any,
    status: Any,
    probes_s: Any,
) -> None:
    count, kinds, connections = len(due_s), len(ends) - 1, len(numbers)
    clock, probing = np.zeros(2, np.int64), np.zeros(3)
    events = np.zeros(EVENT_WORDS * EVENTS, np.int32)
    got = np.zeros(READ, np.uint8)
    # of each connection: the requests under way in a ring, the first one's place, their
    # number, bytes of the latest that are not sent yet, and where these begin
    ring = np.zeros((connections, depth), np.int64)
    first, under_way = np.zeros(connections, np.int64), np.zeros(connections, np.int64)
    cut, cut_at = np.zeros(connections, np.int64), np.zeros(connections, np.int64)
    # of the answer that is being read: its head so far, and bytes still missing
    heads = np.zeros((connections, HEAD), np.uint8)
    filled, missing = np.zeros(connections, np.int64), np.zeros(connections, np.int64)
    k, turn, open_, cuts, start = 0, 0, 0, 0, _now(clock)
    while True:
        now_s = _now(clock) - start
        if now_s > stop_s or (k == count and open_ == 0):
            break
        _probe(probe, asked, now_s, probing, got, probes_s)
        for _ in range(AT_ONCE):
            if k == count or due_s[k] > now_s:
                break
            if now_s - due_s[k] > patience_s:
                status[k] = GIVEN_UP
                k += 1
                continue
            turn = _free(max(turn, 0), under_way, depth, cut)
            if turn < 0:
                break
            begin, end = ends[k % kinds], ends[k % kinds + 1]
            put = max(_put(numbers[turn], data, begin, end), 0)
            if put < end - begin:
                cut[turn], cut_at[turn] = end - begin - put, begin + put
                cuts += 1
            sent_s[k] = now_s
            ring[turn, (first[turn] + under_way[turn]) % depth] = k
            under_way[turn] += 1
            open_ += 1
            k += 1
            turn = (turn + 1) % connections
        for c in range(connections if cuts else 0):
            if cut[c]:
                put = max(_put(numbers[c], data, cut_at[c], cut_at[c] + cut[c]), 0)
                cut[c] -= put
                cut_at[c] += put
                cuts -= cut[c] == 0
        for e in range(_epoll_wait(epoll, events.ctypes, EVENTS, 0)):
            c = places[events[EVENT_WORDS * e + 1]]
            size = _recv(numbers[c], got.ctypes, READ, DONT_WAIT)
            read_s, at = _now(clock) - start, 0
            if size == 0:  # closed: nothing is sent over it any more
                _epoll_ctl(epoll, REMOVE, numbers[c], events.ctypes)
                for j in range(under_way[c]):
                    status[ring[c, (first[c] + j) % depth]] = CLOSED
                open_ -= under_way[c]
                cuts -= cut[c] > 0
                under_way[c], cut[c] = depth, 0
            while at < size:
                request = ring[c, first[c]]
                if missing[c] > 0:
                    here = min(missing[c], size - at)
                    missing[c] -= here
                    at += here
                else:
                    head, f = heads[c], filled[c] + 1
                    head[f - 1] = got[at]
                    at += 1
                    filled[c] = f
                    if f < 4 or head[f - 1] != 10 or head[f - 3] != 10:
                        continue
                    status[request], missing[c] = _status(head), _length(head, f)
                    filled[c] = 0
                if missing[c] == 0:
                    done_s[request] = read_s
                    first[c] = (first[c] + 1) % depth
                    under_way[c] -= 1
                    open_ -= 1


@njit(nogil=True)
def _run_new(
    epoll: int,
    probe: int,
    asked: Any,
    address: Any,
    data: Any,
    ends: Any,
    due_s: Any,
    stop_s: float,
    sent_s: Any,
    done_s: Any,
    status: Any,
    probes_s: Any,
) -> None:
    count, kinds = len(due_s), len(ends) - 1
    clock, probing = np.zeros(2, np.int64), np.zeros(3)
    event = np.zeros(EVENT_WORDS, np.int32)
    events = np.zeros(EVENT_WORDS * EVENTS, np.int32)
    got = np.zeros(READ, np.uint8)
    request_of = np.full(1 << 20, -1, np.int64)  # by the number of a connection
    k, open_, start = 0, 0, _now(clock)
    while True:
        now_s = _now(clock) - start
        if now_s > stop_s or (k == count and open_ == 0):
            break
        _probe(probe, asked, now_s, probing, got, probes_s)
        for _ in range(AT_ONCE // 4):
            if k == count or due_s[k] > now_s:
                break
            number = _socket(AF_INET, STREAM, 0)
            if number < 0:
                status[k] = GIVEN_UP
                k += 1
                continue
            _connect(number, address.ctypes, len(address))
            event[0], event[1] = OUT, number
            _epoll_ctl(epoll, ADD, number, event.ctypes)
            request_of[number] = k
            open_ += 1
            k += 1
        for e in range(_epoll_wait(epoll, events.ctypes, EVENTS, 0)):
            number = events[EVENT_WORDS * e + 1]
            request, read_s = request_of[number], _now(clock) - start
            if np.isnan(sent_s[request]):
                _put(number, data, ends[request % kinds], ends[request % kinds + 1])
                sent_s[request] = read_s
                event[0], event[1] = IN, number
                _epoll_ctl(epoll, CHANGE, number, event.ctypes)
                continue
            size = _recv(number, got.ctypes, READ, DONT_WAIT)
            if size > 0 and status[request] == NOTHING:
                status[request], done_s[request] = _status(got), read_s
            elif size <= 0:
                if status[request] == NOTHING:
                    status[request] = CLOSED
                _close(number)
                request_of[number] = -1
                open_ -= 1
    for number in range(len(request_of)):
        if request_of[number] >= 0:
            _close(number)
