"""Lets a candidate answer requests again, after their answers, while nothing waits."""

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import msgspec

from polydom.features.errors import PolydomError

from ...engine.executions.execution import begin
from ...engine.request import Caller, Outcome, Request
from ...errors import Abandoned
from ...schema.wire import Answer, PredictRequest
from ..served_model import QUICK_S, ServedModel

# A comparison waits for IDLE_S. If the event loop is late by more than LATE_S, it had
# other work: then all comparisons that wait are dropped.
IDLE_S, LATE_S = 0.002, 0.002
# Largest share of the computing thread's time that comparisons take. A request that
# comes during a comparison waits until its current feature is computed.
THREAD_SHARE = 0.1
# Largest number of comparisons that wait, and of the bytes of their requests.
MOST_WAITING, MOST_BYTES = 32, 1 << 20

Compared = Literal["agreed", "differed", "failed", "dropped"]
_decode = msgspec.json.Decoder(Answer).decode
log = logging.getLogger("polydom")


class ShadowCounts:
    """Counts of comparisons, and sums over those that `agreed` or `differed`.

    `quality` has the sums of the expected quality, and `plan_s` of the seconds of the
    features and the model: of the current version, then of the candidate.
    """

    def __init__(self) -> None:
        names: tuple[Compared, ...] = ("agreed", "differed", "failed", "dropped")
        self.results: Counter[Compared] = Counter(dict.fromkeys(names, 0))
        self.quality = [0.0, 0.0]
        self.plan_s = [0.0, 0.0]

    def add(self, ours: Answer, theirs: Answer) -> None:
        """Count the current version's answer, `ours`, and the candidate's."""
        self.results["agreed" if _agree(ours, theirs) else "differed"] += 1
        for place, answer in enumerate((ours, theirs)):
            self.quality[place] += answer.expected_quality
            self.plan_s[place] += answer.actual_us / 1e6


class _Waiting(NamedTuple):
    """A request that was answered, and is to be answered again."""

    read: Callable[[], PredictRequest]  # Decodes the request
    size: int  # Bytes of its body
    answer: bytes | Answer  # The current version's answer


class _Patient(Caller):
    """A caller who leaves as soon as any request waits for the computing thread."""

    def __init__(self, waits: Callable[[], bool]) -> None:
        super().__init__()
        self._waits = waits

    @property
    def gone(self) -> bool:
        """True if a request waits, so that the comparison ends after this feature."""
        return self._waits()

    @gone.setter
    def gone(self, value: bool) -> None:
        pass


class Shadow:
    """Compares a share of the answers of the current version with the candidate's.

    `waits` says whether any request waits; then comparisons are dropped. A comparison
    is computed like a request that arrives now, with the same budget, and sends no
    fetches. Only the event loop may use this object.
    """

    def __init__(
        self,
        candidate: ServedModel,
        counts: ShadowCounts,
        share: float,
    ) -> None:
        self._candidate = candidate
        self._counts = counts
        self._share = share
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._due_s: float | None = None
        self._pause_s = IDLE_S  # Seconds until the next comparison
        self._task: asyncio.Task[None] | None = None

    def add(
        self, read: Callable[[], PredictRequest], size: int, answer: bytes | Answer
    ) -> None:
        """Compare this answer soon, if its request is drawn. `size` is in bytes.

        Call this only after the answer is written.
        """
        if random.random() >= self._share:
            return
        if len(self._waiting) >= MOST_WAITING or self._bytes + size > MOST_BYTES:
            self._counts.results["dropped"] += 1
            return
        self._waiting.append(_Waiting(read, size, answer))
        self._bytes += size
        self._wait()

    def _wait(self) -> None:
        if self._task is None and self._due_s is None and self._waiting:
            self._due_s = time.monotonic() + self._pause_s
            asyncio.get_running_loop().call_later(self._pause_s, self._go_on)
            self._pause_s = IDLE_S

    def _go_on(self) -> None:
        """Compare the first answer that waits; drop all if there is other work."""
        assert self._due_s is not None
        late = time.monotonic() - self._due_s > LATE_S
        self._due_s = None
        queue = self._candidate.queue
        if late or queue.waiting or queue.busy or not self._candidate.ready:
            self._counts.results["dropped"] += len(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            return
        one = self._waiting.popleft()
        self._bytes -= one.size
        try:
            self._compare(one)
        except Exception as error:
            self._failed(error)
        self._wait()

    def _compare(self, one: _Waiting) -> None:
        """Compute a quick plan here, and leave others to the computing thread."""
        candidate, queue = self._candidate, self._candidate.queue
        ask = one.read()
        item = candidate.translator.item(ask)
        if item.gaps is not None and item.gaps.unfetched:
            self._counts.results["dropped"] += 1
            return
        now_s = candidate.now()
        caller = _Patient(lambda: queue.waiting > 0)
        request = candidate.translator.request(ask, item, now_s, caller)
        execution = begin(candidate.planner, request)
        if execution.longest <= QUICK_S and candidate.planner.unit == "s":
            self._count(one, request, execution.run())
            return
        run = partial(candidate.queue.compute, execution.run)
        self._task = asyncio.get_running_loop().create_task(
            self._compare_later(one, request, run)
        )

    async def _compare_later(
        self, one: _Waiting, request: Request, run: Callable[[], object]
    ) -> None:
        began_s = time.monotonic()
        try:
            outcome = await run()  # type: ignore[misc]
            self._count(one, request, outcome)
        except Exception as error:
            self._failed(error)
        finally:
            self._task = None
            took_s = time.monotonic() - began_s
            self._pause_s = max(IDLE_S, took_s * (1 / THREAD_SHARE - 1))
            self._wait()

    def _count(self, one: _Waiting, request: Request, outcome: Outcome) -> None:
        ours = one.answer if isinstance(one.answer, Answer) else _decode(one.answer)
        self._counts.add(ours, self._candidate.translator.answer(request, outcome))

    def _failed(self, error: Exception) -> None:
        """Count an error of the candidate, or a comparison that made way for others."""
        abandoned = isinstance(error, Abandoned)
        self._counts.results["dropped" if abandoned else "failed"] += 1
        if not isinstance(error, PolydomError):
            log.error("a candidate failed in a comparison", exc_info=error)


def _agree(ours: Answer, theirs: Answer) -> bool:
    """Return True if labels are the same; or if a number is inside our interval."""
    if theirs.value is msgspec.UNSET:
        return ours.label == theirs.label
    if not ours.interval:
        return ours.value == theirs.value
    low, high = ours.interval
    return low <= theirs.value <= high
