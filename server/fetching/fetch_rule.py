"""The choice of the fetches that a record waits for, and of how long it waits."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import combinations
from typing import NamedTuple

from polydom.features.items import Gaps
from polydom.indexer.index.column_needs import ColumnNeeds
from polydom.indexer.index.fetches.item_gains import gain_at
from polydom.indexer.index.fetches.stored_fetches import needs_of
from polydom.indexer.index.kernels.expected_quality import LEAST_GAIN

from ..engine.planning.planner import Planner
from ..engine.request import Request
from ..engine.send_time import QUANTILE
from .latency import Latency

# Patterns of missing columns and arrivals whose withheld features are cached.
PATTERNS = 4096
# Numbers of fetches up to which all combinations are compared: of what comes in time,
# and of what is sent.
MOST_WEIGHED = 8
MOST_SENT = 5
# Share of the answers that are late if they wait as long as they can
LATE = 1 - QUANTILE
# Number of fetches that may come or not when it is decided what to pay for; others that
# are on their way count as what is likelier.
MOST_UNSURE = 6


class Purse(NamedTuple):
    """What one record may be charged for, and how sure its answer is already."""

    most: float = math.inf  # Largest price of all its fetches together
    worth: float = 0.0  # Quality that a unit of price must gain
    # Margin of a model that has answered; None if it is not known
    margin: float | None = None
    # Mask of the fetches that had come when the model answered
    came: int = 0


class FetchRule:
    """Decides which fetches to send for a record, and what their arrival can gain.

    There is one rule for each planner. Sets of the index's fetches are bit masks.
    `columns` are those of the planner's package.
    """

    def __init__(self, planner: Planner, columns: ColumnNeeds) -> None:
        self._planner, self.qualities = planner, planner.qualities
        self.fits_any = planner.fits_any
        fetches = planner.package.fetches
        # (U,): mask of the columns that each fetch brings
        self.brings = tuple(
            sum(columns.bits[name] for name in fetch.columns) for fetch in fetches
        )
        # Function from empty and unfetched columns, and fetches that have come, to the
        # features that cannot be computed.
        without = partial(_find_without, columns.withheld, self.brings)
        self._without = lru_cache(PATTERNS)(without)
        self.prices = tuple(sum(fetch.price.values()) for fetch in fetches)
        # mask of the features that read what some fetch brings
        needs = needs_of(planner.package.features, fetches)
        self.readers = sum(1 << k for k, own in enumerate(needs) if own)
        # mask of the fetches with a price
        self.with_price = sum(1 << u for u, price in enumerate(self.prices) if price)
        self._masks: list[int] = planner.package.masks.tolist()
        self._curves = planner.package.gains.curves()
        # True if what single items gain by fetches with a price is known
        self.knows_gains = bool(self._curves)

    def lacked(self, gaps: Gaps) -> int:
        """Return a mask of the fetches that bring a column which a record lacks."""
        own = enumerate(self.brings)
        return sum(1 << u for u, brought in own if brought & gaps.unfetched)

    def situation(self, request: Request, gaps: Gaps, left: float) -> "Situation":
        """Return the situation of a record with `gaps`, and `left` of its budget."""
        return Situation(self, request, gaps, left)

    def row(self, request: Request, gaps: Gaps, came: int, left: float) -> int:
        """Return the best row within `left` if the fetches in `came` bring everything.

        `gaps` are those of the record as it is now. `left` is a part of the budget.
        """
        withheld = self._without(gaps.empty, gaps.unfetched, came)
        return self._planner.best_without(withheld, request, left)

    def free(
        self,
        situation: "Situation",
        able: int,
        chances: Sequence[float],
        held_s: Sequence[float],
    ) -> int:
        """Return a mask of the fetches without a price to send, of those in `able`.

        `chances` (U,) are those of each fetch to come in time. If a fetch does not
        come, the answer waits to the last moment, and is late with probability `LATE`.
        A fetch is sent if it raises the expected quality of what is in time by
        `LEAST_GAIN`, alone or in addition to all others.

        What is sent holds the event loop for `held_s` (U,) seconds, which are missing
        for what is computed. If a row might not fit any more, every combination of the
        `MOST_SENT` fetches is weighed that gain most. The best has the largest expected
        quality within the time that it leaves. Of those within `LEAST_GAIN` of the
        best, the one is sent that holds the loop least.
        """
        quality, gains = situation.quality, dict[int, float]()
        least, most = quality(0), quality(able)
        for u in members(able & ~self.with_price):
            own, chance = 1 << u, chances[u]
            others, late = quality(able & ~own), (1 - chance) * LATE
            alone = chance * (quality(own) - least) - late * least
            last = chance * (most - others) - late * others
            if max(alone, last) >= LEAST_GAIN:
                gains[u] = max(alone, last)
        if situation.is_enough(sum(held_s[u] for u in gains)):
            return sum(1 << u for u in gains)
        some = sorted(gains, key=lambda u: -gains[u])[:MOST_SENT]

        def value(sent: int) -> float:
            own_s = sum(held_s[u] for u in members(sent))

            def in_time(came: int) -> float:
                return quality(came, own_s) * (1.0 if came == sent else 1 - LATE)

            return expected_quality(sent, chances, in_time)

        return _best(some, held_s, value)

    def paid(
        self,
        situation: "Situation",
        came: int,
        pending: int,
        able: int,
        chances: Sequence[float],
        purse: Purse,
    ) -> int:
        """Return a mask of the fetches with a price to send, of those in `able`.

        Fetches in the masks `came` and `pending` have come, or may come; `chances` (U,)
        are those of the others and of pending ones to come in time. Every combination
        of the first `MOST_SENT` fetches is weighed. The best has the largest expected
        quality less the worth of its price. Of those within `LEAST_GAIN` of the best,
        the cheapest is sent.
        """
        able &= self.with_price
        quality = self._of_item(situation, purse)
        paid = members(able)[:MOST_SENT]
        sure = [1.0 if came >> u & 1 else own for u, own in enumerate(chances)]
        # sets of fetches double with each one that may come or not
        unsure = sorted(members(pending), key=lambda u: abs(sure[u] - 0.5))
        for u in unsure[max(MOST_UNSURE - len(paid), 0) :]:
            sure[u] = float(sure[u] >= 0.5)

        def value(some: int) -> float:
            own = expected_quality(came | pending | some, sure, quality)
            return own - purse.worth * sum(self.prices[u] for u in members(some))

        return _best(paid, self.prices, value, purse.most)

    def with_others(self, sent: int, able: int, most: float) -> int:
        """Return `sent` and what else `most` pays for of `able`, cheapest first."""
        left = most - sum(self.prices[u] for u in members(sent))
        for u in sorted(members(able & ~sent), key=lambda u: self.prices[u]):
            if self.prices[u] <= left:
                left -= self.prices[u]
                sent |= 1 << u
        return sent

    def _of_item(self, situation: "Situation", purse: Purse) -> Callable[[int], float]:
        """Return a function from fetches that have come to this item's quality.

        If no margin is known, or if the build fitted no gains for a model, the function
        returns the quality that all items have.
        """
        margin, masks = purse.margin, self._masks
        if margin is None or not self._curves or situation.request.min_quality:
            return situation.quality
        asked = situation.row(purse.came)

        def of_item(some: int) -> float:
            curve = self._curves.get((masks[asked], masks[situation.row(some)]))
            if curve is None:
                return situation.quality(some)
            return self.qualities[asked] + gain_at(curve, margin)

        return of_item

    def latest_s(
        self,
        situation: "Situation",
        came: int,
        pending: Mapping[int, float],
        latencies: Sequence[Latency],
        until_s: float,
    ) -> float:
        """Return the time up to which waiting can pay; -infinity if it cannot.

        The fetches in the mask `came` have come. `pending` maps those that may still
        come to the times when they were asked, and `latencies` (U,) are those of all
        fetches. At `until_s` the answer has to be begun. Waiting can pay as long as the
        chance that a fetch comes by then, times the most that all can gain together, is
        at least `LEAST_GAIN`.
        """
        every = came | sum(1 << u for u in pending)
        gain = situation.quality(every) - situation.quality(came)
        if gain < LEAST_GAIN:
            return -math.inf
        return max(
            asked_s + latencies[u].last_useful_s(until_s - asked_s, gain)
            for u, asked_s in pending.items()
        )


class Situation:
    """What a record's answer is expected to be worth, by the fetches that have come.

    Each set of fetches is looked up once, for each time that fetches hold the loop.

    Parameters
    ----------
    rule
        The rule of the record's index.
    request
        The record's request.
    gaps
        Gaps of the record before anything came.
    left
        Part of the budget that is for the record.
    """

    __slots__ = ("_rows", "_rule", "gaps", "left", "request")

    def __init__(
        self, rule: FetchRule, request: Request, gaps: Gaps, left: float
    ) -> None:
        self._rule = rule
        self.request, self.gaps, self.left = request, gaps, left
        self._rows: dict[tuple[int, float], int] = {}

    def row(self, came: int, held_s: float = 0.0) -> int:
        """Return the best row within `left` if the fetches in `came` bring all.

        Calls have held the event loop for `held_s` seconds of `left`.
        """
        key = came, held_s
        row = self._rows.get(key)
        if row is None:
            left = self.left - held_s
            row = self._rows[key] = self._rule.row(self.request, self.gaps, came, left)
        return row

    def is_enough(self, held_s: float) -> bool:
        """Return True if no row changes if calls hold the loop for `held_s` seconds."""
        return not held_s or self._rule.fits_any(self.request, self.left - held_s)

    def quality(self, came: int, held_s: float = 0.0) -> float:
        """Return the expected quality if the fetches in `came` bring everything.

        Calls have held the event loop for `held_s` seconds of `left`. The quality is 0
        if it is below the request's `min_quality`.
        """
        quality = self._rule.qualities[self.row(came, held_s)]
        return quality if quality >= self.request.min_quality else 0.0


def expected_quality(
    sent: int, chances: Sequence[float], quality: Callable[[int], float]
) -> float:
    """Return the expected quality of an answer if the fetches in `sent` are sent.

    Fetches come independently of each other, with their `chances` (U,). The function
    `quality` returns the quality if exactly the fetches in a mask have come. If more
    than `MOST_WEIGHED` fetches may come or not, those with the smallest chances never
    come.
    """
    came = sum(1 << u for u in members(sent) if chances[u] >= 1)
    likely = sorted(members(sent & ~came), key=lambda u: -chances[u])[:MOST_WEIGHED]
    outcomes = {came: 1.0}
    for u in likely:
        own, chance = 1 << u, chances[u]
        more = {mask | own: share * chance for mask, share in outcomes.items()}
        outcomes = {m: share * (1 - chance) for m, share in outcomes.items()} | more
    return sum(share * quality(mask) for mask, share in outcomes.items() if share)


def _best(
    fetches: Sequence[int],
    costs: Sequence[float],
    value: Callable[[int], float],
    most: float = math.inf,
) -> int:
    """Return the best set of some fetches that costs at most `most`, as a mask.

    `costs` (U,) are those of all fetches. Of sets whose `value` is within `LEAST_GAIN`
    of the best, it is the cheapest.
    """
    sets = [some for n in range(len(fetches) + 1) for some in combinations(fetches, n)]
    best, largest = 0, -math.inf
    for cost, some in sorted((sum(costs[u] for u in own), own) for own in sets):
        if cost > most:
            break
        mask = sum(1 << u for u in some)
        own = value(mask)
        if own >= largest + LEAST_GAIN:
            best, largest = mask, own
    return best


@lru_cache(PATTERNS)
def members(fetches: int) -> tuple[int, ...]:
    """Return the ascending positions of the bits of a mask."""
    return tuple(u for u in range(fetches.bit_length()) if fetches >> u & 1)


def _find_without(
    withheld: Callable[[int, int], int],
    brings: Sequence[int],
    empty: int,
    unfetched: int,
    came: int,
) -> int:
    """Return a mask of the features that cannot be computed once `came` has come.

    `empty` and `unfetched` are masks of columns, as in `Gaps`. `withheld` returns the
    features that they make impossible, and `brings` has the columns of each fetch.
    """
    brought = 0
    for u in members(came):
        brought |= brings[u]
    return withheld(empty & ~brought, unfetched & ~brought)
