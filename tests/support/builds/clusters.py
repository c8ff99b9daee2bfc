"""Real clusters on the loopback: Dask by its command line, Ray with two nodes.

Each starts once for a folder of tests, is brought back to two workers before each test
that asks for it, and ends with the folder, or with the process if that is killed.
Nothing of an engine is imported before a fixture is asked for; without the engine its
tests skip.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.places import ROOT
from tests.support.processes.forked_process import ForkedProcess, also_import
from tests.support.waiting import wait_until

HOST = "127.0.0.1"
WORKERS = 2
IDLE = "10 minutes"  # then a scheduler ends whose tests were killed
END_S = 20
STORE_BYTES = 80 << 20
# A node that does not even refuse to answer is still given ten seconds.
SOON = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}
# Ray reads these when it is imported: it would tell its makers, and take the first
# address of this machine that is not the loopback.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # else it warns
# what Dask's command line and its workers' first calls import, where it is installed
also_import("distributed.cli.dask_scheduler", "distributed.cli.dask_worker")


class DaskCluster:
    """A scheduler, and workers of one thread each, none of which is started again.

    Parameters
    ----------
    folder
        Where all of them run, each in a folder of its own, with its log.

    Attributes
    ----------
    address
        The scheduler's, `tcp://127.0.0.1:PORT`.
    workers
        Processes that are alive, or were when last looked at.
    places
        Folders that they run in.
    """

    def __init__(self, folder: Path) -> None:
        self.workers: list[ForkedProcess] = []
        self._changed: list[ForkedProcess] = []
        self._folder = folder
        self._started = 0
        facts = folder / "scheduler.json"
        self._scheduler = self._start(
            "scheduler",
            "--port=0",
            f"--idle-timeout={IDLE}",
            f"--scheduler-file={facts}",
        )
        wait_until(lambda: _is_json(facts))
        self.address: str = json.loads(facts.read_text())["address"]

    @property
    def places(self) -> list[Path]:
        return [Path(f"/proc/{worker.pid}/cwd").resolve() for worker in self.workers]

    def add_worker(self, **environment: str) -> ForkedProcess:
        """Start a worker, with more in its environment, and wait until it has joined.

        One that has more is gone before the next test.
        """
        options = ("--nthreads=1", "--no-nanny", "--memory-limit=0")
        place = self._folder / str(self._started)
        worker = self._start("worker", self.address, *options, **environment)
        self.workers.append(worker)
        if environment:
            self._changed.append(worker)
        log = place / "log"
        wait_until(lambda: "Registered to:" in log.read_text() or worker.poll())
        assert worker.poll() is None, log.read_text()
        return worker

    def kill_worker(self, number: int = 0) -> None:
        """End a worker at once (SIGKILL)."""
        _kill(self.workers.pop(number))

    def restore(self, count: int = WORKERS) -> None:
        """Have so many usual workers, no more and no fewer."""
        for worker in self._changed:
            _kill(worker)
        self._changed.clear()
        self.workers = [one for one in self.workers if one.poll() is None]
        while len(self.workers) > count:
            self.kill_worker()
        while len(self.workers) < count:
            self.add_worker()

    def close(self) -> None:
        """End all processes at once."""
        for process in (*self.workers, self._scheduler):
            _kill(process)

    def _start(self, *arguments: str, **environment: str) -> ForkedProcess:
        place = self._folder / str(self._started)
        place.mkdir()
        log = place / "log"
        log.touch()  # it is read before the process opens it
        self._started += 1
        kind, *rest = arguments
        here = [f"--host={HOST}", f"--dashboard-address={HOST}:0", "--no-dashboard"]
        if kind == "worker":
            here.append(f"--local-directory={place}")
        words = ["python", "-m", "dask", kind, *rest, *here]
        return ForkedProcess(words, place, log, environment)


def _is_json(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text()))
    except (OSError, ValueError):
        return False


def _kill(process: ForkedProcess) -> None:
    process.kill()
    process.communicate(END_S)


@pytest.fixture(scope="package")
def started_dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """The scheduler of a folder of tests."""
    pytest.importorskip("distributed")
    cluster = DaskCluster(tmp_path_factory.mktemp("dask"))
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def dask_cluster(started_dask: DaskCluster) -> DaskCluster:
    """A scheduler and two workers, which share no folder but absolute paths."""
    started_dask.restore()
    return started_dask


class RayCluster:
    """A head and another node, of one core each; this process is connected to them.

    Parameters
    ----------
    folder
        For sockets and logs; its path is to be short.

    Attributes
    ----------
    address
        HOST:PORT of the head.
    """

    def __init__(self, folder: Path) -> None:
        os.environ["RAY_TMPDIR"] = str(folder)
        import ray
        from ray.cluster_utils import Cluster

        self._cluster = Cluster()
        self._others: list[Any] = []
        self._add(include_dashboard=False, _system_config=SOON)
        self.restore()
        self.address: str = self._cluster.address
        ray.init(self.address, log_to_driver=False, logging_level="warning")

    def kill_node(self) -> None:
        """End the node that is not the head, and all its workers, at once (SIGKILL)."""
        self._cluster.remove_node(self._others.pop(), allow_graceful=False)

    def restore(self) -> None:
        """Have two nodes."""
        while len(self._others) < WORKERS - 1:
            self._others.append(self._add())

    def close(self) -> None:
        """Leave, and end all of it."""
        import ray

        ray.shutdown()
        self._cluster.shutdown()

    def _add(self, **options: Any) -> Any:
        return self._cluster.add_node(
            num_cpus=1,
            no_monitor=True,  # which would ask a cloud for nodes
            include_log_monitor=False,
            node_ip_address=HOST,
            object_store_memory=STORE_BYTES,
            env_vars={"PYTHONPATH": str(ROOT)},
            **options,
        )


@pytest.fixture(scope="package")
def started_ray() -> Iterator[RayCluster]:
    """The nodes of a folder of tests."""
    pytest.importorskip("ray")
    # a socket's path has 107 bytes at most
    with TemporaryDirectory(prefix="ray") as folder:
        cluster = RayCluster(Path(folder))
        try:
            yield cluster
        finally:
            cluster.close()


@pytest.fixture
def ray_cluster(started_ray: RayCluster) -> RayCluster:
    """Two nodes, to which this process is connected."""
    started_ray.restore()
    return started_ray
