"""Connect to the workers at an address such as `dask://10.0.0.1:8786`."""

import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from polydom.features.errors import BadInput, BadWorker

from .check import WorkerCheck, describe
from .local import LocalExecutor
from .workers import WAIT_S, Countable, Workers

NEEDED = "local, local:8, dask://HOST:PORT, ray://auto or ray://HOST:PORT is needed"


@runtime_checkable
class Addressable(Protocol):
    """An executor that can call a function on each of its workers."""

    def on_each(self, function: Any, *arguments: Any) -> dict[str, Any]:
        """Call a function once on each worker.

        Returns a dict from each worker's name to what the call returned or raised
        there.
        """


def connect(address: str) -> Executor | None:
    """Return an executor for the workers at an address.

    `local:N` means N processes of this machine, `dask://HOST:PORT` a Dask
    scheduler, `ray://auto` the Ray cluster that this machine is part of, and
    `ray://HOST:PORT` the Ray Client server of a cluster. Returns None for one
    process of this machine: calls then run in this process. Raises BadInput if the
    address has another form or the engine is not installed, and BadWorker if no
    cluster answers.
    """
    engine, _, place = address.partition("://")
    if engine == "dask" and place:
        return _dask(address, place)
    if engine == "ray" and place:
        return _ray(address, place)
    engine, colon, count = address.partition(":")
    if engine == "local" and ((count.isdecimal() and int(count) > 0) or not colon):
        processes = int(count) if colon else os.cpu_count() or 1
        return LocalExecutor(processes) if processes > 1 else None
    raise BadInput(f"{address!r} is no place for workers: {NEEDED}")


def _dask(address: str, place: str) -> Executor:
    try:
        from .dask import DaskExecutor
    except ImportError as error:
        raise _lacking("dask", address) from error
    try:
        return DaskExecutor(f"tcp://{place}")
    except (OSError, TimeoutError, ValueError) as error:
        raise BadWorker(f"{address}: no scheduler answers there: {error}") from error


def _ray(address: str, place: str) -> Executor:
    try:
        from .ray import RayExecutor
    except ImportError as error:
        raise _lacking("ray", address) from error
    try:
        return RayExecutor("auto" if place == "auto" else address)
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        raise BadWorker(f"{address}: no cluster answers there: {error}") from error


def _lacking(engine: str, address: str) -> BadInput:
    return BadInput(
        f"{address}: {engine} is not installed; pip install 'polydom[{engine}]'"
    )


def workers_of(executor: Executor | None) -> Workers:
    """Return `Workers` for an executor; if it is None, calls run in this process.

    A Dask client's own executor does not notice lost workers, so a `DaskExecutor`
    replaces it. Raises BadWorker if a cluster has no workers within `WAIT_S`
    seconds.
    """
    if type(executor).__module__ == "distributed.cfexecutor":
        from .dask import DaskExecutor

        executor = DaskExecutor(executor._client)  # type: ignore[union-attr]
    return Workers(executor, _count(executor))


def _count(executor: Executor | None) -> int:
    if executor is None:
        return 1
    if not isinstance(executor, Countable):
        count = getattr(executor, "_max_workers", None)
        return count if isinstance(count, int) else os.cpu_count() or 1
    ends_s = time.monotonic() + WAIT_S
    while not (count := executor.cores()):
        if time.monotonic() > ends_s:
            raise BadWorker(f"no worker came for {WAIT_S:.0f} s")
        time.sleep(0.1)
    return count


def checked(
    workers: Workers,
    files: Sequence[Path],
    shared: Path | None,
    data: Sequence[Path] = (),
) -> Workers:
    """Test all workers now, and return `Workers` that repeat the test at each call.

    A worker passes if it has the same code and libraries, reads equal `files` (code or
    models) and `data` (items) under the same paths, and sees the folder `shared`.
    Raises BadWorker if a worker fails. Processes of this machine are not tested.
    """
    if workers.executor is None or isinstance(workers.executor, LocalExecutor):
        return workers
    check = WorkerCheck.of(files, shared, data)
    if isinstance(workers.executor, Addressable):
        for name, found in workers.executor.on_each(
            describe, check.files, check.data
        ).items():
            check.refuse(name, found)
    return replace(workers, check=check)
