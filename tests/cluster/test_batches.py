"""Batches on clusters: one total wherever it is spent, every item once."""

from pathlib import Path

import pytest

from polydom.indexer.cluster.connect import workers_of
from polydom.server.offline_scoring.checkpoint import NAME
from polydom.server.offline_scoring.folder_run import FolderRun
from polydom.server.offline_scoring.worker_index import IndexFile
from tests.support.builds.clusters import DaskCluster
from tests.support.indexes.batches import (
    UNEVEN_FILE,
    assert_by_price,
    assert_once,
    rows_in,
    save_uneven,
    texts,
    write_lines,
)
from tests.support.indexes.served import FEATURES_FILE, save_index
from tests.support.processes.commands import run
from tests.support.processes.forked_process import ForkedProcess
from tests.support.waiting import wait_until

COUNT = 1600
PARTS = 50
TOTAL_USD = 4.8


def open_index(file: IndexFile) -> None:
    file.open()


def test_a_slower_node_spends_no_more_of_the_total_and_answers_no_worse(
    started_dask: DaskCluster, tmp_path: Path
) -> None:
    """Beside another it has a quarter of the parts, which take it three times as long.

    Were its seconds counted as those of the other, the batch would take no longer than
    what it may spend.
    """
    from polydom.indexer.cluster.dask import DaskExecutor

    index = save_uneven(tmp_path)
    given = texts(COUNT)
    lines = write_lines(tmp_path / "x.jsonl", given)
    started_dask.restore(1)
    started_dask.add_worker(SLOWNESS="3")
    total_s = 1.2
    batch = FolderRun(index, lines, [UNEVEN_FILE], ["id"])
    file, _ = IndexFile.of(index, [UNEVEN_FILE])
    with DaskExecutor(started_dask.address) as executor:
        opened = executor.on_each(open_index, file)  # neither has to wait for that
        assert [*opened.values()] == [None, None]
        batch.carry_out(tmp_path / "out", total_s, workers_of(executor))
    assert len(batch.scored) == PARTS
    spent_s = sum(part.spent for part in batch.scored)
    # a part is 2 percent of the total; without time to measure, 1 percent is met
    assert spent_s == pytest.approx(total_s, rel=0.03)
    assert_once(rows_in(tmp_path / "out"), COUNT)
    slowness = sorted(part.measured_s / part.spent for part in batch.scored)
    assert slowness[-3] > 1.5 * slowness[2]  # both nodes took part
    assert sum(part.measured_s for part in batch.scored) > 1.1 * spent_s
    assert_by_price(index, tmp_path / "out", given)


@pytest.fixture
def money(tmp_path: Path) -> Path:
    """An index whose costs are no time, and texts beside it."""
    write_lines(tmp_path / "x.jsonl", texts(COUNT))
    return save_index(tmp_path, unit="usd")


def command(index: Path, on: str, *more: str) -> list[str]:
    folder = index.parent
    own = ["--features", str(FEATURES_FILE), "--keep", "id", "--on", on]
    start = ["score-parts", str(index), str(folder / "x.jsonl")]
    start += ["-o", str(folder / "out")]
    return ["polydom", *start, "-b", str(TOTAL_USD), *own, *more]


def parts_in(folder: Path) -> int:
    return len(list(folder.glob("part-*")))


def spent_in(folder: Path) -> float:
    return float(sum(row["cost"] for row in rows_in(folder)))


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_a_batch_that_was_killed_goes_on_and_has_every_id_once(
    engine: str,
    money: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if engine == "dask":
        on = request.getfixturevalue("dask_cluster").address.replace("tcp", "dask")
    else:
        cluster = request.getfixturevalue("ray_cluster")
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        on = "ray://auto"
    out = money.parent / "out"
    killed = ForkedProcess(command(money, on))
    try:
        wait_until(lambda: parts_in(out) > 10, killed)
    finally:
        killed.kill()
        killed.communicate(timeout=20)
    begun = (out / NAME).read_bytes()
    assert parts_in(out) < PARTS
    code, said, errors = run(capsys, *command(money, on, "--resume")[1:])
    assert code == 0, errors
    assert "1,600 rows in 50 parts, 0 of them errors" in said
    assert_once(rows_in(out), COUNT)
    assert_by_price(money, out, texts(COUNT))
    assert spent_in(out) == pytest.approx(TOTAL_USD, rel=0.01)
    # what was begun before has the price that it had
    whole = begun[: begun.rindex(b"\n") + 1]
    assert (out / NAME).read_bytes().startswith(whole)


def test_a_batch_goes_on_when_a_worker_is_killed(
    dask_cluster: DaskCluster, money: Path
) -> None:
    on = dask_cluster.address.replace("tcp", "dask")
    out = money.parent / "out"
    process = ForkedProcess(command(money, on))
    try:
        wait_until(lambda: parts_in(out) > 10, process)
        dask_cluster.kill_worker()
        told, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    assert "1,600 rows in 50 parts" in told
    assert_once(rows_in(out), COUNT)
    assert_by_price(money, out, texts(COUNT))
    assert spent_in(out) == pytest.approx(TOTAL_USD, rel=0.01)
