"""The fetchers of a process, which all its models share."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from polydom.features.fetches.fetch import Fetch
from polydom.features.items import Kind
from polydom.indexer.index.fetches.stored_fetches import StoredFetch

from .fetch_counts import FetchCounts
from .fetcher import KEPT_BYTES, Fetcher


class FetchState(NamedTuple):
    """The state of all fetchers of one fetch, for the metrics."""

    name: str
    counts: FetchCounts
    down: bool  # True if the source of any is down


class Fetchers:
    """The fetchers of a process, made of the operator's `fetches` by name.

    Indexes that want the same columns of a fetch by the same key share its fetcher. A
    fetcher lives as long as the process, so that a reload loses no kept values. The
    fetches divide the bytes for kept values evenly. Only the event loop may use this
    object.
    """

    def __init__(self, fetches: Mapping[str, Fetch]) -> None:
        self._fetches = fetches
        self._made: dict[tuple[Any, ...], Fetcher] = {}
        self._counts: dict[str, FetchCounts] = {}

    def of(
        self,
        stored: Sequence[StoredFetch],
        draws: NDArray[np.float64],
        kind: Kind = "record",
    ) -> list[Fetcher | None]:
        """Return the fetcher of each of an index's fetches; None if it is not offered.

        `draws` (M, U) are the index's draws of arrival times, with which a new fetcher
        begins, and `kind` is that of its items. Raises BadFetch if a fetch has another
        key, lacks a column, or brings no such vectors.
        """
        return [self._of(one, draws[:, u], kind) for u, one in enumerate(stored)]

    def states(self) -> Iterator[FetchState]:
        """Yield the state of each fetch that some index wants."""
        for name, counts in self._counts.items():
            own = [made for made in self._made.values() if made.fetch.name == name]
            yield FetchState(name, counts, any(fetcher.down for fetcher in own))

    async def open(self) -> None:
        """Open a connection to each source, so that no request waits for it."""
        await asyncio.gather(*(fetcher.open() for fetcher in self._made.values()))

    async def close(self) -> None:
        """Cancel all calls, and close all connections."""
        await asyncio.gather(*(fetcher.close() for fetcher in self._made.values()))

    def _of(
        self, stored: StoredFetch, draws: NDArray[np.float64], kind: Kind
    ) -> Fetcher | None:
        fetch = self._fetches.get(stored.name)
        if fetch is None:
            return None
        own = stored.name, tuple(stored.key), tuple(stored.columns), kind, stored.width
        if own not in self._made:
            self._made[own] = Fetcher(
                _bound(fetch, stored, kind),
                draws,
                counts=self._counts.setdefault(stored.name, FetchCounts()),
                kept_bytes=KEPT_BYTES // len(self._fetches),
            )
        if any(stored.price.values()):
            self._made[own].hedging = None  # a second call would cost, too
        return self._made[own]


def _bound(fetch: Fetch, stored: StoredFetch, kind: Kind) -> Fetch:
    """Return a fetch for the columns or the vectors that an index wants."""
    if stored.width is UNSET:
        return fetch.bound_to(stored.key, stored.columns)
    return fetch.bound_to_items(kind, stored.width)
