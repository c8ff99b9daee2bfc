"""Builds on real clusters: the same bytes, whatever becomes of their workers."""

import os
import pickle
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from polydom.features.errors import BadInput, BadProject, BadWorker, WorkerLost
from polydom.indexer.building.build import build
from polydom.indexer.building.project import Project
from polydom.indexer.building.project_tables.cluster import Cluster
from tests.support.builds import projects
from tests.support.builds.clusters import DaskCluster, RayCluster
from tests.support.builds.recorded_executor import RecordedExecutor
from tests.support.places import ROOT
from tests.support.processes.forked_process import ForkedProcess
from tests.support.waiting import wait_until

OWN = """\
import os
import time
from polydom.features.feature import feature

@feature(kind="text")
def bangs(text):
    time.sleep(0.002)
    return [text.count("!"), len(text)]
"""
PROJECT = """\
seed = 1
workers = 1
learner = { name = "boosting", n_estimators = 12 }

[data]
texts = "mails.jsonl"

[features]
use = ["text_length", "casing", "bangs", "learned_words"]
files = ["own.py"]

[search]
method = "poly-dom"

[costs]
items = 12
repeats = 3
"""
TIMES = ("times", "machine_times")
OWN_FOLDER = "/proc/self/cwd"  # another one to each process


class Made:
    """A project, its index as built here, and what was measured meanwhile.

    Attributes
    ----------
    expected
        The index's bytes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = projects.texts(folder, 160, PROJECT)
        (folder / "own.py").write_text(OWN)
        build(folder / "PROJECT.toml", output=folder / "local.pdx")
        self.expected = (folder / "local.pdx").read_bytes()

    def measured(self, folder: Path) -> str:
        """Make a folder of the times that were measured, and nothing else."""
        for group in TIMES:
            shutil.copytree(self.folder / ".polydom-cache" / group, folder / group)
        return str(folder)

    def on(self, **terms: Any) -> Project:
        """Give the project, to be built by a cluster."""
        project = Project.load(self.folder / "PROJECT.toml")
        return msgspec.structs.replace(project, cluster=Cluster(**terms))


@pytest.fixture(scope="package")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made"))


def dask_address(cluster: DaskCluster) -> str:
    return cluster.address.replace("tcp", "dask")


@contextmanager
def dask_executor(
    cluster: DaskCluster, on_submit: Callable[[str, int], object] | None = None
) -> Iterator[RecordedExecutor]:
    from polydom.indexer.cluster.dask import DaskExecutor

    with DaskExecutor(cluster.address) as inner:
        yield RecordedExecutor(inner, on_submit)


def test_a_build_on_dask_gives_the_same_bytes(
    made: Made, dask_cluster: DaskCluster, tmp_path: Path
) -> None:
    shared = made.measured(tmp_path / "shared")
    project = made.on(on=dask_address(dask_cluster), shared=shared)
    build(project, output=tmp_path / "on.pdx")
    assert (tmp_path / "on.pdx").read_bytes() == made.expected


def test_a_build_on_ray_gives_the_same_bytes(
    made: Made, ray_cluster: RayCluster, tmp_path: Path
) -> None:
    shared = made.measured(tmp_path / "shared")
    build(made.on(on="ray://auto", shared=shared), output=tmp_path / "on.pdx")
    assert (tmp_path / "on.pdx").read_bytes() == made.expected


def test_a_small_build_needs_no_shared_folder(
    made: Made, dask_cluster: DaskCluster, tmp_path: Path
) -> None:
    from distributed import Client

    cache = made.measured(tmp_path / "cache")
    with Client(dask_cluster.address, set_as_default=False) as client:
        executor = client.get_executor()
        build(made.on(), cache=cache, executor=executor, output=tmp_path / "on.pdx")
    assert (tmp_path / "on.pdx").read_bytes() == made.expected


@pytest.mark.parametrize("function", ["_compute_chunk", "score_part", "train_set"])
def test_a_build_goes_on_where_a_worker_is_killed_and_does_nothing_twice(
    function: str, made: Made, dask_cluster: DaskCluster, tmp_path: Path
) -> None:
    def kill_at_the_second(name: str, count: int) -> None:
        if (name, count) == (function, 2):
            dask_cluster.kill_worker()

    shared = made.measured(tmp_path / "shared")
    with dask_executor(dask_cluster, kill_at_the_second) as executor:
        build(made.on(), executor=executor, shared=shared, output=tmp_path / "on.pdx")
    assert (tmp_path / "on.pdx").read_bytes() == made.expected
    assert set(Counter(map(pickle.dumps, executor.done)).values()) == {1}


def test_a_build_whose_workers_are_all_killed_says_so_and_goes_on_later(
    made: Made,
    dask_cluster: DaskCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("polydom.indexer.cluster.workers.WAIT_S", 1.0)  # instead of 10

    def kill_all_at_the_fifth(name: str, count: int) -> None:
        if (name, count) == ("train_set", 5):
            killed_s.append(time.monotonic())
            while dask_cluster.workers:
                dask_cluster.kill_worker()

    killed_s: list[float] = []
    shared = made.measured(tmp_path / "shared")
    project = made.on(shared=shared)
    with dask_executor(dask_cluster, kill_all_at_the_fifth) as executor:
        with pytest.raises(WorkerLost, match="training sets: no worker came for "):
            build(project, executor=executor, output=tmp_path / "x.pdx")
        assert time.monotonic() - killed_s[0] < 30
    assert not (tmp_path / "x.pdx").exists()
    before = [call for call in executor.done if call[0] == "train_set"]
    dask_cluster.restore()
    with dask_executor(dask_cluster) as again:
        build(made.on(shared=shared), executor=again, output=tmp_path / "on.pdx")
    assert (tmp_path / "on.pdx").read_bytes() == made.expected
    known = {pickle.dumps(call) for call in before}
    assert not known & {pickle.dumps(call) for call in again.given}
    assert {name for name, _ in again.given} == {"train_set"}


def test_an_interrupted_build_leaves_the_cluster_to_others_and_goes_on_later(
    made: Made, dask_cluster: DaskCluster, tmp_path: Path
) -> None:
    from distributed import Client

    shared = Path(made.measured(tmp_path / "shared"))
    output = tmp_path / "on.pdx"
    where = ["--on", dask_address(dask_cluster), "--shared", str(shared)]
    command = ["polydom", "build", "PROJECT.toml", *where, "-o", str(output)]
    building = ForkedProcess(command, made.folder)
    try:
        wait_until(lambda: len([*shared.glob("sets/*/*.pdx")]) > 2)
        building.send_signal(signal.SIGINT)
        _, told = building.communicate(timeout=30)
    finally:
        building.kill()
    assert building.returncode == 130
    assert "goes on" in told
    assert not output.exists()
    with Client(dask_cluster.address, set_as_default=False) as client:
        wait_until(lambda: not any(client.processing().values()))
    build(made.on(on=dask_address(dask_cluster), shared=str(shared)), output=output)
    assert output.read_bytes() == made.expected


def test_a_build_on_ray_goes_on_where_a_node_is_killed(
    made: Made, ray_cluster: RayCluster, tmp_path: Path
) -> None:
    from polydom.indexer.cluster.ray import RayExecutor

    def kill_at_the_third(name: str, count: int) -> None:
        if (name, count) == ("train_set", 3):
            ray_cluster.kill_node()

    shared = made.measured(tmp_path / "shared")
    executor = RecordedExecutor(RayExecutor(), kill_at_the_third)
    build(made.on(shared=shared), executor=executor, output=tmp_path / "on.pdx")
    assert (tmp_path / "on.pdx").read_bytes() == made.expected
    assert set(Counter(map(pickle.dumps, executor.done)).values()) == {1}


def with_another_scipy(folder: Path) -> str:
    """Make what a worker takes for another version of scipy; its PYTHONPATH."""
    other = folder / "libraries" / "scipy-0.9.dist-info"
    other.mkdir(parents=True)
    facts = "Metadata-Version: 2.1\nName: scipy\nVersion: 0.9\n"
    (other / "METADATA").write_text(facts)
    return os.pathsep.join([str(other.parent), str(ROOT)])


def test_a_worker_that_does_not_see_the_shared_folder_is_refused(
    made: Made,
    dask_cluster: DaskCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    project = made.on(on=dask_address(dask_cluster), shared=f"{OWN_FOLDER}/shared")
    with pytest.raises(BadWorker, match=r"worker tcp.*: does not see .*--shared"):
        build(project)
    # a folder of that name is no proof that it is the same
    for place in dask_cluster.places:
        (place / "shared").mkdir()
        (place / "shared" / ".seen").write_text("of another build")
    with pytest.raises(BadWorker, match=r"worker tcp.*: sees another folder as .*--s"):
        build(project)


def test_a_worker_without_the_users_feature_file_is_refused(
    made: Made,
    dask_cluster: DaskCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(made.folder / "own.py", tmp_path)
    project = made.on(on=dask_address(dask_cluster), shared=str(tmp_path / "shared"))
    own = {"files": [f"{OWN_FOLDER}/own.py"]}
    project = msgspec.structs.replace(
        project, features=msgspec.structs.replace(project.features, **own)
    )
    with pytest.raises(BadWorker, match=r"worker tcp.*: /proc.*/own\.py: No such file"):
        build(project)
    for place in dask_cluster.places:
        (place / "own.py").write_text("# older")
    with pytest.raises(BadWorker, match=r"own\.py: it holds something else"):
        build(project)


def test_a_worker_that_does_not_see_the_items_is_refused(
    made: Made,
    dask_cluster: DaskCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(made.folder / "mails.jsonl", tmp_path)
    project = made.on(on=dask_address(dask_cluster), shared=str(tmp_path / "shared"))
    data = msgspec.structs.replace(project.data, texts=f"{OWN_FOLDER}/mails.jsonl")
    project = msgspec.structs.replace(project, data=data)
    with pytest.raises(BadWorker, match=r"worker tcp.*: /proc.*/mails\.jsonl: No such"):
        build(project)
    for place in dask_cluster.places:
        (place / "mails.jsonl").write_text("other")
    with pytest.raises(BadWorker, match=r"mails\.jsonl: it holds something else"):
        build(project)


def test_a_worker_with_another_version_is_refused(
    made: Made, dask_cluster: DaskCluster, tmp_path: Path
) -> None:
    shared = made.measured(tmp_path / "shared")
    project = made.on(on=dask_address(dask_cluster), shared=shared)
    dask_cluster.add_worker(PYTHONPATH=with_another_scipy(tmp_path))
    with pytest.raises(BadWorker, match=r"worker tcp\S* has scipy 0\.9 \(here 1\."):
        build(project)


def test_a_worker_that_comes_later_is_refused_too(
    made: Made, dask_cluster: DaskCluster, tmp_path: Path
) -> None:
    def add_another(name: str, count: int) -> None:
        if (name, count) == ("train_set", 2):
            dask_cluster.add_worker(PYTHONPATH=with_another_scipy(tmp_path))

    shared = made.measured(tmp_path / "shared")
    refused = pytest.raises(BadWorker, match=r"has scipy 0\.9 \(here 1\.")
    with dask_executor(dask_cluster, add_another) as executor, refused:
        build(made.on(shared=shared), executor=executor)


def test_what_is_no_cluster_is_refused(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polydom.indexer.cluster.dask.CONNECT_S", 0.5)
    for address in ("dask", "dask://", "local:0", "spark://here", "local:x"):
        with pytest.raises(BadInput, match="is no place for workers: local, local:8"):
            build(made.on(on=address))
    with pytest.raises(BadWorker, match=r"dask://127\.0\.0\.1:9: no scheduler"):
        build(made.on(on="dask://127.0.0.1:9"))
    with pytest.raises(BadProject, match=r"kept in c, and \[cluster\] shared is 's'"):
        build(made.on(shared="s"), cache="c")
    assert os.listdir(tmp_path) == []
