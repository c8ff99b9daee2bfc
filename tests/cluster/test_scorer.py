"""One function for three engines: equal rows by id, whatever the partitions."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polydom.server import BatchPlan, Scorer
from tests.support.builds.clusters import DaskCluster, RayCluster
from tests.support.indexes.served import FEATURES_FILE, SPAM, save_index

pa = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")

# their own, of what they import themselves
pytestmark = pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*")

COUNT = 600
Rows = dict[int, dict[str, Any]]


@pytest.fixture
def table() -> Any:
    """Texts of which some are damaged, in no order, with ids."""
    ids = [(k * 7) % COUNT for k in range(COUNT)]
    texts = ["a\x00" if k % 50 == 0 else f"{SPAM[: k % 30]}{k}" for k in ids]
    return pa.table({"id": ids, "text": texts, "more": [None] * COUNT})


@pytest.fixture
def scorer(tmp_path: Path, table: Any) -> Scorer:
    """Costs are money, so that no answer depends on how busy a machine is."""
    index = save_index(tmp_path, unit="usd")
    sizes = [float(len(text)) for text in table["text"].to_pylist()]
    plan = BatchPlan.of(index, sizes, total_cost=COUNT * 0.0045)
    return Scorer(index, plan=plan, keep=["id"], features=[FEATURES_FILE])


def by_id(rows: list[dict[str, Any]]) -> Rows:
    """Rows by their ids, as plain Python; every id once."""
    found = {
        row["id"]: {name: plain(cell) for name, cell in row.items()} for row in rows
    }
    assert len(found) == len(rows) == COUNT
    return found


def plain(cell: Any) -> Any:
    """A cell as Arrow gives it, whether pandas or Spark had it in between."""
    if hasattr(cell, "tolist"):
        cell = cell.tolist()
    if isinstance(cell, dict):  # Spark's maps are in no order
        cell = [*cell.items()]
    if isinstance(cell, list | tuple):
        pairs = bool(cell) and not isinstance(cell[0], str)
        return sorted(map(tuple, cell)) if pairs else [*cell]
    return None if pandas.isna(cell) else cell


@pytest.fixture
def expected(scorer: Scorer, table: Any) -> Rows:
    """What this process answers."""
    rows = by_id(scorer.table(table).to_pylist())
    assert len({tuple(row["features"] or ()) for row in rows.values()}) == 3
    assert sum(row["error"] is not None for row in rows.values()) > 3
    return rows


@pytest.mark.parametrize("partitions", [1, 5])
def test_dask_frames_are_answered_as_here(
    dask_cluster: DaskCluster,
    scorer: Scorer,
    table: Any,
    expected: Rows,
    partitions: int,
) -> None:
    dd = pytest.importorskip("dask.dataframe")
    from distributed import Client

    with Client(dask_cluster.address, set_as_default=False) as client:
        frame = dd.from_pandas(table.to_pandas(), npartitions=partitions)
        scored = frame.map_partitions(scorer.frame, meta=scorer.meta(frame))
        found = client.compute(scored).result(60)
    assert by_id(found.to_dict("records")) == expected


def test_dask_bags_are_answered_as_here(
    dask_cluster: DaskCluster, scorer: Scorer, table: Any, expected: Rows
) -> None:
    bag = pytest.importorskip("dask.bag")
    from distributed import Client

    with Client(dask_cluster.address, set_as_default=False) as client:
        texts = bag.from_sequence(table["text"].to_pylist(), npartitions=4)
        rows = client.compute(texts.map_partitions(scorer)).result(60)
    for row, number in zip(rows, table["id"].to_pylist(), strict=True):
        assert row["label"] == expected[number]["label"]
        assert row["cost"] == expected[number]["cost"]


@pytest.mark.parametrize("size", [40, None])
def test_ray_data_is_answered_as_here(
    ray_cluster: RayCluster,
    scorer: Scorer,
    table: Any,
    expected: Rows,
    size: int | None,
) -> None:
    data = pytest.importorskip("ray.data")

    blocks = data.from_arrow(
        [table.slice(start, 100) for start in range(0, COUNT, 100)]
    )
    scored = blocks.map_batches(scorer.table, batch_format="pyarrow", batch_size=size)
    assert by_id(scored.take_all()) == expected


def test_ray_data_is_answered_by_actors_too(
    ray_cluster: RayCluster, scorer: Scorer, table: Any, expected: Rows
) -> None:
    data = pytest.importorskip("ray.data")

    class Answers:
        def __call__(self, batch: Any) -> Any:
            return scorer.table(batch)

    scored = data.from_arrow(table).map_batches(
        Answers, batch_format="pyarrow", concurrency=1, batch_size=100
    )
    assert by_id(scored.take_all()) == expected


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """Two executors of one core each, on the loopback."""
    reason = (
        "no pyspark: half a gigabyte that `make install` leaves out (CONTRIBUTING.md)"
    )
    sql = pytest.importorskip("pyspark.sql", reason=reason)
    here = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in here.items():
            patch.setenv(name, value)
        builder = sql.SparkSession.builder.master("local-cluster[2,1,1024]")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
        session = builder.config("spark.ui.enabled", "false").getOrCreate()
        try:
            yield session
        finally:
            session.stop()


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")  # of pandas 3, and its own
@pytest.mark.parametrize("partitions", [1, 5])
def test_spark_is_answered_as_here(
    spark: Any, scorer: Scorer, table: Any, expected: Rows, partitions: int
) -> None:
    frame = spark.createDataFrame(table.select(["id", "text"])).repartition(partitions)
    scored = frame.mapInArrow(scorer.batches, scorer.ddl(frame.schema))
    assert by_id([row.asDict() for row in scored.collect()]) == expected
