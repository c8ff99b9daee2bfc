"""How a build tells how far it is, to whoever wants to know."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class OnProgress(Protocol):
    """Takes how many steps are done, and perhaps how many can be to come at most."""

    def __call__(self, done: int, left: int | None = None) -> None:
        """Take the count."""


class Progress(Protocol):
    """Told of each stage of a build as it begins, advances and ends."""

    def stage(self, name: str, total: int | None) -> AbstractContextManager[OnProgress]:
        """Begin a stage of `total` steps (None: not known in advance).

        One of 0 steps is skipped: an earlier run did its work, and it was kept.

        Entering the context gives a function to call with the steps done so far and,
        where that is known only then, how many more there can be at most.
        """


class Silence:
    """A Progress that tells nobody."""

    @contextmanager
    def stage(self, name: str, total: int | None) -> Iterator[OnProgress]:
        """Ignore the stage."""
        yield lambda done, left=None: None


def skip(progress: Progress, name: str) -> None:
    """Tell that a stage's work was found, as an earlier run had kept it."""
    with progress.stage(name, 0):
        pass
