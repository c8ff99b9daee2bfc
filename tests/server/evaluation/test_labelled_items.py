"""Labelled items out of folders, JSON Lines and tables."""

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polydom.features.errors import BadInput
from polydom.features.items import Kind
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredColumns, StoredFeature
from polydom.server.evaluation.labelled_items import (
    LabelledItems,
    class_name,
    drawn,
    read_labelled,
)
from tests.support.indexes.served import LABELS, make_index
from tests.support.indexes.three_kinds import picture


def package(kind: Kind, labels: tuple[str, ...] = LABELS) -> Package:
    tiny = make_index().package
    assert tiny is not None
    features = tiny.features
    if kind == "record":
        columns = StoredColumns(["age", "job"], {"job": ["cook", "7"]})
        features = (StoredFeature("own", 1, "", False, columns),)
    return replace(tiny, kind=kind, features=features, labels=labels)


def read(path: Path, of: Package, **options: Any) -> LabelledItems:
    return read_labelled(path, make_index(), of, **options)


def pairs(found: LabelledItems) -> list[tuple[Any, str]]:
    return [(item.payload, item.label) for item in found.items]


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_names_that_are_no_utf_8_are_written_out(tmp_path: Path) -> None:
    for name in (b"ham/1\xff.txt", b"sp\xff/2.txt"):
        path = tmp_path / os.fsdecode(name)
        path.parent.mkdir()
        path.write_text("free")
    found = read(tmp_path, package("text", ("ham", "sp\\xff")))
    named = [(item.name, item.label) for item in found.items]
    assert named == [("ham/1\\xff.txt", "ham"), ("sp\\xff/2.txt", "sp\\xff")]


def test_a_folders_items_are_of_the_class_that_it_is_named_after(
    tmp_path: Path,
) -> None:
    photo = picture(20)
    for name in ("ham/1.png", "ham/more/2.png", "spam/3.png", "4.png", "none/5.png"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photo)
    (tmp_path / "ham" / "6.png").write_bytes(b"GIF")
    found = read(tmp_path, package("image"))
    assert [(item.name, item.label) for item in found.items] == [
        ("ham/1.png", "ham"),
        ("ham/more/2.png", "ham"),
        ("none/5.png", "none"),
        ("spam/3.png", "spam"),
    ]
    assert {item.payload for item in found.items} == {photo}
    assert {item.size for item in found.items} == {32 * 32}
    assert [name for name, _ in found.unreadable] == ["ham/6.png"]
    assert (found.unlabelled, found.foreign) == (1, {"none": 1})


def test_json_lines_have_labels_beside_texts_and_records(tmp_path: Path) -> None:
    path = write(
        tmp_path / "items.jsonl",
        {"text": "a", "label": "ham"},
        {"text": "b", "label": "other"},
        {"text": "c"},
        {"text": "d", "label": " "},
        {"text": 5, "label": "ham"},
        ["no row"],
    )
    found = read(path, package("text"))
    assert pairs(found) == [("a", "ham"), ("b", "other")]
    assert (found.unlabelled, found.foreign) == (2, {"other": 1})
    assert [name for name, _ in found.unreadable] == ["4", "5"]
    write(path, {"record": {"age": 3}, "y": "ham"}, {"age": 4, "id": 1, "y": "spam"})
    found = read(path, package("record"), label="y", whole=True)
    assert pairs(found) == [({"age": 3}, "ham"), ({"age": 4}, "spam")]
    assert [item.whole for item in found.items] == [{"age": 3}, {"age": 4, "id": 1}]
    assert found.remarks[0].endswith("does not know, not read: id")


def test_hidden_files_of_a_folder_are_no_items_and_said(tmp_path: Path) -> None:
    for name in (".old/1.txt", "ham/._1.txt", "ham/1.eml", "spam/Thumbs.db"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = read(tmp_path, package("text"))
    assert pairs(found) == [("x", "ham")]
    assert found.remarks == ["left out .old: hidden, or a program's own (and 2 more)"]


def test_a_table_has_a_column_of_labels(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    text = "id;age;job;label\n1;3; cook ; ham\u200b\n2;;7;spam\n3;9;x\n"
    path.write_text(text, "utf-8")
    found = read(path, package("record"))
    expected = [({"age": 3, "job": "cook"}, "ham"), ({"age": None, "job": "7"}, "spam")]
    assert pairs(found) == expected
    assert [item.whole for item in found.items] == [
        item.payload for item in found.items
    ]
    assert found.unreadable == [("2", "3 cells under 4 names: '3;9;x'")]
    found = read(path, package("record"), whole=True, separator=";")
    assert found.items[0].whole == {"id": 1.0, "age": 3.0, "job": "cook"}
    numbers = package("record", ("0", "1"))
    path.write_text("age,label\n3,1\n4,1.0\n5,0.0\n6,2\n")
    found = read(path, numbers)
    assert [item.label for item in found.items] == ["1", "1", "0", "2"]


def test_a_parquet_file_has_labels_of_any_type(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "items.parquet"
    columns = {"age": [1, 2, 3], "kind": [1.0, None, float("nan")]}
    parquet.write_table(pyarrow.table(columns), path)
    found = read(path, package("record", ("1", "2")), label="kind")
    assert (pairs(found), found.unlabelled) == ([({"age": 1}, "1")], 2)


def test_numbers_of_a_class_are_named_alike() -> None:
    import numpy as np

    names = map(class_name, (1, 1.0, np.int64(1), np.float32(1), "1", True, 1.5))
    assert [*names] == ["1", "1", "1", "1", "1", "True", "1.5"]


def test_values_are_drawn_alike_in_their_own_order() -> None:
    assert drawn("abc", None, 0) == drawn("abc", 3, 5) == drawn("abc", 9, 5) == [*"abc"]
    assert (
        drawn(range(100), 10, 1) == drawn(range(100), 10, 1) != drawn(range(100), 10, 2)
    )
    counts: Counter[int] = Counter()
    for seed in range(600):
        found = drawn(iter(range(6)), 2, seed)
        assert found == sorted(set(found))
        counts.update(found)
    assert all(abs(counts[value] - 200) < 60 for value in range(6))


def test_a_draw_is_of_rows_and_of_files(tmp_path: Path) -> None:
    rows = [{"text": str(k), "label": "ham"} for k in range(40)]
    lines = read(write(tmp_path / "x.jsonl", *rows), package("text"), limit=7, seed=3)
    assert len(lines.items) == 7
    (tmp_path / "ham").mkdir()
    for row in rows:
        (tmp_path / "ham" / f"{int(row['text']):02}.txt").write_text(row["text"])
    files = read(tmp_path, package("text"), limit=7, seed=3)
    assert pairs(files) == pairs(lines)


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("none.csv", None, {}, "there is no such file or folder"),
        ("x.xls", "x", {}, r"a folder, \.jsonl, \.csv, \.tsv or \.parquet is needed"),
        ("x.jsonl", "", {}, "there are no rows; labelled items are needed"),
        ("x.csv", "age,label\n", {}, "there are no rows; labelled items are needed"),
        ("x.csv", "age,lable\n1,a\n", {}, "no column 'label'; did you mean 'lable'"),
        ("x.csv", "age,label\n1,\n", {}, "none of its rows has a label"),
        ("x.csv", "id,label\n1,a\n", {}, "the index reads none of its columns id, la"),
        ("x.csv", "age,job\n1,a\n", {"label": "job"}, "the index reads the column 'j"),
        ("x.csv", "age,label\n1\n", {}, "none .* can be read; the first, 0: 1 cells"),
        ("x.csv", "age,label\n1,a\n", {"separator": ";;"}, "separator"),
        ("x.csv", "age,label\n1,a\n", {"encoding": "klingon"}, "klingon"),
        (
            "x.jsonl",
            '{"age":1,"class":"ham"}\n',
            {},
            "a 'label'; the first has age, class",
        ),
        ("x.jsonl", "{\n", {}, "none of its items can be read; the first, 0: "),
        (
            "x.jsonl",
            '{"age":1,"label":"b"}\n',
            {},
            "none of its labels b; it knows ham",
        ),
        ("x.jsonl", '{"age":[1],"label":"ham"}\n', {}, "column 'age' holds a list"),
    ],
)
def test_each_wrong_file_has_its_own_sentence(
    tmp_path: Path,
    name: str,
    content: str | None,
    options: dict[str, Any],
    message: str,
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(BadInput, match=message):
        read(tmp_path / name, package("record"), **options)


def test_a_folder_without_classes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no text"):
        read(tmp_path, package("text"))
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(BadInput, match="put those of each class in a folder"):
        read(tmp_path, package("text"))
