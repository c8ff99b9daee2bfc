"""How much of every budget to keep for what follows the plan."""

import math
from bisect import bisect_left, insort
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
# By so much one time moves the median that is believed: stalls do not move it far.
STEP = 0.05
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

    __slots__ = ("_ascending", "_known", "_latest", "_seconds", "_until_s", "usual")

    def __init__(
        self, measured_s: Iterable[float] = (), now_s: float = 0.0, usual: float = 1e-4
    ) -> None:
        measured = list(measured_s)
        self.usual = median(measured) if measured else usual
        self._known = bool(measured)
        self._latest = deque((now_s, seconds) for seconds in measured[-WINDOW:])
        self._ascending = sorted(measured[-WINDOW:])
        self._forget(now_s)

    def at(self, now_s: float) -> float:
        """Return the quantile as it is known at `now_s`, in seconds."""
        if now_s > self._until_s:
            self._forget(now_s)
        return self._seconds

    def levels(self, now_s: float) -> "list[Level]":
        """Return what to keep for each of `CHANCES`, the largest first."""
        self.at(now_s)
        times = self._ascending
        if len(times) < LEAST:
            times = sorted(times + (LEAST - len(times)) * [RESTING * self.usual])
        return [
            Level(chance, times[ceil(chance * len(times)) - 1]) for chance in CHANCES
        ]

    def add(self, seconds: float, now_s: float) -> None:
        """Learn from a time that ended at `now_s`."""
        latest, ascending = self._latest, self._ascending
        if len(latest) == WINDOW:
            del ascending[bisect_left(ascending, latest.popleft()[1])]
        latest.append((now_s, seconds))
        insort(ascending, seconds)
        if not self._known:
            self.usual, self._known = seconds, True
        else:
            self.usual *= 1 + STEP if seconds > self.usual else 1 / (1 + STEP)
        self._until_s = latest[0][0] + LASTING_S
        self._seconds = self._quantile()

    def _forget(self, now_s: float) -> None:
        latest, ascending = self._latest, self._ascending
        while latest and latest[0][0] < now_s - LASTING_S:
            del ascending[bisect_left(ascending, latest.popleft()[1])]
        self._until_s = latest[0][0] + LASTING_S if latest else math.inf
        self._seconds = self._quantile()

    def _quantile(self) -> float:
        ascending = self._ascending
        if len(ascending) >= LEAST:
            return ascending[_POSITIONS[len(ascending)]]
        resting = RESTING * self.usual
        return max(ascending[-1], resting) if ascending else resting


class Level(NamedTuple):
    """With `chance`, what follows the plan takes at most so many `seconds`."""

    chance: float
    seconds: float


# Position of the quantile among so many times in ascending order.
_POSITIONS = tuple(ceil(QUANTILE * count) - 1 for count in range(WINDOW + 1))


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
