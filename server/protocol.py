"""HTTP/1.1 by uvicorn, with the time at which each request's first byte was read."""

import asyncio
import re
import time
from functools import partial
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .question import Caller
from .shortcut import Head, Shortcut
from .turn import turn_of
from .wire import Failure, encode

# Browsers, Java and curl offer other protocols, which may be ignored (RFC 9110, 7.8);
# the parser would take such a request's body for the other protocol.
_OFFER = re.compile(rb"\r\n(?:upgrade|http2-settings):[^\r\n]*", re.IGNORECASE)


class StampingProtocol(HttpToolsProtocol):
    """Adds `arrived_s` and `caller` to the state in every request's ASGI scope.

    Also `wait_no_more`, for who reads a long body under limits of its own.

    A request's time is that of the turn of the event loop which read its first byte, so
    of several requests in one read (pipelining), or of several connections, each has
    the same, and none has the time at which the one before it was answered.

    Attributes
    ----------
    receive_s
        Seconds that a request may take to come in, and a new connection to begin one.
    head_limit
        Bytes of the longest request line and headers.
    connection_limit
        Connections open at once; the next is told to come back and closed.
    """

    receive_s: ClassVar[float] = 10.0
    head_limit: ClassVar[int] = 64 << 10
    connection_limit: ClassVar[int] = 4096

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.caller = Caller(prompt=True)
        self.read_s = 0.0
        self._turn = turn_of(self.loop)
        self._head_bytes = 0
        self._in_head = False
        self._patience: asyncio.TimerHandle | None = None
        self._shortcut: Shortcut | None = self.app_state.get("shortcut")
        if self.access_log or self.limit_concurrency is not None or self.root_path:
            self._shortcut = None
        self._between = True
        self._raw_head: bytes | None = None
        self._idle_since_s = 0.0
        self._read_bytes = 0
        self._refusal: bytes | None = None
        self._earlier: list[Any] = []

    def connection_made(  # type: ignore[override]  # as uvicorn does
        self, transport: asyncio.Transport
    ) -> None:
        """Take the connection, or turn it away where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.connection_limit:
            self._refuse(503, "too many connections are open", "overloaded")
        else:
            self._wait_patiently()

    def data_received(self, data: bytes) -> None:
        """Take the time, then parse."""
        if self._refusal is not None:
            return
        now_s = time.monotonic()
        self.read_s = self._turn.began_s(now_s, self.loop)
        if self._between:
            self.caller.read_s = now_s
            end = data.find(b"\r\n\r\n")
            if self._shortcut is not None:
                head = self._shortcut.heads.get(data[:end]) if end > 0 else None
                if head is None:
                    self._raw_head = data[:end] if end > 0 else None
                elif self._answered(self._shortcut, head, data, end + 4):
                    return
            if b"pgrade" in data or b"PGRADE" in data:
                data = _OFFER.sub(b"", data[:end]) + data[end:] if end > 0 else data
        self._read_bytes = len(data)
        self._head_bytes += len(data)
        super().data_received(data)
        if not self._between and self._head_bytes > self.head_limit:
            limit = f"{self.head_limit:,} bytes"
            self._refuse(400, f"the headers are over the limit of {limit}")

    def on_message_begin(self) -> None:
        """Stamp the request that begins; the parser calls this at its first byte."""
        super().on_message_begin()
        self._between = False
        self._in_head, self._head_bytes = True, self._read_bytes
        self._wait_patiently()
        self.scope["state"]["arrived_s"] = self.read_s
        self.scope["state"]["caller"] = self.caller
        self.scope["state"]["wait_no_more"] = self._wait_no_more

    def on_headers_complete(self) -> None:
        """Begin to answer, or to wait for the answers to requests before."""
        if (
            self._head_bytes > self.head_limit
            and self._size_of_head() > self.head_limit
        ):
            raise ValueError("the headers are over the limit")
        if self.parser.should_upgrade() and self._has_body():
            # offered in pieces, so it was not taken out: the body would not be read
            raise ValueError("an upgrade is offered with a body")
        self._in_head = False
        raw, self._raw_head = self._raw_head, None
        if self.cycle is None or self.cycle.response_complete:
            self._earlier.clear()
        else:
            self._earlier.append(self.cycle)
        super().on_headers_complete()
        if raw is not None and self._shortcut is not None and self._is_plain():
            self._shortcut.learn(raw, self.url, self.headers)
        # Headers may come behind a body too, and must not pass for those before it.
        self.headers = []

    def on_body(self, body: bytes) -> None:
        """Count what comes between two pieces of a body like headers."""
        self._head_bytes = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Go on with the next request, or say what is wrong with it."""
        was_last = not self.pipeline
        super().on_response_complete()
        if was_last and self._refusal is not None and not self.transport.is_closing():
            self.transport.write(self._refusal)
            self.transport.close()

    def on_message_complete(self) -> None:
        """Stop waiting: the whole request is here."""
        self._wait_no_more()
        self._between = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP in the form of every other error."""
        self._refuse(400, msg)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the work for this connection know that nobody waits for it."""
        self.caller.gone = True
        self._wait_no_more()
        for cycle in self._earlier:  # uvicorn tells only the latest
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Stop sending to a client that does not read, and know it for such."""
        self.caller.prompt = False
        super().pause_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close, unless the shortcut has answered since the time was set."""
        left_s = self._idle_since_s + self.timeout_keep_alive - time.monotonic()
        if left_s > 0:
            self._close_in(left_s)
        else:
            super().timeout_keep_alive_handler()

    def _is_idle(self) -> bool:
        """Say whether an answer would be the next thing on the wire, and be sent."""
        answered = self.cycle is None or self.cycle.response_complete
        paused = self.flow.write_paused or self.transport.is_closing()
        return answered and not self.pipeline and not paused

    def _is_plain(self) -> bool:
        """Say whether the head is that of a POST that keeps the connection."""
        parser = self.parser
        return (
            parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not parser.should_upgrade()
        )

    def _answered(
        self, shortcut: Shortcut, head: Head, data: bytes, start: int
    ) -> bool:
        """Answer without uvicorn's request and response; False if that cannot be.

        `data` was read at once, and its body starts at `start`.
        """
        if len(data) != start + head.length or not self._is_idle():
            return False
        made = shortcut.answer(head, data[start:], self.read_s, self.caller)
        if made is None:
            return False
        serving, reply, answer = made
        self.transport.write(
            shortcut.reply_head(self.server_state.default_headers)
            + b"%d\r\n\r\n%b" % (len(answer), answer)
        )
        self._turn.at_end(partial(serving.sent, reply, self.read_s))
        self.server_state.total_requests += 1
        self._wait_no_more()
        # One timer for many answers: to cancel and set it anew for each takes longer
        # than to look at the time when it is up.
        self._idle_since_s = self.read_s
        if self.timeout_keep_alive_task is None:
            self._close_in(self.timeout_keep_alive)
        return True

    def _close_in(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    def _wait_patiently(self) -> None:
        self._wait_no_more()
        self._patience = self.loop.call_later(self.receive_s, self._give_up)

    def _wait_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        seconds = f"{self.receive_s:g} s"
        self._refuse(408, f"no whole request came within {seconds}", "receive_timeout")

    def _size_of_head(self) -> int:
        lines = sum(len(name) + len(value) + 4 for name, value in self.headers)
        return len(self.url) + lines

    def _has_body(self) -> bool:
        names = {name for name, _ in self.headers}
        return not names.isdisjoint((b"content-length", b"transfer-encoding"))

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: offers that are not taken up are nothing to warn of."""

    def _refuse(self, status: int, error: str, code: str = "bad_input") -> None:
        """Say what is wrong in its turn, unless answered already, and close."""
        body = encode(Failure(error, code))
        said = (
            STATUS_LINE[status] + b"connection: close\r\n"
            b"content-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )
        cycle, in_body = self.cycle, not (self._between or self._in_head)
        if in_body and self.pipeline:
            self.pipeline.popleft()  # the request that is wrong; it never began
            self._refusal = said
        elif not in_body and cycle is not None and not cycle.response_complete:
            self._refusal = said
        else:
            if not in_body or cycle is None or not cycle.response_started:
                self.transport.write(said)
            self.transport.close()
