"""Connections that are refused before they are accepted, and those that are not."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from polydom.server.http import accept_queue
from polydom.server.http.accept_queue import WIDEN_S, AcceptQueue, waiting_at

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="needs Linux")

REFUSAL = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n"
POST = b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
BACKLOG = 16
GET = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"


# a stalled machine may let the kernel keep less
GIVEN: Any = (lambda: REFUSAL, BACKLOG, lambda seconds, call: None)


@contextlib.contextmanager
def callers(sent: list[bytes]) -> Iterator[tuple[socket.socket, list[socket.socket]]]:
    """A listener at which one caller for each of `sent` waits, in this order."""
    with contextlib.ExitStack() as stack:
        made = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        listener = stack.enter_context(made)
        listener.setblocking(False)
        connected = []
        for data in sent:
            caller = socket.create_connection(listener.getsockname(), 10)
            connected.append(stack.enter_context(caller))
            caller.sendall(data)
        yield listener, connected


def test_connections_that_wait_are_counted() -> None:
    with callers([b""] * 3) as (listener, _):
        assert waiting_at(listener) == 3
        listener.accept()[0].close()
        assert waiting_at(listener) == 2


@pytest.mark.parametrize("room", [0, 2, 5, 9])
def test_the_oldest_are_refused_until_there_is_room(room: int) -> None:
    taken = list[socket.socket]()
    with callers([POST] * 5) as (listener, connected):
        queue = AcceptQueue([listener], taken.append, *GIVEN)
        while waiting_at(listener) > room:
            assert queue.shorten(room) > 0
        refused = max(5 - room, 0)
        for caller in connected[:refused]:
            assert caller.makefile("rb").read() == REFUSAL
        assert waiting_at(listener) == 5 - refused
        assert not taken
        assert queue.shorten(room) < 1


def test_who_is_never_refused_or_said_nothing_yet_is_taken() -> None:
    taken = list[socket.socket]()
    order = POST.replace(b"/v1/predict", b"/v1/admin/reload")
    with callers([GET, b"", b"PO", order, POST]) as (listener, connected):
        queue = AcceptQueue([listener], taken.append, *GIVEN)
        while waiting_at(listener):
            queue.shorten(0)
        assert [one.getpeername() for one in taken] == [
            one.getsockname() for one in connected[:4]
        ]
        assert taken[0].recv(99) == GET, "nothing was read of it"
        assert connected[4].makefile("rb").read() == REFUSAL
        for one in taken:
            one.close()


def test_whoever_left_is_refused_without_an_error() -> None:
    with callers([POST] * 2) as (listener, connected):
        connected[0].close()
        queue = AcceptQueue([listener], bool, *GIVEN)
        while waiting_at(listener):
            queue.shorten(0)
        assert connected[1].makefile("rb").read() == REFUSAL


def test_the_kernel_drops_what_comes_faster_than_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accept_queue, "REFUSING_S", 0.0)
    later = list[tuple[float, Callable[[], None]]]()

    def call_later(seconds: float, call: Callable[[], None]) -> None:
        later.append((seconds, call))

    def widen() -> None:
        ((seconds, call),) = later
        later.clear()
        assert seconds == WIDEN_S
        call()

    with callers([POST] * 6) as (listener, _):
        queue = AcceptQueue([listener], bool, lambda: REFUSAL, BACKLOG, call_later)
        address = listener.getsockname()
        assert queue.shorten(2) > 0
        assert waiting_at(listener) > 2
        with socket.create_connection(address, 10) as last:
            assert not later, "fewer may come later"
            last.sendall(POST)
            assert queue.shorten(2) > 0
        with pytest.raises(TimeoutError):
            socket.create_connection(address, 0.3)
        widen()
        with pytest.raises(TimeoutError):
            socket.create_connection(address, 0.3)
        while waiting_at(listener):
            listener.accept()[0].close()
        for _ in range(3):  # for 4, 8 and 16
            widen()
        assert not later
        for _ in range(BACKLOG):
            socket.create_connection(address, 10).close()
        assert waiting_at(listener) == BACKLOG
