"""What the workers of one server tell each other: their counts, when one is scraped.

Each worker listens at a socket file in a folder that only its user may enter, and sends
whoever connects the samples that it has at that moment. So a scrape that reaches any of
them shows all, each with its own `worker` label, and no count ever falls but when a
worker was started anew. One that does not answer in time is left out of that scrape.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from ..runtime.metrics import Samples

ANSWER_S = 1.0

_decode = msgspec.msgpack.Decoder(Samples).decode
_encode = msgspec.msgpack.Encoder().encode


class WorkerMetrics:
    """One worker's way to the others: the `number`th of `count`, from 0.

    Their sockets are in one folder.
    """

    def __init__(self, folder: Path, number: int, count: int) -> None:
        self.number = number
        self._folder = folder
        self._others = [other for other in range(count) if other != number]

    @contextlib.asynccontextmanager
    async def telling(self, samples: Callable[[], Samples]) -> AsyncIterator[None]:
        """Send whoever asks what `samples` returns then, while the block lasts."""

        async def tell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                writer.write(_encode(samples()))
                await writer.drain()
            writer.close()

        path = self._path(self.number)
        path.unlink(missing_ok=True)  # of the one that had this number before
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
