"""Progress of long work, as builds report it: stages, and steps within a stage."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class OnProgress(Protocol):
    """A function that receives the progress of a stage."""

    def __call__(self, done: int, left: int | None = None) -> None:
        """Report the steps done so far, and the most steps left, if known."""


class Progress(Protocol):
    """Receives each stage of the work: its beginning, its progress and its end."""

    def stage(self, name: str, total: int | None) -> AbstractContextManager[OnProgress]:
        """Begin a stage of `total` steps; None if the number is not known yet.

        A stage of 0 steps is skipped: its result was found in the cache.
        """


class Silence:
    """A Progress that shows nothing."""

    @contextmanager
    def stage(self, name: str, total: int | None) -> Iterator[OnProgress]:
        """Ignore the stage."""
        yield lambda done, left=None: None


def skip(progress: Progress, name: str) -> None:
    """Report that a stage was skipped, since an earlier run kept its result."""
    with progress.stage(name, 0):
        pass
