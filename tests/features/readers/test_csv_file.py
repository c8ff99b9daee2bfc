"""CSV files are read as they come, and what is guessed is said."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.features.readers.csv_file import (
    SEPARATORS,
    find_separator,
    open_csv,
)

WORDS = st.text("ab,;|\t \"'x1.", max_size=6)


def written(rows: list[list[str]], separator: str) -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=separator, lineterminator="\n").writerows(rows)
    return file.getvalue()


@given(
    separator=st.sampled_from(SEPARATORS),
    rows=st.integers(2, 4).flatmap(
        lambda width: st.lists(
            st.lists(WORDS, min_size=width, max_size=width), min_size=1, max_size=5
        )
    ),
)
def test_the_separator_is_found_where_a_name_is_known(
    separator: str, rows: list[list[str]]
) -> None:
    names = ["label", *(f"c{n}" for n in range(len(rows[0]) - 1))]
    lines = written([names, *rows], separator).splitlines(keepends=True)
    assert find_separator(lines, ["label"]) == separator


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2,5\n", ";"),
        ("a\tb\n1,5\t2\n", "\t"),
        ("a|b\n1|2\n", "|"),
        ("one\nx;y\n", ","),
        ("one\nx\n", ","),
        ('a,b\n"1;2",3\n', ","),
        ("a,b;c\n1,2;3\n", ","),
        ("a,b\n1\n", ","),
        ("", ","),
    ],
)
def test_the_separator_is_found_where_it_is_clear(text: str, separator: str) -> None:
    assert find_separator(text.splitlines(keepends=True)) == separator


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("utf-32", "utf-32"),
        ("cp1252", "cp1252"),
        ("latin-1", "cp1252"),
    ],
)
def test_the_encoding_is_found_wherever_it_shows(
    tmp_path: Path, encoding: str, found: str
) -> None:
    path = tmp_path / "a.csv"
    filler = "1,plain\n" * 200_000  # what tells lies beyond the first MiB
    path.write_text("n,word\n" + filler + "2,Köln\n", encoding=encoding)
    file = open_csv(path)
    assert (file.encoding, file.separator, file.names) == (found, ",", ("n", "word"))
    assert rows_of(path)[-1] == ["2", "Köln"]


def test_latin_1_is_found_where_windows_lacks_a_character(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n\x81,\xe9\n")
    assert open_csv(path).encoding == "latin-1"


def test_a_character_may_be_cut_where_the_sample_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a;b\n" + "ö;1\n" * 40_000, encoding="utf-8")
    assert open_csv(path).separator == ";"
    assert len(rows_of(path)) == 40_000


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (b"PK\x03\x04\x14", r"a spreadsheet \(.xlsx, .ods\) .*; save it as CSV"),
        (b"\x1f\x8b\x08", r"compressed \(gzip\), no CSV file; unpack it"),
        (b"ab\0\0cd\0\0\0", "is no text: it holds zero bytes"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, start: bytes, what: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(start + bytes(range(256)))
    with pytest.raises(BadInput, match=what):
        open_csv(path)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        open_csv(tmp_path / "none.csv")
    (tmp_path / "a.csv").touch()
    with pytest.raises(BadInput, match="is empty; a first line with the names"):
        open_csv(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("\n\n")
    with pytest.raises(BadInput, match="nothing but empty lines"):
        open_csv(tmp_path / "a.csv")


def rows_of(path: Path, **terms: Any) -> list[list[str | None]]:
    """All rows, and those left out by their number and why."""
    file = open_csv(path, **terms)
    table, _ = file.read(range(len(file.names)))
    return [list(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("a,b\n1,2\n", ("a", "b"), [["1", "2"]]),
        ("a,b\r1,2\r", ("a", "b"), [["1", "2"]]),
        (" a , b\n1,2\n", ("a", "b"), [["1", "2"]]),
        ("\n\na,b\n\n1,2\n", ("a", "b"), [["1", "2"]]),
        ('a,"b\nc"\n1,"2\n3"\n', ("a", "b\nc"), [["1", "2\n3"]]),
        (',a\n0,"x"\n', ("", "a"), [["0", "x"]]),
        ("a,b,\n1,2,\n", ("a", "b", ""), [["1", "2", None]]),
        ("a,b\n1,2,\n3,4,\n", ("a", "b", ""), [["1", "2", None], ["3", "4", None]]),
        ("a,b\nr1,1,2\nr2,3,4\n", ("", "a", "b"), [["r1", "1", "2"], ["r2", "3", "4"]]),
        ("sep=;\na;b\n1;2\n", ("a", "b"), [["1", "2"]]),
        ('a,b\n1,"2 ""q"" x"\n', ("a", "b"), [["1", '2 "q" x']]),
        ("a,b\n", ("a", "b"), []),
        ("a,b", ("a", "b"), []),
    ],
)
def test_rows_are_read_as_programs_write_them(
    tmp_path: Path, text: str, names: tuple[str, ...], rows: list[list[str]]
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())
    assert open_csv(path).names == names
    assert rows_of(path) == rows


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("a,b\n1,2\n3\n4,5\n", [(3, "1 cells under 2 names: '3'")]),
        ('\na,"b\nc"\n1,2\n3,4,5\n', [(5, "3 cells under 2 names: '3,4,5'")]),
        (
            'a,b\n1,2\n"3,4\n5,6\n',
            [(3, "1 cells under 2 names: '\"3,4\\n5,6'; a quote in it may never end")],
        ),
    ],
)
def test_rows_of_another_width_are_left_out_by_number(
    tmp_path: Path, text: str, bad: list[tuple[int, str]]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    file = open_csv(path)
    _, found = file.read([0])
    assert [(row.number, row.why) for row in found] == bad
    *_, (_, found) = file.batches([0])
    assert [(row.number, row.why) for row in found] == bad


def test_a_quote_that_never_ends_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,2\n3,"4\n5,6\n7,8\n')
    with pytest.raises(BadInput, match=r"row 3: a quote .* the 3 lines below are part"):
        open_csv(path).read([0, 1])
    with pytest.raises(BadInput, match="row 3: a quote begins in it that never ends"):
        list(open_csv(path).batches([0, 1]))
    path.write_text('a,b\n1,2\n3,"4\n5,6"\n')
    assert rows_of(path) == [["1", "2"], ["3", "4\n5,6"]]
    path.write_text('a,b\n1,2\n3,"4\n5,6"""')
    assert rows_of(path) == [["1", "2"], ["3", '4\n5,6"']]


def test_cells_may_be_longer_than_blocks(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    longest = "x\n" * 1_000_000
    path.write_text(f'a,b\n1,u\n"{longest}",v\n2,w\n')
    assert rows_of(path) == [["1", "u"], [longest, "v"], ["2", "w"]]
    found = [
        cell
        for batch, _ in open_csv(path).batches([1])
        for cell in batch.column(0).to_pylist()
    ]
    assert found == ["u", "v", "w"]


def test_how_far_reading_is_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n" + "1234567890\n" * 400_000)
    told: list[tuple[int, int]] = []
    open_csv(path).read([0], lambda done, left: told.append((done, left)))
    assert len(told) > 3
    assert told == sorted(told)
    assert {done + left for done, left in told} == {400_000}
    assert told[-1] == (400_000, 0)


def test_zero_bytes_in_some_cells_are_no_other_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,label\n" + b"12345678,a\n" * 50 + b"1\0,b\n")
    table, bad = open_csv(path).read([0])
    assert (table.column(0).to_pylist()[-1], bad) == ("1\0", [])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", ["\t", ";", "|"])
def test_a_first_line_that_says_what_divides_cells_is_no_row(
    tmp_path: Path, separator: str, encoding: str
) -> None:
    path = tmp_path / "a.csv"
    lines = (f"sep={separator}", f"a,b{separator}c", f"1{separator}2")
    path.write_text("\r\n".join(lines), encoding, newline="")
    file = open_csv(path)
    assert (file.separator, file.names, file.first) == (separator, ("a,b", "c"), 3)


def test_spaces_before_quotes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('"x", "label"\n"1", "a"\n')
    with pytest.raises(BadInput, match=r"a\.csv, line 1: a space is between ',' and"):
        open_csv(path)
    path.write_text('"the ""x""",label\n1,a\n')
    assert open_csv(path).names == ('the "x"', "label")


def test_names_have_nothing_that_cannot_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\ufeff\ufeffx\u200b,\u00a0label \n1,a\n", "utf-8")
    assert open_csv(path).names == ("x", "label")


@pytest.mark.parametrize("count", [30, 60_000])
def test_few_bytes_of_another_encoding_do_not_change_all_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    path = tmp_path / "a.csv"
    rows = "größe,a\n".encode() * count + "größe,b\n".encode("latin-1")
    path.write_bytes("größe,label\n".encode() + rows)
    file = open_csv(path)
    table, bad = file.read([0, 1])
    assert (file.names, bad) == (("größe", "label"), [])
    cells = table.column(0).to_pylist()
    assert cells == ["größe"] * count + ["gr\ufffd\ufffde"]
    assert "is read in UTF-8 but for some bytes, which become \ufffd" in caplog.text
    path.write_bytes("größe,label\nmüde,a\n".encode("latin-1") * count)
    assert open_csv(path).encoding == "cp1252"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("count", [1, 60_000])
def test_quotes_may_be_escaped_by_a_backslash(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    encoding: str,
    count: int,
) -> None:
    monkeypatch.setattr("polydom.features.readers.csv_file.CHUNK", 1001)
    path = tmp_path / "a.csv"
    row = '"a 5\\" pipe, \\"new\\"",C:\\dir,"ü\\\\"\n'
    path.write_text(f"what,where,more\n{row * count}", encoding)
    file = open_csv(path)
    table, bad = file.read([0, 1, 2])
    assert bad == []
    (found,) = {*zip(*(own.to_pylist() for own in table.columns), strict=True)}
    assert found == ('a 5" pipe, "new"', "C:\\dir", "ü\\\\")
    assert table.num_rows == count
    assert 'with \\" for a quote in a cell' in caplog.text
    path.write_text('what,where\n"C:\\dir\\","a ""b"""\n')
    assert open_csv(path).read([0, 1])[0].to_pylist() == [
        {"0": "C:\\dir\\", "1": 'a "b"'}
    ]
