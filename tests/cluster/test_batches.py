"""Batches on clusters: one total wherever it is spent, every item once."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from polydom.indexer.cluster.connect import connect, workers_of
from polydom.server.offline_scoring.batch_run import BatchRun
from polydom.server.offline_scoring.journal import NAME
from tests.support.batches import (
    UNEVEN_FILE,
    assert_once,
    rows_in,
    save_uneven,
    texts,
    write_lines,
)
from tests.support.clusters import DaskCluster, RayCluster
from tests.support.served import FEATURES_FILE, save_index
from tests.support.waiting import wait_until

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

COUNT = 10_000
POLYDOM = (sys.executable, "-m", "polydom")


def test_a_node_twice_as_slow_spends_no_more_of_the_total_and_answers_no_worse(
    dask_cluster: DaskCluster, tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    index = save_uneven(tmp_path)
    given = texts(COUNT)
    lines = write_lines(tmp_path / "x.jsonl", given)
    table = pa.table({"text": given, "id": [f"id-{k}" for k in range(COUNT)]})
    table = table.take(sorted(range(COUNT), key=lambda k: len(given[k])))
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=2000)
    dask_cluster.kill_worker()
    dask_cluster.add_worker(SLOWNESS="2")
    address = dask_cluster.address.replace("tcp", "dask")
    total_s = 2.5
    for items, most in ((lines, None), (lines, 90), (tmp_path / "x.parquet", 32)):
        run = BatchRun(index, items, [UNEVEN_FILE], ["id"], part_items=most)
        out = tmp_path / f"out-{items.suffix[1:]}-{most}"
        run.carry_out(out, total_s, workers_of(connect(address)))
        spent_s = sum(part.spent for part in run.scored)
        assert spent_s == pytest.approx(total_s, rel=0.01)
        assert_once(rows_in(out), COUNT)
        print(
            items.name,
            most,
            len(run.parts),
            spent_s / total_s,
            sum(p.measured_s for p in run.scored),
        )
        slower = [part.measured_s / part.spent for part in run.scored]
        usual, slow = split(run.scored, slower)
        assert sum(part.measured_s for part in run.scored) > 1.1 * spent_s
        # which node has a part changes nothing of its price
        assert mean_quality(slow) == pytest.approx(mean_quality(usual), abs=0.06)


def split(scored: list[Any], slower: list[float]) -> tuple[list[Any], list[Any]]:
    """Parts of the usual node, and of the slow one, of which both have some."""
    parts = [
        [
            part
            for part, factor in zip(scored, slower, strict=True)
            if slow == (factor > 1.4)
        ]
        for slow in (False, True)
    ]
    assert min(map(len, parts)) > 5
    return parts[0], parts[1]


def mean_quality(parts: list[Any]) -> float:
    return float(sum(p.quality for p in parts) / sum(p.rows for p in parts))


@pytest.fixture
def money(tmp_path: Path) -> Path:
    """An index whose costs are no time, and texts beside it."""
    write_lines(tmp_path / "x.jsonl", texts(COUNT))
    return save_index(tmp_path, unit="usd")


def command(index: Path, on: str, *more: str) -> list[str]:
    folder = index.parent
    own = ["--features", str(FEATURES_FILE), "--keep", "id", "--on", on]
    start = ["score", str(index), str(folder / "x.jsonl"), "-o", f"{folder / 'out'}/"]
    return [*POLYDOM, *start, "-b", "30", *own, *more]


def parts_in(folder: Path) -> int:
    return len(list(folder.glob("part-*")))


def spent_in(folder: Path) -> float:
    return float(sum(row["cost"] for row in rows_in(folder)))


@pytest.mark.parametrize("engine", ["dask", "ray", "local"])
def test_a_batch_that_was_killed_goes_on_and_has_every_id_once(
    engine: str,
    money: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on = "local:2"
    if engine == "dask":
        on = request.getfixturevalue("dask_cluster").address.replace("tcp", "dask")
    if engine == "ray":
        cluster = request.getfixturevalue("ray_cluster")
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        on = "ray://auto"
    out = money.parent / "out"
    killed = subprocess.Popen(
        command(money, on), stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_until(lambda: parts_in(out) > 40)
    finally:
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait(20)
    begun = (out / NAME).read_bytes()
    assert parts_in(out) < 200
    done = subprocess.run(
        command(money, on, "--resume"), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "10,000 rows in 200 parts, 0 of them errors" in done.stdout
    assert_once(rows_in(out), COUNT)
    assert 0.99 < spent_in(out) / 30 <= 1
    # what was begun before has the price that it had
    whole = begun[: begun.rindex(b"\n") + 1]
    assert (out / NAME).read_bytes().startswith(whole)


def test_a_batch_goes_on_when_a_worker_is_killed(
    dask_cluster: DaskCluster, money: Path
) -> None:
    on = dask_cluster.address.replace("tcp", "dask")
    out = money.parent / "out"
    with subprocess.Popen(
        command(money, on), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            wait_until(lambda: parts_in(out) > 20, process)
            dask_cluster.kill_worker()
            told, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    assert "10,000 rows in 200 parts" in told
    assert_once(rows_in(out), COUNT)
    assert 0.99 < spent_in(out) / 30 <= 1


def test_a_batch_on_ray_has_the_answers_that_it_has_here(
    ray_cluster: RayCluster, money: Path
) -> None:
    run = BatchRun(money, money.parent / "x.jsonl", [FEATURES_FILE], ["id"])
    there, here = money.parent / "there", money.parent / "here"
    run.carry_out(there, 30, workers_of(connect(f"ray://{ray_cluster.address}")))
    here.mkdir()
    (here / NAME).write_bytes((there / NAME).read_bytes())
    again = BatchRun(money, money.parent / "x.jsonl", [FEATURES_FILE], ["id"])
    again.carry_out(here, 30, workers_of(connect("local:1")), resume=True)
    assert sorted(rows_in(there), key=str) == sorted(rows_in(here), key=str)
