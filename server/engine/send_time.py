"""The send time: the part of a budget that is reserved for the work after the plan."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import ceil
from statistics import median
from typing import NamedTuple

QUANTILE = 0.99
WINDOW = 200
# Only times of the last second count, because older times come from another load.
LASTING_S = 1.0
# Fewer times than LEAST are no basis for a quantile. They are filled up with the
# quantile of a machine at rest: about RESTING times its median.
LEAST = 20
RESTING = 2.0
# Seconds for which quantiles are reused, unless a longer time is added.
FRESH_S = 0.004
# Relative change of the estimated median per time, so that a stall hardly moves it.
STEP = 0.05
# If the reserve would exceed this share of a budget, the best reserve is computed.
# Otherwise a busy machine would answer small budgets with only the prior.
HEAVY = 0.25
# Chances of answering in time that are compared to find the best reserve.
CHANCES = (QUANTILE, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)


class SendTime:
    """Estimates a high quantile of recent send times.

    A send time is the time from the end of a plan until its answer is written. Only
    send times of the last `LASTING_S` seconds are used, at most `WINDOW` of them. If
    they are fewer than `LEAST`, typical send times of an idle machine are added.

    `measured_s` are send times in seconds that were measured before the first answer;
    they are treated as measured at `now_s`. `usual` is the first estimate of the
    long-run median, in seconds; if `measured_s` is given, its median is used instead.
    """

    __slots__ = ("_known", "_latest", "_levels", "_until_s", "usual")

    def __init__(
        self, measured_s: Iterable[float] = (), now_s: float = 0.0, usual: float = 1e-4
    ) -> None:
        measured = list(measured_s)
        self.usual = median(measured) if measured else usual
        self._known = bool(measured)
        self._latest = deque(((now_s, seconds) for seconds in measured), WINDOW)
        self._levels = [Level(QUANTILE, 0.0)]  # cached, valid until `_until_s`
        self._until_s = -math.inf

    def at(self, now_s: float) -> float:
        """Return the `QUANTILE` of the recent send times at `now_s`, in seconds."""
        return self.levels(now_s)[0].seconds

    def levels(self, now_s: float) -> "list[Level]":
        """Return a `Level` for each chance in `CHANCES`, at the time `now_s`."""
        if now_s > self._until_s:
            times = self._ascending(now_s)
            count = len(times)
            self._levels = [
                Level(chance, times[ceil(chance * count) - 1]) for chance in CHANCES
            ]
            fresh_s = now_s + FRESH_S
            if self._latest:
                fresh_s = min(fresh_s, self._latest[0][0] + LASTING_S)
            self._until_s = fresh_s
        return self._levels

    def add(self, seconds: float, now_s: float) -> None:
        """Update the estimates with a send time of `seconds` that ended at `now_s`."""
        self._latest.append((now_s, seconds))
        if not self._known:
            self.usual, self._known = seconds, True
        else:
            self.usual *= 1 + STEP if seconds > self.usual else 1 / (1 + STEP)
        if seconds > self._levels[0].seconds:
            self._until_s = -math.inf

    def _ascending(self, now_s: float) -> list[float]:
        """Return recent send times in ascending order: at least `LEAST`.

        If fewer were measured, typical send times of an idle machine are added.
        """
        latest, since_s = self._latest, now_s - LASTING_S
        while latest and latest[0][0] < since_s:
            latest.popleft()
        times = [seconds for _, seconds in latest]
        return sorted(times + (LEAST - len(times)) * [RESTING * self.usual])


class Level(NamedTuple):
    """A reserve of `seconds`, and the `chance` that sending takes at most this time."""

    chance: float
    seconds: float


def weigh(
    levels: Sequence[Level], quality: Callable[[float], float], most: float
) -> float:
    """Return the best reserve, in seconds, for sending an answer in time.

    It has the largest product of the chance that it suffices and the quality of the
    answer. Chances and seconds fall from level to level.

    `quality` maps a reserve in seconds to the expected quality of an answer that is
    computed in the rest of the budget. It is 0 if no useful answer is possible, and
    `most` with the least reserve, the last.
    """
    best_s, value = levels[0].seconds, -math.inf
    for chance, seconds in levels:
        if chance * most <= value:  # no later level can be better
            break
        own = chance * quality(seconds)
        if own > value:
            best_s, value = seconds, own
    return best_s


class SendTimes(NamedTuple):
    """A `SendTime` for each of the two threads that compute answers of one kind."""

    # Send time of answers computed on the event loop, and of answers computed by the
    # computing thread
    loop: SendTime
    thread: SendTime
    # True if answers are sent one by one, so that the best reserve can be computed
    weighs: bool = True
