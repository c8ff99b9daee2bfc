"""Timing calls on a machine that others use too, and telling how much they took."""

import os
import sys
import time
from collections.abc import Callable
from math import inf
from typing import NamedTuple, TypeVar

if sys.platform == "linux":
    import resource

T = TypeVar("T")
Clock = Callable[[], float]

TRIES = 5
LOST = 0.1  # share of a call's time, lost to others, that makes it be timed again
GRAIN_S = 5e-6  # less than this cannot be told from reading the clocks
BUSY = 0.02  # share of all time lost from which a machine counts as busy
FREE = 0.1  # share of the processors that should be left over beside this process
ENOUGH_S = 0.5  # the system counts in hundredths of a second


class Load(NamedTuple):
    """What others took of a machine while something was timed there.

    Attributes
    ----------
    lost
        Share of the timed calls' seconds in which they wanted to run and did not.
    others
        Processors that other programs kept busy, in the mean; None where the system
        does not tell.
    processors
        How many there are.
    timed_s
        Seconds of the timed calls, of which `lost` is a share; 1 where times that were
        kept do not say.
    """

    lost: float
    others: float | None
    processors: int
    timed_s: float = 1.0

    @property
    def busy(self) -> bool:
        """Whether times measured meanwhile may be too long."""
        most = max((1 - FREE) * self.processors - 1, FREE)
        return self.lost > BUSY or (self.others is not None and self.others > most)

    def joined(self, other: "Load") -> "Load":
        """Return the load of two times together; of `others`, the larger.

        A stall says little of some milliseconds and much of as many seconds.
        """
        known = [n for n in (self.others, other.others) if n is not None]
        timed_s = self.timed_s + other.timed_s
        lost_s = self.lost * self.timed_s + other.lost * other.timed_s
        lost = lost_s / timed_s if timed_s else 0.0
        return Load(lost, max(known, default=None), self.processors, timed_s)

    def facts(self) -> dict[str, object]:
        """Plain data, with the verdict."""
        return {
            "lost": self.lost,
            "others": self.others,
            "processors": self.processors,
            "busy": self.busy,
        }


class Stopwatch:
    """Times calls, and those again during which others took the processor.

    Parameters
    ----------
    now
        A clock in seconds.
    cpu
        A clock that stands still while this thread does not run; by default the
        thread's own, where `now` is the wall's and the system tells a thread that
        sleeps from one that has to wait (Linux). Where it is `now`, no time counts as
        lost, and a call is made again only where the system says that it was
        interrupted.
    tries
        Most runs of one call.
    """

    def __init__(
        self,
        now: Clock = time.perf_counter,
        cpu: Clock | None = None,
        tries: int = TRIES,
    ) -> None:
        tells = now is time.perf_counter and sys.platform == "linux"
        own = busy_clock() if tells else now
        self.now, self.cpu, self.tries = now, cpu or own, tries
        self.timed_s = self.lost_s = 0.0
        self._began = _seconds()

    def time(self, call: Callable[[T], object], argument: T) -> float:
        """Seconds of a call; of its quickest run where none was left alone."""
        least = inf
        for _ in range(self.tries):
            slept, taken = switches()
            ran_s, start_s = self.cpu(), self.now()
            call(argument)
            seconds = self.now() - start_s
            ran_s = self.cpu() - ran_s
            slept_after, taken_after = switches()
            # one that waits of its own accord, for a disk or a thread, loses nothing
            lost_s = max(seconds - ran_s, 0.0) if slept_after == slept else 0.0
            self.timed_s += seconds
            self.lost_s += lost_s
            if taken_after == taken and lost_s <= LOST * seconds + GRAIN_S:
                return seconds
            least = min(least, seconds)
        return least

    @property
    def load(self) -> Load:
        """What others took since this began."""
        lost = self.lost_s / self.timed_s if self.timed_s else 0.0
        (began_s, all_before_s, own_before_s) = self._began
        (now_s, all_s, own_s) = _seconds()
        others: float | None
        if all_s is None or all_before_s is None:
            others = _waiting_elsewhere()
        elif now_s - began_s < ENOUGH_S:
            others = None
        else:
            used_s = (all_s - all_before_s) - (own_s - own_before_s)
            others = max(used_s, 0.0) / (now_s - began_s)
        return Load(lost, others, os.cpu_count() or 1, self.timed_s)


def busy_clock() -> Clock:
    """Return the clock of a thread's processor seconds, if it ticks finely enough.

    Unlike a clock on the wall it stands still while other threads and processes run.
    """
    fine = time.get_clock_info("thread_time").resolution <= 1e-6
    return time.thread_time if fine else time.perf_counter


def switches() -> tuple[int, int]:
    """How often this thread gave up the processor, and how often it was taken away.

    Zeros where nobody counts.
    """
    if sys.platform != "linux":
        return 0, 0
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_nvcsw, usage.ru_nivcsw


def _seconds() -> tuple[float, float | None, float]:
    """Seconds now: on the wall, of all processors at work, and of this process."""
    return time.perf_counter(), _processor_seconds(), time.process_time()


def _processor_seconds() -> float | None:
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(field) for field in file.readline().split()[1:9]]
        idle, waiting = ticks[3:5]
        return (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None


def _waiting_elsewhere() -> float | None:
    """Guess how many other programs run, of the last minute's load."""
    try:
        return max(os.getloadavg()[0] - 1, 0.0)
    except (OSError, AttributeError):
        return None
