"""Kept connections over which a fetch posts, each with one request at a time.

A library for all of HTTP/1.1 takes five times as much of the processor for a call. The
calls of fetches need little of it: bodies of a known length go to one address, and
redirects, cookies, proxies and compressed answers are not for them.
"""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

import httptools

LONGEST_HEAD = 64 << 10  # bytes before the body of an answer
# Seconds after which a connection that nobody used is not used again: what lies between
# may have forgotten it without a word
KEPT_S = 15.0
OK = 200  # least status of a last answer; those below it announce another
FRAMING = frozenset({b"content-length", b"transfer-encoding"})
# Headers that say where a request and its body end; a user's own would be wrong
OWN = frozenset({"content-length", "transfer-encoding", "connection"})
PLAIN = "!$&'()*+,;=:@%-._~/"  # what stands for itself in a path
PORTS = {"http": 80, "https": 443}


class Target(NamedTuple):
    """Where requests go, and how each begins."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    head: bytes  # of a request, up to the length of its body

    @classmethod
    def of(cls, address: str, headers: Mapping[str, str]) -> "Target":
        """Return the target of an address; raise ValueError if it has no host or port.

        `headers` have names in lower case. A name and a password in the address are
        sent as basic authorization, unless a header has another.
        """
        parts = urlsplit(address)
        if not parts.hostname:
            raise ValueError("it has no host")
        host = parts.hostname
        if not host.isascii():
            host = host.encode("idna").decode()
        shown = f"[{host}]" if ":" in host else host
        port = parts.port or PORTS[parts.scheme]
        if port != PORTS[parts.scheme]:
            shown += f":{port}"
        path = quote(parts.path or "/", PLAIN)
        if parts.query:
            path += f"?{quote(parts.query, PLAIN + '?')}"
        sent = {"host": shown, "accept": "*/*", "user-agent": "polydom"}
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            sent["authorization"] = f"Basic {b64encode(user.encode()).decode()}"
        lines = "".join(f"{n}: {value}\r\n" for n, value in {**sent, **headers}.items())
        tls = None
        if parts.scheme == "https":
            tls = ssl.create_default_context()
            tls.set_alpn_protocols(["http/1.1"])
        head = f"POST {path} HTTP/1.1\r\n{lines}content-length: "
        return cls(host, port, tls, head.encode())


class Reply(NamedTuple):
    """An answer; if its body is longer than allowed, the rest of it was not read."""

    status: int
    again: str  # the header Retry-After, "" without one
    body: bytes


class Connections:
    """Connections to a target from one event loop, at most `most` at the same time."""

    def __init__(self, target: Target, most: int) -> None:
        self._target = target
        self._free = asyncio.Semaphore(most)
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()

    async def post(self, body: bytes, longest: int) -> Reply:
        """Send a body; return the answer, whose body is whole up to `longest` bytes.

        Raises OSError or HttpParserError if there is no answer; ConnectionError if the
        service is not there, or closed the connection. A call that is cancelled closes
        its connection.
        """
        request = b"%b%d\r\n\r\n%b" % (self._target.head, len(body), body)
        async with self._free:
            connection = self._kept() or await self._connect()
            try:
                return await connection.ask(request, longest)
            finally:
                if connection.is_usable:
                    self._idle.append(connection)
                else:
                    self._drop(connection)

    async def close(self) -> None:
        """Close all connections."""
        for connection in [*self._open]:
            self._drop(connection)

    def _kept(self) -> "_Connection | None":
        """Return a connection that can be used again, if there is one."""
        while self._idle:
            connection = self._idle.pop()
            is_fresh = connection.loop.time() < connection.until_s
            if is_fresh and connection.is_usable and not connection.is_closing:
                return connection
            self._drop(connection)
        return None

    def _drop(self, connection: "_Connection") -> None:
        self._open.discard(connection)
        connection.is_usable = False
        connection.transport.abort()

    async def _connect(self) -> "_Connection":
        host, port, tls, _ = self._target
        loop = asyncio.get_running_loop()
        name = host if tls else None
        _, connection = await loop.create_connection(
            lambda: _Connection(loop), host, port, ssl=tls, server_hostname=name
        )
        self._open.add(connection)
        return connection


class _Connection(asyncio.Protocol):
    """One connection, and the answer that it receives.

    The parser calls the functions of its names for the parts of an answer.
    """

    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.is_usable = False  # True if another request may be sent
        self.until_s = 0.0  # time until which that holds
        self._parser = httptools.HttpResponseParser(self)
        self._reply: asyncio.Future[Reply] | None = None  # None if nothing is asked

    @property
    def is_closing(self) -> bool:
        return self.transport.is_closing()

    def ask(self, request: bytes, longest: int) -> "asyncio.Future[Reply]":
        """Send a request; nothing else may be asked until its answer is there."""
        if self.is_closing:
            raise ConnectionResetError("the connection was closed")
        self._longest, self._body = longest, bytearray()
        self._head_bytes, self._again = 0, b""
        self._has_begun = self._has_end = self.is_usable = False
        self._reply = reply = self.loop.create_future()
        self.transport.write(request)
        return reply

    def connection_made(  # type: ignore[override]  # as uvicorn does
        self, transport: asyncio.Transport
    ) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self._reply is None:  # nothing was asked
            self.is_usable = False
            return
        if not self._has_begun:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(error)
        if len(self._body) > self._longest:
            self._end(self._parser.get_status_code())
        elif self._head_bytes > LONGEST_HEAD and not self._has_begun:
            self._fail(httptools.HttpParserError("the head of the answer is too long"))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_usable = False
        if self._reply is None:
            return
        if error is None and self._has_begun and not self._has_end:
            self._end(self._parser.get_status_code())  # the end of the body
        elif isinstance(error, OSError):
            self._fail(error)
        else:
            self._fail(ConnectionResetError("the connection was closed"))

    def on_message_begin(self) -> None:
        if self._reply is None:  # two answers to one request
            self.is_usable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in FRAMING:
            self._has_end = True
        elif name == b"retry-after":
            self._again = value

    def on_headers_complete(self) -> None:
        self._has_begun = self._parser.get_status_code() >= OK

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < OK or self._reply is None:
            return
        # a service may answer before it has read the whole request
        is_sent = not self.transport.get_write_buffer_size()
        self.is_usable = self._parser.should_keep_alive() and is_sent
        self.until_s = self.loop.time() + KEPT_S
        self._end(status)

    def _end(self, status: int) -> None:
        reply, self._reply = self._reply, None
        if reply is not None and not reply.done():
            again = self._again.decode("utf-8", "replace")
            reply.set_result(Reply(status, again, bytes(self._body)))

    def _fail(self, error: Exception) -> None:
        self.is_usable = False
        reply, self._reply = self._reply, None
        if reply is not None and not reply.done():
            reply.set_exception(error)
