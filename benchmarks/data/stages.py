"""Times the stages of a build, for the benchmarks that run one."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from polydom.indexer.progress import OnProgress


class Stages:
    """A Progress that notes how long each stage took, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str, total: int | None) -> Iterator[OnProgress]:
        start = time.perf_counter()
        yield lambda done, left=None: None
        self.seconds[name] = time.perf_counter() - start
