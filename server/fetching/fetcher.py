"""Fetches keys for requests: keys go together, and one call serves all who ask."""

import asyncio
import heapq
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from math import inf

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import FetchFailed
from polydom.features.fetches.answers import Brought, Values
from polydom.features.fetches.fetch import Fetch, Key
from polydom.indexer.index.kernels.expected_quality import LEAST_GAIN

from .arrival import Arrival, ExactKey, exact
from .breaker import Breaker
from .call import Call
from .failure_log import FailureLog
from .fetch_counts import Ended, FetchCounts
from .hedge import Hedging
from .held import Held
from .kept_values import KeptValues
from .latency import Latency
from .stepped import stepped

# Estimated bytes of all values that a process keeps.
KEPT_BYTES = 64 << 20
# Longest time in seconds for calls and connections to end when a fetcher is closed.
CLOSE_S = 2.0


class Fetcher:
    """Fetches the values of keys for requests. Only the event loop may use it.

    Keys that are asked for in one turn of the loop go together in one call. While a key
    is in flight, all who ask for it share one `Arrival`. At most `fetch.at_once` calls
    are in flight; other keys wait, those with the least time first. A call that takes
    longer than `fetch.at_most_s` has failed, and counts no more as in flight; but it
    goes on, and what it brings is kept. If it is a function of the user's, it is
    cancelled after twice that time. The clients of other sources have time limits of
    their own, since cancelling a command may confuse a connection.

    A call that takes long may be sent a second time (`Hedging`). Both are calls as any
    other; the first that comes brings the values, and the other is left behind.

    Values are kept for `fetch.keep_s` seconds from the sending of the call. When the
    source is down (`Breaker`), keys are refused, except probes. An answer that cannot
    be used fails for its key alone.

    Parameters
    ----------
    fetch
        The fetch, bound to the columns to bring.
    draws
        Shape (M,): its arrival times in seconds at the build; infinity for failures.
    now
        Clock of all times, in seconds.
    counts
        Counts to add to; fetchers may share them.
    kept_bytes
        Most bytes of kept values, by an estimate.
    """

    def __init__(
        self,
        fetch: Fetch,
        draws: NDArray[np.float64],
        now: Callable[[], float] = time.monotonic,
        *,
        counts: FetchCounts | None = None,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self.fetch = fetch
        self.latency = Latency(draws)
        self._held = Held()
        self.counts = counts or FetchCounts()
        self.hedging = Hedging(fetch.hedge, now) if fetch.hedge else None
        self._now = now
        self._kept = KeptValues(kept_bytes, now)
        self._breaker = Breaker()
        self._log = FailureLog(fetch.name, now)
        self._waiting: dict[ExactKey, Arrival] = {}  # arrivals that have not ended
        # Keys to be sent: time until which they are of use, number, arrival
        self._queue: list[tuple[float, int, Arrival]] = []
        self._numbers = count()
        self._open: set[Call] = set()  # calls that are not over
        self._calls: set[Call] = set()  # all calls whose tasks have not ended
        self._settled_s = now()  # when the last call ended
        self._turn_s = 0.0  # when the first key of this turn of the loop was asked for
        self._is_sending_soon = False
        self._is_closed = False

    @property
    def down(self) -> bool:
        """True if the source is down, so that only probes are sent."""
        return self._breaker.down

    @property
    def held_s(self) -> float:
        """Seconds for which a key holds the event loop; 0 if none would be sent."""
        return 0.0 if self._breaker.down else self._held.seconds

    def ask(self, key: Key, due_s: float) -> Arrival:
        """Return what the key brings, which may be there already; never raises.

        `due_s` is the time until which the values are of use. The call is sent at the
        end of this turn of the event loop.
        """
        exact_key = exact(key)
        try:
            arrival = self._kept.get(exact_key)
        except TypeError:  # a part of the key cannot be hashed
            return self._refused(exact_key)
        if arrival is not None:
            self.counts.kept += 1
            return arrival
        arrival = self._waiting.get(exact_key)
        if arrival is not None:
            arrival.due_s = max(arrival.due_s, due_s)
            arrival.wanted = True
            arrival.asks += 1
            return arrival
        if self._is_closed or any(part != part for part in key):  # NaN is no key
            return self._refused(exact_key)
        if self._breaker.down:
            return self._probe(exact_key, due_s)
        self._send_soon()
        arrival = self._waiting[exact_key] = Arrival(exact_key, due_s, self._turn_s)
        heapq.heappush(self._queue, (due_s, next(self._numbers), arrival))
        return arrival

    async def open(self) -> None:
        """Open a connection, unless there is one; an error is logged."""
        if self.fetch.open is None:
            return
        try:
            async with asyncio.timeout(self.fetch.at_most_s):
                await self.fetch.open()
        except Exception as error:  # calls will fail, and say so, too
            self._log.failed(error)

    def refuse(self) -> None:
        """Log, at most once a minute, that a record cannot hold what a call brought."""
        self._log.failed(
            FetchFailed(
                "it brought a value that its column cannot hold, as a text is "
                "for a number"
            )
        )

    async def close(self) -> None:
        """Cancel all calls, and close connections; arrivals that wait have failed.

        Keys that are asked for later are not sent.
        """
        self._is_closed = True
        self._refuse_queue()
        calls = [*self._calls]
        for call in calls:
            if not call.is_over:
                self._settle(call, call.failures(FetchFailed("the server stops")))
                call.tell()
            call.timer.cancel()
            call.task.cancel()
        if calls:
            await asyncio.wait([call.task for call in calls], timeout=CLOSE_S)
        if self.fetch.close is not None:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self.fetch.close()
            except Exception as error:  # a server that stops has no use for it
                self._log.failed(error)

    def _refused(self, key: ExactKey) -> Arrival:
        """Return an arrival of a key that is not sent."""
        arrival = Arrival(key, -inf, self._now())
        arrival.end("not_sent")
        self.counts.not_sent += 1
        return arrival

    def _probe(self, key: ExactKey, due_s: float) -> Arrival:
        """Send a key to a source that is down, or refuse it.

        A probe does not wait for a free call: those in flight may hang.
        """
        now_s = self._now()
        if due_s <= now_s or not self._breaker.probes(now_s):
            return self._refused(key)
        arrival = self._waiting[key] = Arrival(key, due_s, now_s)
        self._send([arrival], now_s)
        return arrival

    def _send_soon(self) -> None:
        """Send queued keys at the end of this turn of the loop."""
        if not self._is_sending_soon:
            self._is_sending_soon = True
            self._turn_s = self._now()
            asyncio.get_running_loop().call_soon(self._send_queued)

    def _send_queued(self) -> None:
        """Send as many queued keys as calls are free; refuse those of no use."""
        self._is_sending_soon = False
        now_s, batch = self._now(), self.fetch.batch
        free = (self.fetch.at_once - len(self._open)) * batch
        chosen: list[Arrival] = []
        late: list[Arrival] = []
        while self._queue:
            due_s, number, arrival = self._queue[0]
            if arrival.due_s <= now_s or not arrival.wanted:
                late.append(arrival)
            elif len(chosen) < free:
                chosen.append(arrival)
            elif due_s <= now_s:  # a later request can still use the values
                entry = (arrival.due_s, number, arrival)
                heapq.heapreplace(self._queue, entry)
                continue
            else:
                break
            heapq.heappop(self._queue)
        for first in range(0, len(chosen), batch):
            self._send(chosen[first : first + batch], now_s)
        if late:
            self._refuse(late)

    def _refuse_queue(self) -> None:
        queue, self._queue = self._queue, []
        self._refuse([arrival for _, _, arrival in queue])

    def _refuse(self, arrivals: list[Arrival]) -> None:
        for arrival in arrivals:
            arrival.end("not_sent")
            del self._waiting[arrival.key]
        self.counts.not_sent += len(arrivals)
        for arrival in arrivals:
            arrival.tell()

    def _send(self, arrivals: list[Arrival], now_s: float) -> None:
        """Send a call for keys, which may be repeated."""
        call = Call(arrivals, now_s)
        self._start(call, min([arrival.due_s for arrival in arrivals]))
        if self.hedging is not None:
            after_s = self.hedging.after_s(self.latency)
            if after_s < self.fetch.at_most_s:
                call.timer.cancel()
                loop = asyncio.get_running_loop()
                call.timer = loop.call_later(after_s, self._send_again, call)

    def _send_again(self, call: Call) -> None:
        """Send a second call for the keys of a call, if it is allowed and of use."""
        now_s = self._now()
        left_s = call.sent_s + self.fetch.at_most_s - now_s
        loop = asyncio.get_running_loop()
        call.timer = loop.call_later(left_s, self._give_up, call)
        own = call.arrivals
        dues_s = [one.due_s for one in own if one.wanted and one.due_s > now_s]
        is_free = not self._queue and len(self._open) < self.fetch.at_once
        if self.hedging is None or self.down or not (dues_s and is_free):
            return
        # what is in time with a chance below the least gain gains less than that
        if self.latency.chance(0.0, max(dues_s) - now_s) < LEAST_GAIN:
            return
        if self.hedging.allows():
            call.second = Call(own, now_s, call)
            self._start(call.second, min(dues_s))

    def _start(self, call: Call, due_s: float) -> None:
        most_s = self.fetch.at_most_s
        left_s = min(due_s - call.sent_s, most_s)
        loop = asyncio.get_running_loop()
        call.task = loop.create_task(self._run(call, left_s))
        call.timer = loop.call_later(most_s, self._give_up, call)
        self._open.add(call)
        self._calls.add(call)
        self.counts.in_flight += 1

    async def _run(self, call: Call, left_s: float) -> None:
        """Call the fetch, and end the arrivals of its keys."""
        try:
            bringing = self.fetch.bring(call.keys(), left_s)
            found = await stepped(bringing, partial(self._hold, call))
        except asyncio.CancelledError:
            self._fail(call, FetchFailed("the call was cancelled"))
            raise
        except Exception as error:
            self._fail(call, error)
        else:
            self._bring(call, found)
        finally:
            call.timer.cancel()
            self._calls.discard(call)
            self.counts.in_flight -= 1

    def _hold(self, call: Call, seconds: float) -> None:
        """Count a step of a call, which has held the event loop."""
        call.held_s += seconds
        self._log.held(seconds)

    def _give_up(self, call: Call) -> None:
        """Let a call that takes too long fail; it goes on."""
        most_s = self.fetch.at_most_s
        self._fail(call, FetchFailed(f"the call took longer than {most_s * 1e3:g} ms"))
        if self.fetch.connect is None:  # a function of the user's
            loop = asyncio.get_running_loop()
            call.timer = loop.call_later(most_s, call.task.cancel)

    def _fail(self, call: Call, error: Exception) -> None:
        if call.is_over:
            return
        self._log.failed(error, call.keys())
        was_down = self.down
        self._breaker.failed(self._now(), call.sent_s)
        self._settle(call, call.failures(error))
        if self.down:
            if not was_down:
                self._log.down()
            self._refuse_queue()
        call.tell()

    def _bring(self, call: Call, found: list[Brought]) -> None:
        """Hand values to those who wait, and keep them."""
        self._held.add(call.held_s / len(call.arrivals))
        unusable = [one for one in found if isinstance(one, FetchFailed)]
        in_time = not call.is_over
        if in_time:
            if unusable:
                self._log.failed(unusable[0], call.keys())
            if self._breaker.down:
                self._log.up()
            call.came_s = self._now()
            self._breaker.came(call.came_s)
            self._settle(call, found)
        if self.fetch.keep_s:
            came_s, until_s = self._now(), call.sent_s + self.fetch.keep_s
            for arrival, values in zip(call.arrivals, found, strict=True):
                if not isinstance(values, FetchFailed):
                    self._kept.add(arrival.kept(values, came_s), until_s)
        if in_time:
            call.tell()

    def _settle(self, call: Call, found: Sequence[Values | Exception | None]) -> None:
        """Free a call, and set what its keys brought; tells nobody yet.

        The keys go on waiting if this call failed, and another for them is in flight.
        """
        call.is_over = True
        call.timer.cancel()
        self._open.discard(call)
        other = call.first or call.second
        if call.waits and (call.came_s < inf or other is None or other.is_over):
            self._end(call, found)
        self._judge(call.first or call)
        if self._queue:
            self._send_soon()

    def _end(self, call: Call, found: Sequence[Values | Exception | None]) -> None:
        """Set what a call's keys brought, and learn how long requests waited.

        If the call brought an answer, its time is that of an arrival, even if the
        values of a key cannot be used: one bad row must not make the source look slow.
        """
        now_s, answered = self._now(), call.came_s < inf
        # how keys ended, and when these were asked for
        ended = set[tuple[Ended, float]]()
        for arrival, values in zip(call.arrivals, found, strict=True):
            if isinstance(values, Exception):
                arrival.end("failed")
                ended.add(("failed", arrival.sent_s))
            else:
                arrival.end("came", values, now_s)
                ended.add(("came", arrival.sent_s))
            del self._waiting[arrival.key]
        for state, asked_s in ended:
            self.counts.seconds[state].add_one(now_s - asked_s)
        since_s, self._settled_s = now_s - self._settled_s, now_s
        for asked_s in {asked_s for _, asked_s in ended}:
            self.latency.add(now_s - asked_s if answered else inf, since_s)
            since_s = 0.0

    def _judge(self, call: Call) -> None:
        """Count whether a second call came before this one, once that is known."""
        second = call.second
        if second is None or call.waits or not call.is_over:
            return
        call.second = None  # it is counted once
        won = second.came_s < call.came_s
        self.counts.hedges[won] += 1
        if self.hedging is not None:
            chance = self.latency.chance(0.0, call.came_s - second.sent_s)
            self.hedging.add(won, chance)
