"""Times calls, and measures the load of the machine by other programs."""

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

TRIES = 5  # most runs of a call that others disturb
LOST = 0.1  # a call that loses a larger share of its time is timed again
GRAIN_S = 5e-6  # shorter losses may come from reading the clocks
BUSY = 0.02  # a machine is busy if it lost a larger share of all time
FREE = 0.1  # share of the processors that should stay free beside this process
# Shortest measurement, in seconds, that tells the load of a machine: the system counts
# in hundredths of a second.
ENOUGH_S = 0.5


class Load(NamedTuple):
    """How busy other programs kept a machine while calls were timed on it."""

    lost: float  # Share of `timed_s` in which the calls waited for a processor
    # Mean number of processors that other programs kept busy; None if the system does
    # not tell
    others: float | None
    processors: int  # Number of processors of the machine
    # Seconds of the timed calls; 1 for times from a cache that lacks the number
    timed_s: float = 1.0

    @property
    def busy(self) -> bool:
        """Return True if times measured under this load may be too long."""
        most = max((1 - FREE) * self.processors - 1, FREE)
        return self.lost > BUSY or (self.others is not None and self.others > most)

    def joined(self, other: "Load") -> "Load":
        """Combine two loads.

        `lost` is the mean of both, weighted by `timed_s`, since a loss during a few
        milliseconds says little. `others` is the larger of both.
        """
        known = [n for n in (self.others, other.others) if n is not None]
        timed_s = self.timed_s + other.timed_s
        lost_s = self.lost * self.timed_s + other.lost * other.timed_s
        lost = lost_s / timed_s if timed_s else 0.0
        return Load(lost, max(known, default=None), self.processors, timed_s)

    def facts(self) -> dict[str, object]:
        """Return the load as a dictionary for JSON, with the key `busy`."""
        return {
            "lost": self.lost,
            "others": self.others,
            "processors": self.processors,
            "busy": self.busy,
        }


class Stopwatch:
    """Measures the seconds of calls, and repeats calls that were interrupted.

    A call is interrupted if another process takes the processor from it. A call runs at
    most `tries` times.

    The clock `now` times a call. The clock `cpu` stands still while this thread does
    not run: the difference between both is the time lost to other programs. By default,
    if `now` is the wall clock and the system is Linux, `cpu` is the thread's own clock.
    Otherwise `cpu` is `now`: no time counts as lost, and a call is repeated only if the
    system reports an interruption.
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
        # Seconds of the call whose time was returned last, in which it waited of its
        # own accord, as for an answer over a network
        self.waited_s = 0.0
        self._began = _seconds()

    def time(self, call: Callable[[T], object], argument: T) -> float:
        """Run `call(argument)` until a run is undisturbed, and return its seconds.

        If every run is disturbed, the seconds of the quickest run are returned.
        """
        least = inf
        for _ in range(self.tries):
            slept, taken = switches()
            ran_s, start_s = self.cpu(), self.now()
            call(argument)
            seconds = self.now() - start_s
            ran_s = self.cpu() - ran_s
            slept_after, taken_after = switches()
            still_s = max(seconds - ran_s, 0.0)
            # a call that waits of its own accord, as for a disk, loses nothing
            slept_s, lost_s = (0.0, still_s) if slept_after == slept else (still_s, 0.0)
            self.timed_s += seconds
            self.lost_s += lost_s
            quiet = taken_after == taken and lost_s <= LOST * seconds + GRAIN_S
            if quiet or seconds < least:
                least, self.waited_s = seconds, slept_s
            if quiet:
                break
        return least

    @property
    def load(self) -> Load:
        """Return the load since the stopwatch was made."""
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
    """Return the thread's own clock, which stands still while the thread does not run.

    Returns the wall clock if the thread's clock ticks too coarsely.
    """
    fine = time.get_clock_info("thread_time").resolution <= 1e-6
    return time.thread_time if fine else time.perf_counter


def switches() -> tuple[int, int]:
    """Return this thread's counts of voluntary and involuntary context switches."""
    if sys.platform != "linux":
        return 0, 0
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_nvcsw, usage.ru_nivcsw


def _seconds() -> tuple[float, float | None, float]:
    """Return the time, and processor times of the whole machine and this process."""
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
    try:
        return max(os.getloadavg()[0] - 1, 0.0)
    except (OSError, AttributeError):
        return None
