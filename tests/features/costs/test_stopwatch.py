"""Timing on a machine with other users: what they took is told, and timed again."""

import os
import subprocess
import sys
import time
from typing import Any

import pytest

from polydom.features.costs import stopwatch
from polydom.features.costs.stopwatch import Load, Stopwatch, switches


class Machine:
    """Clocks on the wall and of a thread, and counts of switches, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_s = self.cpu_s = 0.0
        self.slept = self.taken = 0
        monkeypatch.setattr(stopwatch, "switches", lambda: (self.slept, self.taken))

    def run(
        self, seconds: float, *, lost: float = 0, taken: int = 0, slept: int = 0
    ) -> None:
        self.wall_s += seconds + lost
        self.cpu_s += seconds
        self.taken += taken
        self.slept += slept

    def watch(self, tries: int = 5) -> Stopwatch:
        return Stopwatch(lambda: self.wall_s, lambda: self.cpu_s, tries)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_a_call_left_alone_is_timed_once(machine: Machine) -> None:
    watch = machine.watch()
    assert watch.time(lambda _: machine.run(2.0), None) == 2
    assert machine.wall_s == 2
    assert watch.load.lost == 0


@pytest.mark.parametrize("how", [{"taken": 1}, {"lost": 3.0}])
def test_a_disturbed_call_is_timed_again(machine: Machine, how: dict[str, Any]) -> None:
    runs: Any = iter([how, how, {}])
    watch = machine.watch()
    assert watch.time(lambda _: machine.run(2.0, **next(runs)), None) == 2
    assert watch.timed_s == machine.wall_s
    assert watch.load.lost == pytest.approx(6 / 12 if "lost" in how else 0)


def test_of_calls_that_all_were_disturbed_the_quickest_counts(machine: Machine) -> None:
    lost = iter([5.0, 1.0, 3.0])
    watch = machine.watch(tries=3)
    assert watch.time(lambda _: machine.run(2.0, lost=next(lost)), None) == 3
    assert machine.cpu_s == 6


def test_a_call_that_waits_of_its_own_accord_takes_that_long(machine: Machine) -> None:
    watch = machine.watch()
    assert watch.time(lambda _: machine.run(2.0, lost=7.0, slept=1), None) == 9
    assert watch.load.lost == 0
    assert watch.waited_s == 7


def test_a_call_that_lacks_a_processor_does_not_wait(machine: Machine) -> None:
    watch = machine.watch(tries=2)
    runs: Any = iter([{"lost": 3.0}, {"lost": 5.0}])
    assert watch.time(lambda _: machine.run(2.0, **next(runs)), None) == 5
    assert watch.waited_s == 0


def test_of_a_call_made_again_only_the_run_that_counts_waits(machine: Machine) -> None:
    watch = machine.watch(tries=2)
    runs: Any = iter([{"lost": 3.0, "slept": 1, "taken": 1}, {"lost": 4.0, "slept": 1}])
    assert watch.time(lambda _: machine.run(2.0, **next(runs)), None) == 6
    assert watch.waited_s == 4


@pytest.mark.parametrize(
    ("load", "busy"),
    [
        (Load(0.0, None, 2), False),
        (Load(0.02, 0.0, 2), False),
        (Load(0.03, 0.0, 2), True),
        (Load(0.0, 0.8, 2), False),
        (Load(0.0, 0.9, 2), True),
        (Load(0.0, 20.0, 64), False),
        (Load(0.0, 60.0, 64), True),
        (Load(0.0, 0.05, 1), False),
        (Load(0.0, 0.5, 1), True),
    ],
)
def test_a_machine_is_busy_where_others_take_time_or_nearly_all_processors(
    load: Load, busy: bool
) -> None:
    assert load.busy == busy
    assert load.facts()["busy"] == busy


def test_the_load_of_two_times_is_that_of_their_seconds_together() -> None:
    one, other = Load(0.1, None, 4, timed_s=3.0), Load(0.5, 1.5, 4, timed_s=1.0)
    for both in (one.joined(other), other.joined(one)):
        assert (both.others, both.processors, both.timed_s) == (1.5, 4, 4.0)
        assert both.lost == pytest.approx(0.2)
    nothing = Load(0.0, None, 4, timed_s=0.0)
    assert one.joined(nothing).lost == pytest.approx(one.lost)
    assert nothing.joined(nothing).lost == 0


def test_a_stall_of_some_milliseconds_makes_no_build_of_seconds_busy() -> None:
    stalled, quiet = Load(0.8, None, 2, timed_s=5e-3), Load(0.0, None, 2, timed_s=2.0)
    assert stalled.busy
    assert not quiet.joined(stalled).busy


@pytest.mark.skipif(sys.platform != "linux", reason="counted by Linux alone")
def test_sleep_is_told_from_waiting_for_a_processor() -> None:
    before = switches()[0]
    time.sleep(0.01)
    assert switches()[0] > before
    watch = Stopwatch()
    assert watch.time(time.sleep, 0.01) >= 0.01
    assert watch.lost_s == 0


def spin(seconds: float) -> None:
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="counted by Linux alone")
def test_real_time_lost_to_others_is_told() -> None:
    """As many programs as processors, and two more, run while calls are timed."""
    code = "while True: pass"
    count = (os.cpu_count() or 1) + 2
    rivals = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        watch = Stopwatch(tries=1)
        for _ in range(200):
            watch.time(spin, 0.005)
            if watch.load.busy and watch.timed_s > 1:
                break
        load = watch.load
    finally:
        for rival in rivals:
            rival.kill()
            rival.wait()
    assert load.busy
    assert load.lost > 0.02
    assert load.others is not None
    assert load.others > 0.5
