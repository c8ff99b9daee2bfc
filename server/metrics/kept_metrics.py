"""The answer to `/metrics`, kept while it is asked for too often."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from .counts import Samples

# Share of the event loop's time that renderings may take in the mean.
SHARE = 0.02
# Seconds of renderings that may follow each other at once, after a time without any.
SAVED_S = 0.1


class KeptMetrics:
    """Renders the metrics if time is left for it, and keeps the latest rendering.

    A rendering takes milliseconds, and `/metrics` is never refused. So renderings take
    at most the share `SHARE` of the event loop's time; other requests get the rendering
    before. Requests in one turn of the event loop share a rendering in any case.

    `render` renders this process's metrics together with the `others`' samples by
    worker; `ask_others`, if not None, gets these samples.
    """

    def __init__(
        self,
        render: Callable[[Mapping[int, Samples]], bytes],
        ask_others: Callable[[], Awaitable[Mapping[int, Samples]]] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._render, self._ask_others, self._now = render, ask_others, now
        self._due: asyncio.Task[bytes] | None = None
        self._latest: bytes | None = None
        self._left_s, self._counted_s = SAVED_S, now()

    async def get(self) -> bytes:
        """Return the metrics in Prometheus's text format."""
        if self._due is None:
            now_s = self._now()
            more_s = SHARE * (now_s - self._counted_s)
            self._left_s = min(self._left_s + more_s, SAVED_S)
            self._counted_s = now_s
            if self._latest is not None and self._left_s <= 0:
                return self._latest
            self._due = asyncio.create_task(self._make())
        return await asyncio.shield(self._due)

    async def _make(self) -> bytes:
        self._due = None  # later requests get a new rendering
        others = {} if self._ask_others is None else await self._ask_others()
        began_s = self._now()
        self._latest = self._render(others)
        self._left_s -= self._now() - began_s
        return self._latest
