"""HTTP/1.1 by uvicorn, with the time at which each request's first byte was read."""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..engine.request import Caller
from ..errors import Failure, Overloaded
from ..runtime.admission import Admission, HeldBytes
from .loop_turn import turn_of
from .raw_request import (
    END,
    LONGEST_HEAD,
    PROBING,
    Direct,
    RawRequest,
    framing_of,
    is_probe,
    is_the_only_one,
    length_in,
    with_host_of,
)
from .reply import CLOSE, RawReplies, error_reply, reply_bytes

# Browsers, Java and curl offer other protocols, which may be ignored (RFC 9110, 7.8);
# the parser would take such a request's body for the other protocol.
_OFFER = re.compile(rb"\r\n(?:upgrade|http2-settings):[^\r\n]*", re.IGNORECASE)
# Headers that say how the connection goes on.
_SAYING = (b"expect", b"connection")
_EMPTY_LINES = re.compile(rb"[\r\n]*")
_LINE_END = re.compile(rb"\r?\n")
# Longest wait for a caller who was refused to have read so, and to have gone.
LINGER_S = 1.0
# Bytes of a head, or of a body in chunks, that are parsed at a time: a thousand chunks
# or headers, each of which calls a function here.
PIECE = 4096
# Pieces of a body are parsed one after the other for so long, then in another turn.
PIECES_S = 0.0005


def _without_offer(data: bytes, end: int) -> bytes:
    """Take an offer of another protocol out of a head that ends there, if it does."""
    if end > 0 and (
        data.find(b"pgrade", 0, end) > 0 or data.find(b"PGRADE", 0, end) > 0
    ):
        return _OFFER.sub(b"", data[:end]) + data[end:]
    return data


def _what_came(data: bytes) -> str:
    """Say what bytes are that are no HTTP/1.1, for whoever asked the wrong port."""
    if data.startswith((b"PRI * HTTP/2", b"SM\r\n\r\n")):
        return "HTTP/2 came, as gRPC speaks it; this port answers HTTP/1.1"
    if data.startswith(b"\x16\x03"):
        return "TLS came; this port answers http://, not https://"
    return "Invalid HTTP request received."


class Next(Enum):
    """What the next byte of a connection belongs to."""

    REQUEST = auto()  # a new one
    HEAD = auto()
    BODY = auto()
    WAITING = auto()  # what waits to be let in
    REFUSED = auto()  # the rest of a request that is not read
    NOTHING = auto()  # nothing is read any more


REQUEST, HEAD, BODY, WAITING, REFUSED, NOTHING = Next


class _Flow(FlowControl):
    """Does not go on reading while there is more than is looked at."""

    full = False

    def resume_reading(self) -> None:
        """Go on, unless bytes wait here."""
        if not self.full:
            super().resume_reading()


class _Refused(Exception):
    """Raised where the parser called: a request that cannot be read, and why."""


class HttpProtocol(HttpToolsProtocol):
    """Adds `arrived_s` and `caller` to the state in every request's ASGI scope.

    Also `stop_timer`, for who reads a long body under limits of its own.

    A request's time is that of the turn of the event loop which read its first byte, so
    of several requests in one read (pipelining), or of several connections, each has
    the same, and none has the time at which the one before it was answered.

    What the application offers as `direct` in its state is asked first; so is its
    `admission` before a request begins.

    Of a connection's requests one at a time is parsed and answered. What comes behind
    it stays as it came: of one read here, and what is not read in the kernel. Each is
    let in by the admission when its turn comes.

    Attributes
    ----------
    receive_s
        Seconds that a request may take to come in, and a new connection to begin one.
    unread_s
        Seconds after which a caller who takes nothing of what is sent is cut off.
    head_limit
        Bytes of the longest request line and headers.
    header_limit
        Headers that a request may have.
    connection_limit
        Connections open at once; the next is told to come back and closed.
    """

    receive_s: ClassVar[float] = 10.0
    unread_s: ClassVar[float] = 60.0
    head_limit: ClassVar[int] = 64 << 10
    header_limit: ClassVar[int] = 256
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
        held_bytes: HeldBytes | None = state.get("unread_bytes")
        self._unread_bytes = None if held_bytes is None else held_bytes.body()
        self._direct: Mapping[tuple[bytes, bytes], Direct] = state.get("direct", {})
        if self.access_log or self.limit_concurrency is not None or self.root_path:
            self._direct = {}
        self._next = REQUEST
        # how long the connection had waited to be taken, until its first request
        self._waited_s = 0.0
        self._held = b""  # while WAITING
        self._skip = 0  # bytes, while REFUSED
        # what came and is not looked at, and from where on it is not
        self._unread, self._at = b"", 0
        self._queued = False  # whether that is gone on with in a turn to come
        self._leaving = False  # once that is done
        # what may answer the request that is read, and its body so far
        self._answerer: Direct | None = None
        self._query = b""
        self._says_connection = False  # the request that is read
        self._head: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._body_bytes = 0  # that an ASGI cycle got
        self._arrived_s = 0.0
        self._head_bytes = 0  # of the head, or between pieces of a body
        self._may_begin = True  # whether a request may, in what is parsed
        self._behind = False  # whether one would have
        self._patience: asyncio.TimerHandle | None = None
        self._untimed = False
        self._reader_timer: asyncio.TimerHandle | None = None
        self._idle_since_s = 0.0
        self._closes_unread = False

    def connection_made(  # type: ignore[override]  # as uvicorn does
        self, transport: asyncio.Transport
    ) -> None:
        """Take the connection, or turn it away where there are too many."""
        super().connection_made(transport)
        self.flow = self._flow = _Flow(transport)
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
        self._forget_unread()
        self._stop_timer()
        self._stop_reader_timer()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn closes
        """Answer all that came whole to a caller who sends no more; then close.

        Whether they still read, only an answer that is written tells. TLS has no
        connections of which one half is closed.
        """
        self.caller.ended = True
        return self._is_owed() and self.scheme == "http"

    def _is_owed(self) -> bool:
        """Say whether the caller may get one more answer, or is getting one."""
        if self._unread or self._next is WAITING:
            return True
        answered = self.cycle is None or self.cycle.response_complete
        return self._next is REQUEST and not answered

    def _close_if_ended(self) -> None:
        """Close where nobody sends any more and nothing is owed."""
        if self.caller.ended and not (self.transport.is_closing() or self._is_owed()):
            self._close()

    def data_received(self, data: bytes) -> None:
        """Take the time; then read a request, unless it is put off or refused."""
        if self._next is not REQUEST or self._unread or not self._is_idle():
            self._take(data)
            return
        now_s = time.monotonic()
        self.read_s = self._turn.began_s(now_s, self.loop)
        end = data.find(END)
        if (data.find(END, end + 4) >= 0 or len(data) > PIECE) and not is_the_only_one(
            data, end, PIECE
        ):
            self._keep(data)
            return
        self.caller.read_s = now_s
        admission = self._admission
        if admission is not None and not (data[0] in PROBING and is_probe(data)):
            if not admission.enter(now_s, self._waited_s):
                self._put_off(admission, data, now_s)
                return
            self._waited_s = 0.0
        self._read(data, end)

    def _read(self, data: bytes, end: int = -1) -> None:
        """Parse bytes in which no more than one request ends.

        What is whole then is answered, or being answered. If a request begins there,
        `end` is where its head does.
        """
        if self._next is REQUEST:
            data, self._may_begin = _without_offer(data, end), True
            self._head_bytes = end if end >= 0 else len(data)
        else:
            self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:  # it is not taken up
            if (rest := offer.args[0]) < len(data):
                self._keep(data, rest)
        except httptools.HttpParserError as error:
            if self._behind:
                self._put_back(data)
            else:
                why = error.__context__
                said = _what_came(data)
                self.logger.warning(said)
                self._refuse(400, str(why) if isinstance(why, _Refused) else said)
        if self._next is not REQUEST:
            self._await_rest()

    def _put_back(self, data: bytes) -> None:
        """Keep what would have begun another request, which was not let in."""
        self._behind, self.parser = False, self._new_parser()
        self._keep(data, data.find(END) + len(END) + (length_in(self._head) or 0))

    def _await_rest(self) -> None:
        """See to it that a request which is begun comes in whole, and is none too long.

        A body in several pieces is for the application, which counts what is held.
        """
        if self._next is NOTHING:
            return
        self._unset_keepalive_if_required()
        if self._untimed:
            self._untimed = False
            self._start_timer()
        if self._body:
            self._begin_cycle()
        if why := self._too_long():
            self._refuse(400, why)

    def _too_long(self) -> str:
        """Say what is over a limit in the headers so far; empty where nothing is."""
        if self._head_bytes > self.head_limit:
            return f"the headers are over the limit of {self.head_limit:,} bytes"
        if len(self.headers) > self.header_limit:
            return f"there are more than {self.header_limit} headers"
        return ""

    def _take(self, data: bytes) -> None:
        """Read on in a request, or keep what cannot be looked at yet."""
        now_s = time.monotonic()
        if self._next is NOTHING:
            return
        if self._next is REFUSED:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            if not self._skip:
                self._next = REQUEST
                self._stop_timer()
            if skipped < len(data):
                self.data_received(data[skipped:])
            return
        if not self._unread and self._next is not WAITING:
            self.read_s = self._turn.began_s(now_s, self.loop)
            if self._next is BODY and len(data) <= (self._missing() or 0):
                self._read(data)
                return
        self._keep(data)

    def _keep(self, data: bytes, start: int = 0) -> None:
        """Look at what begins there later, and read no more until then."""
        if self._unread:
            data, start = self._unread[self._at :] + data[start:], 0
        self._unread, self._at = data, start
        self._flow.pause_reading()
        self._flow.full = True
        try:
            if self._unread_bytes is not None:
                self._unread_bytes.hold(len(data))
            self._go_on_soon()
        except Overloaded:
            assert self._replies is not None  # it comes with the limit
            default = self.server_state.default_headers
            self._close_saying(self._replies.refusal(default, keeps=False))

    def _forget_unread(self) -> None:
        """Read on: all that was unread has been looked at, or is not wanted."""
        self._unread, self._at = b"", 0
        self._flow.full = False
        if self._unread_bytes is not None:
            self._unread_bytes.hold(0)
        if not self.transport.is_closing():
            self._flow.resume_reading()

    def _go_on_soon(self) -> None:
        """Look at what is unread in a turn to come."""
        if not self._queued:
            self._queued = True
            self._turn.later(self._go_on)

    def _go_on(self) -> None:
        """Begin with one request of those that are unread, or go on with it."""
        self._queued = False
        if self.transport.is_closing():
            self._forget_unread()
        elif self._unread and self._next is not WAITING:
            now_s = time.monotonic()
            if self._next is not REQUEST or self._is_let_in(now_s):
                self._read_pieces(now_s)
            elif self._unread and self._next is REQUEST and self._is_idle():
                self._go_on_soon()  # one was refused
        if self._leaving and not self._unread:
            self.shutdown()
        self._close_if_ended()

    def _is_let_in(self, now_s: float) -> bool:
        """Say whether a request that is unread begins; else it waits, or is refused."""
        if not self._is_idle():
            return False
        lines = _EMPTY_LINES.match(self._unread, self._at)
        self._at = lines.end() if lines else self._at
        if self._at == len(self._unread):
            self._forget_unread()
            return False
        admission, self._waited_s = self._admission, 0.0
        self.caller.read_s = now_s
        if admission is None or admission.enter_behind(now_s):
            return True
        if admission.hold_behind(self._resume):
            self._unset_keepalive_if_required()
            self._next = WAITING
        else:
            self._shed(self._unread, self._at)
            admission.refused(now_s)
        return False

    def _read_pieces(self, now_s: float) -> None:
        """Parse what is unread up to a request's end, or for as long as a turn may."""
        while self._unread:
            data, start = self._unread, self._at
            end = self._end_of_piece(data, start)
            if end < len(data):
                self._at = end
            else:
                self._forget_unread()
            piece = data[start:end]
            self._read(piece, len(piece) - len(END) if piece.endswith(END) else -1)
            if self._next in (REQUEST, NOTHING) or time.monotonic() > now_s + PIECES_S:
                break
        if self._unread and (self._next is not REQUEST or self._is_idle()):
            self._go_on_soon()

    def _end_of_piece(self, data: bytes, start: int) -> int:
        """Find the end of some bytes with which at most one request ends.

        Heads end with an empty line, and so do bodies in chunks; it may have begun
        before.
        """
        missing = self._missing() if self._next is BODY else None
        if missing is not None:
            return min(start + missing, len(data))
        if self._next is not REQUEST and (line := _LINE_END.match(data, start)):
            return line.end()
        end = data.find(END, start, start + PIECE)
        return min(start + PIECE, len(data)) if end < 0 else end + len(END)

    def _missing(self) -> int | None:
        """Bytes of a body that did not come yet; None where only its chunks say so."""
        length = length_in(self._head)
        got = 0 if self._answerer is not None else self._body_bytes
        return None if length is None else max(length - got, 1)

    def on_message_begin(self) -> None:
        """Stamp the request that begins; the parser calls this at its first byte."""
        if not self._may_begin:
            self._behind = True
            raise _Refused("this is behind another request")
        self._may_begin = False
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self._says_connection = False
        self._next, self._untimed = HEAD, True
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
        """Begin to answer, or wait for the body."""
        if self._head_bytes > self.head_limit or len(self.headers) > self.header_limit:
            raise _Refused(self._too_long())
        parser = self.parser
        offers = parser.should_upgrade()
        if offers and self._has_body():
            # offered in pieces, so it was not taken out: the body would not be read
            raise _Refused("an upgrade is offered with a body")
        self._head, self.headers = self.headers, []
        path, asks, query = self.url.partition(b"?")
        answerer = self._direct.get((parser.get_method(), path))
        if answerer is None or self.expect_100_continue or offers:
            self._begin_cycle()
        else:
            self._query = httptools.parse_url(self.url).query or b"" if asks else query
            self._answerer = answerer
        self._next = BODY

    def _begin_cycle(self, planned: object = None) -> None:
        """Have the application answer a request, or go on with a planned one."""
        self._unset_keepalive_if_required()
        self._answerer = None
        url, expects = self.url, self.expect_100_continue
        if not url.startswith(b"/"):
            self._head = with_host_of(url, self._head)
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers += self._head  # as which the scope has them
        state = self.scope["state"]
        state["arrived_s"] = self._arrived_s
        state["caller"] = self.caller
        state["stop_timer"] = self._stop_timer
        if planned is not None:
            state["planned"] = planned
        super().on_headers_complete()
        if expects and self.cycle.keep_alive:
            # answered before a body came: whether one follows, nobody can know
            self.cycle.keep_alive, self._closes_unread = False, True
        # Headers may come behind a body too, and must not pass for those before it.
        self.headers = []
        pieces, self._body, self._body_bytes = self._body, [], 0
        for piece in pieces:
            self.on_body(piece)

    def on_body(self, body: bytes) -> None:
        """Count what comes between two pieces of a body like headers."""
        self._head_bytes = 0
        if self._answerer is not None:
            self._body.append(body)
            return
        self._body_bytes += len(body)
        self._keep_where_body_came()
        super().on_body(body)

    def _keep_where_body_came(self) -> None:
        """Keep a connection whose caller sent a body before being told to go on."""
        if self._closes_unread and not self.cycle.response_started:
            self.cycle.keep_alive, self._closes_unread = True, False

    def on_message_complete(self) -> None:
        """Stop waiting: the whole request is here."""
        if self._patience is not None:
            self._stop_timer()
        self._next = REQUEST
        if self._answerer is not None:
            answer = self._answerer(self._raw_request())
            if isinstance(answer, bytes):
                self._answered(answer)
                return
            self._begin_cycle(answer)
        self._keep_where_body_came()
        super().on_message_complete()

    def _raw_request(self) -> RawRequest:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        return RawRequest(
            self._query,
            self._head,
            body,
            self._arrived_s,
            self.caller,
            self._turn.at_end,
        )

    def _answered(self, answer: bytes) -> None:
        """Answer without uvicorn's request and response."""
        assert self._replies is not None  # it comes with what answers
        self._answerer, self._body = None, []
        parser = self.parser
        keeps = parser.should_keep_alive()
        if keeps and self._says_connection:  # HTTP/1.0 may ask for it
            keeps = parser.get_http_version() != "1.0"
        default = self.server_state.default_headers
        self._say(self._replies.ok(default, answer, keeps=keeps), keeps=keeps)

    def _say(self, said: bytes, *, keeps: bool) -> None:
        """Write an answer without uvicorn's; then close, or wait for a next request."""
        self.server_state.total_requests += 1
        self.transport.write(said)
        if not keeps:
            self._close()
            return
        # One timer for many answers: to cancel and set it anew for each takes longer
        # than to look at the time when it is up.
        self._idle_since_s = self.caller.read_s
        if self.timeout_keep_alive_task is None:
            self._close_in(self.timeout_keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        """Close, unless something was answered since the time was set."""
        left_s = self._idle_since_s + self.timeout_keep_alive - time.monotonic()
        if left_s > 0:
            self._close_in(left_s)
        else:
            self._close()

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_reader()
        elif self._unread:
            self._go_on_soon()
        else:
            self._close_if_ended()

    def pause_writing(self) -> None:
        """Stop sending to a client that does not read, and know it for such."""
        self.caller.prompt = False
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """Go on, also with what came meanwhile."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_reader_timer()
            if self._unread:
                self._go_on_soon()

    def shutdown(self) -> None:
        """Close once all is answered, also what waits for its turn or is unread."""
        self._resume()
        self._leaving = bool(self._unread)
        if self._leaving:
            return
        if self._answerer is not None:
            self._begin_cycle()
        self._closes_unread = False
        super().shutdown()
        self._watch_reader()

    def _is_idle(self) -> bool:
        """Say whether an answer would be the next thing on the wire, and be sent."""
        answered = self.cycle is None or self.cycle.response_complete
        return answered and not (self.flow.write_paused or self.transport.is_closing())

    def _put_off(self, admission: Admission, data: bytes, now_s: float) -> None:
        """Have a request wait for its turn, or refuse it where it would be late."""
        waited_s, self._waited_s = self._waited_s, 0.0
        if admission.hold(self._resume, waited_s):
            self._unset_keepalive_if_required()
            self._held, self._next = data, WAITING
        else:
            self._shed(data)
            admission.refused(now_s)

    def _resume(self) -> None:
        """Begin with what waited; its time is still that at which it came."""
        if self._next is not WAITING:
            return
        data, self._held, self._next = self._held, b"", REQUEST
        if self.transport.is_closing():
            return
        self.caller.read_s = now_s = time.monotonic()
        if data:
            self._read(data, data.find(END))
            if self._unread:
                self._go_on_soon()
        else:
            self._read_pieces(now_s)
        self._close_if_ended()

    def _shed(self, data: bytes, start: int = 0) -> None:
        """Refuse the request that begins there, without a look at what it asks for."""
        assert self._replies is not None  # it comes with what says who is refused
        end = data.find(END, start, start + LONGEST_HEAD + len(END))
        framing = framing_of(data[start:end]) if end > start else None
        length, keeps = (0, False) if framing is None else framing
        self._stop_timer()
        said = self._replies.refusal(self.server_state.default_headers, keeps=keeps)
        if data.startswith(b"HEAD ", start):
            said = said[: said.find(END) + len(END)]
        self._say(said, keeps=True)
        self._forget_unread()
        over = end + len(END) + length - len(data)  # what did not come yet
        if not keeps:
            self._leave(at_once=framing is not None and over <= 0)
        elif over > 0:
            self._skip, self._next = over, REFUSED
            self._start_timer(self._leave)
        elif over < 0:
            self._keep(data, over + len(data))

    def _leave(self, *, at_once: bool = False) -> None:
        """Close; not at once where the caller may still send.

        They would not see what was said.
        """
        self._next = NOTHING
        self._stop_timer()
        linger_s = 0.0 if at_once else LINGER_S
        self._patience = self.loop.call_later(linger_s, self._close)

    def _close(self) -> None:
        self.transport.close()
        self._watch_reader()

    def _watch_reader(self) -> None:
        """Cut a caller off who takes nothing of what is to be sent."""
        size = self.transport.get_write_buffer_size()
        if size and self._reader_timer is None:
            self._reader_timer = self.loop.call_later(
                self.unread_s, self._cut_off, size
            )

    def _cut_off(self, before: int) -> None:
        self._reader_timer = None
        if 0 < before <= self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self._watch_reader()

    def _stop_reader_timer(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

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

    def _has_body(self) -> bool:
        names = {name for name, _ in self.headers}
        return not names.isdisjoint((b"content-length", b"transfer-encoding"))

    def _refuse(self, status: int, error: str, code: str = "bad_input") -> None:
        """Say what is wrong, and close."""
        failure = Failure(error, code)
        self._close_saying(reply_bytes(error_reply(status, failure, CLOSE)))

    def _close_saying(self, said: bytes) -> None:
        """Close with these words, unless there is an answer that they would be in."""
        if self.transport.is_closing():
            return
        if self._answerer is not None:
            self._begin_cycle()  # so that it is counted
        cycle, begun, self._next = self.cycle, self._next is BODY, NOTHING
        if (
            cycle is None
            or not cycle.response_started
            or (cycle.response_complete and not begun)
        ):
            self.transport.write(said)
        self._close()

    def _new_parser(self) -> Any:
        """Make a parser as uvicorn does."""
        parser = httptools.HttpRequestParser(self)
        with contextlib.suppress(AttributeError):  # httptools before 0.6.3
            parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser
