"""The choice of the fetches that a record waits for, and of how long it waits."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations

from polydom.features.items import Gaps
from polydom.indexer.index.column_needs import ColumnNeeds
from polydom.indexer.index.kernels.expected_quality import LEAST_GAIN

from ..engine.planning.planner import Planner
from ..engine.request import Request
from .latency import Latency

# Numbers of fetches up to which all combinations are compared: of what comes in time,
# and of what is paid for.
MOST_WEIGHED = 8
MOST_PAID = 5


class FetchRule:
    """Decides which fetches to send for a record, and what their arrival can gain.

    There is one rule for each planner. Sets of the index's fetches are bit masks.
    `columns` are those of the planner's package.
    """

    def __init__(self, planner: Planner, columns: ColumnNeeds) -> None:
        self._planner = planner
        self._withheld = columns.withheld
        fetches = planner.package.fetches
        self.names = tuple(fetch.name for fetch in fetches)
        # (U,): mask of the columns that each fetch brings
        self.brings = tuple(
            sum(columns.bits[name] for name in fetch.columns) for fetch in fetches
        )
        self.prices = tuple(sum(fetch.price.values()) for fetch in fetches)

    def lacked(self, gaps: Gaps) -> int:
        """Return a mask of the fetches that bring a column which a record lacks."""
        own = enumerate(self.brings)
        return sum(1 << u for u, brought in own if brought & gaps.unfetched)

    def row(self, request: Request, gaps: Gaps, came: int, left: float) -> int:
        """Return the best row within `left` if the fetches in `came` bring everything.

        `gaps` are those of the record as it is now. `left` is a part of the budget.
        """
        brought = 0
        for u, own in enumerate(self.brings):
            brought |= own if came >> u & 1 else 0
        empty, unfetched = gaps.empty & ~brought, gaps.unfetched & ~brought
        withheld = self._withheld(empty, unfetched)
        return self._planner.best_without(withheld, request, left)

    def quality(self, request: Request, gaps: Gaps, left: float, came: int) -> float:
        """Return the expected quality if the fetches in `came` bring everything.

        It is 0 if it is below the request's `min_quality`.
        """
        quality = self._planner.qualities[self.row(request, gaps, came, left)]
        return quality if quality >= request.min_quality else 0.0

    def choose(
        self,
        request: Request,
        gaps: Gaps,
        able: int,
        chances: Sequence[float],
        left: float,
        max_price: float,
    ) -> int:
        """Return a mask of the fetches to send, of those in the mask `able`.

        `chances` (U,) are those of each fetch to come in time. A free fetch is sent if
        it may raise the expected quality by `LEAST_GAIN`. Of the first `MOST_PAID`
        fetches with a price that may do so, the cheapest combination is sent whose
        expected quality is within `LEAST_GAIN` of the best that `max_price` allows.
        """
        quality = partial(self.quality, request, gaps, left)
        useful = self._useful(able, chances, quality)
        paid = [u for u in members(useful) if self.prices[u]][:MOST_PAID]
        sent = useful & ~sum(1 << u for u in range(len(self.prices)) if self.prices[u])
        free, best = sent, 0.0
        if not paid:
            return sent
        for price, some in sorted(self._combinations(paid)):
            if price > max_price:
                break
            own = expected_quality(free | some, chances, quality)
            if not some or own >= best + LEAST_GAIN:
                sent, best = free | some, own
        return sent

    def latest_s(
        self,
        request: Request,
        gaps: Gaps,
        came: int,
        pending: Mapping[int, float],
        latencies: Sequence[Latency],
        left: float,
        until_s: float,
    ) -> float:
        """Return the time up to which waiting can pay; -infinity if it cannot.

        The fetches in the mask `came` have come. `pending` maps those that may still
        come to the times when they were asked, and `latencies` (U,) are those of all
        fetches. At `until_s` the answer has to be begun. Waiting can pay as long as the
        chance that a fetch comes by then, times the most that all can gain together, is
        at least `LEAST_GAIN`.
        """
        quality = partial(self.quality, request, gaps, left)
        every = came | sum(1 << u for u in pending)
        gain = quality(every) - quality(came)
        if gain < LEAST_GAIN:
            return -math.inf
        return max(
            asked_s + latencies[u].last_useful_s(until_s - asked_s, gain)
            for u, asked_s in pending.items()
        )

    def _useful(
        self, able: int, chances: Sequence[float], quality: Callable[[int], float]
    ) -> int:
        """Return a mask of the fetches that may raise the quality by `LEAST_GAIN`.

        A fetch may do so alone, or in addition to all others. The gain counts with the
        chance that the fetch comes in time.
        """
        least, most, useful = quality(0), quality(able), 0
        for u in members(able):
            own = 1 << u
            gain = max(quality(own) - least, most - quality(able & ~own))
            useful |= own if gain * chances[u] >= LEAST_GAIN else 0
        return useful

    def _combinations(self, paid: Sequence[int]) -> Iterator[tuple[float, int]]:
        """Yield the price and the mask of every set of some fetches."""
        for count in range(len(paid) + 1):
            for some in combinations(paid, count):
                yield sum(self.prices[u] for u in some), sum(1 << u for u in some)


def expected_quality(
    sent: int, chances: Sequence[float], quality: Callable[[int], float]
) -> float:
    """Return the expected quality of an answer if the fetches in `sent` are sent.

    Fetches come independently of each other, with their `chances` (U,). The function
    `quality` returns the quality if exactly the fetches in a mask have come. If there
    are more than `MOST_WEIGHED` fetches, those with the smallest chances never come.
    """
    likely = sorted(members(sent), key=lambda u: -chances[u])[:MOST_WEIGHED]
    outcomes = {0: 1.0}
    for u in likely:
        own, chance = 1 << u, chances[u]
        came = {mask | own: share * chance for mask, share in outcomes.items()}
        outcomes = {m: share * (1 - chance) for m, share in outcomes.items()} | came
    return sum(share * quality(mask) for mask, share in outcomes.items() if share)


def members(fetches: int) -> list[int]:
    """Return the ascending positions of the bits of a mask."""
    return [u for u in range(fetches.bit_length()) if fetches >> u & 1]
