"""Fetches the columns that a record lacks, while this can improve its answer."""

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from polydom.features.errors import BadItem
from polydom.features.fetches.fetch import Key
from polydom.features.items import Gaps, Item, Value

from ..engine.request import FetchOutcome, Outcome, Request
from ..engine.send_time import HEAVY, SendTime, weigh
from ..fetching.arrival import Arrival
from ..fetching.fetch_rule import FetchRule, Purse, Situation, members
from ..fetching.latency import Latency
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
# Share of a fetch's chance to come in time that waiting with a purchase leaves, and the
# number of steps by which the time for it is found.
LATE_SHARE, HALVINGS = 0.95, 8
# Records of one request whose keys are asked for in one turn of the event loop.
TOGETHER = 64
# Seconds for each of several records besides its plan, until they are measured: to
# read what came, and to answer.
USUAL_READ_S, USUAL_BETWEEN_S = 5e-5, 1e-4
# JSON and tensors may bring a whole number as a float; a key needs the number itself.
WHOLE = 2.0**53


# Empty columns, unfetched columns, and fetches that can be asked, of a record
Pattern = tuple[int, int, int]


class Sending(NamedTuple):
    """What is decided for all records of a pattern that come at the same time."""

    free: int  # Mask of the fetches without a price to send
    until_s: float  # Time at which the answer has to be begun
    decide_s: float  # Time to decide about fetches with a price


class Source(Protocol):
    """What brings the values of a fetch: a `Fetcher`, or a simulation of one."""

    @property
    def latency(self) -> Latency:
        """The distribution of arrival times."""

    @property
    def down(self) -> bool:
        """True if the source is down."""

    def ask(self, key: Key, due_s: float) -> Arrival:
        """Ask for the values of a key; never block or raise."""

    def refuse(self) -> None:
        """Count values that a record's columns cannot hold."""


class RecordFetches:
    """Sends the fetches of an index's records, and waits as long as it can pay.

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
        # True if features are computed while a single record waits
        self.overlaps = not planner.extractor.whole
        # Seconds that each of several records takes besides its plan
        self._reading = SendTime([USUAL_READ_S])
        self._between = SendTime([USUAL_BETWEEN_S])
        self._fetchers = fetchers
        self._stored = planner.package.fetches
        self._columns = [fetch.columns for fetch in self._stored]
        draws = planner.package.arrivals
        dearest = max(self._rule.prices, default=0.0)
        self._mean_price = MeanPrice(translator.settings.mean_price, dearest)
        # When each fetch was last asked
        self._asked_s = [-math.inf] * len(self._stored)
        # an unoffered fetch is never asked, so that its latency is not needed
        self._latencies = [
            Latency(draws[:, u]) if fetcher is None else fetcher.latency
            for u, fetcher in enumerate(fetchers)
        ]

    def send(
        self,
        request: Request,
        terms: Terms,
        shared: Shared | None = None,
        known: dict[Pattern, Sending] | None = None,
    ) -> Waiting | None:
        """Ask for the columns that a request's record lacks; None if it lacks none.

        Every request about a record that lacks columns of a fetch gets a `Waiting`,
        even if no fetch is sent.

        If several records share the budget, each is answered in an equal part of it,
        and may wait until the time is needed to answer all. They also share what is
        `known` of records that come at the same time, which is added to.
        """
        gaps = request.item.gaps
        if gaps is None or not gaps.unfetched:
            return None
        now_s, rule, patient = self._now(), self._rule, terms.fetch == "all"
        shared = shared or Shared(1, 0.0, Allowance(terms.max_price))
        allowed, records = shared.allowed, shared.records
        left = request.budget.left(now_s)
        if records > 1:
            left = left / records - shared.besides_s - self._reading.at(now_s)
        situation = rule.situation(request, gaps, left)
        waiting = Waiting(situation, self._columns, now_s, allowed, patient=patient)
        keys = self._keys(rule.lacked(gaps), request.item)
        if terms.fetch == "never" or not keys:
            return waiting
        able = waiting.able = sum(1 << u for u in keys)
        waiting.keys = keys
        known = {} if known is None else known
        pattern = gaps.empty, gaps.unfetched, able
        sending = known.get(pattern)
        if sending is None:
            sending = known[pattern] = self._decide(waiting, records)
        waiting.until_s = sending.until_s
        sent, unpaid = sending.free, able & ~rule.with_price
        sent |= self._trials(unpaid & ~sent, now_s)
        for u in members(sent):
            self._ask(u, waiting)
        waiting.undecided = able & rule.with_price
        if not patient and waiting.undecided and waiting.pending:
            waiting.decide_s = sending.decide_s
        elif waiting.undecided:  # nothing can be learned by waiting with a purchase
            self._buy(waiting)
        return waiting

    def _decide(self, waiting: Waiting, records: int) -> Sending:
        """Choose the free fetches to send, and until when the record may wait."""
        rule, able, situation = self._rule, waiting.able, waiting.situation
        waiting.after_s = self._after_s(situation, able, records)
        wait_s = records * (situation.left - waiting.after_s)
        until_s = waiting.asked_s + wait_s - self._lag_s(waiting, wait_s)
        waiting.until_s = until_s
        free = able & ~rule.with_price
        if waiting.patient:
            return Sending(free, until_s, -math.inf)
        if free:
            free = rule.free(situation, able, self._chances(waiting))
        decide_s = self._latest_purchase_s(able & rule.with_price, until_s)
        return Sending(free, until_s, decide_s)

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
            chances = [self._chance(u, wait_s - lag_s) for u in waiting.keys]
            return least + max(chances) * (most - least)

        return weigh(levels, quality, quality(levels[-1].seconds))

    def _after_s(self, situation: Situation, able: int, records: int) -> float:
        """Return the seconds of work that may be left when the fetches have come.

        If features are computed meanwhile, only those of fetched columns are left.
        """
        planner, request = self._planner, situation.request
        if self.overlaps and records == 1:
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
        each: list[Request | asyncio.Task[Request]] = []
        for start in range(0, len(requests), TOGETHER):
            if start:
                await asyncio.sleep(0)
            known: dict[Pattern, Sending] = {}
            for request in requests[start : start + TOGETHER]:
                waiting = self.send(request, terms, shared, known)
                if waiting is None:
                    each.append(request)
                else:
                    arriving = self._arrive_among(request, waiting)
                    each.append(asyncio.create_task(arriving))
        tasks = [one for one in each if isinstance(one, asyncio.Task)]
        await asyncio.gather(*tasks)
        return [one.result() if isinstance(one, asyncio.Task) else one for one in each]

    async def _arrive_among(self, request: Request, waiting: Waiting) -> Request:
        """Wait as `arrive` does, and measure how long the reading takes."""
        await self._wait(request, waiting)
        began_s = self._now()
        found = self.settled(request, waiting)
        now_s = self._now()
        self._reading.add(now_s - began_s, now_s)
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
        chances = self._chances(waiting)
        if waiting.patient:
            chances = [1.0] * len(chances)
        worth, margin = self._mean_price.worth, self._margin(waiting)
        purse = Purse(waiting.allowed.left, worth, margin)
        came, pending = waiting.came, waiting.pending
        known = waiting.situation, came, pending, able
        bought = self._rule.paid(*known, chances, purse)
        if waiting.patient and not worth:
            bought = self._rule.with_others(bought, able, purse.most)
        slow = [u for u in members(able & ~bought) if chances[u] < SLOW]
        if any(self._asked_s[u] <= waiting.asked_s - PAID_TRIAL_S for u in slow):
            # bought now and then as if it was fast, to learn whether it is
            bought = self._rule.paid(*known, [1.0] * len(chances), purse)
        for u in members(bought):
            self._ask(u, waiting)

    def _margin(self, waiting: Waiting) -> float | None:
        """Return the margin of the best model for what has come; None if unknown."""
        came, request = waiting.came, waiting.situation.request
        item = self._read(request, waiting) if came else request.item
        return self._planner.margin(waiting.situation.row(came), item)

    def _chances(self, waiting: Waiting) -> list[float]:
        """Return each fetch's chance to come in time if it is asked now."""
        left_s = waiting.until_s - self._now()
        return [
            self._chance(u, left_s) if waiting.able >> u & 1 else 0.0
            for u in range(len(self._stored))
        ]

    def _latest_purchase_s(self, paid: int, until_s: float) -> float:
        """Return the time until which a purchase is about as likely to be in time.

        `paid` is a mask of fetches. They have to come by `until_s`.
        """
        now_s = self._now()
        latest_s = until_s
        for u in members(paid):
            least = LATE_SHARE * self._chance(u, until_s - now_s)
            low_s, high_s = now_s, until_s
            for _ in range(HALVINGS):
                middle_s = (low_s + high_s) / 2
                if self._chance(u, until_s - middle_s) >= least:
                    low_s = middle_s
                else:
                    high_s = middle_s
            latest_s = min(latest_s, low_s)
        return latest_s

    def _ask(self, u: int, waiting: Waiting) -> None:
        fetcher = self._fetchers[u]
        assert fetcher is not None
        self._asked_s[u] = waiting.asked_s
        arrival = fetcher.ask(waiting.keys[u], waiting.until_s)
        waiting.arrivals[u] = arrival
        if arrival.state == "waiting" and arrival.asks == 1:
            waiting.price += self._rule.prices[u]
            waiting.allowed.spend(self._rule.prices[u])

    def _trials(self, unsent: int, now_s: float) -> int:
        """Return a mask of the fetches in `unsent` to ask, though they look too slow.

        Otherwise nobody would learn that a source is fast again.
        """
        last_s = now_s - TRIAL_S
        return sum(1 << u for u in members(unsent) if self._asked_s[u] <= last_s)

    def _keys(self, lacked: int, item: Item) -> dict[int, Key]:
        """Return the keys of the fetches in `lacked` that can be asked for.

        A fetch of texts or images has the item itself as its key.
        """
        keys = dict[int, Key]()
        record = (item.gaps and item.gaps.record) or {}
        for u, fetch in enumerate(self._stored):
            if not lacked >> u & 1 or self._fetchers[u] is None:
                continue
            if not fetch.key:
                keys[u] = (item.payload,)
                continue
            key = tuple(_plain(record.get(name)) for name in fetch.key)
            if None not in key:
                keys[u] = key
        return keys

    def _chance(self, u: int, left_s: float) -> float:
        """Return a fetch's chance to come within `left_s` seconds.

        It is 1 if the source is down: the fetcher then lets only probes through, which
        tell when it is up again.
        """
        fetcher = self._fetchers[u]
        if fetcher is not None and fetcher.down:
            return 1.0
        return self._latencies[u].chance(0.0, left_s)

    def _wait_until(self, waiting: Waiting) -> float:
        """Return the time up to which waiting can pay; -infinity if it cannot."""
        pending = waiting.pending
        if not pending:
            return -math.inf
        if waiting.patient:
            return waiting.until_s
        asked_s = {u: waiting.arrivals[u].sent_s for u in members(pending)}
        return self._rule.latest_s(
            waiting.situation, waiting.came, asked_s, self._latencies, waiting.until_s
        )

    def settled(self, request: Request, waiting: Waiting) -> Request:
        """Return the request with the columns that came, and with what was fetched."""
        item = self._read(request, waiting) if waiting.came else request.item
        asked, came = sum([1 << u for u in waiting.arrivals]), waiting.came
        # a fetch that came is not missed, even if it found nothing
        left = waiting.situation.left
        now = self._rule.situation(request, item.gaps or Gaps(), left)
        hoped = now.quality(asked & ~came) if asked & ~came else 0.0
        possible = 0.0
        if request.on_infeasible == "error":
            possible = now.quality(waiting.able & ~came)
        fetched = {
            fetch.name: self._fact(waiting, u) for u, fetch in enumerate(self._stored)
        }
        now_s = self._now()
        self._mean_price.add(waiting.price)
        outcome = FetchOutcome(
            fetched,
            now_s - waiting.asked_s,
            waiting.price,
            hoped,
            spared=bool(waiting.able & ~asked),
            possible=possible,
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
