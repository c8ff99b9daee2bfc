"""Sources of fetches that do what a test tells them."""

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polydom.features.fetches.fetch import Fetch, Key, fetch
from polydom.server.fetching.arrival import Arrival

T = TypeVar("T")
DRAWS: NDArray[np.float64] = np.full(50, 0.01)
FOREVER_S = math.inf
LONGEST_S = 60.0  # after which a test has failed


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in an event loop of its own, but not for ever."""

    async def limited() -> T:
        async with asyncio.timeout(LONGEST_S):
            return await main()

    return asyncio.run(limited())


async def until(true: Callable[[], object]) -> None:
    """Let the event loop run until it is so."""
    while not true():
        await asyncio.sleep(0.001)


async def ended(*arrivals: Arrival) -> list[str]:
    """Wait until all arrivals have ended, and return their states."""
    for arrival in arrivals:
        if arrival.state == "waiting":
            event = asyncio.Event()
            arrival.then(event.set)
            await event.wait()
    return [arrival.state for arrival in arrivals]


def twice(n: object) -> list[int] | None:
    """What a source brings for a key; nothing for what is no number."""
    if isinstance(n, bool):
        return [-1]
    return [2 * n] if isinstance(n, int) else None


class Source:
    """Brings the column "twice" of a key: two times its number, -1 for a boolean.

    It is asked by `fetch`, whose terms are given. While `is_open` is clear, calls wait.
    `error`, if there is one, is raised by each call that goes on.
    """

    def __init__(self, **terms: Any) -> None:
        self.calls: list[tuple[Sequence[Key], float]] = []
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.error: BaseException | None = None
        self.now = 0  # calls at the same time
        self.most = 0  # the largest number of them
        self.cancelled = 0
        self.closed = 0
        decorate = fetch(
            key=["n"], columns=["twice"], name="doubled", close=self.close, **terms
        )
        self.fetch: Fetch = decorate(self.bring)

    async def bring(self, keys: Sequence[Key], left_s: float) -> list[Any]:
        self.calls.append((keys, left_s))
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self.is_open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.now -= 1
        if self.error is not None:
            raise self.error
        return [twice(n) for (n,) in keys]

    async def close(self) -> None:
        self.closed += 1

    @property
    def asked(self) -> list[Any]:
        """All keys of all calls, in order."""
        return [n for keys, _ in self.calls for (n,) in keys]
