"""Admission control: each request begins at once, waits for a moment, or is refused.

The event loop works in turns: it reads from every connection that has bytes, then
continues the work that these bytes began. Bytes that arrive meanwhile wait in the
kernel, and this process cannot see them. Therefore only a few requests begin in each
turn. All others wait in this process, which can estimate how long they will wait.
"""

import asyncio
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType

from ..errors import Overloaded

# Seconds that the requests of one turn should take; a probe waits hardly longer.
TURN_S = 0.008
# Share of the usual budget that a request may wait before it begins.
LONGEST_WAIT = 0.3
# Number of requests that every turn may begin, however long they take.
LEAST = 8
# If a turn accepted ACCEPTED connections, it begins at most CROWDED requests: more
# connections wait in the kernel, and a short turn accepts them soon.
ACCEPTED, CROWDED = 16, 2
# Seconds of the event loop per request, until they are measured.
FIRST_COST_S = 2e-4
# Estimates are dropped if no turn has updated them for this many seconds.
FORGET_S = 1.0
# Smoothing of the estimates. The latest turn has the weight LATEST, and counts as at
# most MOST times the estimate. The first turn replaces the estimate, changed by at most
# a factor of FIRST_MOST. If the first turn had fewer than LEAST requests, the factor is
# MOST, because accepting connections may have taken the time.
LATEST, MOST, FIRST_MOST = 1 / 4, 2, 4


class Admission:
    """Decides for each request whether it begins now, waits, or is refused.

    Only the event loop may use this object. `budget_s` is the server's default time
    budget. `call_soon` is the event loop's method that schedules a function for the
    next turn.
    """

    def __init__(
        self,
        budget_s: float,
        call_soon: Callable[[Callable[[], None]], object],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._longest_wait_s = LONGEST_WAIT * budget_s
        self._turn_s = min(TURN_S, self._longest_wait_s)
        self._call_soon = call_soon
        self._now = now
        self._set_estimates(FIRST_COST_S, FIRST_COST_S)
        self._knows = False
        self._learned_s = self._began_s = self._refusing_s = 0.0
        self._begun = self._accepted = 0
        # Function that returns how many connections wait in the kernel to be accepted
        self.unseen: Callable[[], int] = int
        self._take_s = FIRST_COST_S
        self._taken_s = self._unseen_s = 0.0
        self._ending = False  # True if a function for the turn's end is scheduled
        self._left = self._quota
        self._held: deque[Callable[[], None]] = deque()
        self._behind: deque[Callable[[], None]] = deque()

    def accept(self) -> float:
        """Count an accepted connection; return about how many seconds it waited."""
        if not self._accepted:
            self._call_soon(self._when_accepted)
        self._accepted += 1
        return self._unseen_s

    def enter(self, read_s: float, waited_s: float = 0.0) -> bool:
        """Return True if a request may begin now; the caller must then begin it.

        `read_s` is the time when the request was read. Its connection waited `waited_s`
        seconds to be accepted.
        """
        # if other requests wait, the turn's quota is used up
        if self._left <= 0 or waited_s > self._longest_wait_s:
            return False
        self._left -= 1
        begun = self._begun = self._begun + 1
        if begun == 1:
            self._began_s = read_s
        elif begun == LEAST:
            self._time_turn(read_s)
        return True

    def enter_behind(self, now_s: float) -> bool:
        """Return True if a pipelined request may begin now; the caller must then do so.

        A pipelined request follows another request on its connection. All pipelined
        requests together get half of a turn, so that callers who send many requests at
        a time do not delay callers who send one.
        """
        if self._behind or 2 * self._left <= self._quota:
            return False
        return self.enter(now_s)

    def hold(self, begin: Callable[[], None], waited_s: float = 0.0) -> bool:
        """Queue a request and return True; return False if it would wait too long.

        `begin` is called when the request may begin. The request's connection waited
        `waited_s` seconds to be accepted.
        """
        if waited_s + len(self._held) * self.pace_s > self._longest_wait_s:
            return False
        self._held.append(begin)
        return True

    def hold_behind(self, begin: Callable[[], None]) -> bool:
        """Queue a pipelined request, or return False if it would wait too long."""
        if 2 * len(self._behind) * self.pace_s > self._longest_wait_s:
            return False
        self._behind.append(begin)
        self._end_soon()
        return True

    def refused(self, read_s: float) -> None:
        """Exclude the time of refusing a request from the estimated cost of requests.

        Call this right after the refusal. `read_s` is the time when the request was
        read.
        """
        self._refusing_s += self._now() - read_s

    async def wait(self) -> None:
        """Wait until a gRPC request may begin; raise Overloaded if that is too late."""
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
            self._set_estimates(FIRST_COST_S, FIRST_COST_S)
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
        """Let fewer requests begin in this turn if it accepted many connections."""
        if self._accepted >= ACCEPTED:
            self._left = min(self._left, CROWDED)
            self._end_soon()
        self._estimate_wait()
        self._accepted = 0

    def _estimate_wait(self) -> None:
        """Estimate how long connections wait in the kernel before they are accepted."""
        now_s, waiting = self._now(), self.unseen()
        if self._unseen_s:  # some connections waited at the previous call
            latest_s = (now_s - self._taken_s) / self._accepted
            latest_s = min(max(latest_s, self._take_s / MOST), self._take_s * MOST)
            self._take_s += LATEST * (latest_s - self._take_s)
        self._unseen_s, self._taken_s = waiting * self._take_s, now_s

    def _when_read(self) -> None:
        """End the turn's reading phase; requests read later belong to the next turn."""
        if self._begun <= LEAST and not self._held and not self._behind:
            self._begun, self._left, self._ending = 0, self._quota, False
        else:
            self._left = 0  # requests read from now on belong to the next turn
            self._call_soon(self._when_done)

    def _when_done(self) -> None:
        """End a turn of the loop: update the estimates, and begin waiting requests."""
        now_s = self._now()
        if self._begun > LEAST or self._held:
            self._learn(now_s)
        self._begun, self._left, self._ending = 0, self._quota, False
        if self._held or self._behind:
            self._open(now_s)
        while self._held and self._left > 0:
            self._begin(self._held)
        while self._behind and 2 * self._left > self._quota:
            self._begin(self._behind)

    def _begin(self, waiting: deque[Callable[[], None]]) -> None:
        self._begun += 1
        self._left -= 1
        waiting.popleft()()

    def _learn(self, now_s: float) -> None:
        """Update the estimates from the event loop's turn that ended at `now_s`."""
        took_s, count = now_s - self._began_s, max(self._begun, 1)
        self._set_estimates(
            self._follow(self.cost_s, (took_s - self._refusing_s) / count, count),
            self._follow(self.pace_s, took_s / count, count),
        )
        self._learned_s, self._knows = now_s, True

    def _set_estimates(self, cost_s: float, pace_s: float) -> None:
        # Seconds of the event loop per request; and seconds between the starts of two
        # requests, including the time for refusing others
        self.cost_s, self.pace_s = cost_s, pace_s
        self._quota = max(LEAST, int(self._turn_s / cost_s))

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


def waiting_at(listeners: Iterable[socket.socket]) -> int:
    """Return how many connections wait to be accepted; 0 if that is not known."""
    if not hasattr(socket, "TCP_INFO"):  # only Linux has it
        return 0
    infos = (s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32) for s in listeners)
    # for a listening socket, `tcpi_unacked` is the length of its accept queue
    return sum(struct.unpack_from("=I", info, 24)[0] for info in infos)
