"""CSV files are read as they come, and what is guessed is said."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.features.readers.csv_file import (
    SEPARATORS,
    find_separator,
    open_csv,
    refuse_decimal_commas,
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
    *_, last = file.rows()
    assert last == ["2", "Köln"]


def test_latin_1_is_found_where_windows_lacks_a_character(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n\x81,\xe9\n")
    assert open_csv(path).encoding == "latin-1"


def test_a_character_may_be_cut_where_the_sample_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a;b\n" + "ö;1\n" * 40_000, encoding="utf-8")
    assert open_csv(path).separator == ";"
    assert sum(1 for _ in open_csv(path).rows()) == 40_000


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"PK\x03\x04\x14\x00\x00\x00\x08\x00" + bytes(range(256)))
    with pytest.raises(BadInput, match=r"is no text.* a spreadsheet program"):
        open_csv(path)
    with pytest.raises(BadInput, match="No such file"):
        open_csv(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("cells", "refused"),
    [
        (["1,5", "2"], True),
        (["-1,25", "3.5"], True),
        (["1,5", "x"], False),
        (["1,234,567"], False),
        (["1.5", "2"], False),
        (["a,b"], False),
        ([], False),
    ],
)
def test_decimal_commas_are_refused(cells: list[str], refused: bool) -> None:
    if refused:
        with pytest.raises(BadInput, match="'x' holds numbers with a decimal comma"):
            refuse_decimal_commas("a.csv", "x", cells)
    else:
        refuse_decimal_commas("a.csv", "x", cells)
