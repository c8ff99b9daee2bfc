"""Items out of folders, tables and JSON Lines."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polydom.features.errors import BadInput, BadItem
from polydom.features.items import Kind
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredColumns, StoredFeature
from polydom.server.offline_scoring.item_rows import Rows, read_items
from polydom.server.offline_scoring.output_row import ScorableItem
from tests.support.indexes.served import make_index


def package(kind: Kind, columns: StoredColumns | None = None) -> Package:
    tiny = make_index().package
    assert tiny is not None
    features = tiny.features
    if columns is not None:
        features = (StoredFeature("own", 1, "", False, columns),)
    return replace(tiny, kind=kind, features=features)


RECORDS = package("record", StoredColumns(["age", "job"], {"job": ["cook", "7"]}))


def read(path: Path, of: Package) -> tuple[list[Any], int | None]:
    source = read_items(path, of)
    return named(source), source.total


def named(source: Rows) -> list[tuple[str, ScorableItem]]:
    """The names and items of all rows."""
    return [(row.name, row.item) for row in source.rows]


def test_folders_are_read_in_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b/2.png", "b/1.JPG", "a/3.jpeg", "a/notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name.encode())
    assert read(tmp_path, package("image")) == (
        [("a/3.jpeg", b"a/3.jpeg"), ("b/1.JPG", b"b/1.JPG"), ("b/2.png", b"b/2.png")],
        3,
    )
    assert read(tmp_path, package("text")) == ([("a/notes.txt", "a/notes.txt")], 1)
    with pytest.raises(BadInput, match="holds no record"):
        read(tmp_path, RECORDS)
    (tmp_path / "x.json").write_text('{"age":3}')
    (tmp_path / "y.json").write_text("{")
    items, _ = read(tmp_path, RECORDS)
    assert items[0] == ("x.json", {"age": 3})
    assert isinstance(items[1][1], BadItem)


def test_json_lines_give_texts_records_and_images(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text('{"text":"hi","label":"ham"}\n\n{"text":1}\n[]\n')
    items, count = read(path, package("text"))
    assert ([name for name, _ in items], count) == (["0", "1", "2"], 3)
    assert items[0][1] == "hi"
    assert [type(item) for _, item in items[1:]] == [BadItem, BadItem]
    path.write_text('{"age":3,"label":"x"}\n{"record":{"job":"cook"}}\n')
    assert read(path, RECORDS)[0] == [("0", {"age": 3}), ("1", {"job": "cook"})]
    path.write_text('{"image_base64":"/9g="}\n{"image":"?"}\n')
    items, _ = read(path, package("image"))
    assert items[0] == ("0", b"\xff\xd8")
    assert isinstance(items[1][1], BadItem)


def test_csv_cells_are_numbers_but_where_words_are_known(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("\ufeffid,age,job\nx, 3 ,7\ny,,\nz,old,cook\nw,1\n", "utf-8")
    items, count = read(path, RECORDS)
    assert count is None
    assert [item for _, item in items[:3]] == [
        {"age": 3.0, "job": "7"},
        {"age": None, "job": None},
        {"age": "old", "job": "cook"},
    ]
    assert str(items[3][1]) == "2 cells under 3 names: 'w,1'"
    path.write_text("text,label\n 7 ,x\n")
    assert read(path, package("text"))[0] == [("0", " 7 ")]
    with pytest.raises(BadInput, match="reads none of its columns text, label"):
        read(path, RECORDS)
    path.write_text("age,job\n3," + "1" * 200_000 + "\n")
    assert read(path, RECORDS)[0] == [("0", {"age": 3, "job": "1" * 200_000})]
    path.write_text("")
    with pytest.raises(BadInput, match="is empty; a first line with the names"):
        read_items(path, RECORDS)


def test_csv_may_be_written_as_spreadsheets_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "items.csv"
    path.write_text("id;age;job\nx;3;Köchin\n", encoding="utf-16")
    assert read(path, RECORDS)[0] == [("0", {"age": 3.0, "job": "Köchin"})]
    assert "in utf-16 and with ';' between cells" in caplog.text
    tabs = path.rename(tmp_path / "items.tsv")
    tabs.write_text("age\tjob\n3\tKöchin\n", encoding="latin-1")
    found = read_items(tabs, RECORDS, "\t", "latin-1")
    assert named(found) == [("0", {"age": 3.0, "job": "Köchin"})]
    path.write_text("age;job\n3,5;7,5\n")
    assert read(path, RECORDS)[0] == [("0", {"age": 3.5, "job": "7,5"})]
    path.write_text('age,job\n"3,5",x\n')
    assert read(path, RECORDS)[0] == [("0", {"age": 3.5, "job": "x"})]


@pytest.mark.parametrize("name", ["items.parquet", "items", "hive/000000_0"])
def test_parquet_is_read_column_by_column(tmp_path: Path, name: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    table = pyarrow.table({"id": ["a", "b"], "age": [1, None], "job": ["cook", "x"]})
    parquet.write_table(table, path)
    expected = [("0", {"age": 1, "job": "cook"}), ("1", {"age": None, "job": "x"})]
    given = path if path.parent == tmp_path else path.parent
    assert read(given, RECORDS) == (expected, 2)
    images = pyarrow.table({"image": [{"bytes": b"\xff", "path": "x"}]})
    parquet.write_table(images, path)
    assert read(given, package("image")) == ([("0", b"\xff")], 1)
    path.write_bytes(b"PAR1")
    with pytest.raises(BadInput, match=f"{given.name}.*: this is no Parquet file"):
        read(given, RECORDS)


def test_what_holds_no_items_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.xls").touch()
    for name, message in (("x.xls", r"\.tsv or \.parquet"), ("none", "no such file")):
        with pytest.raises(BadInput, match=message):
            read_items(tmp_path / name, RECORDS)


def test_folders_are_read_by_what_files_hold(tmp_path: Path) -> None:
    for name, data in (
        (".hidden/1.txt", b"x"),
        ("a/.DS_Store", b"x"),
        ("a/1.eml", "Öl\r\n".encode("utf-16")),
        ("a/2.pdf", b"%PDF-1.7"),
        ("a/3.txt", b"\xef\xbb\xbfhi"),
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    source = read_items(tmp_path, package("text"))
    assert named(source) == [("a/1.eml", "Öl\n"), ("a/3.txt", "hi")]
    assert source.remarks() == [
        "left out .hidden: hidden, or a program's own (and 1 more)",
        "left out a/2.pdf: no text, but PDF",
    ]
    (tmp_path / "a" / "4.txt").write_bytes("Öl".encode("latin-1"))
    assert isinstance(named(read_items(tmp_path, package("text")))[-1][1], BadItem)
    read = read_items(tmp_path, package("text"), encoding="latin-1")
    assert named(read)[-1] == ("a/4.txt", "Öl")


def test_a_folder_of_what_is_not_read_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "1.heic").write_bytes(b"\0\0\0\x18ftypheic")
    with pytest.raises(BadInput, match=r"left out 1\.heic: HEIC is not read; save it"):
        read_items(tmp_path, package("image"))
