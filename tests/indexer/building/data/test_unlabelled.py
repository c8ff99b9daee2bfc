"""Items without labels: read, checked, and used for early exits alone."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadProject
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.data.check_data import CheckedData, check_data
from polydom.indexer.building.data.dataset import Dataset
from polydom.indexer.building.data.read_items import read_items
from polydom.indexer.building.data.unlabelled import read_unlabelled
from polydom.indexer.building.exits.exit_goal import ExitGoal
from polydom.indexer.building.exits.schedules import make_schedule_fitter
from polydom.indexer.building.prepare import ExitItems
from polydom.indexer.building.project import Project
from polydom.indexer.progress import Silence
from tests.support.builds import projects
from tests.support.builds.staged_build import StagedBuild
from tests.support.indexes.stopping_records import draw_rows, label_rows


def read(folder: Path, content: dict[str, Any]) -> tuple[Dataset, Dataset]:
    """The labelled items of a project, and those without labels."""
    project = Project.from_mapping(content, folder=folder)
    cache = Cache(folder / "cache")
    labelled = read_items(project, cache, Silence())
    unlabelled = read_unlabelled(project, labelled, cache, Silence())
    assert unlabelled is not None
    return labelled, unlabelled


def table(folder: Path, name: str, lines: list[str]) -> None:
    (folder / name).write_text("\n".join(lines) + "\n")


ROWS = [f"{k},{'ab'[k % 2]},p{k // 2},{k % 3 > 0}" for k in range(30)]
HEAD = "n,word,of,label"
RECORDS = {"data": {"table": "rows.csv", "group": "of", "unlabelled": "more.csv"}}


def test_rows_have_the_kinds_and_words_of_the_labelled_table(tmp_path: Path) -> None:
    table(tmp_path, "rows.csv", [HEAD, *ROWS])
    table(tmp_path, "more.csv", ["word,n,of", "b,7,q", "c,8.5,q", ",9,r"])
    labelled, more = read(tmp_path, RECORDS)
    assert [item.payload for item in more.items] == [
        {"n": 7.0, "word": "b"},
        {"n": 8.5, "word": "c"},
        {"n": 9.0, "word": None},
    ]
    assert more.groups.tolist() == [0, 0, 1]
    assert [*more.names] == [f"more.csv, row {k}" for k in (2, 3, 4)]
    assert more.labels == labelled.labels
    assert labelled.items[1].payload == {"n": 1, "word": "b"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["n,of", "1,q"], "no column 'word', which the labelled rows have"),
        (["n,word", "much,a"], "column 'n'"),
        (["n,word"], "no rows"),
    ],
)
def test_rows_of_another_table_are_refused(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    table(tmp_path, "rows.csv", [HEAD, *ROWS])
    table(tmp_path, "more.csv", lines)
    with pytest.raises(BadProject, match=f"unlabelled = 'more.csv': .*{message}"):
        read(tmp_path, RECORDS)


def test_what_is_no_table_is_refused_for_records(tmp_path: Path) -> None:
    table(tmp_path, "rows.csv", [HEAD, *ROWS])
    with pytest.raises(BadProject, match=r"unlabelled = 'more.csv' names it"):
        read(tmp_path, RECORDS)
    (tmp_path / "more.csv").mkdir()
    (tmp_path / "more.csv" / "a.jpg").write_bytes(b"no table")
    with pytest.raises(BadProject, match=r"unlabelled = 'more.csv': .*no folder of"):
        read(tmp_path, RECORDS)


def texts(folder: Path, lines: list[dict[str, Any]]) -> None:
    (folder / "more.jsonl").write_text("\n".join(map(json.dumps, lines)))


MAILS = {"data": {"texts": "mails.jsonl", "group": "of", "unlabelled": "more.jsonl"}}


def test_texts_may_be_lines_or_files_and_copies_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    projects.texts(tmp_path, count=20)
    known = json.loads((tmp_path / "mails.jsonl").read_text().splitlines()[3])["text"]
    texts(tmp_path, [{"text": "one", "of": 1}, {"text": known}, {"text": "two"}])
    with caplog.at_level(logging.WARNING):
        _, more = read(tmp_path, MAILS)
    assert [item.payload for item in more.items] == ["one", "two"]
    assert "1 of the 3 items without labels are also labelled items" in caplog.text
    assert len(set(more.groups.tolist())) == 2
    folder = tmp_path / "folder" / "any" / "depth"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("three")
    (tmp_path / "folder" / "b.txt").write_text("four")
    content = {"data": {**MAILS["data"], "unlabelled": "folder"}}
    _, files = read(tmp_path, content)
    assert sorted(str(item.payload) for item in files.items) == ["four", "three"]
    texts(tmp_path, [{"text": known}])
    with pytest.raises(BadProject, match="all 1 items are also labelled items"):
        read(tmp_path, MAILS)


def test_items_of_another_kind_are_refused_before_anything_slow(tmp_path: Path) -> None:
    projects.texts(tmp_path, count=20)
    texts(tmp_path, [{"body": "one"}])
    with pytest.raises(BadProject, match=r"no text can be used: .*no text under"):
        read(tmp_path, MAILS)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"\xff\xd8")
    content = {"data": {**MAILS["data"], "unlabelled": "photos"}}
    with pytest.raises(BadProject, match=r"unlabelled = 'photos': .*no text"):
        read(tmp_path, content)
    (tmp_path / "mine.py").write_text(
        "def load():\n    for k in range(20):\n        yield f'text {k}', str(k % 2)\n"
        "def more():\n    yield {'a': 1}\n"
        "def texts():\n    yield 'another'\n"
    )
    content = {"data": {"items": "mine:load", "unlabelled": "mine:more"}}
    with pytest.raises(BadProject, match=r"item 0 is a record, and the .* tex"):
        read(tmp_path, content)
    content = {"data": {"items": "mine:load", "unlabelled": "mine:texts"}}
    _, more = read(tmp_path, content)
    assert [item.payload for item in more.items] == ["another"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"exits": "off"}, "unlabelled is for early exits, and there are none"),
        ({"quality": {"measure": "auc"}}, "depends on scores"),
        ({"search": {"folds": 3}, "exits": {"confidence": 0.9}}, None),
        ({"search": {"folds": 3}}, None),
    ],
)
def test_items_without_labels_need_exits(
    tmp_path: Path, more: dict[str, Any], message: str | None
) -> None:
    content = {**RECORDS, **more}
    if message is None:
        goal = Project.from_mapping(content, folder=tmp_path).exit_goal
        assert goal is not None
        assert goal.confidence
        return
    with pytest.raises(BadProject, match=message):
        Project.from_mapping(content, folder=tmp_path)


def test_labels_that_are_numbers_have_no_exits_to_fit(tmp_path: Path) -> None:
    table(tmp_path, "rows.csv", ["n,label", *(f"{k},{k / 7}" for k in range(60))])
    table(tmp_path, "more.csv", ["n", "1"])
    content = {"data": {"table": "rows.csv", "unlabelled": "more.csv"}}
    project = Project.from_mapping(content, folder=tmp_path)
    with pytest.raises(BadProject, match="unlabelled is for early exits; the labels"):
        _ = StagedBuild(project, tmp_path / "cache").terms
    with pytest.raises(BadProject, match="unlabelled is for early exits; the labels"):
        check_data(project, Silence())


def check(folder: Path, content: dict[str, Any]) -> CheckedData:
    return check_data(Project.from_mapping(content, folder=folder), Silence())


def test_a_check_reads_items_without_labels(tmp_path: Path) -> None:
    table(tmp_path, "rows.csv", [HEAD, *ROWS])
    with pytest.raises(BadProject, match=r"unlabelled = 'more.csv' names it"):
        check(tmp_path, RECORDS)
    table(tmp_path, "more.csv", ["n,of", "1,q"])
    with pytest.raises(BadProject, match="no column 'word', which the labelled"):
        check(tmp_path, RECORDS)
    table(tmp_path, "more.csv", ["n,word,of", "1,a,q", "2,b,q"])
    checked = check(tmp_path, RECORDS)
    assert checked.facts()["unlabelled"] == 2
    assert "; 2 without labels" in checked.lines()[0]
    projects.texts(tmp_path, count=20)
    texts(tmp_path, [{"text": "one"}, {"text": ""}])
    assert check(tmp_path, MAILS).unlabelled
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"\xff\xd8")
    with pytest.raises(BadProject, match=r"unlabelled = 'photos': .*no text"):
        check(tmp_path, {"data": {**MAILS["data"], "unlabelled": "photos"}})


PROJECT = """\
workers = 1
[data]
table = "rows.csv"
unlabelled = "more.csv"
[features]
columns = [{ name = "all", columns = ["a", "b", "c", "d", "e", "f"] }]
[learner]
name = "forest"
n_estimators = 40
[costs]
items = 8
repeats = 2
[exits]
alpha = 0.1
confidence = 0.8
"""


@pytest.mark.jit
def test_a_build_of_few_items_has_exits_by_items_without_labels(tmp_path: Path) -> None:
    """Labelled items are all trained on, in folds, and none is set aside."""
    rows, more = draw_rows(200, 5), draw_rows(600, 6)
    table(
        tmp_path,
        "rows.csv",
        [
            "a,b,c,d,e,f,label",
            *(
                ",".join([*map(repr, row), str(code)])
                for row, code in zip(rows.tolist(), label_rows(rows, 2), strict=True)
            ),
        ],
    )
    lines = [",".join(map(repr, row)) for row in more.tolist()]
    table(tmp_path, "more.csv", ["a,b,c,d,e,f", *lines])
    (tmp_path / "PROJECT.toml").write_text(PROJECT)
    builder = StagedBuild(Project.load(tmp_path / "PROJECT.toml"), tmp_path / "cache")
    data = builder.data
    assert data.project.search.folds == 5
    assert data.lacking == ""
    assert len(data.table.dataset.items) == 200
    fresh = data.fresh
    assert fresh is not None
    assert (len(fresh.values), fresh.unlabelled) == (600, 600)
    np.testing.assert_array_equal(fresh.values, more)
    index = builder.index()
    assert index.package is not None
    told = index.package.meta["exits"]
    assert (told["calibrated"], told["unlabelled"]) == (600, 600)
    # half of the items fit a schedule, and the others calibrate it
    fitter = make_schedule_fitter(
        ExitGoal(0.1, 0.8), data, builder.trainer, builder.own
    )
    assert fitter is not None
    assert fitter.fresh is not None
    assert (len(fitter.values), len(fitter.fresh)) == (300, 300)


def test_items_set_aside_and_items_without_labels_share_no_group() -> None:
    rows = np.zeros((3, 1), np.float32)
    assert ExitItems.of(None, None) is None
    one = ExitItems(rows, np.array([0, 0, 1]), np.zeros(3, np.int64), (), "", 0, [])
    assert one.groups.tolist() == [0, 0, 1]
