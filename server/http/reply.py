"""Responses: JSON, errors, and raw bytes for answers that bypass ASGI."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from ..engine.request import Caller
from ..errors import Failure
from ..schema.wire import encode

JSON = b"application/json"
# Header that asks a refused caller to wait one second before the next request.
RETRY_AFTER = (b"retry-after", b"1")
CHALLENGE = (b"www-authenticate", b'Bearer realm="polydom"')
CLOSE = (b"connection", b"close")
_OVERLOADED = Failure("more requests came than can be answered in time", "overloaded")
Header = tuple[bytes, bytes]


class Reply(Response):
    """A response with a body, its content type, and other headers."""

    def __init__(
        self, status: int, body: bytes, *headers: Header, kind: bytes = JSON
    ) -> None:
        self.status_code, self.body, self.background = status, body, None
        length = (b"content-length", b"%d" % len(body))
        self.raw_headers = [(b"content-type", kind), length, *headers]


def json_reply(answer: Any, status: int = 200) -> Reply:
    """Return a response with `answer`, a structure or plain data, as JSON."""
    return Reply(status, encode(answer))


def error_reply(status: int, failure: Failure, *headers: Header) -> Reply:
    """Return a JSON response with an error.

    It has the headers that `status` needs, and the given `headers`.
    """
    more = list(headers)
    if status == 401:
        more.append(CHALLENGE)
    if status == 413:
        # the connection is closed, as the rest of the body is not read
        more.append(CLOSE)
    if status == 429:
        more.append(RETRY_AFTER)
    return Reply(status, encode(failure), *more)


async def send_and_count(
    sending: Awaitable[object],
    caller: Caller,
    now: Callable[[], float],
    count: Callable[[float], object],
) -> None:
    """Send an answer, then call `count` with the time when the answer was written.

    The time is read in the event loop's next turn, because the loop may write only
    after other ready callbacks. If the caller reads slowly, `count` gets the time
    before sending, so that the caller's delay does not count as the server's.
    """
    handed_s = now()
    await sending
    if caller.prompt:
        asyncio.get_running_loop().call_soon(lambda: count(now()))
    else:
        count(handed_s)


def reply_bytes(reply: Reply) -> bytes:
    """Return a response as the bytes of an HTTP/1.1 message."""
    status = HTTPStatus(reply.status_code)
    lines = b"".join(b"%b: %b\r\n" % header for header in reply.raw_headers)
    line = b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode())
    return b"".join((line, lines, b"\r\n", reply.body))


class RawReplies:
    """Builds replies as bytes, with uvicorn's default headers.

    Only the event loop may use this object.
    """

    def __init__(self, count_refused: Callable[[int], object]) -> None:
        self._count_refused = count_refused
        self._default: list[Header] | None = None
        self._start = self._kept = self._closed = b""

    def ok(
        self, default: list[Header], body: bytes, *, keeps: bool, more: bytes = b""
    ) -> bytes:
        """Return the bytes of a JSON response with status 200.

        `default` is uvicorn's list of default headers. Uvicorn makes a new list when a
        header changes, so bytes built from the same list object are reused. If not
        `keeps`, the response says that the connection closes. `more` has the lines of
        further headers.
        """
        if default is not self._default:
            self._build_shared(default)
        end = more if keeps else more + b"connection: close\r\n"
        return b"%b%d\r\n%b\r\n%b" % (self._start, len(body), end, body)

    def refusal(
        self, default: list[Header], *, keeps: bool = True, count: int = 1
    ) -> bytes:
        """Return the bytes of `count` responses with status 429, and count them."""
        if default is not self._default:
            self._build_shared(default)
        self._count_refused(count)
        return (self._kept if keeps else self._closed) * count

    def _build_shared(self, default: list[Header]) -> None:
        """Build the bytes that replies share; a new date changes them every second."""
        self._default = default
        empty = reply_bytes(_with(default, Reply(200, b"")))
        self._start = empty.removesuffix(b"0\r\n\r\n")
        self._kept = reply_bytes(_with(default, error_reply(429, _OVERLOADED)))
        self._closed = reply_bytes(_with(default, error_reply(429, _OVERLOADED, CLOSE)))


def _with(default: list[Header], reply: Reply) -> Reply:
    reply.raw_headers = [*default, *reply.raw_headers]
    return reply
