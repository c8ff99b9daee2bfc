"""One function for batches on three engines, beside a loop in this process."""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from polydom.indexer.building.build import build
from polydom.server import BatchPlan, Scorer, score_items

from ..data.drawn_texts import write_texts
from .engines import started

OWN = """\
import time
from polydom.features.feature import feature

@feature(kind="text")
def counted(text):
    ends_s = time.perf_counter() + {seconds}
    while time.perf_counter() < ends_s:
        pass
    return [text.count(" w2") / (1 + len(text))]
"""
ITEMS = {"a feature of microseconds": (0.0, 40_000), "of a millisecond": (1e-3, 8_000)}
PARTITIONS = 16
Score = Callable[[], int]


def score_on_engines(folder: Path, quick: bool) -> list[dict[str, Any]]:
    """Score texts of a kilobyte; items a second, of two processes on each engine."""
    rows = []
    for name, (seconds, usual) in ITEMS.items():
        count, own = 200 if quick else usual, folder / name
        project = write_texts(own, max(count, 1000), 'files = ["own.py"]')
        (own / "own.py").write_text(OWN.format(seconds=seconds))
        build(project, output=own / "my.pdx")
        lines = (own / "texts.jsonl").read_text().splitlines()
        texts = [json.loads(line)["text"] for line in lines[:count]]
        files = project.feature_files
        for engine, taken in _times(own / "my.pdx", files, texts, 1 if quick else 5):
            rows.append(
                {
                    "items with": name,
                    "engine": engine,
                    "items a second": count / statistics.median(taken),
                    "least": count / max(taken),
                    "most": count / min(taken),
                }
            )
    return rows


def _times(
    index: Path, files: list[Path], texts: Sequence[str], rounds: int
) -> Iterator[tuple[str, list[float]]]:
    """Seconds of some rounds on each engine, after one that does not count."""
    ample_s = 0.1 * len(texts)
    plan = BatchPlan.of(index, [float(len(t)) for t in texts], total_cost_s=ample_s)
    scorer = Scorer(index, plan=plan, keep=["id"], features=files)

    def here(workers: int) -> Score:
        given = partial(score_items, index, texts, ample_s, features=files)
        return lambda: sum(1 for _ in given(workers=workers))

    yield "score_items, this process", _timed(here(1), len(texts), rounds)
    yield "score_items, 2 processes", _timed(here(2), len(texts), rounds)
    for engine, on in (("Dask", _on_dask), ("Ray Data", _on_ray), ("Spark", _on_spark)):
        if (taken := on(scorer, texts, rounds)) is not None:
            yield f"{engine}, 2 processes", taken


def _timed(score: Score, count: int, rounds: int) -> list[float]:
    taken = []
    for _ in range(rounds + 1):
        began_s = time.perf_counter()
        assert score() == count
        taken.append(time.perf_counter() - began_s)
    return taken[1:]


def _table(texts: Sequence[str]) -> Any:
    import pyarrow as pa

    return pa.table({"id": range(len(texts)), "text": texts})


def _on_dask(scorer: Scorer, texts: Sequence[str], rounds: int) -> list[float] | None:
    try:
        import dask.dataframe as dd
    except ImportError:
        return None
    with started("Dask", 2) as executor:
        frame = dd.from_pandas(_table(texts).to_pandas(), npartitions=PARTITIONS)
        there = executor.client.persist(frame)

        def score() -> int:
            scored = there.map_partitions(scorer.frame, meta=scorer.meta(frame))
            return len(executor.client.compute(scored).result())

        return _timed(score, len(texts), rounds)


def _on_ray(scorer: Scorer, texts: Sequence[str], rounds: int) -> list[float] | None:
    try:
        import ray.data
    except ImportError:
        return None
    with started("Ray", 2):
        blocks = ray.data.from_arrow(_table(texts)).repartition(PARTITIONS)
        there = blocks.materialize()

        def score() -> int:
            scored = there.map_batches(scorer.table, batch_format="pyarrow")
            return int(scored.materialize().count())

        return _timed(score, len(texts), rounds)


def _on_spark(scorer: Scorer, texts: Sequence[str], rounds: int) -> list[float] | None:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in (
        ("spark.driver.bindAddress", "127.0.0.1"),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.ui.enabled", "false"),
    ):
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        frame = session.createDataFrame(_table(texts)).repartition(PARTITIONS)
        frame = frame.cache()
        frame.count()

        def score() -> int:
            scored = frame.mapInArrow(scorer.batches, scorer.ddl(frame.schema))
            return len(scored.toArrow())

        return _timed(score, len(texts), rounds)
    finally:
        session.stop()
