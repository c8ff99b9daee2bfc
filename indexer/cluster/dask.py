"""An executor on a Dask cluster; `polydom[dask]` installs Dask."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Thread
from typing import Any

from distributed import Client

from polydom.features.errors import BadWorker

CONNECT_S = 5


class DaskExecutor(Executor):
    """The workers of a Dask cluster, given a client or the scheduler's address."""

    def __init__(self, client: Client | str) -> None:
        if isinstance(client, str):
            client = Client(client, timeout=CONNECT_S, set_as_default=False)
        self.client = client

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> "Future[Any]":
        """Start a call; it raises `KilledWorker` if all workers that ran it died."""
        # impure: Dask must run a repeated call again, and not answer from memory
        return _DaskFuture(self.client.submit(fn, *args, pure=False, **kwargs))

    def cores(self) -> int:
        """Count the workers' threads; 0 if the scheduler does not answer."""
        if self.client.status != "running":
            return 0
        try:
            return sum(self.client.nthreads().values())
        except (OSError, TimeoutError):
            return 0

    def on_each(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Return the result or the error of a function, by address of the worker.

        A worker with several threads has a `BadWorker` as its result: libraries that
        train models do not support two trainings in one process.
        """
        found: dict[str, Any] = self.client.run(function, *arguments, on_error="return")
        for address, threads in self.client.nthreads().items():
            if threads > 1:
                found[address] = BadWorker(
                    f"it has {threads} threads; start it with --nworkers {threads} "
                    "--nthreads 1"
                )
        return found

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster; the cluster keeps running."""
        self.client.close()


class _DaskFuture(Future[Any]):
    """The future of a call; a cancelled call does not start.

    Futures of the client's own executor never end if their worker dies as they end.
    """

    def __init__(self, future: Any) -> None:
        super().__init__()
        self._future = future
        # a thread for each result: a result that died with its worker is computed
        # again, and would hold up all of Dask's callbacks, which share one thread
        future.add_done_callback(
            lambda future: Thread(
                target=self._take, args=(future,), daemon=True
            ).start()
        )

    def cancel(self) -> bool:
        """Cancel the call, if no worker has it yet."""
        cancelled = super().cancel()
        if cancelled:
            self._future.cancel()
        return cancelled

    def _take(self, future: Any) -> None:
        if not self.set_running_or_notify_cancel():
            return
        try:
            self.set_result(future.result())
        except BaseException as error:
            self.set_exception(error)
