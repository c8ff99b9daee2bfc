"""The asynchronous client: while it waits, other tasks of the event loop run.

`AsyncClient` implements requests, retries and batches. `Client` runs the same code over
blocking connections.
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
from typing import Self

from ..schema.rollout import RolloutAsk, RolloutsFacts
from ..schema.wire import Answer
from .encode_item import AnyItem
from .messages import (
    AHEAD_BYTES,
    GRACE_S,
    PAUSE_S,
    READ_BYTES,
    ROLLOUT_S,
    Address,
    BatchStream,
    FromBatch,
    HttpResponse,
    NoAnswer,
    broken,
    no_answer,
    read_answer,
    read_rollouts,
    silent,
    wait_s,
)


class AsyncClient:
    """A client that sends requests to a server, and keeps its connections open.

    Parameters and errors are the same as for `Client`.
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
        self._idle: list[StreamConnection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections to the server."""
        while self._idle:
            await self._idle.pop().close()

    async def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until the server is ready to answer, like `Client.wait_ready`."""
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
        threshold: float | None = None,
        fetch: str | None = None,
        max_price: float | None = None,
        explain: bool = False,
    ) -> Answer:
        """Classify one item, like `Client.predict`."""
        request = self._address.predict(
            item,
            budget_ms=budget_ms,
            budget=budget,
            model=model,
            on_infeasible=on_infeasible,
            min_quality=min_quality,
            exact=exact,
            threshold=threshold,
            fetch=fetch,
            max_price=max_price,
            explain=explain,
        )
        timeout_s = wait_s(budget_ms, self._grace_s)
        return read_answer(*await self._ask(request, timeout_s))

    async def roll_out(
        self, ask: RolloutAsk | None = None, *, timeout_s: float = ROLLOUT_S
    ) -> RolloutsFacts:
        """Order what a candidate is used for, like `Client.roll_out`."""
        request = self._address.rollout(ask)
        return read_rollouts(*await self._ask(request, timeout_s))

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
        fetch: str | None = None,
        max_price: float | None = None,
    ) -> AsyncGenerator[FromBatch, None]:
        """Classify many items under one budget, like `Client.predict_batch`."""
        if count is None and isinstance(items, Sized):
            count = len(items)
        batch = BatchStream(
            self._address,
            # items of an async iterable may come slowly, so each is sent at once
            1 if isinstance(items, AsyncIterable) else AHEAD_BYTES,
            total_budget_ms=total_budget_ms,
            total_budget=total_budget,
            count=count,
            model=model,
            on_bad_item=on_bad_item,
            label=label,
            top=top,
            exact=exact,
            fetch=fetch,
            max_price=max_price,
        )
        silence_s = wait_s(total_budget_ms, self._grace_s)
        connection = await self._connect(silence_s, time.monotonic() + silence_s)
        try:
            received = connection.send_and_receive(_chunks(batch, items), silence_s)
            async with contextlib.aclosing(received):
                async for data in received:
                    for entry in batch.feed(data):
                        yield entry
                    if batch.complete:
                        break
        finally:
            await connection.close()
        batch.check()

    async def _ask(self, request: bytes, timeout_s: float) -> tuple[int, bytes]:
        """Send a request; return the response's status and body.

        If a connection kept from an earlier request is dead, try another one.
        """
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
                if fresh or response.touched or isinstance(error, TimeoutError):
                    raise no_answer(error, timeout_s) from error
            except BaseException:
                await connection.close()
                raise
            else:
                if response.lasting:
                    self._idle.append(connection)
                else:
                    await connection.close()
                return response.status, response.take()

    async def _connect(self, timeout_s: float, end_s: float) -> "StreamConnection":
        try:
            return await self._open(end_s)
        except TimeoutError as error:
            raise no_answer(error, timeout_s) from error
        except OSError as error:
            raise NoAnswer(f"the server cannot be reached: {error}") from error

    async def _open(self, end_s: float) -> "StreamConnection":
        address = self._address
        async with asyncio.timeout(end_s - time.monotonic()):
            streams = await asyncio.open_connection(
                address.host, address.port, ssl=address.tls
            )
        return StreamConnection(*streams)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def _chunks(
    batch: BatchStream, items: Iterable[AnyItem] | AsyncIterable[AnyItem]
) -> AsyncIterator[bytes]:
    """Yield the bytes of a batch's request, chunk by chunk, while items arrive."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            if chunk := batch.add(item):
                yield chunk
    else:
        for item in items:
            if chunk := batch.add(item):
                yield chunk
    yield batch.end()


class StreamConnection:
    """A connection over asyncio's streams.

    `send` and `receive` raise TimeoutError if they are not done at `end_s`, a time on
    the monotonic clock.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes, end_s: float) -> None:
        """Send all bytes; raise TimeoutError at the time `end_s`."""
        async with asyncio.timeout(end_s - time.monotonic()):
            self._writer.write(data)
            await self._writer.drain()

    async def receive(self, end_s: float) -> bytes:
        """Return the next bytes that arrive; b"" after the server has closed."""
        async with asyncio.timeout(end_s - time.monotonic()):
            return await self._reader.read(READ_BYTES)

    async def send_and_receive(
        self, chunks: AsyncIterator[bytes], silence_s: float
    ) -> AsyncGenerator[bytes, None]:
        """Send chunks, and at the same time yield received bytes.

        Yields b"" when the server has closed. An exception of `chunks` is raised
        unchanged. NoAnswer is raised if the connection breaks, or if nothing can be
        sent or received for `silence_s` seconds. Time spent waiting for a chunk does
        not count.
        """
        # time of the last hand-over of a chunk; infinite while waiting for items
        moved_s = math.inf

        async def send() -> None:
            nonlocal moved_s
            try:
                async for chunk in chunks:
                    moved_s = time.monotonic()
                    self._writer.write(chunk)
                    try:
                        await self._writer.drain()
                        # let the reader handle answers in between
                        await asyncio.sleep(0)
                    except OSError:
                        return  # the server has closed its side; its response says why
                    moved_s = math.inf
                moved_s = time.monotonic()
            except BaseException:
                # otherwise the reader would wait forever
                self._writer.transport.abort()
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
                        # raise the error of the caller's iterable, if any
                        sending.result()
                yield data
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def close(self) -> None:
        """Close the connection at once, without waiting for the server."""
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
