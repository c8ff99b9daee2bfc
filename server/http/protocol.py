"""HTTP/1.1 by uvicorn, with the time at which each request's first byte was read."""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..engine.request import Caller
from ..errors import Failure
from ..runtime.admission import Admission
from .loop_turn import turn_of
from .raw_request import GET, Direct, RawRequest, framing_of, is_probe
from .reply import CLOSE, RawReplies, error_reply, reply_bytes

# Browsers, Java and curl offer other protocols, which may be ignored (RFC 9110, 7.8);
# the parser would take such a request's body for the other protocol.
_OFFER = re.compile(rb"\r\n(?:upgrade|http2-settings):[^\r\n]*", re.IGNORECASE)
# Headers that say how the connection goes on.
_SAYING = (b"expect", b"connection")
# Longest wait for a caller who was refused to have read so, and to have gone.
LINGER_S = 1.0


def _without_offer(data: bytes) -> bytes:
    """Take an offer of another protocol out of a head, if all of that is there."""
    end = data.find(b"\r\n\r\n")
    if end > 0 and (
        data.find(b"pgrade", 0, end) > 0 or data.find(b"PGRADE", 0, end) > 0
    ):
        return _OFFER.sub(b"", data[:end]) + data[end:]
    return data


class Next(Enum):
    """What the next byte of a connection belongs to."""

    REQUEST = auto()  # a new one
    HEAD = auto()
    BODY = auto()
    WAITING = auto()  # what waits to be let in
    REFUSED = auto()  # the rest of a request that is not read
    NOTHING = auto()  # nothing is read any more


REQUEST, HEAD, BODY, WAITING, REFUSED, NOTHING = Next


class HttpProtocol(HttpToolsProtocol):
    """Adds `arrived_s` and `caller` to the state in every request's ASGI scope.

    Also `stop_timer`, for who reads a long body under limits of its own.

    A request's time is that of the turn of the event loop which read its first byte, so
    of several requests in one read (pipelining), or of several connections, each has
    the same, and none has the time at which the one before it was answered.

    What the application offers as `direct` in its state is asked first, where an answer
    would be the next thing on the wire; so is its `admission` before a request begins.

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
        # an application mounted in another has no say in what comes for that one
        ours = self.app_state.get("application") is self.config.app
        state = self.app_state if ours else {}
        self._admission: Admission | None = state.get("admission")
        self._replies: RawReplies | None = state.get("replies")
        self._direct: Mapping[tuple[bytes, bytes], Direct] = state.get("direct", {})
        if self.access_log or self.limit_concurrency is not None or self.root_path:
            self._direct = {}
        self._next = REQUEST
        # how long the connection had waited to be taken, until its first request
        self._waited_s = 0.0
        self._held = b""  # while WAITING
        self._skip = 0  # bytes, while REFUSED
        self._last_words = b""  # once requests before are answered, while NOTHING
        # what may answer the request that is read, and its body so far
        self._answerer: Direct | None = None
        self._query = b""
        self._says_connection = False  # the request that is read
        self._head: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._arrived_s = 0.0
        self._answered_in_read = False
        # of the head, or between pieces of a body
        self._head_bytes = 0
        self._read_bytes = 0
        self._first_in_read = True
        self._patience: asyncio.TimerHandle | None = None
        self._untimed = False
        self._idle_since_s = 0.0
        self._closes_unread = False
        self._earlier: list[Any] = []

    def connection_made(  # type: ignore[override]  # as uvicorn does
        self, transport: asyncio.Transport
    ) -> None:
        """Take the connection, or turn it away where there are too many."""
        super().connection_made(transport)
        if self._admission is not None:
            self._waited_s = self._admission.accept()
        if len(self.connections) > self.connection_limit:
            self._refuse(503, "too many connections are open", "overloaded")
        else:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the work for this connection know that nobody waits for it."""
        self.caller.gone = True
        if self._answerer is not None:
            self._begin_cycle()
        self._next, self._held = NOTHING, b""
        self._stop_timer()
        for cycle in self._earlier:  # uvicorn tells only the latest
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take the time; then read a request, unless it is put off or refused."""
        if self._next is not REQUEST:
            data = self._set_aside(data)
            if not data:
                return
        now_s = time.monotonic()
        self.read_s = self._turn.began_s(now_s, self.loop)
        if self._next is REQUEST:
            self.caller.read_s = now_s
            admission = self._admission
            if admission is not None and not (data[0] == GET and is_probe(data)):
                if not admission.enter(now_s, self._waited_s):
                    self._put_off(admission, data, now_s)
                    return
                self._waited_s = 0.0
        self._read(data)

    def _read(self, data: bytes) -> None:
        """Parse; what is whole then is answered, or being answered."""
        self._first_in_read = self._next is REQUEST
        if self._first_in_read:
            data = _without_offer(data)
        self._answered_in_read = False
        self._read_bytes = len(data)
        self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # an offer that is not taken up
        except httptools.HttpParserError:
            said = "Invalid HTTP request received."
            self.logger.warning(said)
            self._refuse(400, said)
            return
        if self._next is not REQUEST:
            self._await_rest()

    def _await_rest(self) -> None:
        """See to it that a request which is begun comes in whole, and is none too long.

        A body in several pieces is for the application, which counts what is held.
        """
        self._unset_keepalive_if_required()
        if self._untimed:
            self._untimed = False
            self._start_timer()
        if self._body:
            self._begin_cycle()
        if self._head_bytes > self.head_limit:
            limit = f"{self.head_limit:,} bytes"
            self._refuse(400, f"the headers are over the limit of {limit}")

    def on_message_begin(self) -> None:
        """Stamp the request that begins; the parser calls this at its first byte."""
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self._says_connection = False
        self._next, self._untimed = HEAD, True
        # where it begins within a read, behind others, only the parser knows
        self._head_bytes = self._read_bytes if self._first_in_read else 0
        self._first_in_read = False
        self._arrived_s = self.read_s

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, and what it says of the connection."""
        name = name.lower()
        self.headers.append((name, value))
        if name in _SAYING:
            self._says_connection = self._says_connection or name == b"connection"
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True

    def on_headers_complete(self) -> None:
        """Begin to answer, or to wait: for the body, or for the answers before."""
        if (
            self._head_bytes + self._read_bytes > self.head_limit
            and self._size_of_head() > self.head_limit
        ):
            raise ValueError("the headers are over the limit")
        if self.parser.should_upgrade() and self._has_body():
            # offered in pieces, so it was not taken out: the body would not be read
            raise ValueError("an upgrade is offered with a body")
        if self.transport.is_closing():
            raise ValueError("this is behind a request that was to be the last")
        path, asks, query = self.url.partition(b"?")
        answerer = self._direct.get((self.parser.get_method(), path))
        if (
            answerer is None
            or self._answered_in_read
            or self.expect_100_continue
            or self.parser.should_upgrade()
            or not self._is_idle()
        ):
            self._begin_cycle()
        else:
            self._query = httptools.parse_url(self.url).query or b"" if asks else query
            self._answerer, self._head, self.headers = answerer, self.headers, []
        self._next = BODY

    def _begin_cycle(self) -> None:
        """Have the application answer, once it has answered what came before."""
        self._unset_keepalive_if_required()
        if self._answerer is not None:
            self._answerer, self.headers = None, self._head
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers += headers  # as which the scope has them
        state = self.scope["state"]
        state["arrived_s"] = self._arrived_s
        state["caller"] = self.caller
        state["stop_timer"] = self._stop_timer
        if self.cycle is None or self.cycle.response_complete:
            self._earlier.clear()
        else:
            self._earlier.append(self.cycle)
        super().on_headers_complete()
        if expects and self.cycle.keep_alive:
            # answered before a body came: whether one follows, nobody can know
            self.cycle.keep_alive, self._closes_unread = False, True
        # Headers may come behind a body too, and must not pass for those before it.
        self.headers = []
        pieces, self._body = self._body, []
        for piece in pieces:
            super().on_body(piece)

    def on_body(self, body: bytes) -> None:
        """Count what comes between two pieces of a body like headers."""
        self._head_bytes = 0
        if self._answerer is not None:
            self._body.append(body)
            return
        if self._closes_unread and not self.cycle.response_started:
            self.cycle.keep_alive, self._closes_unread = True, False
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop waiting: the whole request is here."""
        if self._patience is not None:
            self._stop_timer()
        self._next = REQUEST
        if self._answerer is not None:
            if self._answered(self._answerer):
                return
            self._begin_cycle()
        super().on_message_complete()

    def _answered(self, answerer: Direct) -> bool:
        """Answer without uvicorn's request and response; False if that cannot be."""
        assert self._replies is not None  # it comes with what answers
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        answer = answerer(
            RawRequest(
                self._query,
                self._head,
                body,
                self._arrived_s,
                self.caller,
                self._turn.at_end,
            )
        )
        if answer is None:
            return False
        self._answerer, self._body = None, []
        self._answered_in_read = True
        parser = self.parser
        keeps = parser.should_keep_alive()
        if keeps and self._says_connection:  # HTTP/1.0 may ask for it
            keeps = parser.get_http_version() != "1.0"
        default = self.server_state.default_headers
        self._say(self._replies.ok(default, answer, keeps=keeps), keeps=keeps)
        return True

    def _say(self, said: bytes, *, keeps: bool) -> None:
        """Write an answer without uvicorn's; then close, or wait for a next request."""
        self.server_state.total_requests += 1
        self.transport.write(said)
        if not keeps:
            self.transport.close()
            return
        # One timer for many answers: to cancel and set it anew for each takes longer
        # than to look at the time when it is up.
        self._idle_since_s = self.read_s
        if self.timeout_keep_alive_task is None:
            self._close_in(self.timeout_keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        """Close, unless something was answered since the time was set."""
        left_s = self._idle_since_s + self.timeout_keep_alive - time.monotonic()
        if left_s > 0:
            self._close_in(left_s)
        else:
            super().timeout_keep_alive_handler()

    def on_response_complete(self) -> None:
        """Go on with the next request, or say what is wrong with it."""
        was_last = not self.pipeline
        super().on_response_complete()
        if was_last and self._next is NOTHING and not self.transport.is_closing():
            self.transport.write(self._last_words)
            self.transport.close()

    def pause_writing(self) -> None:
        """Stop sending to a client that does not read, and know it for such."""
        self.caller.prompt = False
        super().pause_writing()

    def shutdown(self) -> None:
        """Close once all is answered, also what waits for its turn."""
        self._resume()
        if self._answerer is not None:
            self._begin_cycle()
        self._closes_unread = False
        super().shutdown()

    def _is_idle(self) -> bool:
        """Say whether an answer would be the next thing on the wire, and be sent."""
        answered = self.cycle is None or self.cycle.response_complete
        paused = self.flow.write_paused or self.transport.is_closing()
        return answered and not self.pipeline and not paused

    def _put_off(self, admission: Admission, data: bytes, now_s: float) -> None:
        """Have a request wait for its turn, or refuse it where it would be late."""
        waited_s, self._waited_s = self._waited_s, 0.0
        if admission.hold(self._resume, waited_s):
            self._unset_keepalive_if_required()
            self._held, self._next = data, WAITING
        elif self._replies is not None and self._is_idle():
            self._shed(self._replies, data)
            admission.refused(now_s)
        else:  # it waits for the answer to one before
            self._read(data)

    def _resume(self) -> None:
        """Begin with what waited; its time is still that at which it came."""
        if self._next is not WAITING:
            return
        data, self._held, self._next = self._held, b"", REQUEST
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self.caller.read_s = time.monotonic()
            self._read(data)

    def _set_aside(self, data: bytes) -> bytes:
        """Throw away what was refused, and keep what waits; the rest is returned."""
        if self._next is WAITING:
            self._held += data
            self.flow.pause_reading()
        elif self._next is REFUSED:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            if not self._skip:
                self._next = REQUEST
                self._stop_timer()
            return data[skipped:]
        elif self._next is not NOTHING:
            return data
        return b""

    def _shed(self, replies: RawReplies, data: bytes) -> None:
        """Refuse the requests that were read, without a look at what they ask for."""
        default = self.server_state.default_headers
        self._stop_timer()
        while data:
            end = data.find(b"\r\n\r\n")
            framing = framing_of(data[:end]) if end > 0 else None
            length, keeps = (0, False) if framing is None else framing
            self._say(replies.refusal(default, keeps=keeps), keeps=True)
            size = len(data) + 1 if framing is None else end + 4 + length
            if not keeps:
                self._leave(at_once=size <= len(data))
                return
            self._skip = max(size - len(data), 0)
            data = data[size:]
        if self._skip:
            self._next = REFUSED
            self._start_timer(self._leave)

    def _leave(self, *, at_once: bool = False) -> None:
        """Close; not at once where the caller may still send.

        They would not see what was said.
        """
        self._next = NOTHING
        self._stop_timer()
        linger_s = 0.0 if at_once else LINGER_S
        self._patience = self.loop.call_later(linger_s, self.transport.close)

    def _close_in(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    def _start_timer(self, then: Callable[[], None] | None = None) -> None:
        self._stop_timer()
        self._patience = self.loop.call_later(self.receive_s, then or self._time_out)

    def _stop_timer(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _time_out(self) -> None:
        seconds = f"{self.receive_s:g} s"
        self._refuse(408, f"no whole request came within {seconds}", "receive_timeout")

    def _size_of_head(self) -> int:
        lines = sum(len(name) + len(value) + 4 for name, value in self.headers)
        return len(self.url) + lines

    def _has_body(self) -> bool:
        names = {name for name, _ in self.headers}
        return not names.isdisjoint((b"content-length", b"transfer-encoding"))

    def _refuse(self, status: int, error: str, code: str = "bad_input") -> None:
        """Say what is wrong in its turn, unless answered already, and close."""
        if self.transport.is_closing():
            return
        if self._answerer is not None:
            self._begin_cycle()  # so that it is counted
        said = reply_bytes(error_reply(status, Failure(error, code), CLOSE))
        begun, self._next = self._next is BODY, NOTHING
        if begun and self.pipeline:
            self.pipeline.popleft()  # the request that is wrong; it waits for others
            begun = False
        if begun and self.cycle.response_started:
            self.transport.close()
        elif begun or self.cycle is None or self.cycle.response_complete:
            self.transport.write(said)
            self.transport.close()
        else:
            self._last_words = said
