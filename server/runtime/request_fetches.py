"""Fetches what a request's item lacks, while this can improve its answer.

These are columns of a record, or vectors of a text or an image.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from polydom.features.errors import BadItem
from polydom.features.fetches.fetch import Key
from polydom.features.items import Gaps, Item, Value

from ..engine.request import FetchOutcome, Outcome, Part, Request
from ..engine.send_time import HEAVY, SendTime, weigh
from ..fetching.chances import Chances, Source
from ..fetching.fetch_rule import FetchRule, Purse, Situation, members
from ..fetching.mean_price import MeanPrice
from ..schema.wire import Fetched, FetchState, Terms
from .translator import Translator
from .waiting import TICK_S, Allowance, Shared, Waiting

# Seconds by which waits end too late, until they are measured.
USUAL_LAG_S = 1e-4
# Seconds after which a fetch is tried that seems too slow for every budget.
TRIAL_S = 0.5
# The same for a fetch with a price, if its chance to come in time is below `SLOW`.
PAID_TRIAL_S, SLOW = 10.0, 0.1
# Records of one request whose keys are asked for in one turn of the event loop.
TOGETHER = 64
# Seconds for each of several records besides its plan, until they are measured: to
# read what came, and to answer.
USUAL_READ_S, USUAL_BETWEEN_S = 5e-5, 1e-4
USUAL_CHANCE = 0.9  # share of records that take at most the usual time to be read
# JSON and tensors may bring a whole number as a float; a key needs the number itself.
WHOLE = 2.0**53


class RequestFetches:
    """Sends the fetches of an index's requests, and waits as long as it can pay.

    What is said of a record and its columns holds for a text or an image and its
    vectors, too.

    Only the event loop may use this object. `fetchers` has a fetcher for each fetch of
    the index, None for a fetch that the operator does not offer.
    """

    def __init__(
        self, translator: Translator, fetchers: Sequence[Source | None]
    ) -> None:
        planner = translator.planner
        self._translator, self._now = translator, planner.now
        self._rule = FetchRule(planner, translator.known_columns)
        self._planner = planner
        # Seconds by which the event loop ends a wait too late
        self._lag = SendTime([USUAL_LAG_S])
        # True if features are computed while a record waits that shares no budget
        self.overlaps = not planner.extractor.whole
        # True if what is computed meanwhile tells what a purchase may gain
        self._asks_first = self.overlaps and self._rule.knows_gains
        # Seconds that each of several records takes besides its plan
        self._reading = SendTime([USUAL_READ_S])
        self._between = SendTime([USUAL_BETWEEN_S])
        self._fetchers = fetchers
        self._stored = planner.package.fetches
        self._columns = [fetch.columns for fetch in self._stored]
        self._chances = Chances(fetchers, planner.package.arrivals)
        dearest = max(self._rule.prices, default=0.0)
        self._mean_price = MeanPrice(translator.settings.mean_price, dearest)

    def go_on_from(self, old: "RequestFetches") -> None:
        """Take over what was measured, and what a price is worth, from an old index."""
        self._mean_price.worth = old._mean_price.worth
        self._lag, self._reading, self._between = old._lag, old._reading, old._between

    def send(
        self, request: Request, terms: Terms, shared: Shared | None = None
    ) -> Waiting | None:
        """Ask for the columns that a request's record lacks; None if it lacks none.

        Every request about a record that lacks columns of a fetch gets a `Waiting`,
        even if no fetch is sent.

        If several records share the budget, each is answered in an equal part of it,
        and may wait until the time is needed to answer all. The single record of a
        batch has such a share, too: nothing is computed while it waits.
        """
        gaps = request.item.gaps
        if gaps is None or not gaps.unfetched:
            return None
        now_s, rule, patient = self._now(), self._rule, terms.fetch == "all"
        alone = shared is None
        shared = shared or Shared(1, 0.0, Allowance(terms.max_price))
        allowed, records = shared.allowed, shared.records
        left = request.budget.left(now_s)
        if records > 1:
            left = left / records - shared.besides_s - self._reading_s(records, now_s)
        situation = rule.situation(request, gaps, left)
        waiting = Waiting(situation, self._columns, now_s, allowed, patient=patient)
        keys = self._keys(rule.lacked(gaps), request.item)
        if terms.fetch == "never" or not keys:
            return waiting
        able = waiting.able = sum([1 << u for u in keys])
        waiting.keys = keys
        unpaid = able & ~rule.with_price
        sent = self._free(waiting, unpaid, records, alone)
        # if nobody asked, nobody would learn that a source is fast again
        sent |= self._chances.unasked(unpaid & ~sent, now_s - TRIAL_S)
        for u in members(sent):
            self._ask(u, waiting)
        waiting.undecided = paid = able & rule.with_price
        waiting.asks_first = alone and self._asks_first
        if not patient and paid and (waiting.pending or waiting.asks_first):
            waiting.decide_s = self._chances.latest_s(paid, now_s, waiting.until_s)
        elif paid:  # nothing can be learned by waiting with a purchase
            self._buy(waiting)
        return waiting

    def _free(self, waiting: Waiting, unpaid: int, records: int, alone: bool) -> int:
        """Set until when a record may wait; return the free fetches that are worth it.

        `unpaid` is a mask of the free fetches that can be asked. Features may be
        computed meanwhile if the record is `alone`, and in no batch.
        """
        situation = waiting.situation
        waiting.after_s = self._after_s(situation, waiting.able, alone)
        wait_s = records * (situation.left - waiting.after_s)
        lag_s = self._lag_s(waiting, wait_s)
        waiting.until_s = waiting.asked_s + wait_s - lag_s
        if waiting.patient or not unpaid:
            return unpaid
        chances = self._chances.of_all(waiting.able, waiting.until_s - self._now())
        held_s = self._chances.held_s(unpaid if self._planner.unit == "s" else 0)
        return self._rule.free(situation, waiting.able, chances, held_s)

    def _reading_s(self, records: int, now_s: float) -> float:
        """Return the seconds that each of some records takes to be read.

        A stall holds up one of them, and not all.
        """
        levels = self._reading.levels(now_s)
        usual_s = next(one.seconds for one in levels if one.chance <= USUAL_CHANCE)
        return usual_s + levels[0].seconds / records

    def _lag_s(self, waiting: Waiting, wait_s: float) -> float:
        """Return the seconds of a wait to hold back, as the wait may end too late.

        After a stall of the event loop, long lags would leave nothing of short waits.
        Then the seconds with the best expected quality are held back.
        """
        levels = self._lag.levels(waiting.asked_s)
        if levels[0].seconds <= HEAVY * wait_s:
            return levels[0].seconds
        expected = waiting.situation.quality
        least, most = expected(0), expected(waiting.able)

        def quality(lag_s: float) -> float:
            chances = [self._chances.of(u, wait_s - lag_s) for u in waiting.keys]
            return least + max(chances) * (most - least)

        return weigh(levels, quality, quality(levels[-1].seconds))

    def _after_s(self, situation: Situation, able: int, alone: bool) -> float:
        """Return the seconds of work that may be left when the fetches have come.

        If features are computed meanwhile, only those of fetched columns are left.
        """
        planner, request = self._planner, situation.request
        if self.overlaps and alone:
            return planner.rest_s(self._rule.readers, request)
        rows = {situation.row(able), situation.row(0)}
        return max([planner.time_s(row, request) for row in rows])

    def then(
        self, request: Request, waiting: Waiting, done: Callable[[], object]
    ) -> None:
        """Call `done` once the wait for fetches has ended, which may be at once.

        The wait ends when every fetch has come or failed, when the rest of the budget
        is needed to answer, or when what may still come gains too little. What has a
        price is bought as late as possible: then most of the free columns have come,
        and the item may be sure without it. `settled` then returns the request with all
        columns that have come. `waiting.stop` ends the wait without a call.
        """
        waiting.begin(partial(self._look, request, waiting), done)
        self._look(request, waiting)

    async def arrive(self, request: Request, waiting: Waiting) -> Request:
        """Wait as `then` does; return the request with all columns that have come."""
        await self._wait(request, waiting)
        return self.settled(request, waiting)

    async def _wait(self, request: Request, waiting: Waiting) -> None:
        ended = asyncio.get_running_loop().create_future()
        self.then(request, waiting, partial(ended.set_result, None))
        try:
            await ended
        finally:
            waiting.stop()

    def _look(self, request: Request, waiting: Waiting) -> None:
        """End the wait of a record, or set the time to look again."""
        now_s = self._now()
        late_s = now_s - waiting.alarm_s
        if late_s > -TICK_S:
            self._lag.add(max(late_s, 0.0), now_s)
        while True:
            now_s, until_s = self._now(), self._wait_until(waiting)
            # a source may be faster than a timer: then the wait takes one tick
            ends = until_s <= now_s or waiting.until_s - now_s < TICK_S
            if not waiting.undecided:
                break
            if not ends and now_s < waiting.decide_s:
                until_s = min(until_s, waiting.decide_s)
                break
            self._buy(waiting)
        if ends or request.caller.gone:
            waiting.end()
        else:
            waiting.alarm_s = max(until_s, now_s + TICK_S)
            waiting.sleep(waiting.alarm_s - now_s)

    def shared_by(self, records: int, terms: Terms) -> Shared:
        """Return what the records of one request share."""
        besides_s = self._between.at(self._now())
        return Shared(records, besides_s, Allowance(terms.max_price))

    async def arrive_all(
        self, requests: Sequence[Request], terms: Terms, shared: Shared
    ) -> list[Request]:
        """Return requests that share one budget with all columns that have come.

        Each request has the whole budget, and waits as `arrive` does, at most until the
        time is needed to answer all of the records in `shared`. The keys of up to
        `TOGETHER` records are asked for together; in between, other requests are read.
        """
        found, waits = list(requests), dict[int, Waiting]()
        ended = asyncio.Event()

        def settle(place: int) -> None:
            began_s = self._now()
            found[place] = self.settled(requests[place], waits.pop(place))
            now_s = self._now()
            self._reading.add(now_s - began_s, now_s)
            ended.set()

        try:
            for place, request in enumerate(requests):
                if place and place % TOGETHER == 0:
                    await asyncio.sleep(0)
                waiting = self.send(request, terms, shared)
                if waiting is not None:
                    waits[place] = waiting
                    self.then(request, waiting, partial(settle, place))
            while waits:
                ended.clear()
                await ended.wait()
        finally:
            for waiting in waits.values():
                waiting.stop()
        return found

    def answered(self, outcomes: Sequence[Outcome], since_s: float) -> None:
        """Measure what several records took besides their plans, since a time."""
        now_s = self._now()
        plans_s = sum(one.finished_s - one.started_s for one in outcomes)
        each_s = max(now_s - since_s - plans_s, 0.0) / len(outcomes)
        self._between.add(each_s, now_s)

    def _buy(self, waiting: Waiting) -> None:
        """Ask for the fetches with a price that are worth it for this record.

        A patient record gets all that its price pays for, unless the mean price of
        requests is above what the operator allows.
        """
        able, waiting.undecided = waiting.undecided, 0
        left_s = waiting.until_s - self._now()
        surely = [1.0] * len(self._stored)
        chances = (
            surely if waiting.patient else self._chances.of_all(waiting.able, left_s)
        )
        worth, came, pending = self._mean_price.worth, waiting.came, waiting.pending
        before = 0 if waiting.asks_first else came  # what the margin's model has used
        margin = self._margin(waiting, before)
        purse = Purse(waiting.allowed.left, worth, margin, before)
        known = waiting.situation, came, pending, able
        bought = self._rule.paid(*known, chances, purse)
        if waiting.patient and not worth:
            bought = self._rule.with_others(bought, able, purse.most)
        slow = sum(1 << u for u in members(able & ~bought) if chances[u] < SLOW)
        if self._chances.unasked(slow, waiting.asked_s - PAID_TRIAL_S):
            # bought now and then as if it was fast, to learn whether it is
            bought = self._rule.paid(*known, surely, purse)
        for u in members(bought):
            self._ask(u, waiting)

    def answered_first(self, waiting: Waiting, outcome: Outcome) -> None:
        """Note how well, and how surely, an item is answered before its fetches.

        An early answer has the quality of the whole plan, and is as sure as that.
        """
        margin = None
        if outcome.scores is not None:
            margin = self._planner.lead(outcome.row, [*outcome.scores.values()])
        waiting.first = outcome.quality, margin
        waiting.wake()

    def _margin(self, waiting: Waiting, came: int) -> float | None:
        """Return the margin of the best model if `came` has come; None if unknown."""
        request, row = waiting.situation.request, waiting.situation.row(came)
        if waiting.asks_first:
            quality, margin = waiting.first
            return margin if quality == self._planner.qualities[row] else None
        item = self._read(request, waiting) if came else request.item
        return self._planner.margin(row, item)

    def _ask(self, u: int, waiting: Waiting) -> None:
        fetcher = self._fetchers[u]
        assert fetcher is not None
        self._chances.asked_s[u] = waiting.asked_s
        arrival = fetcher.ask(waiting.keys[u], waiting.until_s)
        waiting.arrivals[u] = arrival
        if arrival.state == "waiting" and arrival.asks == 1:
            waiting.paid |= 1 << u
            waiting.allowed.spend(self._rule.prices[u])

    def _price(self, waiting: Waiting) -> float:
        """Return what the calls for a record cost; a key that was not sent is free."""
        arrivals, prices = waiting.arrivals, self._rule.prices
        own = [u for u in members(waiting.paid) if arrivals[u].state != "not_sent"]
        return sum([prices[u] for u in own], 0.0)

    def _keys(self, lacked: int, item: Item) -> dict[int, Key]:
        """Return the keys of the fetches in `lacked` that can be asked for.

        A fetch of texts or images has the item itself as its key.
        """
        keys = dict[int, Key]()
        record = (item.gaps and item.gaps.record) or {}
        for u in members(lacked):
            if self._fetchers[u] is None:
                continue
            names = self._stored[u].key
            if not names:
                keys[u] = (item.payload,)
                continue
            key = tuple([_plain(record.get(name)) for name in names])
            if None not in key:
                keys[u] = key
        return keys

    def _wait_until(self, waiting: Waiting) -> float:
        """Return the time up to which waiting can pay; -infinity if it cannot."""
        pending = waiting.pending
        if not pending:
            learns = waiting.undecided and waiting.asks_first and waiting.first[0] < 0
            return waiting.decide_s if learns else -math.inf
        if waiting.patient:
            return waiting.until_s
        asked_s = {u: waiting.arrivals[u].sent_s for u in members(pending)}
        return self._rule.latest_s(
            waiting.situation,
            waiting.came,
            asked_s,
            self._chances.latencies,
            waiting.until_s,
        )

    def settled(self, request: Request, waiting: Waiting) -> Request:
        """Return the request with the columns that came, and with what was fetched."""
        item = self._read(request, waiting) if waiting.came else request.item
        asked, came = sum([1 << u for u in waiting.arrivals]), waiting.came
        hoped = possible = 0.0
        if waiting.able & ~came:
            # a fetch that came is not missed, even if it found nothing
            left = waiting.situation.left
            now = self._rule.situation(request, item.gaps or Gaps(), left)
            hoped = now.quality(asked & ~came) if asked & ~came else 0.0
            if request.on_infeasible == "error":
                possible = now.quality(waiting.able & ~came)
        fetched = {
            fetch.name: self._fact(waiting, u) for u, fetch in enumerate(self._stored)
        }
        now_s, price = self._now(), self._price(waiting)
        self._mean_price.add(price)
        outcome = FetchOutcome(
            fetched,
            now_s - waiting.asked_s,
            price,
            hoped,
            spared=bool(waiting.able & ~asked),
            possible=possible,
            parts=self._parts(request, waiting, now_s) if request.timed else (),
        )
        return replace(request, item=item, read_s=now_s, fetches=outcome)

    def _read(self, request: Request, waiting: Waiting) -> Item:
        """Return the item with all that came and that its columns can hold."""
        item, read = request.item, self._translator.read_fetched
        try:
            return read(item, waiting.merged(waiting.came))
        except BadItem:
            pass
        for u in members(waiting.came):
            try:
                read(item, waiting.merged(1 << u))
            except BadItem:
                waiting.refused |= 1 << u
                fetcher = self._fetchers[u]
                if fetcher is not None:
                    fetcher.refuse()
        return read(item, waiting.merged(waiting.came))

    def _parts(
        self, request: Request, waiting: Waiting, now_s: float
    ) -> tuple[Part, ...]:
        """Return what each fetch took that was asked for, until now if it is late."""
        return tuple(
            Part(
                "fetch",
                self._stored[u].name,
                begun_s := max(arrival.sent_s, waiting.asked_s),
                min(max(arrival.came_s, begun_s), now_s),  # infinite if it is late
                max(waiting.until_s - begun_s, 0.0),
                request.budget.left(begun_s),
                self._fact(waiting, u).state in ("late", "failed"),
            )
            for u, arrival in waiting.arrivals.items()
            if arrival.state != "not_sent"
        )

    def _fact(self, waiting: Waiting, u: int) -> Fetched:
        arrival = waiting.arrivals.get(u)
        if arrival is None:
            lacked = self._rule.brings[u] & waiting.situation.gaps.unfetched
            return Fetched("not_sent" if lacked else "given")
        state: FetchState = "late" if arrival.state == "waiting" else arrival.state
        if waiting.refused >> u & 1:
            state = "failed"
        if state != "came":
            return Fetched(state)
        took_s = max(arrival.came_s - waiting.asked_s, 0.0)
        return Fetched(state, int(took_s * 1e6 + 0.5) / 1e3)


def _plain(value: Value) -> Value:
    """Return a key's value: a whole number as an integer, and None for NaN."""
    if isinstance(value, float):
        if value != value:
            return None
        if value.is_integer() and abs(value) < WHOLE:
            return int(value)
    return value
