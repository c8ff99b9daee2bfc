"""A Progress that remembers what it was told."""

from collections.abc import Iterator
from contextlib import contextmanager

from polydom.indexer.progress import OnProgress


class Stages:
    """Records the stages of a build, and stops it in the middle of one if asked."""

    def __init__(self, stop_in: str | None = None) -> None:
        self.done: dict[str, int] = {}
        self.stop_in = stop_in

    @contextmanager
    def stage(self, name: str, total: int | None) -> Iterator[OnProgress]:
        self.done.setdefault(name, 0)

        def on_progress(done: int, left: int | None = None) -> None:
            self.done[name] = done
            if name == self.stop_in and done > 0:
                raise KeyboardInterrupt

        yield on_progress
