"""Collects the metrics of all workers of one server, in the worker that is scraped.

Each worker listens on a socket file in a folder that only its user may enter, and sends
its current samples to each connection. So a scrape of any worker shows the samples of
all workers, each with its own `worker` label. A counter falls only if its worker is
restarted. If a worker does not answer in time, its samples are absent from that scrape.
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
    """Sends this worker's samples to other workers, and asks them for their samples."""

    def __init__(self, folder: Path, number: int, count: int) -> None:
        self.number = number
        self._folder = folder
        self._others = [other for other in range(count) if other != number]

    @contextlib.asynccontextmanager
    async def telling(self, samples: Callable[[], Samples]) -> AsyncIterator[None]:
        """Send `samples()` to each worker that asks, while the context is open."""

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
        """Return the samples of the other workers, by worker number.

        Workers that do not answer in time are left out.
        """
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
