"""Interfaces through which builds report their progress."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class OnProgress(Protocol):
    """A function that receives the progress of a stage."""

    def __call__(self, done: int, left: int | None = None) -> None:
        """Report that `done` steps are done. At most `left` remain; None if unknown."""


class Progress(Protocol):
    """Interface of an object that shows the progress of a build, stage by stage."""

    def stage(self, name: str, total: int | None) -> AbstractContextManager[OnProgress]:
        """Return a context manager that shows a stage while its `with` block runs.

        The block receives a function that reports the steps done. `total` is the number
        of steps, None if unknown. A stage of 0 steps is shown as skipped, because the
        cache already holds its result.
        """


class Silence:
    """A `Progress` that shows nothing."""

    @contextmanager
    def stage(self, name: str, total: int | None) -> Iterator[OnProgress]:
        """Return a context manager that shows nothing."""
        yield lambda done, left=None: None


def skip(progress: Progress, name: str) -> None:
    """Report a stage as skipped, because the cache already holds its result."""
    with progress.stage(name, 0):
        pass
