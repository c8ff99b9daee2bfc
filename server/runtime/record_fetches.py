"""Fetches the columns that a record lacks, while this can improve its answer."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from polydom.features.errors import BadItem
from polydom.features.fetches.fetch import Key
from polydom.features.items import Gaps, Item, Value

from ..engine.request import FetchOutcome, Outcome, Request
from ..engine.send_time import SendTime
from ..fetching.arrival import Arrival
from ..fetching.fetch_rule import FetchRule, Purse, members
from ..fetching.fetcher import Fetcher
from ..fetching.latency import Latency
from ..fetching.mean_price import MeanPrice
from ..schema.wire import Fetched, FetchMode, FetchState, Terms
from .translator import Translator

# uvloop's timers count whole milliseconds. A wait ends up to one too early, not late.
TICK_S = 1e-3
# Seconds by which waits end too late, until they are measured.
USUAL_LAG_S = 5e-4
# Seconds after which a fetch is tried that seems too slow for every budget.
TRIAL_S = 0.5
# Share of a fetch's chance to come in time that waiting with a purchase leaves, and the
# number of steps by which the time for it is found.
LATE_SHARE, HALVINGS = 0.95, 8
# JSON and tensors may bring a whole number as a float; a key needs the number itself.
WHOLE = 2.0**53


class Waiting:
    """The fetches that were asked for one record, and the record as it came.

    `arrivals` maps positions of the index's fetches to what they bring. `gaps` are
    those of the record before anything came, and `columns` the columns of each fetch.
    """

    __slots__ = (
        "_columns",
        "_woken",
        "able",
        "arrivals",
        "asked_s",
        "decide_s",
        "gaps",
        "keys",
        "max_price",
        "patient",
        "price",
        "refused",
        "undecided",
        "until_s",
    )

    def __init__(
        self,
        gaps: Gaps,
        columns: Sequence[Sequence[str]],
        asked_s: float,
        *,
        patient: bool,
    ) -> None:
        self.gaps = gaps
        self._columns = columns
        self.arrivals: dict[int, Arrival] = {}
        self.asked_s = asked_s
        self.patient = patient  # True to wait until the deadline, whatever it gains
        self.able = 0  # mask of the fetches that could be asked
        self.keys: dict[int, Key] = {}  # key of each of them
        # mask of the fetches with a price of which is not decided whether to ask them,
        # and the time to decide
        self.undecided = 0
        self.decide_s = -math.inf
        self.max_price = math.inf  # of all fetches together
        self.price = 0.0  # price of the calls that were made for this record
        # mask of the fetches whose values cannot be used
        self.refused = 0
        # time at which the answer has to be begun
        self.until_s = math.inf
        self._woken: asyncio.Future[None] | None = None

    def _in_state(self, *states: str) -> int:
        own = self.arrivals.items()
        return sum(1 << u for u, arrival in own if arrival.state in states)

    @property
    def came(self) -> int:
        """Mask of the fetches whose values can be used."""
        return self._in_state("came", "kept") & ~self.refused

    @property
    def pending(self) -> int:
        """Mask of the fetches that may still come."""
        return self._in_state("waiting")

    def merged(self, came: int) -> dict[str, Value]:
        """Return the record with what the fetches in `came` brought.

        Values that the record has itself are kept. A column for which a fetch found
        nothing is None.
        """
        record = dict(self.gaps.record or {})
        for u in members(came):
            values = self.arrivals[u].values or {}
            for name in self._columns[u]:
                record.setdefault(name, values.get(name))
        return record

    async def next(self, until_s: float, now: Callable[[], float]) -> float:
        """Wait until a fetch ends, at most until `until_s` on the clock `now`.

        Returns how many seconds after `until_s` the wait ended.
        """
        loop = asyncio.get_running_loop()
        woken = self._woken = loop.create_future()
        waiting = [one for one in self.arrivals.values() if one.state == "waiting"]
        for arrival in waiting:
            arrival.then(self._wake)
        ticks = math.floor((until_s - now()) / TICK_S)
        alarm = loop.call_later(max(ticks, 1) * TICK_S, self._wake)
        try:
            await woken
        finally:
            alarm.cancel()
            for arrival in waiting:
                arrival.forget(self._wake)
        return now() - until_s

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)


class RecordFetches:
    """Sends the fetches of an index's records, and waits as long as it can pay.

    Only the event loop may use this object. `fetchers` has a fetcher for each fetch of
    the index, None for a fetch that the operator does not offer.
    """

    def __init__(
        self, translator: Translator, fetchers: Sequence[Fetcher | None]
    ) -> None:
        planner = translator.planner
        self._translator, self._now = translator, planner.now
        self._rule = FetchRule(planner, translator.known_columns)
        self._planner = planner
        # Seconds by which the event loop ends a wait too late
        self._lag = SendTime(usual=USUAL_LAG_S)
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

    def send(self, request: Request, terms: Terms) -> Waiting | None:
        """Ask for the columns that a request's record lacks; None if it lacks none.

        Every request about a record that lacks columns of a fetch gets a `Waiting`,
        even if no fetch is sent.
        """
        gaps = request.item.gaps
        if gaps is None or not gaps.unfetched:
            return None
        now_s, rule = self._now(), self._rule
        waiting = Waiting(gaps, self._columns, now_s, patient=terms.fetch == "all")
        left = request.budget.left(now_s)
        keys = self._keys(rule.lacked(gaps), gaps.record or {})
        mode: FetchMode = terms.fetch or "as_planned"
        if mode == "never" or not keys:
            return waiting
        able = waiting.able = sum(1 << u for u in keys)
        waiting.keys = keys
        best = rule.row(request, gaps, able, left)
        first = rule.row(request, gaps, 0, left)
        work_s = max(self._planner.time_s(row, request) for row in (best, first))
        waiting.until_s = now_s + left - work_s - self._lag.at(now_s)
        waiting.max_price = math.inf if terms.max_price is None else terms.max_price
        chances = self._chances(waiting)
        sent = able & ~rule.with_price
        if mode == "as_planned":
            sent = rule.free(request, gaps, able, chances, left)
            sent |= self._trials(able & ~rule.with_price & ~sent, now_s)
        for u in members(sent):
            self._ask(u, waiting)
        waiting.undecided = able & rule.with_price
        if mode == "as_planned" and waiting.undecided and waiting.pending:
            waiting.decide_s = self._latest_purchase_s(waiting)
        elif waiting.undecided:  # nothing can be learned by waiting with a purchase
            self._buy(request, waiting)
        return waiting

    async def arrive(self, request: Request, waiting: Waiting) -> Request:
        """Wait for fetches; return the request with all columns that have come.

        The wait ends when every fetch has come or failed, when the rest of the budget
        is needed to answer, or when what may still come gains too little. What has a
        price is bought as late as possible: then most of the free columns have come,
        and the item may be sure without it.
        """
        while True:
            now_s, until_s = self._now(), self._wait_until(request, waiting)
            if waiting.undecided:
                if until_s - now_s < TICK_S or now_s >= waiting.decide_s:
                    self._buy(request, waiting)
                    continue
                until_s = min(until_s, waiting.decide_s)
            if until_s - now_s < TICK_S or request.caller.gone:
                break
            late_s = await waiting.next(until_s, self._now)
            if late_s > -TICK_S:
                self._lag.add(max(late_s, 0.0), self._now())
        return self._settled(request, waiting)

    def _buy(self, request: Request, waiting: Waiting) -> None:
        """Ask for the fetches with a price that are worth it for this record."""
        able, waiting.undecided = waiting.undecided, 0
        left = request.budget.left(waiting.asked_s)
        chances = self._chances(waiting)
        if waiting.patient:
            chances = [1.0] * len(chances)
        worth, margin = self._mean_price.worth, self._margin(request, waiting, left)
        purse = Purse(waiting.max_price, worth, margin)
        came, pending = waiting.came, waiting.pending
        bought = self._rule.paid(
            request, waiting.gaps, came, pending, able, chances, left, purse
        )
        for u in members(bought):
            self._ask(u, waiting)

    def _margin(self, request: Request, waiting: Waiting, left: float) -> float | None:
        """Return the margin of the best model for what has come; None if unknown."""
        row = self._rule.row(request, waiting.gaps, waiting.came, left)
        item = self._read(waiting) if waiting.came else request.item
        return self._planner.margin(row, item)

    def _chances(self, waiting: Waiting) -> list[float]:
        """Return each fetch's chance to come in time if it is asked now."""
        left_s = waiting.until_s - self._now()
        return [self._chance(u, left_s) for u in range(len(self._stored))]

    def _latest_purchase_s(self, waiting: Waiting) -> float:
        """Return the time until which a purchase is about as likely to be in time."""
        now_s = self._now()
        until_s = latest_s = waiting.until_s
        for u in members(waiting.undecided):
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

    def _trials(self, unsent: int, now_s: float) -> int:
        """Return a mask of the fetches in `unsent` to ask, though they look too slow.

        Otherwise nobody would learn that a source is fast again.
        """
        last_s = now_s - TRIAL_S
        return sum(1 << u for u in members(unsent) if self._asked_s[u] <= last_s)

    def _keys(self, lacked: int, record: Mapping[str, Value]) -> dict[int, Key]:
        """Return the keys of the fetches in `lacked` that can be asked for."""
        keys = {}
        for u, fetch in enumerate(self._stored):
            if not lacked >> u & 1 or self._fetchers[u] is None:
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

    def _wait_until(self, request: Request, waiting: Waiting) -> float:
        """Return the time up to which waiting can pay; -infinity if it cannot."""
        pending = waiting.pending
        if not pending:
            return -math.inf
        if waiting.patient:
            return waiting.until_s
        return self._rule.latest_s(
            request,
            waiting.gaps,
            waiting.came,
            {u: waiting.arrivals[u].sent_s for u in members(pending)},
            self._latencies,
            request.budget.left(waiting.asked_s),
            waiting.until_s,
        )

    def _settled(self, request: Request, waiting: Waiting) -> Request:
        """Return the request with the columns that came, and with what was fetched."""
        item = self._read(waiting) if waiting.came else request.item
        left = request.budget.left(waiting.asked_s)
        asked = sum(1 << u for u in waiting.arrivals)
        # for which a fetch found nothing, nobody hopes any more
        gaps, missed = item.gaps or Gaps(), asked & ~waiting.came
        hoped = self._rule.quality(request, gaps, left, missed)
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
        )
        return replace(request, item=item, read_s=now_s, fetches=outcome)

    def _read(self, waiting: Waiting) -> Item:
        """Return the record with all values that came and that its columns can hold."""
        try:
            return self._translator.read(waiting.merged(waiting.came))
        except BadItem:
            pass
        for u in members(waiting.came):
            try:
                self._translator.read(waiting.merged(1 << u))
            except BadItem:
                waiting.refused |= 1 << u
                fetcher = self._fetchers[u]
                if fetcher is not None:
                    fetcher.refuse()
        return self._translator.read(waiting.merged(waiting.came))

    def _fact(self, waiting: Waiting, u: int) -> Fetched:
        arrival = waiting.arrivals.get(u)
        if arrival is None:
            lacked = self._rule.brings[u] & waiting.gaps.unfetched
            return Fetched("not_sent" if lacked else "given")
        state: FetchState = "late" if arrival.state == "waiting" else arrival.state
        if waiting.refused >> u & 1:
            state = "failed"
        if state != "came":
            return Fetched(state)
        took_s = max(arrival.came_s - waiting.asked_s, 0.0)
        return Fetched(state, int(took_s * 1e6 + 0.5) / 1e3)


def with_fetches(request: Request, outcome: Outcome) -> Outcome:
    """Return an outcome with the reason for what fetches did not bring.

    The reason is "late_fetch" if a fetch that was asked for would have allowed a better
    answer. It is "budget" instead of "missing" if columns are missing that the budget
    left no time or money to fetch.
    """
    fetches, reason = request.fetches, outcome.reason
    if fetches is None:
        return outcome
    if outcome.quality < fetches.hoped:
        return replace(outcome, reason="late_fetch")
    if fetches.spared and reason == "missing":
        return replace(outcome, reason="budget")
    return outcome


def _plain(value: Value) -> Value:
    """Return a key's value: a whole number as an integer, and None for NaN."""
    if isinstance(value, float):
        if value != value:
            return None
        if value.is_integer() and abs(value) < WHOLE:
            return int(value)
    return value
