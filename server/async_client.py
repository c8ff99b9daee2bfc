"""The client for programs with an event loop; client.py has the other."""

import asyncio
import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Self

from .batch_wire import Totals
from .client import PAUSE_S
from .client_batch import LAST_CHUNK, BatchAnswer, batch_head, batch_terms, chunk_of
from .client_wire import (
    GRACE_S,
    READ_BYTES,
    Address,
    AnyItem,
    FromBatch,
    NoAnswer,
    Response,
    packer_of,
    patience_s,
    read_answer,
)
from .schema_predict import Answer

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AsyncClient:
    """Asks a server; its connections are kept open between requests.

    Parameters, terms and errors are those of `Client`.
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
        self._idle: list[Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        while self._idle:
            await _close(self._idle.pop())

    async def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until the server's indexes are warm; as `Client.wait_ready`."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        request = self._address.request("GET", "/readyz", {}, b"", "")
        while True:
            left_s = end_s - loop.time()
            with contextlib.suppress(NoAnswer):
                if (await self._ask(request, max(left_s, PAUSE_S)))[0] == 200:
                    return
            if left_s <= 0:
                raise NoAnswer(f"the server was not ready within {timeout_s:g} s")
            await asyncio.sleep(PAUSE_S)

    async def predict(
        self,
        item: AnyItem,
        *,
        budget_ms: float | None = None,
        budget: float | None = None,
        model: str | None = None,
        on_infeasible: str | None = None,
        min_accuracy: float | None = None,
    ) -> Answer:
        """Classify one item; as `Client.predict`."""
        request = self._address.predict(
            item,
            budget_ms=budget_ms,
            budget=budget,
            model=model,
            on_infeasible=on_infeasible,
            min_accuracy=min_accuracy,
        )
        patience = patience_s(budget_ms, self._grace_s)
        return read_answer(*await self._ask(request, patience))

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
    ) -> AsyncIterator[FromBatch]:
        """Classify many items under one budget; as `Client.predict_batch`."""
        terms = batch_terms(
            items, total_budget_ms, total_budget, count, model, on_bad_item, label, top
        )
        patience = patience_s(total_budget_ms, self._grace_s)
        rest = _async(items)
        first = await anext(rest, None)
        kind, pack = packer_of("" if first is None else first)
        head = batch_head(self._address, terms, kind)
        reader, writer = await self._connect(patience)

        async def send() -> None:
            try:
                writer.write(head)
                if first is not None:
                    writer.write(chunk_of(pack(first)))
                async for item in rest:
                    writer.write(chunk_of(pack(item)))
                    await writer.drain()
                writer.write(LAST_CHUNK)
                await writer.drain()
            except Exception:
                writer.transport.abort()  # so that nobody waits for the answer
                raise

        sending = asyncio.create_task(send())
        try:
            async for entry in _entries(reader, kind, patience, sending):
                if isinstance(entry, Totals) and sending.cancel():
                    writer.write(LAST_CHUNK)  # nothing more is read
                yield entry
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await sending
            await _close((reader, writer))

    async def _ask(self, request: bytes, timeout_s: float) -> tuple[int, bytes]:
        """Send a request, read its response; again if an idle connection was dead."""
        while True:
            fresh = not self._idle
            connection = await self._connect(timeout_s) if fresh else self._idle.pop()
            reader, writer = connection
            response = Response()
            try:
                async with asyncio.timeout(timeout_s):
                    writer.write(request)
                    await writer.drain()
                    body = []
                    while not response.complete:
                        response.feed(await reader.read(READ_BYTES))
                        body.append(response.take())
            except (OSError, NoAnswer) as error:
                writer.transport.abort()
                late = isinstance(error, TimeoutError)
                if late:
                    raise NoAnswer(f"no answer came within {timeout_s:g} s") from error
                if fresh or response.touched:
                    raise NoAnswer(f"the connection broke: {error}") from error
                continue
            except BaseException:
                writer.transport.abort()
                raise
            if response.lasting:
                self._idle.append(connection)
            else:
                await _close(connection)
            return response.status, b"".join(body)

    async def _connect(self, timeout_s: float) -> Connection:
        address = self._address
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.open_connection(
                    address.host, address.port, ssl=address.tls
                )
        except OSError as error:
            raise NoAnswer(f"the server cannot be reached: {error}") from error


async def _entries(
    reader: asyncio.StreamReader,
    kind: str,
    patience: float,
    sending: "asyncio.Task[None]",
) -> AsyncIterator[FromBatch]:
    """Read a batch's answer to its end, or raise what `sending` died of."""
    answer = BatchAnswer(kind)
    while not answer.complete:
        try:
            async with asyncio.timeout(patience):
                data = await reader.read(READ_BYTES)
        except TimeoutError as error:
            raise NoAnswer(
                f"nothing came from the server for {patience:g} s"
            ) from error
        except OSError as error:
            raise NoAnswer(f"the connection broke: {error}") from error
        finally:
            _raise_from(sending)
        for entry in answer.feed(data):
            yield entry
    answer.check()


def _raise_from(sending: "asyncio.Task[None]") -> None:
    """Raise what the caller's own items raised, but no broken pipe."""
    if sending.done() and not sending.cancelled():
        error = sending.exception()
        if error is not None and not isinstance(error, OSError):
            raise error


async def _async(
    items: Iterable[AnyItem] | AsyncIterable[AnyItem],
) -> AsyncIterator[AnyItem]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


async def _close(connection: Connection) -> None:
    _, writer = connection
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
