"""The Dask cluster of these tests: on the loopback alone, whole again after a loss."""

import os

from tests.support.builds.clusters import DaskCluster
from tests.support.waiting import wait_until


def where() -> tuple[int, str]:
    return os.getpid(), os.getcwd()


def test_dask_has_two_workers_again_after_one_was_killed(
    dask_cluster: DaskCluster,
) -> None:
    from distributed import Client

    with Client(dask_cluster.address, set_as_default=False) as client:
        before = client.run(where)
        assert len({folder for _, folder in before.values()}) == 2
        assert all(address.startswith("tcp://127.0.0.1:") for address in before)
        dask_cluster.kill_worker()
        wait_until(lambda: len(client.nthreads()) == 1)
        dask_cluster.add_worker(MARKED="yes")
        assert sorted(client.run(os.getenv, "MARKED").values(), key=str) == [
            None,
            "yes",
        ]
        dask_cluster.restore()
        wait_until(lambda: len(client.nthreads()) == 2)
        assert set(client.run(os.getenv, "MARKED").values()) == {None}
