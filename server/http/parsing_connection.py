"""A connection's parser: reads requests from bytes, and limits their size."""

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import httptools

from ..errors import Overloaded
from ..schema.request_ids import NAMES, RequestIds, read_ids
from .answering_connection import AnsweringConnection
from .connection import BODY, HEAD, NOTHING, REQUEST
from .raw_request import (
    END,
    Direct,
    IncomingRequest,
    Later,
    RawRequest,
    asks_for_answers,
    length_in,
)

# Headers by which browsers, Java and curl offer another protocol. A server may ignore
# the offer (RFC 9110, 7.8). But the parser would not, and would treat the request's
# body as bytes of the other protocol.
_OFFER = re.compile(rb"\r\n(?:upgrade|http2-settings):[^\r\n]*", re.IGNORECASE)
# Headers that say whether the caller waits for "100 Continue", whether the connection
# stays open, and by which ids the caller follows the request.
_SAYING = frozenset((b"expect", b"connection")) | NAMES
_LINE_END = re.compile(rb"\r?\n")
# Bytes of a head, or of a chunked body, that are parsed at a time. They hold at most a
# thousand chunks or headers, and the parser calls a function for each.
PIECE = 4096
# Returns the ids of a request, with its trace if it is sampled. The arguments are those
# that the caller gave, if any, and the time of the first byte.
Sampling = Callable[[RequestIds | None, float], RequestIds | None]


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


class _Refused(Exception):
    """Raised in a parser's callback to stop parsing an invalid request."""


class ParsingConnection(AnsweringConnection):
    """A connection that reads one request at a time with uvicorn's parser.

    The parser calls the methods whose names begin with `on_`.
    """

    # Maximum size in bytes of a request's line and headers, and maximum number of
    # headers.
    head_limit: ClassVar[int] = 64 << 10
    header_limit: ClassVar[int] = 256

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.read_s = 0.0  # start of the turn that read the latest bytes
        self._trace: Sampling | None = self._lifespan.get("trace")
        self._direct: Mapping[tuple[bytes, bytes], Direct]
        self._direct = self._lifespan.get("direct", {})
        if self.access_log or self.limit_concurrency is not None or self.root_path:
            self._direct = {}
        # while the parser reads a request that was answered before: returns the answer
        self._answer_known: Direct | None = None
        # state of the bytes that are being parsed
        self._head_bytes = 0
        self._may_begin = True  # True if a request may begin in these bytes
        self._begins_behind = False  # True if a second request began in these bytes
        self._untimed = False  # True if a request began whose timer is not set yet

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
            self._start_timer(self._time_out)
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

    def _keep(self, data: bytes, start: int = 0) -> None:
        """Keep `data[start:]` for a later turn, and pause reading until then."""
        try:
            self._flow.keep(data, start)
            self._go_on_soon()
        except Overloaded:
            assert self._replies is not None  # if there is a limit, there are replies
            default = self.server_state.default_headers
            self._send_and_close(self._replies.refusal(default, keeps=False))

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
            trace = self._trace
            if (
                trace is not None
                and parser.get_method() == b"POST"
                and asks_for_answers(request.target)
            ):
                self.caller.ids = trace(self.caller.ids, request.arrived_s)
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

    def on_body(self, body: bytes) -> None:
        """Pass a piece of the body to the ASGI cycle, or keep it if none has started.

        The parser calls this for each piece.
        """
        self._head_bytes = 0
        request = self._request
        if request.answerer is not None:
            request.pieces.append(body)
            return
        self._pass_body(body)

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

    def _has_body(self) -> bool:
        names = {name for name, _ in self._request.headers}
        return not names.isdisjoint((b"content-length", b"transfer-encoding"))

    def _new_parser(self) -> Any:
        parser = httptools.HttpRequestParser(self)
        with contextlib.suppress(AttributeError):  # missing in httptools before 0.6.3
            parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser
