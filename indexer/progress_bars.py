"""Progress on a terminal: a bar for each stage, with the estimated time left."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from .progress import OnProgress

if TYPE_CHECKING:
    from polydom.models.selection.race import Race

FAST = 10.0  # rates above this number of steps a second have no decimals
REDRAW_S = 0.2  # seconds between two pictures of a bar that no thread draws


class StageTimes:
    """Seconds spent in each stage, excluding stages nested in it."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.seconds: dict[str, float] = {}  # stages of equal names are added up
        self._now = now
        self._began = now()
        self._within = [0.0]  # seconds of the inner stages of each open stage

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the duration of the `with` block to the seconds of the stage `name`."""
        self.seconds.setdefault(name, 0.0)
        began = self._now()
        self._within.append(0.0)
        try:
            yield
        finally:
            took = self._now() - began
            self.seconds[name] += took - self._within.pop()
            self._within[-1] += took

    def facts(self) -> dict[str, float]:
        """Return the seconds of each stage; "other" is time outside of all stages."""
        other = self._now() - self._began - sum(self.seconds.values())
        return {**self.seconds, "other": max(other, 0.0)}


class ProgressBars:
    """A `Progress` with one bar per stage; without a terminal, one line per stage.

    If `threaded` is true, a separate thread draws the bars. Otherwise they are drawn
    only when a step is reported, so that drawing never disturbs a step that is timed.
    """

    def __init__(
        self, console: Console | None = None, *, threaded: bool = True
    ) -> None:
        self.console = console or Console(stderr=True)
        self._threaded = threaded
        self.times = StageTimes()
        self._shown: BarsWithNote | None = None

    @contextmanager
    def stage(self, name: str, total: int | None) -> Iterator[OnProgress]:
        """Show a bar for the stage until the `with` block ends."""
        with self.times.stage(name), self._bar(name, total) as on_progress:
            yield on_progress

    @contextmanager
    def _bar(self, name: str, total: int | None) -> Iterator[OnProgress]:
        with BarsWithNote(
            TextColumn("{task.description:<20}"),
            BarColumn(),
            StepsDone(),
            TimeElapsedColumn(),
            TimeLeft(),
            console=self.console,
            auto_refresh=self._threaded,
        ) as bars:
            task = bars.add_task(
                name, total=total, bounded=False, open=total is None, rate=None
            )

            drawn_s = time.monotonic()

            def on_progress(done: int, left: int | None = None) -> None:
                nonlocal drawn_s
                bars.update(task, completed=done)
                if left is not None:
                    bars.update(task, total=done + left, bounded=True, open=False)
                if not self._threaded and time.monotonic() - drawn_s > REDRAW_S:
                    bars.refresh()
                    drawn_s = time.monotonic()

            self._shown = bars
            try:
                yield on_progress
                # the steps done are the total, whatever bound was shown before
                done, rate = bars.tasks[0].completed, bars.tasks[0].speed
                bars.update(task, total=done, bounded=False, rate=rate)
            finally:
                self._shown, bars.note = None, ""

    def follow(self, race: "Race") -> None:
        """Write the newest training of a race between learners below the bar."""
        if self._shown is not None:
            self._shown.note = latest(race)
            self._shown.refresh()


class BarsWithNote(Progress):
    """Progress bars with a line of text below them."""

    note = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bars, then the line of text if it is not empty."""
        yield from super().get_renderables()
        if self.note:
            yield Text(self.note, no_wrap=True, overflow="ellipsis")


def latest(race: "Race") -> str:
    """Return a line of text about the newest training of a race between learners.

    The line has the learner, the number of examples, the score, and an upper bound of
    the score on all examples if the strategy computes one.
    """
    line = race.log[-1]
    if line.score is None:
        return f"{line.learner} failed: {line.error}"
    unit = "after {:,} iterations" if race.carries_on else "on {:,} examples"
    said = f"{line.learner}: {line.score:.4f} {unit.format(line.amount)}"
    if line.bound is not None and math.isfinite(line.bound):
        said += f", at most {line.bound:.4f} on all"
    return said


class StepsDone(ProgressColumn):
    """Column with the steps done: `5/8`, `5 of at most 8`, `5`, or `from the cache`."""

    def render(self, task: Task) -> Text:
        """Return the text of this column for one stage."""
        done = f"{task.completed:,.0f}"
        if task.total is None:
            return Text(done)
        if task.total == 0:
            return Text("from the cache")
        open_ended = task.fields["bounded"] and not task.finished
        between = " of at most " if open_ended else "/"
        return Text(f"{done}{between}{task.total:,.0f}")


class TimeLeft(ProgressColumn):
    """Column with the time left, or with the rate if the number of steps is unknown."""

    def render(self, task: Task) -> Text:
        """Return the text of this column for one stage."""
        if task.fields["open"]:
            speed = task.fields["rate"] or task.speed
            if not speed:
                return Text("")
            return Text(f"{speed:,.0f}/s" if speed >= FAST else f"{speed:.2g}/s")
        seconds = task.time_remaining
        if task.finished or seconds is None:
            return Text("")
        bound = "at most " if task.fields["bounded"] else ""
        return Text(f"{bound}{timedelta(seconds=int(seconds))} left")
