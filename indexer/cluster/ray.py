"""An executor on a Ray cluster; `polydom[ray]` installs Ray."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Thread
from typing import Any

import ray
from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

HEAD_S = 5.0  # seconds for an answer of the head node, which else counts as gone


class RayExecutor(Executor):
    """An executor on the nodes of a Ray cluster. Ray reserves one core for each call.

    Parameters
    ----------
    address
        Address for `ray.init`; "auto" for the cluster that this machine is part of. If
        Ray is connected already, its cluster is used.
    memory
        Bytes that Ray reserves for each call; None for no reservation.
    """

    def __init__(self, address: str = "auto", *, memory: float | None = None) -> None:
        if not ray.is_initialized():
            ray.init(address, log_to_driver=False)
        # no retries: Ray would repeat calls that ran out of memory without end
        self._remote: Any = ray.remote(_call)
        self._terms = {"num_cpus": 1, "max_retries": 0, "memory": memory}

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> "Future[Any]":
        """Start a call; its future fails with `WorkerCrashedError` if a worker dies."""
        remote = self._remote.options(**self._terms)
        return _RayFuture(remote.remote(fn, *args, **kwargs))

    def cores(self) -> int:
        """Return the number of cores of all live nodes; 0 if the head node is gone."""
        asked: Future[list[dict[str, Any]]] = Future()
        # in a thread: without a head node this call of Ray blocks for a minute
        Thread(target=lambda: asked.set_result(_nodes()), daemon=True).start()
        try:
            nodes = asked.result(timeout=HEAD_S)
        except TimeoutError:
            return 0
        return int(sum(node["Resources"]["CPU"] for node in nodes))

    def on_each(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Call a function once on each node; return results or exceptions by node."""
        futures = {}
        for node in _nodes():
            here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            remote = self._remote.options(**self._terms, scheduling_strategy=here)
            name = f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})"
            futures[name] = _RayFuture(remote.remote(function, *arguments))
        return {
            name: future.exception() or future.result()
            for name, future in futures.items()
        }


class _RayFuture(Future[Any]):
    """The future of a call. Cancelling the future ends the call, even while it runs."""

    def __init__(self, reference: Any) -> None:
        super().__init__()
        self._reference = reference
        reference.future().add_done_callback(self._take)

    def cancel(self) -> bool:
        cancelled = super().cancel()
        if cancelled:
            ray.cancel(self._reference, force=True)
        return cancelled

    def _take(self, future: "Future[Any]") -> None:
        if not self.set_running_or_notify_cancel():
            return
        error = future.exception()
        if error is None:
            self.set_result(future.result())
        else:
            own = error.cause if isinstance(error, RayTaskError) else error
            self.set_exception(own)


def _nodes() -> list[dict[str, Any]]:
    return [one for one in ray.nodes() if one["Alive"] and "CPU" in one["Resources"]]


def _call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    return function(*arguments, **named)
