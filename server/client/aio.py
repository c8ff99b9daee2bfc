"""The client for programs with an event loop, over connections of whatever kind.

Answers to a batch come while its items are still being sent. Usual HTTP libraries send
all of a request before they read any of the response, and would wait for the server
while it waits for them; so this speaks HTTP/1.1 itself, with the parser that the server
has. `Client` is the same over connections that block.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Iterable,
    Sized,
)
from typing import Protocol, Self

from polydom.features.errors import BadInput

from ..schema.wire import Answer
from .items import AnyItem, packer_of
from .messages import (
    AHEAD_BYTES,
    GRACE_S,
    READ_BYTES,
    Address,
    BatchExchange,
    FromBatch,
    HttpResponse,
    NoAnswer,
    patience_s,
    read_answer,
    refuse_budget,
)

PAUSE_S = 0.05


class _Connection(Protocol):
    async def send(self, data: bytes, end_s: float) -> None: ...

    async def receive(self, end_s: float) -> bytes: ...

    def exchange(
        self, chunks: AsyncIterator[bytes], silence_s: float
    ) -> AsyncGenerator[bytes, None]: ...

    async def close(self) -> None: ...


class AsyncClient:
    """Asks a server; its connections are kept open between requests.

    Parameters, terms, errors and how long is waited are those of `Client`.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        self._address = Address(url, token)
        self._grace_s = grace_s
        self._idle: list[_Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        while self._idle:
            await self._idle.pop().close()

    async def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until the server's indexes are warm; as `Client.wait_ready`."""
        end_s = time.monotonic() + timeout_s
        request = self._address.request("GET", "/readyz", {}, b"", "")
        while True:
            left_s = end_s - time.monotonic()
            with contextlib.suppress(NoAnswer):
                status, _ = await self._ask(request, max(left_s, PAUSE_S))
                if status == 200:
                    return
            if left_s <= 0:
                raise NoAnswer(f"the server was not ready within {timeout_s:g} s")
            await self._sleep(PAUSE_S)

    async def predict(
        self,
        item: AnyItem,
        *,
        budget_ms: float | None = None,
        budget: float | None = None,
        model: str | None = None,
        on_infeasible: str | None = None,
        min_quality: float | None = None,
        exact: bool = False,
    ) -> Answer:
        """Classify one item; as `Client.predict`."""
        refuse_budget("budget_ms", budget_ms)
        refuse_budget("budget", budget)
        request = self._address.predict(
            item,
            budget_ms=budget_ms,
            budget=budget,
            model=model,
            on_infeasible=on_infeasible,
            min_quality=min_quality,
            exact="true" if exact else None,
        )
        timeout_s = patience_s(budget_ms, self._grace_s)
        return read_answer(*await self._ask(request, timeout_s))

    async def predict_batch(
        self,
        items: Iterable[AnyItem] | AsyncIterable[AnyItem],
        *,
        total_budget_ms: float | None = None,
        total_budget: float | None = None,
        count: int | None = None,
        model: str | None = None,
        on_bad_item: str | None = None,
        label: str | None = None,
        top: int | None = None,
        exact: bool = False,
    ) -> AsyncGenerator[FromBatch, None]:
        """Classify many items under one budget; as `Client.predict_batch`."""
        if count is None and isinstance(items, Sized):
            count = len(items)
        if total_budget_ms is None and total_budget is None:
            raise BadInput("say with total_budget_ms what all items may take together")
        refuse_budget("total_budget_ms", total_budget_ms)
        refuse_budget("total_budget", total_budget)
        terms = {
            "budget_ms": total_budget_ms,
            "budget": total_budget,
            "count": count,
            "model": model,
            "on_bad_item": on_bad_item,
            "label": label,
            "top": top,
            "exact": "true" if exact else None,
        }
        rest = _async(items)
        first = await anext(rest, None)
        kind, pack = packer_of("" if first is None else first)

        async def pieces() -> AsyncIterator[bytes]:
            if first is not None:
                yield pack(first)
            async for item in rest:
                yield pack(item)

        silence_s = patience_s(total_budget_ms, self._grace_s)
        batch = BatchExchange(self._address, terms, kind)
        end_s = time.monotonic() + silence_s
        connection = await self._connect(silence_s, end_s)
        try:
            # items that may be long in coming go out one by one
            ahead = 1 if isinstance(items, AsyncIterable) else AHEAD_BYTES
            exchange = connection.exchange(batch.chunks(pieces(), ahead), silence_s)
            async with contextlib.aclosing(exchange):
                async for data in exchange:
                    for entry in batch.feed(data):
                        yield entry
                    if batch.complete:
                        break
        finally:
            await connection.close()
        batch.check()

    async def _ask(self, request: bytes, timeout_s: float) -> tuple[int, bytes]:
        """Send a request, read its response; again if an idle connection was dead."""
        end_s = time.monotonic() + timeout_s
        while True:
            try:
                connection, fresh = self._idle.pop(), False
            except IndexError:
                connection, fresh = await self._connect(timeout_s, end_s), True
            response = HttpResponse()
            try:
                await connection.send(request, end_s)
                while not response.complete:
                    response.feed(await connection.receive(end_s))
            except (OSError, NoAnswer) as error:
                await connection.close()
                late = isinstance(error, TimeoutError)
                if fresh or response.touched or late:
                    raise _no_answer(error, timeout_s) from error
            except BaseException:
                await connection.close()
                raise
            else:
                if response.lasting:
                    self._idle.append(connection)
                else:
                    await connection.close()
                return response.status, response.take()

    async def _connect(self, timeout_s: float, end_s: float) -> _Connection:
        try:
            return await self._open(end_s)
        except TimeoutError as error:
            raise _no_answer(error, timeout_s) from error
        except OSError as error:
            raise NoAnswer(f"the server cannot be reached: {error}") from error

    async def _open(self, end_s: float) -> _Connection:
        address = self._address
        async with asyncio.timeout(end_s - time.monotonic()):
            return StreamConnection(
                *await asyncio.open_connection(
                    address.host, address.port, ssl=address.tls
                )
            )

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class StreamConnection:
    """A connection during whose waits others have their turn.

    What takes longer than until `end_s` of the monotonic clock raises TimeoutError.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes, end_s: float) -> None:
        """Send all."""
        async with asyncio.timeout(end_s - time.monotonic()):
            self._writer.write(data)
            await self._writer.drain()

    async def receive(self, end_s: float) -> bytes:
        """Return what comes, b"" at the end."""
        async with asyncio.timeout(end_s - time.monotonic()):
            return await self._reader.read(READ_BYTES)

    async def exchange(
        self, chunks: AsyncIterator[bytes], silence_s: float
    ) -> AsyncGenerator[bytes, None]:
        """Send chunks, and give what comes meanwhile, b"" at the end.

        What the chunks raise goes through.

        Raises
        ------
        NoAnswer
            If the connection breaks, or nothing could be sent or received for
            `silence_s` seconds, in which no chunk was waited for.
        """
        moved_s = math.inf  # when there was something to send

        async def send() -> None:
            nonlocal moved_s
            try:
                async for chunk in chunks:
                    moved_s = time.monotonic()
                    self._writer.write(chunk)
                    try:
                        await self._writer.drain()
                        await asyncio.sleep(0)  # answers are read in between
                    except OSError:
                        return  # the server reads no more; what it sent says why
                    moved_s = math.inf
                moved_s = time.monotonic()
            except BaseException:
                self._writer.transport.abort()  # nobody need wait for an answer
                raise

        sending = asyncio.create_task(send())
        try:
            while True:
                try:
                    async with asyncio.timeout(silence_s):
                        data = await self._reader.read(READ_BYTES)
                except TimeoutError as error:
                    if time.monotonic() - moved_s < silence_s:
                        continue
                    raise silent(silence_s) from error
                except OSError as error:
                    raise broken(error) from error
                finally:
                    if sending.done():
                        sending.result()  # raises what the caller's items raised
                yield data
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def close(self) -> None:
        """Close it at once."""
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


def silent(silence_s: float) -> NoAnswer:
    """Make the error for a server that neither reads nor sends."""
    return NoAnswer(f"nothing came from the server for {silence_s:g} s")


def broken(error: OSError) -> NoAnswer:
    """Make the error for a connection that broke."""
    return NoAnswer(f"the connection broke: {error}")


def _no_answer(error: OSError | NoAnswer, timeout_s: float) -> NoAnswer:
    if isinstance(error, TimeoutError):
        return NoAnswer(f"no answer came within {timeout_s:g} s")
    return broken(error) if isinstance(error, OSError) else error


async def _async(
    items: Iterable[AnyItem] | AsyncIterable[AnyItem],
) -> AsyncIterator[AnyItem]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
