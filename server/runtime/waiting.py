"""A record that waits for its fetches."""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from polydom.features.fetches.fetch import Key

from ..fetching.arrival import Arrival
from ..fetching.fetch_rule import Situation, members

# uvloop's timers count whole milliseconds. A wait ends up to one too early, not late.
TICK_S = 1e-3
SLACK = 1 + 1e-9  # sums of prices are rounded


class Allowance:
    """What the calls for one or more records may still cost.

    `max_price` is what all may cost together; None for any price.
    """

    __slots__ = ("left",)

    def __init__(self, max_price: float | None) -> None:
        self.left = math.inf if max_price is None else max_price * SLACK

    def spend(self, price: float) -> None:
        """Take the price of a call away."""
        self.left = max(self.left - price, 0.0)


class Shared(NamedTuple):
    """What several records share that are answered one after the other."""

    records: int  # Their number, with those that lack no columns
    besides_s: float  # Seconds that each takes besides its plan and its fetches
    allowed: Allowance  # What their fetches may still cost together


class Waiting:
    """The fetches that were asked for one record, and the record as it came.

    `arrivals` maps positions of the index's fetches to what they bring. `situation` is
    the record's before anything came, and `columns` are the columns of each fetch.
    """

    __slots__ = (
        "_alarm",
        "_columns",
        "_done",
        "_look",
        "_looking",
        "able",
        "after_s",
        "alarm_s",
        "allowed",
        "arrivals",
        "asked_s",
        "asks_first",
        "decide_s",
        "first",
        "keys",
        "paid",
        "patient",
        "refused",
        "situation",
        "undecided",
        "until_s",
    )

    def __init__(
        self,
        situation: Situation,
        columns: Sequence[Sequence[str]],
        asked_s: float,
        allowed: Allowance,
        *,
        patient: bool,
    ) -> None:
        self.situation = situation
        self._columns = columns
        self.arrivals: dict[int, Arrival] = {}
        self.asked_s = asked_s
        self.patient = patient  # True to wait until the deadline, whatever it gains
        self.after_s = 0.0  # seconds of work when the waiting has ended
        self.able = 0  # mask of the fetches that could be asked
        self.keys: dict[int, Key] = {}  # key of each of them
        # mask of the fetches with a price of which is not decided whether to ask them,
        # and the time to decide
        self.undecided = 0
        self.decide_s = -math.inf
        # True if a purchase waits for the answer without fetches, as this may be sure
        self.asks_first = False
        # expected quality of that answer, -1 until it is known, and its margin
        self.first: tuple[float, float | None] = (-1.0, None)
        self.allowed = allowed  # what calls may still cost
        self.paid = 0  # mask of the fetches that this record asked for first, and pays
        # mask of the fetches whose values cannot be used
        self.refused = 0
        # time at which the answer has to be begun
        self.until_s = math.inf
        self.alarm_s = math.inf  # time up to which the wait sleeps if no fetch ends
        # Called when the wait ends, and when it may have to
        self._done: Callable[[], object] | None = None
        self._look: Callable[[], object] = bool
        self._looking: asyncio.Handle | None = None  # a call of `_look` that is due
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def came(self) -> int:
        """Mask of the fetches whose values can be used."""
        own = self.arrivals.items()
        found = sum([1 << u for u, one in own if one.state in ("came", "kept")])
        return found & ~self.refused

    @property
    def pending(self) -> int:
        """Mask of the fetches that may still come."""
        own = self.arrivals.items()
        return sum([1 << u for u, one in own if one.state == "waiting"])

    def merged(self, came: int) -> dict[str, Any]:
        """Return the record with what the fetches in `came` brought.

        Values that the record has itself are kept. A column for which a fetch found
        nothing is None. For a text or an image, the result has only the vectors.
        """
        record: dict[str, Any] = dict(self.situation.gaps.record or {})
        for u in members(came):
            values = self.arrivals[u].values or {}
            for name in self._columns[u]:
                record.setdefault(name, values.get(name))
        return record

    def begin(self, look: Callable[[], object], done: Callable[[], object]) -> None:
        """Begin the wait. `end` will call `done`, and `sleep` lets `look` be called."""
        self._look, self._done = look, done

    def sleep(self, seconds: float) -> None:
        """Call `look` when a fetch has ended, at the latest after some seconds.

        A timer counts whole ticks, and at least one.
        """
        for arrival in self.arrivals.values():
            if arrival.state == "waiting":
                arrival.then(self.wake)
        if self._alarm is not None:
            self._alarm.cancel()
        ticks = max(math.floor(seconds / TICK_S), 1)
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(ticks * TICK_S, self.wake)

    def end(self) -> None:
        """End the wait, and call `done`."""
        done = self._done
        self.stop()
        if done is not None:
            done()

    def stop(self) -> None:
        """End the wait, and call nothing more; fetches are left behind."""
        self._done, self._look = None, bool
        for handle in (self._alarm, self._looking):
            if handle is not None:
                handle.cancel()
        self._alarm = self._looking = None
        for arrival in self.arrivals.values():
            if arrival.state == "waiting":
                arrival.forget(self.wake)

    def wake(self) -> None:
        """Look in the next turn of the loop, as more fetches may end in this one."""
        if self._looking is None and self._done is not None:
            self._looking = asyncio.get_running_loop().call_soon(self._look_once)

    def _look_once(self) -> None:
        self._looking = None
        self._look()
