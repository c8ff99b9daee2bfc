"""One connection: its state, its timers, and the replies that are written to it."""

import asyncio
import time
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..engine.request import Caller
from ..runtime.admission_control.admission import HeldBytes
from .flow import Flow, ReaderWatch
from .loop_turn import turn_of

# Seconds for which a refused caller can read the reason, before the connection closes.
LINGER_S = 1.0


class Next(Enum):
    """What the next received byte belongs to: a part of a request, or no request."""

    REQUEST = auto()  # a new request
    HEAD = auto()
    BODY = auto()
    WAITING = auto()  # no request: the latest request waits for admission
    REFUSED = auto()  # the rest of a refused request; it is skipped
    NOTHING = auto()  # no request: the connection is about to be closed


REQUEST, HEAD, BODY, WAITING, REFUSED, NOTHING = Next


class Connection(HttpToolsProtocol):
    """One connection of uvicorn's HTTP/1.1 protocol.

    Subclasses parse the received bytes, and answer the requests in them. They override
    `_go_on`, and call `_go_on_soon` when bytes wait in `_flow`.
    """

    # Seconds for a request to arrive completely, and for a new connection to begin one.
    receive_s: ClassVar[float] = 10.0
    # Seconds after which a connection closes if the caller reads no byte of the
    # answers.
    unread_s: ClassVar[float] = 60.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.caller = Caller(prompt=True)
        self._turn = turn_of(self.loop)
        # if an application is mounted in another, it must not answer the other's
        # requests
        ours = self.app_state.get("application") is self.config.app
        # the application's lifespan state; empty if it is not to be used
        self._lifespan: Mapping[str, Any] = self.app_state if ours else {}
        self._unparsed_bytes: HeldBytes | None = self._lifespan.get("unparsed_bytes")
        self._next = REQUEST
        # replies that will be written together; None if each is written at once
        self._joined: list[bytes] | None = None
        self._go_on_due = False  # True if `_go_on` will be called in a later turn
        self._receive_timer: asyncio.TimerHandle | None = None
        self._idle_since_s = 0.0

    def connection_made(  # type: ignore[override]  # as uvicorn does
        self, transport: asyncio.Transport
    ) -> None:
        """Begin to control the flow of bytes in both directions."""
        super().connection_made(transport)
        limit = self._unparsed_bytes
        self.flow = self._flow = Flow(
            transport, None if limit is None else limit.body()
        )
        self._reader = ReaderWatch(self.loop, transport, self.unread_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop all unparsed bytes, and stop all timers."""
        self._next = NOTHING
        self._clear_unparsed()
        self._stop_timer()
        self._reader.stop()
        super().connection_lost(exc)

    def _clear_unparsed(self) -> None:
        self._flow.clear()
        if not self.transport.is_closing():
            self._flow.resume_reading()

    def _go_on_soon(self) -> None:
        if not self._go_on_due:
            self._go_on_due = True
            self._turn.later(self._go_on)

    def _go_on(self) -> None:
        """Continue with bytes that wait in `_flow`; subclasses override this."""
        self._go_on_due = False

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

    def _write_joined(self) -> None:
        joined, self._joined = self._joined, None
        if joined:
            self.transport.write(b"".join(joined))

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if no request came for the whole keep-alive time."""
        left_s = self._idle_since_s + self.timeout_keep_alive - time.monotonic()
        if left_s > 0:
            self._close_in(left_s)
        else:
            self._close()

    def pause_writing(self) -> None:
        """Pause sending, and note that the caller reads slowly.

        The event loop calls this when too many bytes wait to be sent.
        """
        self.caller.prompt = False
        super().pause_writing()
        self._reader.start()

    def resume_writing(self) -> None:
        """Resume sending, and continue with bytes that waited.

        The event loop calls this when the caller has read enough bytes.
        """
        super().resume_writing()
        if not self.transport.is_closing():
            self._reader.stop()
            if self._flow.unparsed:
                self._go_on_soon()

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

    def _start_timer(self, then: Callable[[], None]) -> None:
        """Call `then` in `receive_s` seconds, instead of what was due before."""
        self._stop_timer()
        self._receive_timer = self.loop.call_later(self.receive_s, then)

    def _stop_timer(self) -> None:
        if self._receive_timer is not None:
            self._receive_timer.cancel()
            self._receive_timer = None
