"""Uvicorn's HTTP/1.1 protocol, with arrival times, admission control and limits."""

import asyncio
import re
import time
from bisect import bisect_right
from typing import Any, ClassVar

from ..runtime.admission_control.admission import Admission
from ..schema.request_ids import read_ids
from .connection import BODY, NOTHING, REFUSED, REQUEST, WAITING
from .known_heads import KnownHead, KnownHeads
from .parsing_connection import PIECE, ParsingConnection
from .raw_request import (
    END,
    LONGEST_HEAD,
    READING,
    RawRequest,
    framing_of,
    is_never_refused,
    is_the_only_one,
)
from .rests import rests_of, seconds_unread

_EMPTY_LINES = re.compile(rb"[\r\n]*")
# If at least so many bytes were read at a time, more wait in the kernel. Then these are
# not the latest requests of the connection.
FULL = 200_000
# Longest time in seconds of one turn for parsing pieces of a body.
PIECES_S = 0.0005


class HttpProtocol(ParsingConnection):
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

    # Maximum number of open connections; further ones are answered with 503 and
    # closed.
    connection_limit: ClassVar[int] = 4096

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rests = rests_of(self.loop)
        # known heads are of use only if direct functions answer
        heads = self._lifespan.get("heads") if self._direct else None
        self._heads: KnownHeads | None = heads
        # True if the next bytes may have waited in the kernel, as the connection waited
        # to be accepted, or rested
        self._was_unread = True
        self._delayed = b""  # while WAITING: bytes of a request that came alone
        self._skip = 0  # while REFUSED: number of bytes to skip
        # seconds of the rest that is due when all bytes are parsed; 0 if none is
        self._rest_due_s = 0.0
        self._leaving = False  # True if `shutdown` was called while bytes wait

    def connection_made(  # type: ignore[override]  # as uvicorn does
        self, transport: asyncio.Transport
    ) -> None:
        """Accept the connection, or refuse it if too many connections are open."""
        super().connection_made(transport)
        if self._admission is not None:
            self._admission.accept()
        if len(self.connections) > self.connection_limit:
            self._refuse(503, "too many connections are open", "overloaded")
        else:
            self._start_timer(self._time_out)

    def connection_lost(self, exc: Exception | None) -> None:
        """Mark the caller as disconnected, and drop what it sent."""
        self._delayed = b""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle received bytes: parse, delay or refuse the request in them."""
        if self._next is not REQUEST or self._flow.unparsed or not self._is_idle():
            self._take(data)
            return
        now_s = time.monotonic()
        self.read_s = turn_s = self._turn.began_s(now_s, self.loop)
        end = data.find(END)
        known = self._find(data, end)
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
        if known is None:
            self._parse(data, end)
        else:
            self._answer(known, data, end)

    def _find(self, data: bytes, end: int) -> KnownHead | None:
        """Return what is known of the request in `data`; None if nothing is."""
        return None if self._heads is None else self._heads.find(data, end)

    def _begin(self, data: bytes, end: int) -> None:
        """Begin the request in `data`, whose head ends at position `end`."""
        known = self._find(data, end)
        if known is None:
            self._parse(data, end)
        else:
            self._answer(known, data, end)

    def _parse(self, data: bytes, end: int) -> None:
        """Parse bytes that begin with a request, and remember its head."""
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

    def _go_on(self) -> None:
        super()._go_on()
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
        ends = self._flow.ends()
        first = bisect_right(ends, at)
        count, waited_s = len(ends) - first, now_s - self.read_s
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
        self._flow.at = ends[first + late - 1]
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
            whole_end = self._end_of_whole(start)
            end = whole_end or self._end_of_piece(data, start)
            if end < len(data):
                self._flow.at = end
            else:
                self._clear_unparsed()
            piece = data[start:end]
            if whole_end:
                self._begin(piece, piece.find(END))
            else:
                self._read(piece, len(piece) - len(END) if piece.endswith(END) else -1)
            now_s = time.monotonic()
            if self._next is NOTHING or now_s > until_s:
                break
        self._write_joined()
        if self._flow.unparsed and (self._next is not REQUEST or self._is_idle()):
            self._go_on_soon()

    def _end_of_whole(self, start: int) -> int:
        """Return the position after the request that begins at `start` of the bytes.

        Returns 0 if no short and whole request certainly begins there.
        """
        if self._next is not REQUEST:
            return 0
        ends = self._flow.ends()
        k = bisect_right(ends, start)
        return ends[k] if k < len(ends) and ends[k] - start <= PIECE else 0

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
        self.caller.read_s = time.monotonic()
        self._begin(data, data.find(END))
        if self._flow.unparsed:
            self._go_on_soon()
        self._close_if_ended()

    def _shed(self, data: bytes) -> None:
        """Refuse the request in `data` with status 429, without parsing it."""
        assert self._replies is not None  # if there is an admission, there are replies
        end = data.find(END, 0, LONGEST_HEAD + len(END))
        framing = framing_of(data[:end]) if end > 0 else None
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

    def shutdown(self) -> None:
        """Close the connection after all received requests are answered."""
        self._resume()
        self._leaving = bool(self._flow.unparsed)
        if not self._leaving:
            super().shutdown()
