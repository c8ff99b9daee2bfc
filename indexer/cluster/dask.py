"""A Dask cluster that carries calls out; `polydom[dask]` installs what it needs."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Thread
from typing import Any

from distributed import Client

from polydom.features.errors import BadWorker

CONNECT_S = 5


class DaskExecutor(Executor):
    """The workers of a Dask cluster.

    Parameters
    ----------
    client
        Connected to it; or the scheduler's address, such as `tcp://10.0.0.1:8786`.
    """

    def __init__(self, client: Client | str) -> None:
        if isinstance(client, str):
            client = Client(client, timeout=CONNECT_S, set_as_default=False)
        self.client = client

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> "Future[Any]":
        """Have a call carried out; `KilledWorker` where all that had it died."""
        # the same call may be wanted twice, and is never to be answered from memory
        return _DaskFuture(self.client.submit(fn, *args, pure=False, **kwargs))

    def cores(self) -> int:
        """Count the workers' threads; 0 where the scheduler does not answer."""
        if self.client.status != "running":
            return 0
        try:
            return sum(self.client.nthreads().values())
        except (OSError, TimeoutError):
            return 0

    def on_each(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Call a function on each worker; what it returned or raised, by address.

        Of a worker with several threads a `BadWorker`: the libraries that models are
        trained with are not made for two trainings in one process.
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
        """Leave the cluster, which goes on without this."""
        self.client.close()


class _DaskFuture(Future[Any]):
    """What a call returns or raises; cancelled, it is not begun.

    The client's own executor loses some that end as their worker dies, for ever.
    """

    def __init__(self, future: Any) -> None:
        super().__init__()
        self._future = future
        # to fetch a result that went down with its worker takes until it is made
        # again, and all of Dask's callbacks share one thread
        future.add_done_callback(
            lambda future: Thread(
                target=self._take, args=(future,), daemon=True
            ).start()
        )

    def cancel(self) -> bool:
        """Take the call back, if no worker has it yet."""
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
