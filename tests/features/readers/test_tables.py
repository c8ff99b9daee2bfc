"""Rows of tables, whatever they are written in."""

from pathlib import Path

import pytest

from polydom.features.errors import BadInput, BadItem
from polydom.features.readers.folders import files_of
from polydom.features.readers.tables import (
    count_json_lines,
    open_table,
    read_json_lines,
)


def test_json_lines_are_objects_or_say_why_not(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes('\ufeff{"a":1}\n\n[]\n{\n{"b":"Öl"}'.encode() + b'\n{"c":"\xd6l"}')
    lines = list(read_json_lines(path))
    assert [line.number for line in lines] == [1, 3, 4, 5, 6]
    assert count_json_lines(path) == 5
    first, array, broken, second, undecoded = (line.row for line in lines)
    assert (first, second) == ({"a": 1}, {"b": "Öl"})
    assert lines[3].document == '{"b":"Öl"}\n'.encode()
    for row in (array, broken):
        assert isinstance(row, BadItem)
        assert "each line is to be one JSON object" in str(row)
    assert isinstance(undecoded, BadItem)
    assert "not UTF-8: " in str(undecoded)
    assert "position 6" in str(undecoded)
    assert isinstance(undecoded.__cause__, UnicodeError)


def test_json_lines_may_be_in_any_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for encoding in ("utf-8", "latin-1", "utf-16"):
        path.write_text('{"a":"Öl"}\n{"a":"Äpfel"}\n', encoding=encoding)
        rows = [line.row for line in read_json_lines(path, encoding)]
        assert rows == [{"a": "Öl"}, {"a": "Äpfel"}]
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(BadInput, match="not utf-16: "):
        count_json_lines(path, "utf-16")
    with pytest.raises(BadInput, match="encoding is 'klingon', which is unknown"):
        count_json_lines(path, "klingon")
    with pytest.raises(BadInput, match=r"none\.jsonl: No such file"):
        count_json_lines(tmp_path / "none.jsonl")


def test_only_the_columns_that_are_wanted_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,y,y,z\n1,2,3,4\n5\n")
    table = open_table(path)
    assert (table.names, table.count, table.typed) == (
        ("x", "y", "y", "z"),
        None,
        False,
    )
    whole, short = table.rows(["z", "x"])
    assert whole == {"z": "4", "x": "1"}
    assert str(short) == "1 cells under 4 names"
    with pytest.raises(BadInput, match=r"a\.csv: 2 columns are called 'y'; each needs"):
        table.rows(["x", "y"])


def test_parquet_may_be_a_file_or_a_folder_of_them(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{"x": number, "s": "a"} for number in range(2500)]
    folder = tmp_path / "rows.PARQUET"
    folder.mkdir()
    for name, part in (("1.parquet", rows[:2000]), ("2.parquet", rows[2000:])):
        parquet.write_table(pyarrow.Table.from_pylist(part), folder / name)
    for path, found in ((folder / "1.parquet", rows[:2000]), (folder, rows)):
        table = open_table(path)
        assert (table.names, table.count) == (("x", "s"), len(found))
        assert list(table.rows(["s", "x"])) == found
    (folder / "1.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadInput, match=r"1\.parquet: this is no Parquet file: "):
        open_table(folder / "1.parquet")
    with pytest.raises(BadInput, match=r"none\.parquet: No such file or directory"):
        open_table(tmp_path / "none.parquet")


def test_folders_are_searched_by_endings(tmp_path: Path) -> None:
    names = ("b/1.JPG", "b/2.webp", "a/3.md", "a/4.text", "5.txt", "6.json", "7.xls")
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "folder.png").mkdir()
    assert files_of(tmp_path, "image") == [tmp_path / name for name in names[:2]]
    texts = [tmp_path / name for name in ("5.txt", "a/3.md", "a/4.text")]
    assert files_of(tmp_path, "text") == texts
    assert files_of(tmp_path, "record") == [tmp_path / "6.json"]
