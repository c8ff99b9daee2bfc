"""How much of every budget to keep for what follows the plan."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from math import ceil

QUANTILE = 0.99
WINDOW = 200
# Position of the quantile among so many times in ascending order.
_POSITIONS = tuple(ceil(QUANTILE * count) - 1 for count in range(WINDOW + 1))


class Reserve:
    """The `QUANTILE` of the last `WINDOW` times from a plan's end to its answer sent.

    It is the smallest of them that at least that share does not exceed. In a full
    window, two stalls leave it among the usual times and more raise it, until as many
    additions as the window is long have displaced them.

    Parameters
    ----------
    measured_s
        Seconds, at least one; the first estimate comes of them.

    Attributes
    ----------
    seconds
        The quantile; always up to date.
    """

    __slots__ = ("_ascending", "_latest", "seconds")

    def __init__(self, measured_s: Iterable[float]) -> None:
        self._latest: deque[float] = deque()
        self._ascending: list[float] = []
        for seconds in measured_s:
            self.add(seconds)

    def add(self, seconds: float) -> None:
        """Take one more measurement into account, and forget the oldest."""
        latest, ascending = self._latest, self._ascending
        if len(latest) == WINDOW:
            del ascending[bisect_left(ascending, latest.popleft())]
        latest.append(seconds)
        insort(ascending, seconds)
        self.seconds = ascending[_POSITIONS[len(ascending)]]
