"""Calls to workers stay small, however many and however large the items are."""

import pickle
import random
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import msgspec
import pytest

from polydom.indexer.building.build import build
from polydom.indexer.building.project import Project
from polydom.indexer.building.project_tables.cluster import Cluster

MOST = 4096  # bytes
OWN = """\
from polydom.features.feature import feature

@feature(kind="{kind}")
def own(item):
    return [len(item), len(str(item))]
"""
TEXTS = """\
learner = {{ name = "logistic" }}

[data]
texts = "texts.jsonl"

[features]
use = ["text_length", "own", "learned_words"]
files = ["own.py"]

[search]
method = "poly-dom"
"""
TABLE = """\
learner = {{ name = "logistic" }}

[data]
table = "rows.csv"

[features]
files = ["own.py"]
columns = [{{ name = "a", columns = ["a"] }}]

[search]
method = "poly-dom"
"""


class SizesOfCalls(Executor):
    """Carries calls out here, and notes how many bytes each is at most, by function."""

    def __init__(self) -> None:
        self.largest: dict[str, int] = {}

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        content = pickle.dumps((fn, args))
        function = next(one for one in (*args, fn) if hasattr(one, "__name__"))
        known = self.largest.get(function.__name__, 0)
        self.largest[function.__name__] = max(known, len(content))
        sent_fn, sent_args = pickle.loads(content)
        future: Future[Any] = Future()
        future.set_result(sent_fn(*sent_args))
        return future


def write_texts(folder: Path, count: int) -> None:
    draw = random.Random(1)
    rows = [
        {"text": " ".join(draw.choices(WORDS[n % 2], k=100)), "label": "ab"[n % 2]}
        for n in range(count)
    ]
    lines = map(msgspec.json.encode, rows)
    (folder / "texts.jsonl").write_bytes(b"\n".join(lines))


WORDS = [["red", "green", "blue", "home"], ["red", "green", "win", "free"]]


def write_table(folder: Path, count: int) -> None:
    draw = random.Random(1)
    rows = [
        f"{draw.random() + n % 2},{'word ' * 50}{n},{'ab'[n % 2]}" for n in range(count)
    ]
    (folder / "rows.csv").write_text("\n".join(["a,b,label", *rows]))


@pytest.mark.parametrize(
    ("project", "kind", "write", "functions"),
    [
        (TEXTS, "text", write_texts, {"_compute_chunk", "_count_items", "score_part"}),
        (TABLE, "record", write_table, {"_compute_chunk"}),
    ],
)
def test_a_call_is_smaller_than_a_page(
    project: str, kind: str, write: Any, functions: set[str], tmp_path: Path
) -> None:
    write(tmp_path, 5000)
    (tmp_path / "own.py").write_text(OWN.format(kind=kind))
    (tmp_path / "PROJECT.toml").write_text(project.format())
    loaded = Project.load(tmp_path / "PROJECT.toml")
    cluster = Cluster(shared=str(tmp_path / "shared"))
    executor = SizesOfCalls()
    build(msgspec.structs.replace(loaded, cluster=cluster), executor=executor)
    assert functions | {"train_set"} <= executor.largest.keys()
    assert max(executor.largest.values()) < MOST, executor.largest
