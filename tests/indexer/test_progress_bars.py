"""What people see of a build's progress."""

import io
import threading
from contextlib import suppress

import pytest
from rich.console import Console

from polydom.indexer.progress_bars import (
    ProgressBars,
    StageTimes,
    latest,
)
from polydom.models.selection.race import Race, TrainingOutcome


def shown(
    total: int | None, *steps: tuple[int, int | None], fails: bool = False
) -> str:
    """The line of a stage that ends after these steps, be it by an error."""
    console = Console(file=io.StringIO(), width=100)
    with (
        suppress(KeyError),
        ProgressBars(console).stage("training sets", total) as on_progress,
    ):
        for done, left in steps:
            on_progress(done, left)
        if fails:
            raise KeyError
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("total", "steps", "seen", "unseen"),
    [
        (8, [(5, None)], "5/8", "most"),
        (8, [(8, None)], "8/8", "left"),
        (None, [(1, 1023), (12, 1012)], "12 of at most 1,024", "/s"),
        (None, [(1, 1023), (12, 0)], "12/12", "most"),
        (None, [(1234, None)], "1,234", "left"),
    ],
)
def test_bar_says_what_is_known(
    total: int | None, steps: list[tuple[int, int | None]], seen: str, unseen: str
) -> None:
    line = shown(total, *steps, fails=True)
    assert line.startswith("training sets")
    assert seen in line
    assert unseen not in line


@pytest.mark.parametrize(
    ("total", "steps", "end"),
    [
        (8, [(8, None)], "8/8"),
        (8, [(5, None)], "5/5"),
        (None, [(1, 1023), (12, 1012)], "12/12"),
        (None, [(1234, None)], "1,234/1,234"),
        (None, [], "from the cache"),
        (0, [], "from the cache"),
    ],
)
def test_bar_of_a_stage_that_is_done_ends_at_its_end(
    total: int | None, steps: list[tuple[int, int | None]], end: str
) -> None:
    line = shown(total, *steps)
    assert end in line
    assert "most" not in line
    assert "left" not in line


@pytest.mark.parametrize(
    ("step_s", "rate"), [(1e-3, "1,000/s"), (0.1, "10/s"), (4.0, "0.25/s")]
)
def test_bar_writes_rates_short(step_s: float, rate: str) -> None:
    now = 0.0

    def later() -> float:
        return now

    console = Console(file=io.StringIO(), width=100, get_time=later)
    with ProgressBars(console).stage("reading items", None) as on_progress:
        for done in range(1, 6):
            now += step_s
            on_progress(done)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().rstrip().endswith(f" {rate}")


def test_bar_tells_the_time_left_or_the_rate() -> None:
    now = iter([float(second) for second in range(1000)])
    console = Console(file=io.StringIO(), width=100, get_time=lambda: next(now))
    bars = ProgressBars(console)
    with bars.stage("a", None) as on_progress:
        for done in range(20):
            on_progress(done)
    with suppress(KeyError), bars.stage("b", None) as on_progress:
        for done in range(20):
            on_progress(done, 1000 - done)
        raise KeyError  # as a build that is stopped
    with suppress(KeyError), bars.stage("c", 1000) as on_progress:
        for done in range(20):
            on_progress(done)
        raise KeyError
    assert isinstance(console.file, io.StringIO)
    first, second, third = console.file.getvalue().splitlines()
    assert first.endswith("/s")
    assert "at most 0:" in second
    assert second.endswith(" left")
    assert third.endswith(" left")
    assert "at most" not in third


def test_bar_without_a_thread_is_drawn_by_who_takes_the_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("polydom.indexer.progress_bars.REDRAW_S", 0.0)
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    before = threading.active_count()
    with ProgressBars(console, threaded=False).stage("a", 3) as on_progress:
        assert threading.active_count() == before
        on_progress(1)
        assert isinstance(console.file, io.StringIO)
        assert "1/3" in console.file.getvalue()
        on_progress(3)
    assert "3/3" in console.file.getvalue()


def fails(amount: int) -> TrainingOutcome:
    raise ValueError(f"not {amount}")


def test_bar_follows_a_race_below_it_and_forgets_it_at_the_end() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    bars = ProgressBars(console)
    race = Race(
        {"bayes": lambda n: TrainingOutcome(0.75)}, limit=4000, progress=bars.follow
    )
    race.train("bayes", 500)  # before any bar: nowhere to say it
    with bars.stage("choosing a learner", None):
        race.train("bayes", 2000, lambda curve: 0.875)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "bayes: 0.7500 on 2,000 examples, at most 0.8750 on all" in shown
    assert "500 examples" not in shown


def test_latest_says_what_is_known_of_the_newest_training() -> None:
    race = Race({"bayes": lambda n: TrainingOutcome(0.75), "svm": fails}, limit=4000)
    race.train("bayes", 500, lambda curve: float("inf"))
    assert latest(race) == "bayes: 0.7500 on 500 examples"
    race.train("svm", 500)
    assert latest(race) == "svm failed: ValueError: not 500"


def test_times_of_stages_leave_out_those_within() -> None:
    clock = iter([0, 1, 2, 5, 9, 10, 14, 20])
    times = StageTimes(lambda: float(next(clock)))
    with times.stage("outer"), times.stage("inner"):  # 1 to 9, and 2 to 5 of these
        pass
    with suppress(KeyError), times.stage("inner"):  # 10 to 14
        raise KeyError
    seconds = times.facts()
    assert seconds == {"outer": 5, "inner": 7, "other": 8}
