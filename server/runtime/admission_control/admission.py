"""Admission control: each request begins at once, waits for a moment, or is refused.

The event loop works in turns: it reads from every connection that has bytes, then
continues the work that these bytes began. Bytes that arrive meanwhile wait in the
kernel, and this process cannot see them. Therefore only a few requests begin in each
turn. All others wait in this process, which can estimate how long they will wait.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

from ...errors import Overloaded
from .usual_budget import UsualBudget

# Seconds that the requests of one turn should take; a probe waits hardly longer.
TURN_S = 0.008
# Share of the usual budget that they should take at most. What arrives meanwhile waits
# for a turn to be read, and an answer for the turn's end to be written.
TURN = 0.1
# Share of the usual budget that a request may wait before it begins.
LONGEST_WAIT = 0.3
# Share of the usual budget that a request may have waited in the kernel.
LONGEST_UNREAD = 0.5
# Number of requests that every turn may begin, however long they take.
LEAST = 8
# Number of connections that a turn accepts at most. If it accepted so many, more may
# wait in the kernel.
ACCEPTED = 8
# For so many seconds after connections were refused there, requests that waited in the
# kernel for long are refused, too, because fresher ones wait behind them.
CROWDED_S = 0.1
# Share of the event loop's time that refusals may take. Beyond it, connections rest. A
# refusal is measured from the read of the request on; with what the kernel does, it
# takes about KERNEL times as long.
REFUSING, KERNEL = 1 / 16, 1.5
# Longest rest in seconds, as long as a refused caller is asked to wait; and the
# shortest rest, below which to pause a connection takes longer than it spares.
LONGEST_REST_S, SHORTEST_REST_S = 1.0, 0.002
# Seconds of the event loop per request, until they are measured.
FIRST_COST_S = 2e-4
# Estimates are dropped if no turn has updated them for this many seconds.
FORGET_S = 1.0
# Largest share of a turn that is believed to be taken by refusals.
MOST_REFUSING = 0.75
# Smoothing of the estimates. The latest turn has the weight LATEST, and counts as at
# most MOST times the estimate. The first turn replaces the estimate, changed by at most
# a factor of FIRST_MOST. If the first turn had fewer than LEAST requests, the factor is
# MOST, because accepting connections may have taken the time.
LATEST, MOST, FIRST_MOST = 1 / 4, 2, 4


class Admission:
    """Decides for each request whether it begins now, waits, or is refused.

    Only the event loop may use this object. `budget` tells how long most requests can
    wait. `call_soon` is the event loop's method that schedules a function for the next
    turn.
    """

    def __init__(
        self,
        budget: UsualBudget,
        call_soon: Callable[[Callable[[], None]], object],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget = budget
        self._call_soon = call_soon
        self._now = now
        self._refused = 0.0
        self._set_cost(FIRST_COST_S)
        self._knows = False
        self._learned_s = self._began_s = self._refusing_s = 0.0
        self._rests_until_s = 0.0
        self._begun = self._accepted = 0
        # True if a request that began in this turn is answered after its reading phase
        self._goes_on = False
        # Function that refuses the connections that wait in the kernel to be accepted,
        # but for so many; it returns how many seconds that took
        self.shorten_queue: Callable[[int], float] = float
        self._accept_s = FIRST_COST_S
        self._full_s = self._crowded_s = -FORGET_S
        self._ending = False  # True if a function for the turn's end is scheduled
        self._left = self._quota
        self._held: deque[Callable[[], None]] = deque()

    def accept(self) -> None:
        """Count an accepted connection."""
        if not self._accepted:
            self._call_soon(self._when_accepted)
        self._accepted += 1

    def enter(self, read_s: float, waited_s: float = 0.0) -> bool:
        """Return True if a request may begin now; the caller must then begin it.

        `read_s` is the time when the loop's turn began that read the request: so
        requests of one turn have the same time, however long each of them takes. The
        request waited `waited_s` seconds in the kernel before.
        """
        if self._left <= 0:  # so if other requests wait
            return False
        if waited_s > self._longest_unread_s and self._is_crowded(read_s):
            return False
        self._left -= 1
        begun = self._begun = self._begun + 1
        if begun == 1:
            self._began_s = read_s
        elif begun == LEAST:
            self._time_turn(read_s)
        return True

    def goes_on(self) -> None:
        """Note that a request that just began is not answered before this returns."""
        self._goes_on = True

    def _is_crowded(self, now_s: float) -> bool:
        """Return True if others wait that are fresher than a request that waited."""
        return bool(self._held) or now_s - self._crowded_s < CROWDED_S

    def enter_behind(self, now_s: float) -> None:
        """Count a pipelined request, which follows another one on its connection.

        It is begun in any case: `LoopTurn.later` lets all pipelined requests take so
        much of a turn, and `room_behind` says how many of them are in time.
        """
        begun = self._begun = self._begun + 1
        if begun == 1:
            self._began_s = now_s
        elif begun == LEAST:
            self._time_turn(now_s)

    def hold(self, begin: Callable[[], None], waited_s: float = 0.0) -> bool:
        """Queue a request and return True; return False if it would wait too long.

        `begin` is called when the request may begin. The request waited `waited_s`
        seconds in the kernel before it was read.
        """
        late_s = 0.0
        if waited_s > self._longest_wait_s and self._is_crowded(self._now()):
            late_s = waited_s - self._longest_wait_s
        if late_s + len(self._held) * self.pace_s > self._longest_wait_s:
            return False
        self._held.append(begin)
        self._end_soon()
        return True

    def room_behind(
        self, count: int, waited_s: float, unread_s: float, others: int
    ) -> int:
        """Return how many of a connection's pipelined requests can be begun in time.

        These `count` requests came within `unread_s` seconds, and `waited_s` seconds
        ago they were read. `others` connections have such requests, too. If not all can
        be begun, the first ones are refused, because the last ones are the freshest.
        """
        left_s = max(self._longest_unread_s - waited_s, 0.0)
        room = int(left_s / (1 + others) / self.pace_s)
        if unread_s > left_s:
            room = min(room, int(count * left_s / unread_s))
        return max(room, 1)

    def room(self) -> int:
        """Return how many requests may begin in this turn; 0 if others wait."""
        return 0 if self._held else self._left

    def refused(self, read_s: float) -> float:
        """Count a refusal; return for how many seconds its connection is not read.

        Call this right after the refusal. `read_s` is the time when the request was
        read. Each refusal lets connections rest for its own time over `REFUSING`, one
        after the other: so refusals take at most this share of the event loop's time,
        however fast refused callers ask again.
        """
        now_s = self._now()
        took_s = now_s - read_s
        self._refusing_s += KERNEL * took_s
        # a process that was stopped for a moment has not refused meanwhile
        rest_s = min(took_s, self.cost_s) / REFUSING
        self._rests_until_s = max(self._rests_until_s, now_s) + rest_s
        rest_s = min(self._rests_until_s - now_s, LONGEST_REST_S)
        return rest_s if rest_s >= SHORTEST_REST_S else 0.0

    async def wait(self) -> None:
        """Wait until a gRPC request may begin; raise Overloaded if that is too late."""
        self.goes_on()
        if self.enter(self._now()):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if not turn.done():
                turn.set_result(None)

        if not self.hold(begin):
            raise Overloaded("more requests came than can be answered in time")
        await turn

    def _time_turn(self, read_s: float) -> None:
        """Start timing a turn, unless its first `LEAST` requests arrived far apart.

        `read_s` is the time when the last of them was read.
        """
        if read_s - self._learned_s > FORGET_S:
            self._learned_s, self._knows = read_s, False
            self._set_cost(FIRST_COST_S)
        if read_s - self._began_s > 2 * LEAST * self.cost_s:
            self._begun, self._left, self._began_s = 1, self._quota - 1, read_s
        else:
            self._open(self._began_s)

    def _open(self, now_s: float) -> None:
        self._began_s, self._refusing_s = now_s, 0.0
        self._end_soon()

    def _end_soon(self) -> None:
        if not self._ending:
            self._ending = True
            self._call_soon(self._when_read)

    def _when_accepted(self) -> None:
        """Refuse the connections in the kernel that would wait too long."""
        accepted, self._accepted = self._accepted, 0
        if accepted < ACCEPTED:
            return
        now_s = self._now()
        since_s, self._full_s = now_s - self._full_s, now_s
        if since_s < FORGET_S:  # the turn before accepted as many
            since_s = min(since_s / accepted, self._accept_s * MOST)
            self._accept_s += LATEST * (since_s - self._accept_s)
        room = int(self._longest_unread_s / self._accept_s) - ACCEPTED
        took_s = self.shorten_queue(max(room, LEAST))
        if took_s:
            self._refusing_s += took_s
            self._full_s = self._crowded_s = now_s + took_s

    def _when_read(self) -> None:
        """End the turn's reading phase; requests read later belong to the next turn."""
        if self._goes_on and (self._begun > LEAST or self._held):
            self._left = 0  # requests read from now on belong to the next turn
            self._call_soon(self._when_done)
        else:
            self._when_done()

    def _when_done(self) -> None:
        """End a turn of the loop: update the estimates, and begin waiting requests."""
        now_s = self._now()
        if self._begun > LEAST or self._held:
            self._learn(now_s)
        self._begun, self._left, self._ending = 0, self._quota, False
        self._goes_on = False
        if self._held:
            self._open(now_s)
        while self._held and self._left > 0:
            self._begun += 1
            self._left -= 1
            self._held.popleft()()

    def _learn(self, now_s: float) -> None:
        """Update the estimates from the event loop's turn that ended at `now_s`."""
        took_s, count = now_s - self._began_s, max(self._begun, 1)
        refused = min(self._refusing_s / max(took_s, 1e-9), MOST_REFUSING)
        self._refused += LATEST * (refused - self._refused)
        latest_s = took_s * (1 - refused) / count
        # to accept connections may have taken the time
        known = 1 if self._full_s >= self._began_s else count
        self._set_cost(self._follow(self.cost_s, latest_s, known))
        self._learned_s, self._knows = now_s, True

    def _set_cost(self, cost_s: float) -> None:
        # Seconds of the event loop per request; and seconds between the starts of two
        # requests, as others are refused meanwhile
        self.cost_s, self.pace_s = cost_s, cost_s / (1 - self._refused)
        budget_s = self._budget.seconds
        self._longest_wait_s = LONGEST_WAIT * budget_s
        self._longest_unread_s = LONGEST_UNREAD * budget_s
        self._quota = max(LEAST, int(min(TURN_S, TURN * budget_s) / cost_s))

    def _follow(self, before_s: float, latest_s: float, count: int) -> float:
        """Return the estimate `before_s` moved towards the measured `latest_s`.

        The change is bounded, because a single turn may stall. `count` is the number of
        requests in the measured turn.
        """
        if not self._knows:
            most = FIRST_MOST if count >= LEAST else MOST
            return min(max(latest_s, before_s / FIRST_MOST), before_s * most)
        latest_s = min(max(latest_s, before_s / MOST), before_s * MOST)
        return before_s + LATEST * (latest_s - before_s)


class HeldBytes:
    """Counts and limits the bytes that requests in progress keep in memory.

    Only the event loop may use this object.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def body(self) -> "HeldBody":
        """Return a context manager that counts the bytes of one request."""
        return HeldBody(self)


class HeldBody:
    """A context manager that counts the bytes one request keeps in memory."""

    __slots__ = ("_held_bytes", "_size")

    def __init__(self, held_bytes: HeldBytes) -> None:
        self._held_bytes = held_bytes
        self._size = 0

    def __enter__(self) -> "HeldBody":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held_bytes.held -= self._size
        self._size = 0

    def hold(self, size: int) -> None:
        """Set the number of bytes that this request keeps in memory to `size`.

        Raises Overloaded if the total of all requests would exceed the limit.
        """
        held_bytes, more = self._held_bytes, size - self._size
        if more > 0 and held_bytes.held + more > held_bytes.limit:
            raise Overloaded(
                f"requests under way hold {held_bytes.held:,} bytes; at most "
                f"{held_bytes.limit:,} are held at a time"
            )
        held_bytes.held += more
        self._size = size
