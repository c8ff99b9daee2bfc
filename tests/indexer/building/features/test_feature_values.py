"""Values of items: computed once, kept, and of a table's rows read at once."""

import json
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from polydom.features.errors import BadFeature, BadProject, FeatureFailed
from polydom.features.tables.records import Records
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.features.choose_features import (
    choose_features,
)
from polydom.indexer.building.features.feature_values import (
    FeatureTable,
    compute_values,
)
from polydom.indexer.building.project import Project
from polydom.indexer.cluster.workers import Workers
from tests.support.builds.progresses import Stages

ROWS = """\
age,job,since,paid,label
31,cook,2024-05-01,true,no
,baker,2024-06-02T07:30,false,yes
1e39,cook,,true,no
-inf,,2024-05-01,,yes
7,cook,2023-01-01,TRUE,no
5,nurse,2024-05-01,false,yes
"""
OWN = """\
from polydom.features.feature import feature

@feature(kind="record")
def is_old(record):
    return [(record["age"] or 0) > 30]
"""


def values(folder: Path, at_once: bool, features: dict[str, Any]) -> FeatureTable:
    content = {"data": {"table": "rows.csv"}, "features": features}
    project = Project.from_mapping(content, folder=folder)
    dataset = load_data(project)
    assert isinstance(dataset.items, Records)
    if not at_once:
        dataset = replace(dataset, items=tuple(dataset.items))
    stages = Stages()
    table = compute_values(
        dataset,
        choose_features(project, dataset),
        on_bad_item=project.data.on_bad_item,
        workers=Workers.here(1),
        cache=Cache(folder / str(at_once)),
        progress=stages,
    )
    return table


@pytest.mark.parametrize("own", [False, True])
def test_rows_read_at_once_have_the_values_of_their_items(
    tmp_path: Path, own: bool
) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "mine.py").write_text(OWN)
    features: dict[str, Any] = {
        "columns": [
            {"name": "person", "columns": ["age", "job"]},
            {"name": "paid", "columns": ["since", "paid"]},
        ]
    }
    if own:
        features["files"] = ["mine.py"]
    once, slowly = (values(tmp_path, at_once, features) for at_once in (True, False))
    np.testing.assert_array_equal(once.values, slowly.values)
    assert once.dataset.skipped == slowly.dataset.skipped
    assert [name for name, _ in once.dataset.skipped] == [
        "rows.csv, row 4",
        "rows.csv, row 5",
    ]
    person, paid = once.features.stored[own:]
    assert (person.width, paid.width) == (2, 5)
    assert paid.columns is not None
    assert paid.columns.dates == {"since": ["day", "month", "weekday", "hour"]}
    # what is read at once need not be kept
    assert (tmp_path / "True").exists() == own


def test_tables_of_unusable_rows_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("age,label\ninf,a\n1e39,b\n")
    with pytest.raises(BadProject, match="all 2 items are unusable"):
        values(tmp_path, True, {})


COUNTED = """\
from pathlib import Path
from polydom.features.feature import feature

@feature(kind="text")
def counted(text):
    with open({path!r}, "a") as file:
        file.write(text + "\\n")
    return [len(text), 1]
"""


class EndsAtCall(Executor):
    """Carries calls out here, but for those from some number on, which fail."""

    def __init__(self, number: int) -> None:
        self._left = number

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        self._left -= 1
        future: Future[Any] = Future()
        if self._left > 0:
            future.set_result(fn(*args, **kwargs))
        else:
            future.set_exception(RuntimeError("the machine is switched off"))
        return future


def test_what_was_computed_before_a_failure_is_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polydom.indexer.building.features.feature_values.CALL_S", 1e-9)
    count, log = 300, tmp_path / "log"
    rows = [{"text": f"text {n}", "label": "ab"[n % 2]} for n in range(count)]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, rows)))
    (tmp_path / "mine.py").write_text(COUNTED.format(path=str(log)))
    content = {"data": {"texts": "a.jsonl"}, "features": {"files": ["mine.py"]}}
    project = Project.from_mapping(content, folder=tmp_path)
    dataset = load_data(project)
    features = choose_features(project, dataset)

    def compute(executor: Executor | None) -> FeatureTable:
        log.write_text("")
        return compute_values(
            dataset,
            features,
            on_bad_item="stop",
            workers=Workers(executor),
            cache=Cache(tmp_path / "cache"),
            progress=Stages(),
        )

    with pytest.raises(RuntimeError, match="switched off"):
        compute(EndsAtCall(4))
    before = log.read_text().splitlines()
    assert 0 < len(before) < count
    table = compute(None)
    after = log.read_text().splitlines()
    assert sorted(before + after) == sorted(row["text"] for row in rows)
    wanted = [[len(row["text"]), 1] for row in rows]
    np.testing.assert_array_equal(table.values, np.array(wanted, np.float32))
    compute(None)
    assert log.read_text() == ""
    assert len([*(tmp_path / "cache" / "values").rglob("*.pdx")]) == 2


FAILING = """\
from polydom import feature

@feature(kind="text", fails={fails!r})
def shaky(text):
    if len(text) % 3 == 0:
        raise LookupError("down")
    return [len(text), text.count("e")]

@feature(kind="text")
def gappy(text):
    return [float("nan") if len(text) % 4 == 0 else 1.0, text.count("a")]
"""


def failing(folder: Path, fails: str, most: int = 40) -> FeatureTable:
    (folder / "mine.py").write_text(FAILING.format(fails=fails))
    texts = [{"text": "ae" * 20 + "x" * n, "label": "ab"[n % 2]} for n in range(most)]
    lines = "".join(json.dumps(one) + "\n" for one in texts)
    (folder / "texts.jsonl").write_text(lines)
    content = {"data": {"texts": "texts.jsonl"}, "features": {"files": ["mine.py"]}}
    project = Project.from_mapping(content, folder=folder)
    dataset = load_data(project)
    features = choose_features(project, dataset)
    given: dict[str, Any] = {"workers": Workers.here(1), "cache": Cache(folder / "c")}
    return compute_values(
        dataset, features, on_bad_item="stop", progress=Stages(), **given
    )


def test_values_of_a_feature_that_fails_are_missing_and_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = failing(tmp_path, "without")
    lengths = np.arange(40) + 40
    lacks = np.isnan(table.values)
    assert lacks[:, :2].all(axis=1).tolist() == (lengths % 3 == 0).tolist()
    assert lacks[:, 2].tolist() == (lengths % 4 == 0).tolist()
    assert not lacks[:, 3].any()
    assert [*table.warnings] == [
        "feature 'shaky' failed on 13 of 40 items; the first: feature 'shaky' raised "
        "LookupError for texts.jsonl, line 3: down; its values are missing there",
        "feature 'gappy' has NaN for 10 of 40 items, such as texts.jsonl, line 1: "
        "models take it for a missing value",
    ]
    assert [record.getMessage() for record in caplog.records] == [*table.warnings]
    assert [len(str(item.payload)) % 3 for item in table.sound().items].count(0) == 0
    again = failing(tmp_path, "without")
    assert np.array_equal(again.values, table.values, equal_nan=True)
    assert again.warnings == table.warnings
    with pytest.raises(FeatureFailed, match="'shaky' raised LookupError for texts"):
        failing(tmp_path, "refuse")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('raise LookupError("down")', "some feature fails on them; the last: feature"),
        ("return [float('nan')] * 2", "'odd' is NaN in all columns for all 4 items"),
    ],
)
def test_a_feature_without_any_number_stops_a_build(
    tmp_path: Path, body: str, message: str
) -> None:
    head = 'from polydom import feature\n\n@feature(kind="record", fails="without")\n'
    (tmp_path / "mine.py").write_text(f"{head}def odd(record):\n    {body}\n")
    (tmp_path / "rows.csv").write_text("age,label\n" + "1,a\n2,b\n" * 2)
    features = {"files": ["mine.py"], "use": ["odd"]}
    with pytest.raises((BadProject, BadFeature), match=message):
        values(tmp_path, at_once=True, features=features)
