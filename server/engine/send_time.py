"""How much of every budget to keep for what follows the plan."""

import math
from collections import deque
from collections.abc import Callable, Iterable
from math import ceil
from statistics import median
from typing import NamedTuple

QUANTILE = 0.99
WINDOW = 200
# What is older tells of another load. A machine is as busy as it was within a second.
LASTING_S = 1.0
# Fewer times than this are no distribution; they are made up to so many by those of a
# machine at rest, whose quantile is about RESTING times its median.
LEAST = 20
RESTING = 2.0
# What is known is so old at most, but of a time that is longer than what was kept.
FRESH_S = 0.004
# By so much one time moves the median that is believed: stalls do not move it far.
STEP = 0.05
# Where more than this share of a budget would be kept for what follows the plan, it is
# weighed how much is: else a busy machine answers small budgets with the prior, all.
HEAVY = 0.25
# Chances of being out in time that are weighed where little of a budget is left.
CHANCES = (QUANTILE, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)


class SendTime:
    """The `QUANTILE` of the latest times from a plan's end to its answer written.

    Of those of the last `LASTING_S`, and at most the last `WINDOW`; where they are
    fewer than `LEAST`, the others are taken to be as at rest.

    Parameters
    ----------
    measured_s
        Seconds; the first estimate comes of them.
    now_s
        When they were measured, on the clock of all times given later.
    usual
        Seconds, where none were measured; until one is added.

    Attributes
    ----------
    usual
        Median, in the long run.
    """

    __slots__ = ("_known", "_latest", "_seconds", "_until_s", "usual")

    def __init__(
        self, measured_s: Iterable[float] = (), now_s: float = 0.0, usual: float = 1e-4
    ) -> None:
        measured = list(measured_s)
        self.usual = median(measured) if measured else usual
        self._known = bool(measured)
        self._latest = deque(((now_s, seconds) for seconds in measured), WINDOW)
        self._seconds, self._until_s = 0.0, -math.inf  # that `_seconds` is fresh

    def at(self, now_s: float) -> float:
        """Return the quantile as it is known at `now_s`, in seconds."""
        if now_s > self._until_s:
            self._seconds = self._quantile(self._ascending(now_s), QUANTILE)
            fresh_s = now_s + FRESH_S
            if self._latest:
                fresh_s = min(fresh_s, self._latest[0][0] + LASTING_S)
            self._until_s = fresh_s
        return self._seconds

    def levels(self, now_s: float) -> "list[Level]":
        """Return what to keep for each of `CHANCES`, the largest first."""
        times = self._ascending(now_s)
        return [Level(chance, self._quantile(times, chance)) for chance in CHANCES]

    def add(self, seconds: float, now_s: float) -> None:
        """Learn from a time that ended at `now_s`."""
        self._latest.append((now_s, seconds))
        if not self._known:
            self.usual, self._known = seconds, True
        else:
            self.usual *= 1 + STEP if seconds > self.usual else 1 / (1 + STEP)
        if seconds > self._seconds:
            self._until_s = -math.inf

    def _ascending(self, now_s: float) -> list[float]:
        """Sort the times of the last `LASTING_S`, made up to `LEAST` of them."""
        latest, since_s = self._latest, now_s - LASTING_S
        while latest and latest[0][0] < since_s:
            latest.popleft()
        times = [seconds for _, seconds in latest]
        return sorted(times + (LEAST - len(times)) * [RESTING * self.usual])

    @staticmethod
    def _quantile(ascending: list[float], chance: float) -> float:
        return ascending[ceil(chance * len(ascending)) - 1]


class Level(NamedTuple):
    """With `chance`, what follows the plan takes at most so many `seconds`."""

    chance: float
    seconds: float


def weigh(levels: Iterable[Level], quality: Callable[[float], float]) -> float:
    """Seconds to keep, so that most answers are right and in time; the first of equals.

    `quality` is of the answer that is bought where so many seconds are kept; 0 where
    it would be of no use.
    """
    best = max(levels, key=lambda level: level.chance * quality(level.seconds))
    return best.seconds


class SendTimes(NamedTuple):
    """What to keep for one kind of answer, done on the event loop or by the thread.

    `weighs` says that one answer goes out, for which as much may be kept as is best.
    """

    loop: SendTime
    thread: SendTime
    weighs: bool = True
