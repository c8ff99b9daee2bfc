"""An executor on a Dask cluster; `polydom[dask]` installs Dask."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Thread
from typing import Any

from distributed import Client

from polydom.features.errors import BadWorker

CONNECT_S = 5


class DaskExecutor(Executor):
    """An executor on the workers of a Dask cluster.

    `client` is a Dask client, or the address of a scheduler.
    """

    def __init__(self, client: Client | str) -> None:
        if isinstance(client, str):
            client = Client(client, timeout=CONNECT_S, set_as_default=False)
        self.client = client

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> "Future[Any]":
        """Start a call and return its future.

        The future fails with `KilledWorker` if every worker that ran the call
        died.
        """
        # impure: Dask must run a repeated call again, and not answer from memory
        return _DaskFuture(self.client.submit(fn, *args, pure=False, **kwargs))

    def cores(self) -> int:
        """Return the number of all workers' threads; 0 if no scheduler answers."""
        if self.client.status != "running":
            return 0
        try:
            return sum(self.client.nthreads().values())
        except (OSError, TimeoutError):
            return 0

    def on_each(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Call a function once on each worker.

        Returns a dict from each worker's address to what the call returned or raised
        there. A worker with several threads gets a `BadWorker` instead, because
        libraries cannot train two models at a time in one process.
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
        """Disconnect from the cluster. The cluster keeps running."""
        self.client.close()


class _DaskFuture(Future[Any]):
    """The future of a call on a Dask cluster. A cancelled call does not start.

    Unlike the futures of a Dask client's own executor, this future also completes if
    the worker dies while it returns the result.
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
