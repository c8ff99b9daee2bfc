"""The body of a batch: items as they come in, read no faster than they are used."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.types import Receive, Scope

from ..features.errors import PolydomError
from .admission import Body
from .batch_wire import JsonLines, MsgpackStream
from .body import declared, expects
from .errors import Abandoned, ReceiveTimeout, TooLarge
from .question import Caller

# Items that are planned together.
CHUNK = 64
# Longest wait for an item of a stream to be whole.
RECEIVE_S = 10.0


class Source:
    """The body of one request, read no faster than it is used.

    Attributes
    ----------
    arrived_s
        When its first byte was read.
    caller
        Who waits for the answers.
    """

    def __init__(self, scope: Scope, receive: Receive, held: Body) -> None:
        self._held, self._kept = held, 0
        state = scope.get("state", {})
        self.arrived_s: float = state.get("arrived_s") or time.monotonic()
        self.caller: Caller = state.get("caller") or Caller()
        self._receive = receive
        self._headers = scope.get("headers", ())
        self._more = True
        self._first: bytes | None = None
        self._coming = 0
        self._wait_no_more: Callable[[], None] = state.get("wait_no_more", bool)

    async def begin(self) -> None:
        """Wait for the first bytes; a caller who asked whether to send them is told so.

        Nobody is told any more once the answer has begun.

        Raises
        ------
        ReceiveTimeout, Abandoned
            If none come.
        """
        if self._more:
            self._first = await self._next()

    async def _next(self, within_s: float = RECEIVE_S) -> bytes:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        try:
            message = await asyncio.wait_for(self._receive(), within_s)
        except TimeoutError as error:
            self._more = False
            raise ReceiveTimeout(f"no whole item came for {RECEIVE_S:g} s") from error
        if message["type"] == "http.disconnect":
            raise Abandoned("the caller left before the batch was there")
        self._more = message.get("more_body", False)
        data: bytes = message.get("body", b"")
        return data

    async def whole(self, limit: int) -> bytes:
        """Read all of a body that may have up to `limit` bytes."""
        body = bytearray()
        if expects(self._headers) and declared(self._headers) > limit:
            raise TooLarge(
                f"the body is over the limit of {limit:,} bytes; send a stream"
            )
        while self._more:
            body += await self._next()
            self._coming = len(body)
            self._held.hold(self._coming)
            if len(body) > limit:
                await self.drain()
                raise TooLarge(
                    f"the body is over the limit of {limit:,} bytes; send a stream"
                )
        return bytes(body)

    async def chunks(
        self, splitter: JsonLines | MsgpackStream
    ) -> AsyncIterator[list[Any]]:
        """Give what comes in, item by item in lists of up to `CHUNK`.

        Raises
        ------
        BadInput, TooLarge, ReceiveTimeout, Abandoned
            If the stream cannot be read on, once all before has been given.
        """
        self._wait_no_more()  # a stream may take longer than other bodies
        chunk: list[Any] = []
        left_s = RECEIVE_S
        while self._more or self._first is not None:
            broken: PolydomError | None = None
            try:
                began_s = time.monotonic()
                data = await self._next(left_s)
                left_s -= time.monotonic() - began_s
                self._coming = splitter.left + len(data)
                self._held.hold(self._coming + self._kept)
                for piece in splitter.feed(data):
                    left_s = RECEIVE_S
                    chunk.append(piece)
                    if len(chunk) == CHUNK:
                        yield chunk
                        chunk = []
                if not self._more:
                    chunk += splitter.finish()
            except PolydomError as error:
                broken = error
            if chunk:
                yield chunk
                chunk = []
            if broken is not None:
                raise broken

    def keep(self, size: int) -> None:
        """Take note of the bytes that are kept of items which have been given.

        Raises
        ------
        Overloaded
            If too many are held.
        """
        self._kept = size
        self._held.hold(self._coming + size)

    async def drain(self) -> None:
        """Throw away what still comes for a while, so that no answer is lost with it.

        A connection that is closed while something comes in is reset, and the caller
        may not see what was sent before.
        """
        with contextlib.suppress(PolydomError, TimeoutError):
            async with asyncio.timeout(RECEIVE_S):
                self._first = None
                while self._more:
                    await self._next()


async def cut(items: list[Any]) -> AsyncIterator[list[Any]]:
    """Give items that came in one piece as a stream's are given."""
    for start in range(0, len(items), CHUNK):
        yield items[start : start + CHUNK]
