"""Flow control of one connection: pauses reading, and closes if answers stay unread."""

import asyncio
import time
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl

from ..runtime.admission_control.admission import HeldBody
from .raw_request import ends_of


class Flow(FlowControl):
    """Uvicorn's flow control, with a buffer of bytes that are received but not parsed.

    `unparsed` is the buffer; its bytes before position `at` are already parsed. `held`,
    if given, records the size of the buffer, and raises Overloaded if requests hold too
    many bytes.
    """

    def __init__(self, transport: asyncio.Transport, held: HeldBody | None) -> None:
        super().__init__(transport)
        self._held = held
        self.unparsed, self.at = b"", 0
        self._ends: list[int] | None = None
        self._paused_s = 0.0
        # seconds for which reading was paused the last time
        self.pause_s = 0.0

    def pause_reading(self) -> None:
        """Pause reading from the connection."""
        if not self.read_paused:
            self._paused_s = time.monotonic()
        super().pause_reading()

    def keep(self, data: bytes, start: int = 0) -> None:
        """Append `data[start:]` to the unparsed bytes, and pause reading."""
        if self.unparsed:
            data, start = self.unparsed[self.at :] + data[start:], 0
        self.unparsed, self.at, self._ends = data, start, None
        self.pause_reading()
        if self._held is not None:
            self._held.hold(len(data))

    def ends(self) -> list[int]:
        """Return the positions after each whole unparsed request, as `ends_of` does.

        After requests are parsed or refused, the list still has their ends.
        """
        if self._ends is None:
            self._ends = ends_of(self.unparsed, self.at)
        return self._ends

    def clear(self) -> None:
        """Drop all unparsed bytes."""
        self.unparsed, self.at, self._ends = b"", 0, None
        if self._held is not None:
            self._held.hold(0)

    def resume_reading(self) -> None:
        """Resume reading from the connection if no unparsed bytes are left."""
        if not self.unparsed:
            if self.read_paused:
                self.pause_s = time.monotonic() - self._paused_s
            super().resume_reading()


class ReaderWatch:
    """Aborts a connection if the caller reads no byte for `unread_s` seconds."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        unread_s: float,
    ) -> None:
        self._transport = transport
        self._call_later: Callable[..., asyncio.TimerHandle] = loop.call_later
        self._unread_s = unread_s
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the timer if some bytes are not sent yet."""
        size = self._transport.get_write_buffer_size()
        if size and self._timer is None:
            self._timer = self._call_later(self._unread_s, self._check, size)

    def stop(self) -> None:
        """Stop the timer, as all bytes are sent or the connection is lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self, before: int) -> None:
        self._timer = None
        # a buffer that did not shrink: the caller has read nothing meanwhile
        if 0 < before <= self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self.start()
