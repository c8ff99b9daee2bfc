"""HTTP/1.1 by uvicorn, with the time at which each request's first byte was read."""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .admission import Admission
from .errors import Failure
from .question import Caller
from .ready_made import UNREFUSED, ReadyMade, framing_of
from .schema_predict import encode
from .shortcut import Head, Shortcut
from .turn import turn_of

# Browsers, Java and curl offer other protocols, which may be ignored (RFC 9110, 7.8);
# the parser would take such a request's body for the other protocol.
_OFFER = re.compile(rb"\r\n(?:upgrade|http2-settings):[^\r\n]*", re.IGNORECASE)


# The first byte of what may be a probe.
GET = ord("G")
# Longest wait for a caller who was refused to have read so, and to have gone.
LINGER_S = 1.0


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
        # an application mounted in another has no say in what comes for that one
        ours = self.app_state.get("application") is self.config.app
        state = self.app_state if ours else {}
        self._shortcut: Shortcut | None = state.get("shortcut")
        if self.access_log or self.limit_concurrency is not None or self.root_path:
            self._shortcut = None
        self._admission: Admission | None = state.get("admission")
        self._ready_made: ReadyMade | None = state.get("ready_made")
        self._waited_s = 0.0  # of the first request, for the connection to be taken
        self._held: bytes | None = None
        self._skip = 0
        self._sets_aside = False  # for either, or for a refusal
        self._between = True
        self._raw_head: bytes | None = None
        self._idle_since_s = 0.0
        self._read_bytes = 0
        self._first_in_read = True
        self._refusal: bytes | None = None
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
            self._wait_patiently()

    def data_received(self, data: bytes) -> None:
        """Take the time; then begin with a request, or with what to do instead."""
        if self._sets_aside:
            data = self._set_aside(data)
            if not data:
                return
        now_s = time.monotonic()
        self.read_s = self._turn.began_s(now_s, self.loop)
        if self._between:
            self.caller.read_s = now_s
            if data[0] == GET and self._probed(data):
                return
            admission = self._admission
            if admission is not None and not admission.enter(now_s, self._waited_s):
                self._put_off(admission, data, now_s)
                return
            self._waited_s = 0.0
        self._begin(data)

    def _begin(self, data: bytes) -> None:
        """Answer by the shortcut, or parse."""
        if self._between:
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
        self._first_in_read = self._between
        super().data_received(data)
        if not self._between and self._head_bytes > self.head_limit:
            limit = f"{self.head_limit:,} bytes"
            self._refuse(400, f"the headers are over the limit of {limit}")

    def on_message_begin(self) -> None:
        """Stamp the request that begins; the parser calls this at its first byte."""
        super().on_message_begin()
        self._between = False
        # where it begins within a read, behind others, only the parser knows
        self._in_head = True
        self._head_bytes = self._read_bytes if self._first_in_read else 0
        self._first_in_read = False
        self._wait_patiently()
        self.scope["state"]["arrived_s"] = self.read_s
        self.scope["state"]["caller"] = self.caller
        self.scope["state"]["wait_no_more"] = self._wait_no_more

    def on_headers_complete(self) -> None:
        """Begin to answer, or to wait for the answers to requests before."""
        if (
            self._head_bytes + self._read_bytes > self.head_limit
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
        if self.expect_100_continue and self.cycle.keep_alive:
            # answered before a body came: whether one follows, nobody can know
            self.cycle.keep_alive, self._closes_unread = False, True
        if raw is not None and self._shortcut is not None and self._is_plain():
            self._shortcut.learn(raw, self.url, self.headers)
        # Headers may come behind a body too, and must not pass for those before it.
        self.headers = []

    def on_body(self, body: bytes) -> None:
        """Count what comes between two pieces of a body like headers."""
        self._head_bytes = 0
        if self._closes_unread and not self.cycle.response_started:
            self.cycle.keep_alive, self._closes_unread = True, False
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
        self._held = None
        self._wait_no_more()
        for cycle in self._earlier:  # uvicorn tells only the latest
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Stop sending to a client that does not read, and know it for such."""
        self.caller.prompt = False
        super().pause_writing()

    def shutdown(self) -> None:
        """Close once all is answered, also what waits for its turn."""
        self._resume()
        self._closes_unread = False
        super().shutdown()

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
        count, answer = made
        self.transport.write(
            shortcut.reply_head(self.server_state.default_headers)
            + b"%d\r\n\r\n%b" % (len(answer), answer)
        )
        self._turn.at_end(count)
        self._be_idle()
        return True

    def _be_idle(self) -> None:
        """Wait for the next request, for a while, after an answer without uvicorn's."""
        self.server_state.total_requests += 1
        self._wait_no_more()
        # One timer for many answers: to cancel and set it anew for each takes longer
        # than to look at the time when it is up.
        self._idle_since_s = self.read_s
        if self.timeout_keep_alive_task is None:
            self._close_in(self.timeout_keep_alive)

    def _probed(self, data: bytes) -> bool:
        """Answer a probe before all others; what else must not be refused, in turn."""
        target = data[4 : data.find(b" ", 4, 64)]
        if target not in UNREFUSED or data.find(b"\r\n\r\n") != len(data) - 4:
            return False
        framing = framing_of(data[:-4])
        if self._ready_made is None or framing is None or framing.length:
            return False
        if self._is_idle():
            default = self.server_state.default_headers
            said = self._ready_made.probe(target, default, keeps=framing.keeps)
            if said is not None:
                self._say(said, keeps=framing.keeps)
                return True
        self._begin(data)
        return True

    def _say(self, said: bytes, *, keeps: bool) -> None:
        self.transport.write(said)
        if keeps:
            self._be_idle()
        else:
            self.transport.close()

    def _put_off(self, admission: Admission, data: bytes, now_s: float) -> None:
        """Have a request wait for its turn, or refuse it where it would be late."""
        waited_s, self._waited_s = self._waited_s, 0.0
        if admission.hold(self._resume, waited_s):
            self._unset_keepalive_if_required()
            self._held, self._sets_aside = data, True
        elif self._is_idle():
            self._shed(data)
            admission.refused(now_s)
        else:  # it waits for the answer to one before
            self._begin(data)

    def _resume(self) -> None:
        """Begin with what waited; its time is still that at which it came."""
        data, self._held = self._held, None
        if data is not None:
            self._sets_aside = self._refusal is not None
        if data is not None and not self.transport.is_closing():
            self.flow.resume_reading()
            self.caller.read_s = time.monotonic()
            self._begin(data)

    def _set_aside(self, data: bytes) -> bytes:
        """Throw away what was refused, and keep what waits; the rest is returned."""
        if self._refusal is not None:
            return b""
        if self._held is not None:
            self._held += data
            self.flow.pause_reading()
            return b""
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        if not self._skip:
            self._sets_aside = False
            self._wait_no_more()
        return data[skipped:]

    def _shed(self, data: bytes) -> None:
        """Refuse the requests that were read, without a look at what they ask for."""
        assert self._ready_made is not None
        ready_made, default = self._ready_made, self.server_state.default_headers
        while data:
            end = data.find(b"\r\n\r\n")
            framing = ready_made.framing(data[:end]) if end > 0 else None
            keeps = framing is not None and framing.keeps
            self._say(ready_made.refusal(default, keeps=keeps), keeps=True)
            size = len(data) + 1 if framing is None else end + 4 + framing.length
            if not keeps:
                self._leave(at_once=size <= len(data))
                return
            self._skip = max(size - len(data), 0)
            data = data[size:]
        if self._skip:
            self._sets_aside = True
            self._wait_patiently(self._leave)

    def _leave(self, *, at_once: bool = False) -> None:
        """Close; not at once where the caller may still send.

        They would not see what was said.
        """
        self._refusal, self._sets_aside = b"", True
        self._wait_no_more()
        linger_s = 0.0 if at_once else LINGER_S
        self._patience = self.loop.call_later(linger_s, self.transport.close)

    def _close_in(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    def _wait_patiently(self, then: Callable[[], None] | None = None) -> None:
        self._wait_no_more()
        self._patience = self.loop.call_later(self.receive_s, then or self._give_up)

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
            self._refusal, self._sets_aside = said, True
        elif not in_body and cycle is not None and not cycle.response_complete:
            self._refusal, self._sets_aside = said, True
        else:
            if not in_body or cycle is None or not cycle.response_started:
                self.transport.write(said)
            self.transport.close()
