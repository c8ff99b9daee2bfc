"""Answers with the same features, which are counted together."""

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..schema.wire import Reason

# Seconds for which answers may wait to be counted, and the number that may wait.
WAIT_S, MOST = 0.004, 1024
# Of answers that are counted together, one of so many moves estimates of their times.
EVERY = 8
Floats = NDArray[np.float64]


class Batch(NamedTuple):
    """What is known of N answers that were written."""

    answers: list[str | None]  # The classes; None if answers are numbers
    reasons: list[Reason | None]  # As in `Outcome`
    # Times (N,) in seconds, as in `Timed`; work on each answer began when it was read
    arrived_s: Floats
    read_s: Floats
    finished_s: Floats
    due_s: Floats
    predicted: Floats
    sent_s: Floats  # When the last byte was written


class AnswerBatch:
    """Collects answers, and passes them to `count` after at most `WAIT_S` seconds.

    Only the event loop may use this object. `now` returns the time.
    """

    def __init__(
        self, count: Callable[[Batch], object], now: Callable[[], float]
    ) -> None:
        self._count, self._now = count, now
        self._times = np.empty((MOST, len(Batch._fields) - 2))
        self._bytes = self._times.data.cast("B")
        layout = Struct(f"{len(Batch._fields) - 3}d")
        self._pack, self._row = layout.pack_into, self._times.strides[0]
        self._answers = list[str | None]()
        self._reasons = list[Reason | None]()
        self._written = 0  # number of answers whose sent time is known
        self._until_s = -np.inf  # no answer waits longer
        self._is_timed = False  # True if `_end` will be called

    def add(
        self,
        answer: str | None,
        reason: Reason | None,
        arrived_s: float,
        read_s: float,
        finished_s: float,
        due_s: float,
        predicted: float,
    ) -> bool:
        """Add an answer that will be written; return True for the first of a turn.

        Then `written` must be called after the turn.
        """
        place = len(self._answers)
        if place == MOST:
            self.written()
            self.count()
            place = 0
        at = place * self._row
        self._pack(self._bytes, at, arrived_s, read_s, finished_s, due_s, predicted)
        self._answers.append(answer)
        self._reasons.append(reason)
        return place == self._written

    def written(self) -> None:
        """Note that the answers that were added since the last call are written."""
        sent_s, count = self._now(), len(self._answers)
        self._times[self._written : count, -1] = sent_s
        self._written = count
        if sent_s >= self._until_s:
            self.count()
            self._until_s = sent_s + WAIT_S
        elif not self._is_timed:
            self._is_timed = True
            asyncio.get_running_loop().call_later(WAIT_S, self._end)

    def _end(self) -> None:
        self._is_timed = False
        self.count()

    def count(self) -> None:
        """Count the written answers now."""
        count = self._written
        if not count:
            return
        times = self._times[:count].T.copy()
        batch = Batch(self._answers[:count], self._reasons[:count], *times)
        rest = len(self._answers) - count
        self._times[:rest] = self._times[count : count + rest]
        del self._answers[:count], self._reasons[:count]
        self._written = 0
        self._count(batch)
