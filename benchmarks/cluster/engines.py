"""Engines on this machine, of a number of processes each."""

import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from polydom.indexer.cluster.local import LocalExecutor

# Ray reads these when it is imported.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
ENGINES = ("this process", "local", "Dask", "Ray")


def started(engine: str, count: int) -> AbstractContextManager[Any]:
    """Start so many processes, of a thread each; they end with the block."""
    if engine == "Dask":
        return _dask(count)
    if engine == "Ray":
        return _ray(count)
    return nullcontext(None) if engine == "this process" else _local(count)


@contextmanager
def _local(count: int) -> Iterator[Executor]:
    executor = LocalExecutor(count)
    try:
        yield executor
    finally:
        executor.kill()


@contextmanager
def _dask(count: int) -> Iterator[Executor]:
    from distributed import LocalCluster

    from polydom.indexer.cluster.dask import DaskExecutor

    with (
        LocalCluster(
            n_workers=count, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        DaskExecutor(cluster.scheduler_address) as executor,
    ):
        yield executor


@contextmanager
def _ray(count: int) -> Iterator[Executor]:
    import ray

    from polydom.indexer.cluster.ray import RayExecutor

    ray.init(num_cpus=count, include_dashboard=False, log_to_driver=False)
    try:
        yield RayExecutor()
    finally:
        ray.shutdown()
