"""An executor on processes of this machine. The library loky keeps them alive."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

IDLE_S = 300  # seconds after which idle processes end
# Threads of a learner would compete with the other processes, one for each core.
ALONE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class LocalExecutor(Executor):
    """An executor on `count` processes of this machine.

    All executors with the same `count` share their processes.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._processes: Any = None

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> "Future[Any]":
        """Start a call and return its future; new processes replace dead ones."""
        from loky import get_reusable_executor

        self._processes = get_reusable_executor(self.count, timeout=IDLE_S, env=ALONE)
        future: Future[Any] = self._processes.submit(fn, *args, **kwargs)
        return future

    def cores(self) -> int:
        """Return the number of processes. The processes start at the first call."""
        return self.count

    def kill(self) -> None:
        """End all processes at once, even during a call."""
        if self._processes is not None:
            self._processes.shutdown(wait=True, kill_workers=True)
