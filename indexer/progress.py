"""How a build tells how far it is, to whoever wants to know."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Progress(Protocol):
    """Told of each stage of a build as it begins, advances and ends."""

    def stage(
        self, name: str, total: int | None
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Begin a stage of `total` steps (None: unknown).

        Entering the context gives a function that takes the steps done so far.
        """


class Silence:
    """A Progress that tells nobody."""

    @contextmanager
    def stage(self, name: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Ignore the stage."""
        yield lambda done: None
