"""Uvicorn's HTTP/1.1 protocol, with arrival times, admission control and limits."""

import asyncio
import contextlib
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..engine.request import Caller
from ..errors import Failure, Overloaded
from ..runtime.admission import Admission, HeldBytes
from ..schema.request_ids import NAMES, RequestIds, read_ids
from .flow import Flow, ReaderWatch
from .known_heads import KnownHead, KnownHeads
from .loop_turn import turn_of
from .raw_request import (
    END,
    LONGEST_HEAD,
    READING,
    Direct,
    IncomingRequest,
    Later,
    RawRequest,
    ends_of,
    framing_of,
    is_never_refused,
    is_the_only_one,
    length_in,
    with_host_of,
)
from .reply import CLOSE, RawReplies, error_reply, reply_bytes
from .rests import rests_of, seconds_unread

# Headers by which browsers, Java and curl offer another protocol. A server may ignore
# the offer (RFC 9110, 7.8). But the parser would not, and would treat the request's
# body as bytes of the other protocol.
_OFFER = re.compile(rb"\r\n(?:upgrade|http2-settings):[^\r\n]*", re.IGNORECASE)
# Headers that say whether the caller waits for "100 Continue", whether the connection
# stays open, and by which ids the caller follows the request.
_SAYING = frozenset((b"expect", b"connection")) | NAMES
_EMPTY_LINES = re.compile(rb"[\r\n]*")
_LINE_END = re.compile(rb"\r?\n")
# Seconds for which a refused caller can read the reason, before the connection closes.
LINGER_S = 1.0
# Bytes of a head, or of a chunked body, that are parsed at a time. They hold at most a
# thousand chunks or headers, and the parser calls a function for each.
PIECE = 4096
# If at least so many bytes were read at a time, more wait in the kernel. Then these are
# not the latest requests of the connection.
FULL = 200_000
# Longest time in seconds of one turn for parsing pieces of a body.
PIECES_S = 0.0005


def _without_offer(data: bytes, end: int) -> bytes:
    """Return a request's bytes without headers that offer another protocol.

    `end` is the position where the head ends, or -1 if the head is incomplete.
    """
    if end > 0 and (
        data.find(b"pgrade", 0, end) > 0 or data.find(b"PGRADE", 0, end) > 0
    ):
        return _OFFER.sub(b"", data[:end]) + data[end:]
    return data


def _why_not_http(data: bytes) -> str:
    """Return the error message for bytes that are not HTTP/1.1."""
    if data.startswith((b"PRI * HTTP/2", b"SM\r\n\r\n")):
        return "HTTP/2 came, as gRPC speaks it; this port answers HTTP/1.1"
    if data.startswith(b"\x16\x03"):
        return "TLS came; this port answers http://, not https://"
    return "Invalid HTTP request received."


# Returns the ids of a request, with its trace if it is sampled. The arguments are those
# that the caller gave, if any, and the time of the first byte.
Sampling = Callable[[RequestIds | None, float], RequestIds | None]


class Next(Enum):
    """What the next received byte belongs to: a part of a request, or no request."""

    REQUEST = auto()  # a new request
    HEAD = auto()
    BODY = auto()
    WAITING = auto()  # no request: the latest request waits for admission
    REFUSED = auto()  # the rest of a refused request; it is skipped
    NOTHING = auto()  # no request: the connection is about to be closed


REQUEST, HEAD, BODY, WAITING, REFUSED, NOTHING = Next


class _Refused(Exception):
    """Raised in a parser's callback to stop parsing an invalid request."""


class HttpProtocol(HttpToolsProtocol):
    """Uvicorn's HTTP/1.1 protocol, with arrival times, admission control and limits.

    A connection parses and answers one request at a time. Pipelined requests wait as
    bytes, either in `Flow` or in the kernel.

    Each request's ASGI state has three entries. `arrived_s` is the start of the event
    loop's turn in which the request's first byte was read, even if the request then
    waited behind others. `caller` is the `Caller` of the connection. `stop_timer` is a
    function that cancels the time limit for receiving the request. Applications call it
    before they read a long body under their own limits.

    The application's lifespan state may have an `admission`, which decides when a
    request begins. It may also have a mapping `direct` of functions that may answer a
    whole request without an ASGI cycle, and a function `trace` that decides which
    requests are traced.
    """

    # Seconds for a request to arrive completely, and for a new connection to begin one.
    receive_s: ClassVar[float] = 10.0
    # Seconds after which a connection closes if the caller reads no byte of the
    # answers.
    unread_s: ClassVar[float] = 60.0
    # Maximum size in bytes of a request's line and headers, and maximum number of
    # headers.
    head_limit: ClassVar[int] = 64 << 10
    header_limit: ClassVar[int] = 256
    # Maximum number of open connections; further ones are answered with 503 and
    # closed.
    connection_limit: ClassVar[int] = 4096

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.caller = Caller(prompt=True)
        self.read_s = 0.0  # start of the turn that read the latest bytes
        self._turn = turn_of(self.loop)
        self._rests = rests_of(self.loop)
        # if an application is mounted in another, it must not answer the other's
        # requests
        ours = self.app_state.get("application") is self.config.app
        state = self.app_state if ours else {}
        self._admission: Admission | None = state.get("admission")
        self._replies: RawReplies | None = state.get("replies")
        self._unparsed_bytes: HeldBytes | None = state.get("unparsed_bytes")
        self._trace: Sampling | None = state.get("trace")
        self._heads: KnownHeads | None = state.get("heads")
        self._direct: Mapping[tuple[bytes, bytes], Direct] = state.get("direct", {})
        if self.access_log or self.limit_concurrency is not None or self.root_path:
            self._direct, self._heads = {}, None
        # state of the connection
        self._next = REQUEST
        # True if the next bytes may have waited in the kernel, as the connection waited
        # to be accepted, or rested
        self._was_unread = True
        self._delayed = b""  # while WAITING: bytes of a request that came alone
        self._skip = 0  # while REFUSED: number of bytes to skip
        self._ends = list[int]()  # positions after each whole unparsed request
        # seconds of the rest that is due when all bytes are parsed; 0 if none is
        self._rest_due_s = 0.0
        self._ends_due = False  # True if `_ends` is to be determined
        # replies that will be written together; None if each is written at once
        self._joined: list[bytes] | None = None
        self._go_on_due = False  # True if `_go_on` will be called in a later turn
        self._leaving = False  # True if `shutdown` was called while bytes wait
        self._receive_timer: asyncio.TimerHandle | None = None
        self._idle_since_s = 0.0
        self._closes_unless_body = False
        # the request that is being read
        self._request = IncomingRequest(0.0)
        # while the parser reads a request that was answered before: returns the answer
        self._answer_known: Direct | None = None
        # state of the bytes that are being parsed
        self._head_bytes = 0
        self._may_begin = True  # True if a request may begin in these bytes
        self._begins_behind = False  # True if a second request began in these bytes
        self._untimed = False  # True if a request began whose timer is not set yet

    def connection_made(  # type: ignore[override]  # as uvicorn does
        self, transport: asyncio.Transport
    ) -> None:
        """Accept the connection, or refuse it if too many connections are open."""
        super().connection_made(transport)
        limit = self._unparsed_bytes
        self.flow = self._flow = Flow(
            transport, None if limit is None else limit.body()
        )
        self._reader = ReaderWatch(self.loop, transport, self.unread_s)
        if self._admission is not None:
            self._admission.accept()
        if len(self.connections) > self.connection_limit:
            self._refuse(503, "too many connections are open", "overloaded")
        else:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Mark the caller as disconnected, and stop all timers."""
        self.caller.gone = True
        self._hand_over()
        self._next, self._delayed = NOTHING, b""
        self._clear_unparsed()
        self._stop_timer()
        self._reader.stop()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn closes
        """Note that the caller sends no more bytes.

        Returns True, to keep the connection open, if answers are still to be sent; the
        connection is closed after them. Returns False for TLS, because TLS cannot close
        only one direction.
        """
        self.caller.ended = True
        return self._has_unanswered() and self.scheme == "http"

    def _has_unanswered(self) -> bool:
        """Return True if an answer is unfinished or unparsed bytes are left."""
        if self._flow.unparsed or self._next is WAITING:
            return True
        return self._next is REQUEST and not self._is_answered()

    def _close_if_ended(self) -> None:
        if self.caller.ended and not (
            self.transport.is_closing() or self._has_unanswered()
        ):
            self._close()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes: parse, delay or refuse the request in them."""
        if self._next is not REQUEST or self._flow.unparsed or not self._is_idle():
            self._take(data)
            return
        now_s = time.monotonic()
        self.read_s = turn_s = self._turn.began_s(now_s, self.loop)
        end = data.find(END)
        known = None if self._heads is None else self._heads.find(data, end)
        if (
            known is None
            and (data.find(END, end + 4) >= 0 or len(data) > PIECE)
            and not is_the_only_one(data, end, PIECE)
        ):
            self._keep(data)
            return
        self.caller.read_s = now_s
        admission = self._admission
        if admission is not None and data[0] not in READING:
            waited_s = 0.0
            if self._was_unread:
                self._was_unread, waited_s = False, seconds_unread(self.transport)
                self.read_s -= waited_s
            if not admission.enter(turn_s, waited_s):
                self._delay_or_shed(admission, data, now_s, waited_s)
                return
        self._begin(data, end, known)

    def _begin(self, data: bytes, end: int, known: KnownHead | None) -> None:
        """Begin the request in `data`, whose head ends at position `end`."""
        if known is not None:
            self._answer(known, data, end)
            return
        self._read(data, end)
        if self._heads is not None and self._request.direct is not None:
            self._heads.learn(data, end, self._request)

    def _answer(self, known: KnownHead, data: bytes, end: int) -> None:
        """Answer the whole request in `data`, whose head ends at position `end`."""
        caller = self.caller
        if self._receive_timer is not None:
            self._stop_timer()
        if known.naming:
            caller.ids = read_ids(known.naming)
        if self._trace is not None:
            caller.ids = self._trace(caller.ids, self.read_s)
        body, at_end = data[end + len(END) :], self._turn.at_end
        given = body, self.read_s, caller, at_end
        answer = known.answerer(RawRequest(known.query, known.headers, *given))
        if isinstance(answer, bytes):
            self._send_answer(answer, keeps=True)
            return
        # an ASGI cycle needs what the parser finds
        self._answer_known = lambda _: answer
        self._read(data, end)
        self._answer_known = None

    def _read(self, data: bytes, end: int = -1) -> None:
        """Parse bytes in which at most one request ends.

        At the end of a request, the parser calls `on_message_complete`, which starts
        the answer or writes it at once. `end` is the position in `data` where the head
        ends, or -1 if the head does not end in `data`.
        """
        if self._next is REQUEST:
            data, self._may_begin = _without_offer(data, end), True
            self._head_bytes = end if end >= 0 else len(data)
        else:
            self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        # the offer of another protocol is ignored
        except httptools.HttpParserUpgrade as offer:
            if (rest := offer.args[0]) < len(data):
                self._keep(data, rest)
        except httptools.HttpParserError as error:
            if self._begins_behind:
                self._keep_second_request(data)
            else:
                why = error.__context__
                said = _why_not_http(data)
                self.logger.warning(said)
                self._refuse(400, str(why) if isinstance(why, _Refused) else said)
        if self._next is not REQUEST:
            self._check_incomplete()

    def _keep_second_request(self, data: bytes) -> None:
        """Keep a second request's bytes, and replace the parser that failed at them."""
        self._hand_over()  # as only the old parser knows the first request's method
        self._begins_behind, self.parser = False, self._new_parser()
        self._keep(
            data, data.find(END) + len(END) + (length_in(self._request.headers) or 0)
        )

    def _check_incomplete(self) -> None:
        """Check the limits of an incomplete request, and set its timer.

        If the body comes in several pieces, an ASGI cycle starts now, because the
        application counts the bytes of bodies in memory.
        """
        if self._next is NOTHING:
            return
        self._unset_keepalive_if_required()
        if self._untimed:
            self._untimed = False
            self._start_timer()
        if self._request.pieces:
            self._begin_cycle()
        if why := self._exceeded_limit():
            self._refuse(400, why)

    def _exceeded_limit(self) -> str:
        """Return an error message if the headers exceed a limit; otherwise ""."""
        if self._head_bytes > self.head_limit:
            return f"the headers are over the limit of {self.head_limit:,} bytes"
        if len(self._request.section) > self.header_limit:
            return f"there are more than {self.header_limit} headers"
        return ""

    def _take(self, data: bytes) -> None:
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
        if not self._flow.unparsed and self._next is not WAITING:
            self.read_s = self._turn.began_s(now_s, self.loop)
            if self._next is BODY and len(data) <= (self._missing() or 0):
                self._read(data)
                return
        self._keep(data)

    def _keep(self, data: bytes, start: int = 0) -> None:
        """Keep `data[start:]` for a later turn, and pause reading until then."""
        try:
            self._flow.keep(data, start)
            self._ends_due = True
            self._go_on_soon()
        except Overloaded:
            assert self._replies is not None  # if there is a limit, there are replies
            default = self.server_state.default_headers
            self._send_and_close(self._replies.refusal(default, keeps=False))

    def _clear_unparsed(self) -> None:
        self._flow.clear()
        if not self.transport.is_closing():
            self._flow.resume_reading()

    def _go_on_soon(self) -> None:
        if not self._go_on_due:
            self._go_on_due = True
            self._turn.later(self._go_on)

    def _go_on(self) -> None:
        self._go_on_due = False
        if self.transport.is_closing():
            self._clear_unparsed()
        elif self._flow.unparsed and self._next is not WAITING:
            now_s = time.monotonic()
            if self._next is REQUEST and self._is_idle():
                self._refuse_oldest(now_s)
            self._parse_pieces(now_s)
        if self._rest_due_s and not self._flow.unparsed:
            self._rest(self._rest_due_s)
            self._rest_due_s = 0.0
        if self._leaving and not self._flow.unparsed:
            self.shutdown()
        self._close_if_ended()

    def _refuse_oldest(self, now_s: float) -> None:
        """Refuse those of many pipelined requests that would be answered too late."""
        if self._admission is None:
            return
        data, at = self._flow.unparsed, self._flow.at
        if self._ends_due:
            self._ends_due, self._ends = False, ends_of(data, at)
        first = bisect_right(self._ends, at)
        count, waited_s = len(self._ends) - first, now_s - self.read_s
        late = 0
        if count > 1 or len(data) >= FULL:
            given = count, waited_s, self._flow.pause_s, self._turn.waiting
            room = self._admission.room_behind(*given)
            late = count - (0 if len(data) >= FULL else room)
        if late <= 0:
            return
        assert self._replies is not None  # if there is an admission, there are replies
        default = self.server_state.default_headers
        self._send(self._replies.refusal(default, count=late), keeps=True, count=late)
        self._flow.at = self._ends[first + late - 1]
        if self._flow.at == len(data):
            self._clear_unparsed()
        self._rest_due_s = self._admission.refused(now_s)

    def _admits_next(self, now_s: float) -> bool:
        """Return True if the next request in the unparsed bytes begins now."""
        if not self._is_idle():
            return False
        lines = _EMPTY_LINES.match(self._flow.unparsed, self._flow.at)
        self._flow.at = lines.end() if lines else self._flow.at
        if self._flow.at == len(self._flow.unparsed):
            self._clear_unparsed()
            return False
        self.caller.read_s = now_s
        if self._admission is not None:
            self._admission.enter_behind(now_s)
        return True

    def _parse_pieces(self, now_s: float) -> None:
        """Parse waiting bytes, for at most about `PIECES_S` seconds.

        Replies that are there meanwhile are written together.
        """
        until_s, self._joined = now_s + PIECES_S, []
        while self._flow.unparsed:
            if self._next is REQUEST and not self._admits_next(now_s):
                break
            data, start = self._flow.unparsed, self._flow.at
            end = self._end_of_piece(data, start)
            if end < len(data):
                self._flow.at = end
            else:
                self._clear_unparsed()
            piece = data[start:end]
            self._read(piece, len(piece) - len(END) if piece.endswith(END) else -1)
            now_s = time.monotonic()
            if self._next is NOTHING or now_s > until_s:
                break
        self._write_joined()
        if self._flow.unparsed and (self._next is not REQUEST or self._is_idle()):
            self._go_on_soon()

    def _write_joined(self) -> None:
        joined, self._joined = self._joined, None
        if joined:
            self.transport.write(b"".join(joined))

    def _end_of_piece(self, data: bytes, start: int) -> int:
        """Return the position after the piece of `data` that begins at `start`.

        At most one request ends in a piece. If the length of the body is known, the
        piece ends with the body. Otherwise it ends after an empty line, where heads and
        chunked bodies end, or after `PIECE` bytes.
        """
        missing = self._missing() if self._next is BODY else None
        if missing is not None:
            return min(start + missing, len(data))
        # the piece before ended inside the empty line
        if self._next is not REQUEST and (line := _LINE_END.match(data, start)):
            return line.end()
        end = data.find(END, start, start + PIECE)
        return min(start + PIECE, len(data)) if end < 0 else end + len(END)

    def _missing(self) -> int | None:
        """Return the number of body bytes still to come; None for a chunked body."""
        length = length_in(self._request.headers)
        return None if length is None else max(length - self._request.passed_bytes, 1)

    def on_message_begin(self) -> None:
        """Start a new request. The parser calls this at the request's first byte."""
        if not self._may_begin:
            self._begins_behind = True
            raise _Refused("this is behind another request")
        self._may_begin = False
        self._request = IncomingRequest(self.read_s)
        self._next, self._untimed = HEAD, True

    def on_url(self, url: bytes) -> None:
        """Append a piece of the request's target. The parser passes it in pieces."""
        self._request.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header to the request; note what it says if it is in `_SAYING`."""
        name = name.lower()
        request = self._request
        request.section.append((name, value))
        if name in _SAYING:
            if name == b"connection":
                request.names_connection = True
            elif name == b"expect":
                request.expects_continue |= value.lower() == b"100-continue"
            else:
                request.naming += (name, value)

    def on_headers_complete(self) -> None:
        """Start an ASGI cycle, unless the request may be answered without one.

        The parser calls this at the end of the headers.
        """
        request = self._request
        if why := self._exceeded_limit():
            raise _Refused(why)
        request.section = []
        parser = self.parser
        if self._answer_known is None:
            if request.naming:
                self.caller.ids = read_ids(request.naming)
            if self._trace is not None and parser.get_method() == b"POST":
                self.caller.ids = self._trace(self.caller.ids, request.arrived_s)
        offers = parser.should_upgrade()
        if offers and self._has_body():
            # such an offer came in several reads, so it was not removed; the parser
            # would not read the body
            raise _Refused("an upgrade is offered with a body")
        path, asks, query = request.target.partition(b"?")
        answerer = self._direct.get((parser.get_method(), path))
        if answerer is None or request.expects_continue or offers:
            self._begin_cycle()
        else:
            if asks:
                query = httptools.parse_url(request.target).query or b""
            request.query, request.direct = query, answerer
            request.answerer = self._answer_known or answerer
        self._next = BODY

    def _begin_cycle(self, planned: object = None) -> None:
        """Start an ASGI cycle.

        `planned`, if not None, is what a direct function returned for the application;
        it becomes an entry of the request's state.
        """
        self._unset_keepalive_if_required()
        self._note_that_it_goes_on()
        request = self._request
        request.answerer = None
        headers, expects = request.headers, request.expects_continue
        if not request.target.startswith(b"/"):
            headers = with_host_of(request.target, headers)
        super().on_message_begin()  # makes a new scope
        self.url, self.expect_100_continue = request.target, expects
        self.headers += headers  # the scope has this list
        state = self.scope["state"]
        state["arrived_s"] = request.arrived_s
        state["caller"] = self.caller
        state["stop_timer"] = self._stop_timer
        if planned is not None:
            state["planned"] = planned
        super().on_headers_complete()
        if self.caller.ids is not None:
            default = self.cycle.default_headers
            self.cycle.default_headers = [*default, *self.caller.ids.headers()]
        self.headers = []  # otherwise uvicorn would find the offered upgrade again
        if expects and self.cycle.keep_alive:
            # The answer may be sent before the body comes, and then nobody knows if the
            # body will follow.
            self.cycle.keep_alive, self._closes_unless_body = False, True
        pieces, request.pieces = request.pieces, []
        for piece in pieces:
            self.on_body(piece)

    def _note_that_it_goes_on(self) -> None:
        if self._admission is not None:
            self._admission.goes_on()

    def _hand_over(self) -> None:
        """Let an ASGI cycle answer the latest request, if nothing has answered it."""
        later = self._request.later
        if later is not None:
            self._continue_in_cycle(later.stop())
        elif self._request.answerer is not None:
            self._begin_cycle()

    def _continue_in_cycle(self, planned: object) -> None:
        """Let an ASGI cycle answer a complete request that waited without one."""
        request = self._request
        request.later = None
        self._begin_cycle(planned)
        self.cycle.keep_alive = request.keeps  # the parser does not know it any more
        super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        """Pass a piece of the body to the ASGI cycle, or keep it if none has started.

        The parser calls this for each piece.
        """
        self._head_bytes = 0
        request = self._request
        if request.answerer is not None:
            request.pieces.append(body)
            return
        request.passed_bytes += len(body)
        self._keep_open_if_body_came()
        super().on_body(body)

    def _keep_open_if_body_came(self) -> None:
        """Keep the connection open if the body came before the response began."""
        if self._closes_unless_body and not self.cycle.response_started:
            self.cycle.keep_alive, self._closes_unless_body = True, False

    def on_message_complete(self) -> None:
        """Answer without ASGI, or tell the ASGI cycle that the request is complete.

        The parser calls this at the end of the request.
        """
        if self._receive_timer is not None:
            self._stop_timer()
        self._next = REQUEST
        request = self._request
        if request.answerer is not None:
            request.keeps = self._keeps()
            answer = request.answerer(self._raw_request())
            if isinstance(answer, bytes):
                self._answered(answer)
                return
            if isinstance(answer, Later):
                request.later = answer
                self._note_that_it_goes_on()
                answer.begin(self._came)
                return
            self._begin_cycle(answer)
        self._keep_open_if_body_came()
        super().on_message_complete()

    def _raw_request(self) -> RawRequest:
        request = self._request
        pieces = request.pieces
        return RawRequest(
            request.query,
            request.headers,
            pieces[0] if len(pieces) == 1 else b"".join(pieces),
            request.arrived_s,
            self.caller,
            self._turn.at_end,
        )

    def _keeps(self) -> bool:
        """Return True if the connection stays open after this complete request."""
        # HTTP/1.0 closes, even if it asks for keep-alive
        return bool(self.parser.should_keep_alive()) and (
            not self._request.names_connection
            or self.parser.get_http_version() != "1.0"
        )

    def _came(self, answer: object) -> None:
        """Write an answer that was waited for, or let an ASGI cycle continue."""
        request = self._request
        if not isinstance(answer, bytes):
            self._continue_in_cycle(answer)
            return
        request.later = None
        self._answered(answer)
        self._idle_since_s = time.monotonic()
        if self._flow.unparsed:
            self._go_on_soon()
        else:
            self._close_if_ended()

    def _answered(self, answer: bytes) -> None:
        """Write a response with the JSON `answer`, which was computed without ASGI."""
        request = self._request
        request.answerer, request.pieces = None, []
        self._send_answer(answer, keeps=request.keeps)

    def _send_answer(self, answer: bytes, *, keeps: bool) -> None:
        # if there are direct functions, there are replies
        assert self._replies is not None
        ids, more = self.caller.ids, b""
        if ids is not None:
            self.caller.ids, more = None, ids.lines
        default = self.server_state.default_headers
        reply = self._replies.ok(default, answer, keeps=keeps, more=more)
        self._send(reply, keeps=keeps)

    def _send(self, reply: bytes, *, keeps: bool, count: int = 1) -> None:
        """Write replies to `count` requests; close the connection unless `keeps`."""
        self.server_state.total_requests += count
        if self._joined is None:
            self.transport.write(reply)
        else:
            self._joined.append(reply)
        if not keeps:
            self._close()
            return
        # One timer serves many answers: setting a timer for each answer takes longer
        # than checking the time when this one ends.
        self._idle_since_s = self.caller.read_s
        if self.timeout_keep_alive_task is None:
            self._close_in(self.timeout_keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if no request came for the whole keep-alive time."""
        left_s = self._idle_since_s + self.timeout_keep_alive - time.monotonic()
        if self._request.later is not None or self._next is WAITING:
            self._close_in(self.timeout_keep_alive)
        elif left_s > 0:
            self._close_in(left_s)
        else:
            self._close()

    def on_response_complete(self) -> None:
        """Continue with the next request if its bytes were already received.

        Uvicorn calls this when an answer is complete.
        """
        super().on_response_complete()
        self.caller.ids = None
        if self.transport.is_closing():
            self._reader.start()
        elif self._flow.unparsed:
            self._go_on_soon()
        else:
            self._close_if_ended()

    def pause_writing(self) -> None:
        """Pause sending, and note that the caller reads slowly.

        The event loop calls this when too many bytes wait to be sent.
        """
        self.caller.prompt = False
        super().pause_writing()
        self._reader.start()

    def resume_writing(self) -> None:
        """Resume sending, and parse the requests that waited.

        The event loop calls this when the caller has read enough bytes.
        """
        super().resume_writing()
        if not self.transport.is_closing():
            self._reader.stop()
            if self._flow.unparsed:
                self._go_on_soon()

    def shutdown(self) -> None:
        """Close the connection after all received requests are answered."""
        self._resume()
        self._leaving = bool(self._flow.unparsed)
        if self._leaving:
            return
        self._hand_over()
        self._closes_unless_body = False
        super().shutdown()
        self._reader.start()

    def _is_answered(self) -> bool:
        """Return True if no complete request waits for its answer."""
        cycle = self.cycle
        done = cycle is None or cycle.response_complete
        return done and self._request.later is None

    def _is_idle(self) -> bool:
        """Return True if no answer is being written, so that a request may begin."""
        return self._is_answered() and not (
            self.flow.write_paused or self.transport.is_closing()
        )

    def _delay_or_shed(
        self, admission: Admission, data: bytes, now_s: float, waited_s: float
    ) -> None:
        """Queue a request for admission, or refuse it if the wait is too long."""
        if is_never_refused(data):
            self._read(data, data.find(END))
            return
        if admission.hold(self._resume, waited_s):
            self._delayed, self._next = data, WAITING
            return
        self._shed(data)
        rest_s = admission.refused(now_s)
        if not waited_s:  # who was not read for so long need not rest again
            self._rest(rest_s)

    def _rest(self, rest_s: float) -> None:
        """Do not read the connection for `rest_s` seconds, unless a request has begun.

        The caller was refused, and asked to wait. What comes all the same waits in the
        kernel, where it costs nothing.
        """
        between = self._next is REQUEST and not self._flow.unparsed
        if rest_s and between and not self.transport.is_closing():
            self._flow.pause_reading()
            self._rests.add(rest_s, self._end_rest, self._room)

    def _room(self) -> int:
        """Return how many requests may begin in this turn; 0 if others wait."""
        assert self._admission is not None
        return 0 if self._turn.waiting else self._admission.room()

    def _end_rest(self) -> None:
        if not self.transport.is_closing():
            self._was_unread = True
            self._flow.resume_reading()

    def _resume(self) -> None:
        """Begin the request that waited for admission."""
        if self._next is not WAITING:
            return
        data, self._delayed, self._next = self._delayed, b"", REQUEST
        if self.transport.is_closing():
            return
        self.caller.read_s = now_s = time.monotonic()
        if data:
            end = data.find(END)
            known = None if self._heads is None else self._heads.find(data, end)
            self._begin(data, end, known)
            if self._flow.unparsed:
                self._go_on_soon()
        else:
            self._parse_pieces(now_s)
        self._close_if_ended()

    def _shed(self, data: bytes, start: int = 0) -> None:
        """Refuse the request at `data[start:]` with status 429, without parsing it."""
        assert self._replies is not None  # if there is an admission, there are replies
        end = data.find(END, start, start + LONGEST_HEAD + len(END))
        framing = framing_of(data[start:end]) if end > start else None
        length, keeps = (0, False) if framing is None else framing
        self._stop_timer()
        said = self._replies.refusal(self.server_state.default_headers, keeps=keeps)
        self._send(said, keeps=True)
        self._clear_unparsed()
        over = end + len(END) + length - len(data)  # number of bytes still to come
        if not keeps:
            self._close_soon(at_once=framing is not None and over <= 0)
        elif over > 0:
            self._skip, self._next = over, REFUSED
            self._start_timer(self._close_soon)
        elif over < 0:
            self._keep(data, over + len(data))

    def _close_soon(self, *, at_once: bool = False) -> None:
        """Close the connection after `LINGER_S` seconds, or at once if `at_once`.

        While the caller still sends, closing at once would lose the reply.
        """
        self._next = NOTHING
        self._stop_timer()
        linger_s = 0.0 if at_once else LINGER_S
        self._receive_timer = self.loop.call_later(linger_s, self._close)

    def _close(self) -> None:
        self._write_joined()
        self.transport.close()
        self._reader.start()

    def _close_in(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    def _start_timer(self, then: Callable[[], None] | None = None) -> None:
        self._stop_timer()
        self._receive_timer = self.loop.call_later(
            self.receive_s, then or self._time_out
        )

    def _stop_timer(self) -> None:
        if self._receive_timer is not None:
            self._receive_timer.cancel()
            self._receive_timer = None

    def _time_out(self) -> None:
        seconds = f"{self.receive_s:g} s"
        self._refuse(408, f"no whole request came within {seconds}", "receive_timeout")

    def _has_body(self) -> bool:
        names = {name for name, _ in self._request.headers}
        return not names.isdisjoint((b"content-length", b"transfer-encoding"))

    def _refuse(self, status: int, error: str, code: str = "bad_input") -> None:
        """Send an error response and close the connection."""
        failure = Failure(error, code)
        self._send_and_close(reply_bytes(error_reply(status, failure, CLOSE)))

    def _send_and_close(self, reply: bytes) -> None:
        """Send a reply and close; if another answer has begun, only close."""
        if self.transport.is_closing():
            return
        self._write_joined()
        self._hand_over()  # so that the application counts the abandoned request
        cycle, begun, self._next = self.cycle, self._next is BODY, NOTHING
        if (
            cycle is None
            or not cycle.response_started
            or (cycle.response_complete and not begun)
        ):
            self.transport.write(reply)
        self._close()

    def _new_parser(self) -> Any:
        parser = httptools.HttpRequestParser(self)
        with contextlib.suppress(AttributeError):  # missing in httptools before 0.6.3
            parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser
