"""Which requests begin at once, which wait a moment, and which are refused.

The event loop works in turns: it reads from every connection on which something came,
then goes on with what that began. What comes meanwhile waits in the kernel, unseen; so
a turn begins few requests, and others wait here, where it is known how long that will
be.
"""

import asyncio
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType

from ..errors import Overloaded

# Seconds that what one turn begins should take: probes wait for little more.
TURN_S = 0.008
# Share of a request's budget that it may wait before it is begun.
PATIENCE = 0.3
# Requests that a turn begins, however long they take.
LEAST = 8
# Connections that are taken in a turn. Where so many came more wait, unseen, and turns
# are short so that they are taken: so few are begun.
ACCEPTED, CROWDED = 16, 2
# What a request is thought to take of the loop, before any was seen.
FIRST_COST_S = 2e-4
# What turns took is forgotten after so long without another that told.
FORGET_S = 1.0
# Weight of the latest turn in what is thought; none counts for more than MOST times
# that, but the first one, which is all that is known then. Unless it is of few: it may
# have been spent on connections that were taken.
LATEST, MOST, FIRST_MOST = 1 / 4, 2, 4


class Admission:
    """Lets in what can be begun in time; for the event loop alone.

    Parameters
    ----------
    budget_s
        Seconds that a usual request has.
    call_soon
        The loop's: has a function called in the loop's next turn.
    now
        The monotonic clock.

    Attributes
    ----------
    cost_s
        What a request takes of the loop, by the last turns; with all that the loop did
        beside, but for refusing others.
    pace_s
        Seconds between two that are begun; with refusing others.
    unseen
        Says how many connections the kernel holds that were not taken yet.
    """

    def __init__(
        self,
        budget_s: float,
        call_soon: Callable[[Callable[[], None]], object],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._patience_s = PATIENCE * budget_s
        self._longest_s = min(TURN_S, self._patience_s)
        self._call_soon = call_soon
        self._now = now
        self._believe(FIRST_COST_S, FIRST_COST_S)
        self._knows = False
        self._learned_s = self._began_s = self._refusing_s = 0.0
        self._begun = self._accepted = 0
        self.unseen: Callable[[], int] = int
        self._take_s = FIRST_COST_S
        self._taken_s = self._unseen_s = 0.0
        self._ending = False  # whether the turn's end is to be noticed
        self._left = self._quota
        self._held: deque[Callable[[], None]] = deque()
        self._behind: deque[Callable[[], None]] = deque()

    def accept(self) -> float:
        """Count a connection that was taken; about the seconds it waited for that."""
        if not self._accepted:
            self._call_soon(self._when_accepted)
        self._accepted += 1
        return self._unseen_s

    def enter(self, read_s: float, waited_s: float = 0.0) -> bool:
        """Say whether a request that was read now may begin; it then has to.

        `waited_s` is how long its connection had waited to be taken.
        """
        # none are left while others wait
        if self._left <= 0 or waited_s > self._patience_s:
            return False
        self._left -= 1
        begun = self._begun = self._begun + 1
        if begun == 1:
            self._began_s = read_s
        elif begun == LEAST:
            self._look(read_s)
        return True

    def enter_behind(self, now_s: float) -> bool:
        """Say the same of one that came behind another on its connection.

        They may have half of a turn: else who sends many at a time would leave nothing
        to those who send one.
        """
        if self._behind or 2 * self._left <= self._quota:
            return False
        return self.enter(now_s)

    def hold(self, begin: Callable[[], None], waited_s: float = 0.0) -> bool:
        """Have a request that may not enter begun in its turn; False if that is late.

        `begin` must not raise.
        """
        if waited_s + len(self._held) * self.pace_s > self._patience_s:
            return False
        self._held.append(begin)
        return True

    def hold_behind(self, begin: Callable[[], None]) -> bool:
        """Have one that came behind another begun in its turn; False if that is late.

        `begin` must not raise.
        """
        if 2 * len(self._behind) * self.pace_s > self._patience_s:
            return False
        self._behind.append(begin)
        self._end_soon()
        return True

    def refused(self, read_s: float) -> None:
        """Take note that a request which was read then has been refused just now."""
        self._refusing_s += self._now() - read_s

    async def wait(self) -> None:
        """Wait for the turn of a request that came some other way.

        Raises
        ------
        Overloaded
            If that would be late.
        """
        if self.enter(self._now()):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if not turn.done():
                turn.set_result(None)

        if not self.hold(begin):
            raise Overloaded("more requests came than can be answered in time")
        await turn

    def _look(self, read_s: float) -> None:
        """See to it that the turn is ended, unless its requests came one by one."""
        if read_s - self._learned_s > FORGET_S:
            self._learned_s, self._knows = read_s, False
            self._believe(FIRST_COST_S, FIRST_COST_S)
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
        """Begin few of what comes on the connections that were taken, if many."""
        if self._accepted >= ACCEPTED:
            self._left = min(self._left, CROWDED)
            self._end_soon()
        self._learn_to_take()
        self._accepted = 0

    def _learn_to_take(self) -> None:
        """Foresee how long the connections wait that are there now."""
        now_s, waiting = self._now(), self.unseen()
        if self._unseen_s:  # some have waited since the last were taken
            latest_s = (now_s - self._taken_s) / self._accepted
            latest_s = min(max(latest_s, self._take_s / MOST), self._take_s * MOST)
            self._take_s += LATEST * (latest_s - self._take_s)
        self._unseen_s, self._taken_s = waiting * self._take_s, now_s

    def _when_read(self) -> None:
        """All that came was read; what it began is done after this is called."""
        if self._begun <= LEAST and not self._held and not self._behind:
            self._begun, self._left, self._ending = 0, self._quota, False
        else:
            self._left = 0  # what is read from now on is of the next turn
            self._call_soon(self._when_done)

    def _when_done(self) -> None:
        """Learn from a turn, and begin the next with those that wait."""
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
        """Follow what requests take, by the turn that ends."""
        took_s, count = now_s - self._began_s, max(self._begun, 1)
        self._believe(
            self._follow(self.cost_s, (took_s - self._refusing_s) / count, count),
            self._follow(self.pace_s, took_s / count, count),
        )
        self._learned_s, self._knows = now_s, True

    def _believe(self, cost_s: float, pace_s: float) -> None:
        self.cost_s, self.pace_s = cost_s, pace_s
        self._quota = max(LEAST, int(self._longest_s / cost_s))

    def _follow(self, before_s: float, latest_s: float, count: int) -> float:
        """Move towards the latest of so many, not far: a machine may have stalled."""
        if not self._knows:
            most = FIRST_MOST if count >= LEAST else MOST
            return min(max(latest_s, before_s / FIRST_MOST), before_s * most)
        latest_s = min(max(latest_s, before_s / MOST), before_s * MOST)
        return before_s + LATEST * (latest_s - before_s)


class HeldBytes:
    """Counts the bytes of all bodies under way, `held`; for the event loop alone."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def body(self) -> "HeldBody":
        """Begin to count one request's; a context, at whose end they are gone."""
        return HeldBody(self)


class HeldBody:
    """The bytes of one request that are held, counted in `held_bytes` with all."""

    __slots__ = ("_held_bytes", "_size")

    def __init__(self, held_bytes: HeldBytes) -> None:
        self._held_bytes = held_bytes
        self._size = 0

    def __enter__(self) -> "HeldBody":
        """Hold nothing yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of all."""
        self._held_bytes.held -= self._size
        self._size = 0

    def hold(self, size: int) -> None:
        """Hold so many bytes instead of those before.

        Raises
        ------
        Overloaded
            If that is more than before, and too many are held by all then.
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
    """Count the connections that wait to be taken; 0 where the system does not tell."""
    if not hasattr(socket, "TCP_INFO"):  # Linux has it
        return 0
    infos = (s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32) for s in listeners)
    # of a socket that listens, `tcpi_unacked` is the length of its queue
    return sum(struct.unpack_from("=I", info, 24)[0] for info in infos)
