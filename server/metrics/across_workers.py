"""Metrics of all workers of one server, collected by the worker that is scraped.

Each worker listens at a socket file in a folder that only its user may enter, and sends
its current samples to each connection. So a scrape that reaches any worker shows the
samples of all workers, each with its own `worker` label. A counter falls only if its
worker is restarted. A worker that does not answer in time is missing in that scrape.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from .counts import Samples

# Longest wait in seconds for another worker's samples.
ANSWER_S = 1.0

_decode = msgspec.msgpack.Decoder(Samples).decode
_encode = msgspec.msgpack.Encoder().encode


class WorkerMetrics:
    """Sends this worker's samples to other workers, and asks them for theirs."""

    def __init__(self, folder: Path, number: int, count: int) -> None:
        self.number = number
        self._folder = folder
        self._others = [other for other in range(count) if other != number]

    @contextlib.asynccontextmanager
    async def telling(self, samples: Callable[[], Samples]) -> AsyncIterator[None]:
        """While the context is open, send `samples()` to each worker that asks."""

        async def tell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                writer.write(_encode(samples()))
                await writer.drain()
            writer.close()

        path = self._path(self.number)
        path.unlink(missing_ok=True)  # a socket file of an earlier process may be left
        server = await asyncio.start_unix_server(tell, path)
        async with server:
            yield

    async def ask(self) -> dict[int, Samples]:
        """Return the samples of every other worker that answers in time."""
        answers = await asyncio.gather(*map(self._ask, self._others))
        pairs = zip(self._others, answers, strict=True)
        return {number: samples for number, samples in pairs if samples is not None}

    async def _ask(self, number: int) -> Samples | None:
        try:
            async with asyncio.timeout(ANSWER_S):
                reader, writer = await asyncio.open_unix_connection(self._path(number))
                try:
                    return _decode(await reader.read())
                finally:
                    writer.close()
        except (OSError, TimeoutError, msgspec.DecodeError):
            return None

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.sock"
