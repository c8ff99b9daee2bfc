"""Processes of this machine, by loky: kept between stages, replaced when one dies."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

# Seconds after which processes end that have nothing to do.
IDLE_S = 300
# A learner's own threads would fight over cores that have a process each.
ALONE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class LocalExecutor(Executor):
    """So many processes of this machine.

    All of one number are the same ones: starting them takes longer than many builds.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._processes: Any = None

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> "Future[Any]":
        """Have a call carried out; by new processes if the last were lost."""
        from loky import get_reusable_executor

        self._processes = get_reusable_executor(self.count, timeout=IDLE_S, env=ALONE)
        future: Future[Any] = self._processes.submit(fn, *args, **kwargs)
        return future

    def cores(self) -> int:
        """Count the processes, which are started as they are needed."""
        return self.count

    def kill(self) -> None:
        """End all processes, whatever they do."""
        if self._processes is not None:
            self._processes.shutdown(wait=True, kill_workers=True)
