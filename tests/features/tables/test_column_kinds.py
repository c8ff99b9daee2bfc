"""Columns are of the first kind that all their cells have, and guesses are said."""

import math
import tempfile
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.features.readers.table_file import open_table
from polydom.features.tables.column_kinds import (
    ColumnTerms,
    joined,
    read_column,
)
from polydom.features.tables.records import Column
from polydom.features.tables.written_numbers import EMPTY
from tests.support.oracles.tables import read_columns_slowly

CELLS = (
    *("", " ", "1", "2.5", "1e3", "nan", "3,5", "-1,25", "x", " y ", "NA", "?"),
    *("1,234", "1.234", "1.234,5", "1,234.5", "$5", "-$5", "5%", "7 %", "2024_01"),
    *("2024-01-31", "2024/1/31", "31.01.2024", "1/2/2024", "13/2/2024", "2/13/2024"),
    *("31 Jan 2024", "0x1F", "007", "0,125", "0.125"),
)
columns = st.lists(st.sampled_from(CELLS), min_size=1, max_size=4).flatmap(
    lambda kinds: st.lists(st.sampled_from(kinds), min_size=1, max_size=6)
)


@given(columns, st.sampled_from(";|,"))
@example(["NA", "?"], ",")
@example(["0x1F"], ",")
@example(["1/2/2024", "13/2/2024"], ",")
@example(["1,234", "1.234"], ",")
def test_columns_of_csv_files_are_read_as_slowly(
    cells: list[str], separator: str
) -> None:
    text = f'"a"{separator}"b"\n' + "".join(
        f'"{cell}"{separator}"-"\n' for cell in cells
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_text(text)
        table = open_table(path, separator)
        raw = table.read(["a"]).columns["a"]
        terms = ColumnTerms(commas=table.commas, points_group=table.points_group)
        found = read_column("a", raw, terms)
    kind, values = read_columns_slowly(text, separator)["a"]
    assert (found.kind, everything(found)) == (kind, values)


def everything(column: Column) -> list[Any]:
    return column.values(np.arange(len(column)))


def read(cells: list[str], **terms: Any) -> Column:
    return read_column("a", pa.array(cells), ColumnTerms(**terms))


@pytest.mark.parametrize("word", EMPTY)
def test_words_for_nothing_are_empty_cells_beside_numbers_and_dates(word: str) -> None:
    for cells, kind in ((["1", word], "number"), (["2024-01-31", word], "date")):
        found = read(cells)
        assert (found.kind, found.missing().tolist()) == (kind, [False, True])
        assert found.empty_words in ((word,), ())  # "nan" is a number to programs
    assert everything(read(["a", word])) == ["a", word]  # it may mean something there
    assert everything(read(["a", word], missing=(word,))) == ["a", None]


def test_amounts_of_two_currencies_are_no_numbers() -> None:
    assert read(["$5", "$1,000", "7"]).kind == "number"
    assert read(["$5", "€5"]).kind == "word"


@pytest.mark.parametrize(
    ("cells", "terms", "values", "unclear"),
    [
        (["1,234", "2,500"], {}, [1234, 2500], "may mean 1.234"),
        (["1,234", "2,500"], {"commas": True}, [1.234, 2.5], "may mean 1,234"),
        (["1,234", "2,5"], {}, [1.234, 2.5], ""),
        (["1,234", "2,500"], {"decimal": ","}, [1.234, 2.5], ""),
        (["1,234", "2,500.5"], {"commas": True}, [1234, 2500.5], ""),
    ],
)
def test_a_comma_that_may_mean_two_things_is_said(
    cells: list[str], terms: Any, values: list[float], unclear: str
) -> None:
    found = read(cells, **terms)
    assert everything(found) == values
    assert unclear in found.unclear
    assert bool(unclear) == bool(found.unclear)


@pytest.mark.parametrize(
    ("cells", "terms", "order", "unclear"),
    [
        (["01/31/2024", "02/01/2024"], {}, "MDY", ""),
        (["31/01/2024", "02/01/2024"], {}, "DMY", ""),
        (["02/01/2024"], {}, "MDY", "date_order = 'DMY' reads 2024-01-02"),
        (["02/01/2024"], {"date_order": "DMY"}, "DMY", ""),
        (["02/02/2024"], {}, "MDY", ""),
        (["02.01.2024"], {}, None, ""),
        (["2024-01-31", "31 Jan 2024", "Jan 31, 2024"], {}, None, ""),
    ],
)
def test_dates_agree_on_one_order_or_it_is_said(
    cells: list[str], terms: Any, order: str | None, unclear: str
) -> None:
    found = read(cells, **terms)
    assert (found.kind, found.date_order) == ("date", order)
    assert unclear in found.unclear
    assert bool(unclear) == bool(found.unclear)


def test_most_different_cells_of_several_words_are_free_text() -> None:
    texts = [f"the order number {k} has not come yet" for k in range(9)]
    assert read([*texts, "", "no"]).kind == "text"
    assert read([*texts[:2]] * 9).kind == "word"
    assert read([f"Ann {k}" for k in range(9)]).kind == "word"
    assert read(texts, kind="word").kind == "word"
    assert everything(read(["b", "", "a"], kind="text")) == ["b", None, "a"]


def test_a_kind_that_does_not_fit_names_the_cell() -> None:
    with pytest.raises(BadInput, match=r"'a'.* kind = 'number', and cell 3 holds 'x'"):
        read(["1", "NA", "x"], kind="number")
    with pytest.raises(BadInput, match="kind = 'date', and cell 1 holds '7'"):
        read(["7"], kind="date")
    with pytest.raises(BadInput, match="no form fits all cells"):
        read(["1,5", "1.5"], kind="number")
    assert everything(read(["1", "x"], kind="number", missing=("x",))) == [1, None]


def test_whole_numbers_are_exact_and_names_are_no_numbers() -> None:
    assert everything(read(["9007199254740993", "7"])) == [2**53 + 1, 7]
    assert everything(read(["18446744073709551616", "7"])) == [2.0**64, 7]
    assert everything(read(["007", "7"])) == [7, 7]
    assert everything(read(["007", "7"], kind="word")) == ["007", "7"]
    assert read(["2024_01"]).kind == "word"
    assert read(["0x1F"]).kind == "word"


TIMES = [datetime(2024, 5, 1, 7), None]  # nanoseconds begin in 1677
TYPES: dict[str, tuple[Any, list[Any], str]] = {
    "whole": (pa.int64(), [1, 2**40, -3], "number"),
    "gaps": (pa.int32(), [1, None, 3], "number"),
    "real": (pa.float64(), [0.1, None, 2.5], "number"),
    "half": (pa.float16(), [np.float16(0.5), np.float16(1.5), None], "number"),
    "money": (pa.decimal128(9, 2), [Decimal("1.25"), None, Decimal("3.00")], "number"),
    "truth": (pa.bool_(), [True, False, True], "number"),
    "perhaps": (pa.bool_(), [True, None, False], "number"),
    "nothing": (pa.null(), [None, None, None], "number"),
    "word": (pa.string(), ["b", None, "a"], "word"),
    "digits": (pa.string(), ["1", None, "2"], "word"),
    "large": (pa.large_string(), ["b", "b", None], "word"),
    "view": (pa.string_view(), ["b", "b", None], "word"),
    "coded": (pa.dictionary(pa.int8(), pa.string()), ["x", None, "y"], "word"),
    "months": (pa.dictionary(pa.int8(), pa.int64()), [12, None, 1], "number"),
    "grades": (pa.dictionary(pa.int8(), pa.float64()), [1.5, None, 1.0], "number"),
    "day": (pa.date32(), [date(2024, 5, 1), None, date(1969, 1, 1)], "date"),
    "long": (pa.date64(), [date(2024, 5, 1), None, date(1969, 1, 1)], "date"),
    "time": (pa.timestamp("ns"), [*TIMES, datetime(1700, 2, 3, 4)], "date"),
    "zone": (pa.timestamp("s", "UTC"), [*TIMES, None], "date"),
}


def as_value(cell: Any) -> Any:
    """What a record holds of it."""
    if isinstance(cell, Decimal):
        return float(cell)
    return cell.isoformat() if isinstance(cell, date) else cell


@pytest.mark.parametrize("name", TYPES)
def test_columns_with_a_type_are_what_it_says(name: str) -> None:
    kind, cells, held = TYPES[name]
    whole = pa.chunked_array([pa.array(cells[:2], kind), pa.array(cells[2:], kind)])
    for array in (pa.array(cells, kind), whole):
        found = read_column("x", array, ColumnTerms(typed=True))
        assert found.kind == held
        assert everything(found) == [as_value(cell) for cell in cells]
        assert found.missing().tolist() == [cell is None for cell in cells]


def test_numbers_that_stand_for_nothing_are_empty_whatever_their_type() -> None:
    terms = ColumnTerms(typed=True, missing=("-1", "unknown"))
    for array in (pa.array([1, -1, None]), pa.array([1.0, -1.0, None])):
        assert everything(read_column("x", array, terms)) == [1, None, None]
    assert everything(read_column("x", pa.array(["-1", "1"]), terms)) == [None, "1"]
    found = read(["1", " -1", "unknown", "NA"], missing=("-1", "unknown", "gone"))
    assert everything(found) == [1, None, None, None]
    assert found.empty_words == ("-1", "unknown", "NA")
    assert found.empty_numbers == (-1.0,)


def test_what_cannot_be_seen_is_no_part_of_a_cell() -> None:
    assert everything(read(["12\u200b", "\ufeff13", "\u00a014", "15\0"])) == [
        12,
        13,
        14,
        15,
    ]
    assert everything(read(["red\u200b", "red", "\u200b"])) == ["red", "red", None]


def test_a_point_that_may_mean_two_things_is_said() -> None:
    found = read(["1.250", "3.500"], commas=True)
    assert (everything(found), found.unclear) == (
        [1.25, 3.5],
        "'1.250' is read as 1.25 and may mean 1,250; [data] decimal = ',' reads it so",
    )
    assert read(["1.250", "3.5"], commas=True).unclear == ""
    assert read(["1.250", "3.500"]).unclear == ""


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (pa.array([7, None, 12]), ["7", None, "12"]),
        (pa.array([7.0, math.nan, 1.5]), ["7", None, "1.5"]),
        (pa.array([True, False]), ["True", "False"]),
    ],
)
def test_numbers_are_words_where_a_project_says_so(cells: Any, words: Any) -> None:
    found = read_column("x", cells, ColumnTerms(kind="word", typed=True))
    assert (found.kind, everything(found)) == ("word", words)


@pytest.mark.parametrize(
    ("kind", "cells"),
    [("date", pa.array([20240131])), ("word", pa.array([date(2024, 1, 31)]))],
)
def test_a_kind_that_a_type_cannot_be_is_refused(kind: Any, cells: Any) -> None:
    with pytest.raises(BadInput, match=r"column 'x' holds (int64, which no|date32)"):
        read_column("x", cells, ColumnTerms(kind=kind, typed=True))


@pytest.mark.parametrize(
    "cells",
    [
        pa.array(["14:30", "2:30 pm", "0 days 14:30:00"]),
        pa.array([time(14, 30)], pa.time64("ns")),
        pa.array([time(14, 30)], pa.time32("s")),
        pa.array([timedelta(hours=14, minutes=30)], pa.duration("ns")),
    ],
)
def test_times_of_day_and_durations_are_dates(cells: Any) -> None:
    found = read_column("x", cells, ColumnTerms())
    assert (found.kind, {*everything(found)}) == ("date", {"14:30:00"})


def test_categories_of_booleans_are_numbers() -> None:
    coded = pa.DictionaryArray.from_arrays(
        pa.array([1, 0, None], pa.int8()), pa.array([False, True])
    )
    found = read_column("x", coded, ColumnTerms(typed=True))
    assert everything(found) == [True, False, None]


@pytest.mark.parametrize(
    ("kind", "cell"), [("list<item: int64>", [1]), ("binary", b"x")]
)
def test_column_of_anything_else_is_named(kind: str, cell: Any) -> None:
    array = pa.array([cell])
    with pytest.raises(BadInput, match=rf"column 'x' holds {kind}.*ignore"):
        read_column("x", array, ColumnTerms(typed=True))


def test_times_that_no_calendar_has_are_missing() -> None:
    far = pa.array([2**62, 0], pa.timestamp("us"))
    found = read_column("x", far, ColumnTerms(typed=True))
    assert everything(found) == [None, "1970-01-01"]


NONE = read([""])
SOME = {
    "number": read(["7"]),
    "word": read(["b", "a"]),
    "date": read(["2024-05-01"]),
}


@pytest.mark.parametrize("kind", SOME)
def test_columns_of_two_files_are_put_together(kind: str) -> None:
    one = SOME[kind]
    assert everything(joined(one, one)) == [*everything(one), *everything(one)]
    for nothing in (NONE, read([""], kind="word")):
        assert everything(joined(one, nothing)) == [*everything(one), None]
        assert everything(joined(nothing, one)) == [None, *everything(one)]
        assert joined(nothing, one).kind == kind
    for other in SOME.keys() - {kind}:
        with pytest.raises(TypeError, match=f"{kind} and {other}"):
            joined(one, SOME[other])


def test_columns_of_two_files_may_be_of_two_types() -> None:
    days = read(["2024-05-01"])
    times = read(["2024-05-01T12:30"])
    assert everything(joined(days, times)) == [
        "2024-05-01T00:00:00",
        "2024-05-01T12:30:00",
    ]
    both = joined(read(["1"]), read(["2.5", ""]))
    assert everything(both) == [1, 2.5, None]
    text = joined(read(["b"], kind="text"), read(["c"]))
    assert (text.kind, everything(text)) == ("text", ["b", "c"])
    words = joined(SOME["word"], read(["c", "", "a"]))
    assert everything(words) == ["b", "a", "c", None, "a"]


def test_numbers_that_are_not_finite_are_kept() -> None:
    assert everything(read(["inf", "1"])) == [math.inf, 1]
