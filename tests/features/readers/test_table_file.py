"""Rows of tables, whatever they are written in."""

from pathlib import Path

import pytest

from polydom.features.errors import BadInput, BadItem
from polydom.features.readers.folders import find_files
from polydom.features.readers.table_file import is_parquet, open_table


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
    assert isinstance(short, BadItem)
    assert str(short) == "1 cells under 4 names: '5'"
    with pytest.raises(BadInput, match=r"a\.csv: 2 columns are called 'y'; each needs"):
        table.rows(["x", "y"])


@pytest.mark.parametrize("name", ["rows.PARQUET", "rows"])
def test_parquet_may_be_a_file_or_a_folder_of_them(tmp_path: Path, name: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{"x": number, "s": "a"} for number in range(2500)]
    folder = tmp_path / name
    folder.mkdir()
    (folder / "_SUCCESS").touch()  # as Spark writes it
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


def test_a_folder_of_parquet_is_known_by_its_first_file(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    assert not is_parquet(tmp_path)
    with pytest.raises(BadInput, match="is no folder of Parquet files; a table is one"):
        open_table(tmp_path)
    for name in ("day=1/000000_0", "day=2/000000_0"):  # as Hive names them
        (tmp_path / name).parent.mkdir()
        parquet.write_table(pyarrow.table({"x": [1]}), tmp_path / name)
    (tmp_path / ".a.crc").touch()
    assert is_parquet(tmp_path)
    table = open_table(tmp_path)
    assert (table.names, table.count) == (("x", "day"), 2)
    (tmp_path / "README.md").write_text("rows of two days")
    assert not is_parquet(tmp_path)


def test_folders_are_searched_by_endings(tmp_path: Path) -> None:
    names = ("b/1.JPG", "b/2.webp", "a/3.md", "a/4.text", "5.txt", "6.json", "7.xls")
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "folder.png").mkdir()
    assert find_files(tmp_path, "image").files == [
        tmp_path / name for name in names[:2]
    ]
    texts = [tmp_path / name for name in ("5.txt", "a/3.md", "a/4.text")]
    assert find_files(tmp_path, "text").files == texts
    assert find_files(tmp_path, "record").files == [tmp_path / "6.json"]


def test_columns_that_nobody_named_are_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(",Unnamed: 1,a,\n0,0,x,\n1,1,y,\n")
    table = open_table(path)
    assert table.names == ("a",)
    assert table.read(["a"]).columns["a"].to_pylist() == ["x", "y"]
    assert "columns 1, 4 without a name are left out" in caplog.text
    assert "column 'Unnamed: 1', the row numbers of pandas, is left out" in caplog.text
    assert open_table(path, wanted=["Unnamed: 1"]).names == ("Unnamed: 1", "a")


def test_pandas_index_in_a_parquet_file_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "a.dat"  # known by what it holds
    pandas.DataFrame({"a": [1, 2]}, index=[5, 9]).to_parquet(path)
    assert open_table(path).names == ("a",)
    assert "'__index_level_0__', the row numbers of pandas, is left" in caplog.text


def test_rows_that_cannot_be_read_stand_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n0\n1,2\n3\n4\n5,6\n7,8,9\n")
    rows = [
        str(row) if isinstance(row, BadItem) else row["a"]
        for row in open_table(path).rows(["a"])
    ]
    short = "1 cells under 2 names: "
    assert rows == [
        f"{short}'0'",
        "1",
        f"{short}'3'",
        f"{short}'4'",
        "5",
        "3 cells under 2 names: '7,8,9'",
    ]


def test_records_of_json_lines_have_the_columns_of_all_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a":1}\n{"record":{"b":"x"},"a":2.5}\n{\n{"a":null,"b":null}\n')
    table = open_table(path)
    assert table.names == ("a", "b")
    columns, bad = table.read(["b", "a"])
    assert {n: c.to_pylist() for n, c in columns.items()} == {
        "b": [None, "x", None],
        "a": [1, 2.5, None],
    }
    assert [row.number for row in bad] == [3]
    path.write_text('{"a":1}\n{"a":"x"}\n')
    with pytest.raises(BadInput, match=r"'a' holds int \(row 1\), str \(row 2\); num"):
        open_table(path).read(["a"])


def test_names_that_come_again_are_no_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,y\n\ufeffx,y\n2,x\n", "utf-8")
    first, again, last = open_table(path).rows(["y", "x"])
    assert (first, last) == ({"y": "y", "x": "1"}, {"y": "x", "x": "2"})
    assert str(again) == "it holds the columns' names again"
    assert list(open_table(path).rows(["y"])) == [{"y": "y"}, {"y": "y"}, {"y": "x"}]
