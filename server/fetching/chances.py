"""What is known of an index's fetches: chances to come, and when each was asked."""

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from polydom.features.fetches.fetch import Key

from .arrival import Arrival
from .fetch_rule import members
from .latency import Latency

# Share of a fetch's chance to come in time that waiting with a purchase leaves, and the
# number of steps by which the time for it is found.
LATE_SHARE, HALVINGS = 0.95, 8


class Source(Protocol):
    """What brings the values of a fetch: a `Fetcher`, or a simulation of one."""

    @property
    def latency(self) -> Latency:
        """The distribution of arrival times."""

    @property
    def down(self) -> bool:
        """True if the source is down."""

    @property
    def held_s(self) -> float:
        """Seconds for which a key holds the event loop."""

    def ask(self, key: Key, due_s: float) -> Arrival:
        """Ask for the values of a key; never block or raise."""

    def refuse(self) -> None:
        """Count values that a record's columns cannot hold."""


class Chances:
    """How likely the fetches of an index come in time, by what they took lately.

    `sources` has one for each fetch, None for a fetch that the operator does not offer.
    `draws` (M, U) are the arrival times in seconds that the index has.
    """

    def __init__(
        self, sources: Sequence[Source | None], draws: NDArray[np.float64]
    ) -> None:
        self._sources = sources
        # an unoffered fetch is never asked, so that its latency is not needed
        self.latencies = [
            Latency(draws[:, u]) if source is None else source.latency
            for u, source in enumerate(sources)
        ]
        self.asked_s = [-math.inf] * len(sources)  # when each fetch was last asked

    def of(self, u: int, left_s: float) -> float:
        """Return a fetch's chance to come within `left_s` seconds.

        It is 1 if the source is down: the fetcher then lets only probes through, which
        tell when it is up again.
        """
        source = self._sources[u]
        if source is not None and source.down:
            return 1.0
        return self.latencies[u].chance(0.0, left_s)

    def of_all(self, fetches: int, left_s: float) -> list[float]:
        """Return the chances (U,) of the fetches in a mask, and 0 for all others."""
        count = len(self._sources)
        return [self.of(u, left_s) if fetches >> u & 1 else 0.0 for u in range(count)]

    def held_s(self, fetches: int) -> list[float]:
        """Return the seconds (U,) for which a key of each fetch holds the event loop.

        They are 0 for fetches that are not in a mask.
        """
        return [
            source.held_s if source is not None and fetches >> u & 1 else 0.0
            for u, source in enumerate(self._sources)
        ]

    def unasked(self, fetches: int, since_s: float) -> int:
        """Return those of the fetches in a mask that nobody asked after `since_s`."""
        return sum([1 << u for u in members(fetches) if self.asked_s[u] <= since_s])

    def latest_s(self, fetches: int, now_s: float, until_s: float) -> float:
        """Return the time until which fetches are about as likely to come in time.

        `fetches` is a mask of those that are not asked yet. They have to come by
        `until_s`.
        """
        latest_s = until_s
        for u in members(fetches):
            least = LATE_SHARE * self.of(u, until_s - now_s)
            low_s, high_s = now_s, until_s
            for _ in range(HALVINGS):
                middle_s = (low_s + high_s) / 2
                if self.of(u, until_s - middle_s) >= least:
                    low_s = middle_s
                else:
                    high_s = middle_s
            latest_s = min(latest_s, low_s)
        return latest_s
