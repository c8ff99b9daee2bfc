"""How far a build is, for people: a bar for each stage, and the time that is left."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from .progress import Tell


class Bars:
    """A Progress as one bar per stage; a line at its end where bars cannot be."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def stage(self, name: str, total: int | None) -> Iterator[Tell]:
        """Show a bar while the stage lasts."""
        with Progress(
            TextColumn("{task.description:<20}"),
            BarColumn(),
            Count(),
            TimeElapsedColumn(),
            Left(),
            console=self.console,
        ) as bars:
            task = bars.add_task(name, total=total, bounded=False)

            def tell(done: int, left: int | None = None) -> None:
                if left is None:
                    bars.update(task, completed=done)
                else:
                    bars.update(task, completed=done, total=done + left, bounded=True)

            yield tell


class Count(ProgressColumn):
    """Steps done, and of how many: `5/8`, `5 of at most 8`, or `5`."""

    def render(self, task: Task) -> Text:
        """Write the column."""
        done = f"{task.completed:,.0f}"
        if task.total is None:
            return Text(done)
        open_ended = task.fields["bounded"] and not task.finished
        between = " of at most " if open_ended else "/"
        return Text(f"{done}{between}{task.total:,.0f}")


class Left(ProgressColumn):
    """Time that is left, perhaps at most; the rate where nobody knows."""

    def render(self, task: Task) -> Text:
        """Write the column."""
        if task.total is None:
            return Text(f"{task.speed:,.3g}/s" if task.speed else "")
        seconds = task.time_remaining
        if task.finished or seconds is None:
            return Text("")
        bound = "at most " if task.fields["bounded"] else ""
        return Text(f"{bound}{timedelta(seconds=int(seconds))} left")
