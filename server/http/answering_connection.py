"""A connection's answers: from ASGI cycles, from direct functions, and refusals."""

import time
from typing import Any

from ..errors import Failure
from ..runtime.admission_control.admission import Admission
from .connection import BODY, NOTHING, REQUEST, WAITING, Connection
from .raw_request import IncomingRequest, with_host_of
from .reply import CLOSE, RawReplies, error_reply, reply_bytes


class AnsweringConnection(Connection):
    """A connection that answers the latest request, with an ASGI cycle or without.

    Subclasses read the request into `_request`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._admission: Admission | None = self._lifespan.get("admission")
        self._replies: RawReplies | None = self._lifespan.get("replies")
        # the request that is being read or answered
        self._request = IncomingRequest(0.0)
        self._closes_unless_body = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Mark the caller as disconnected, and let a cycle end its request."""
        self.caller.gone = True
        self._hand_over()
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

    def _close_if_ended(self) -> None:
        if self.caller.ended and not (
            self.transport.is_closing() or self._has_unanswered()
        ):
            self._close()

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
            self._pass_body(piece)

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

    def _pass_body(self, body: bytes) -> None:
        """Pass a piece of the body to the ASGI cycle."""
        self._request.passed_bytes += len(body)
        self._keep_open_if_body_came()
        super().on_body(body)

    def _keep_open_if_body_came(self) -> None:
        """Keep the connection open if the body came before the response began."""
        if self._closes_unless_body and not self.cycle.response_started:
            self.cycle.keep_alive, self._closes_unless_body = True, False

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

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if no request came for the whole keep-alive time."""
        if self._request.later is not None or self._next is WAITING:
            self._close_in(self.timeout_keep_alive)
        else:
            super().timeout_keep_alive_handler()

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

    def shutdown(self) -> None:
        """Close the connection after the latest request is answered."""
        self._hand_over()
        self._closes_unless_body = False
        super().shutdown()
        self._reader.start()

    def _time_out(self) -> None:
        seconds = f"{self.receive_s:g} s"
        self._refuse(408, f"no whole request came within {seconds}", "receive_timeout")

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
