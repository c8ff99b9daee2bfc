"""When a call that takes long is sent a second time."""

from collections.abc import Callable
from math import inf

from .latency import Latency

# Most calls that may be sent twice in a row, saved up while calls were fast.
MOST_SAVED = 10.0
# uvloop's timers count whole milliseconds.
LEAST_S = 1e-3
# Hedging pauses if `SHORT` wins of second calls are missing before `WINS` are expected;
# then the count begins anew. If calls are independent, and second ones win 3 times in
# 10 or more often, fewer than 1 of 1,000 counts ends in a pause.
SHORT, WINS = 15.0, 30.0
# Seconds until hedging is tried again.
PAUSE_S = 60.0


class Hedging:
    """Decides which calls of a fetch are sent a second time ("hedged").

    A call is sent again if it takes longer than all but `share` of the calls. Second
    calls are at most that share of all calls. They help if the next call for the same
    key is likely to be faster, as it is where one of several servers was slow. If the
    whole source is slow, or the key, second calls are slow, too, and only add to the
    load. So hedging pauses if second calls win much less often than independent ones
    would. `now` is a clock in seconds.
    """

    def __init__(self, share: float, now: Callable[[], float]) -> None:
        self._share = share
        self._now = now
        self._saved = 0.0  # second calls that may be sent
        self._until_s = -inf  # end of the pause
        self._expected = self._won = 0.0  # wins of second calls

    def after_s(self, latency: Latency) -> float:
        """Count a call; return the seconds after which to send it again, or infinity.

        `latency` counts the first answer of two. It has the same quantile as that of
        single calls: up to this time, no call has been sent twice.
        """
        self._saved = min(self._saved + self._share, MOST_SAVED)
        if self._now() < self._until_s:
            return inf
        return max(latency.quantile(1 - self._share), LEAST_S)

    def allows(self) -> bool:
        """Return True if a second call may be sent now, which then counts as sent."""
        if self._saved < 1:
            return False
        self._saved -= 1
        return True

    def add(self, won: bool, chance: float) -> None:
        """Count a second call that has won or lost.

        `chance` is the probability that an independent call would have won, given the
        time that the first call took.
        """
        self._won += won
        self._expected += chance
        if self._expected - self._won >= SHORT:
            self._until_s = self._now() + PAUSE_S
        elif self._expected < WINS:
            return
        self._expected = self._won = 0.0
