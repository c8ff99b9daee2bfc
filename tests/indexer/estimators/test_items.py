"""What an estimator makes items of: arrays of any cells, tables, lists of things."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadItem
from polydom.indexer.estimators.items import Kinds, items_of
from tests.support.indexes.three_kinds import picture

MONTHS = [1, 2, 12]
WORDS = ["Jan", "Feb", None]
TIMES = [datetime(2024, month, 1) for month in MONTHS]


def array(rows: list[list[Any]]) -> NDArray[np.object_]:
    return np.array(rows, object)


def payloads(X: Any, fitted: Kinds | None = None) -> list[Any]:
    return [item.payload for item in items_of(X, fitted=fitted)]


def cells(X: Any) -> list[Any]:
    """Of a table of one column."""
    return [value for record in payloads(X) for value in record.values()]


def test_columns_of_objects_are_words_or_numbers() -> None:
    X = array([["red", 1, None], [None, None, 2.5], [float("nan"), True, 3]])
    first, second, third = payloads(X)
    assert first == {"x0": "red", "x1": 1.0, "x2": None}
    assert second == {"x0": None, "x1": None, "x2": 2.5}
    assert third == {"x0": None, "x1": 1.0, "x2": 3.0}


def test_arrays_of_another_machine_are_read() -> None:
    numbers = np.array([[1.5, 2.0], [np.nan, 4.0]], ">f8")
    assert payloads(numbers) == [{"x0": 1.5, "x1": 2.0}, {"x0": None, "x1": 4.0}]
    assert payloads(np.array([["a"]], ">U2")) == [{"x0": "a"}]
    assert payloads(pd.DataFrame(numbers[:1])) == [{"0": 1.5, "1": 2.0}]


def test_an_array_of_strings_has_words_alone() -> None:
    assert payloads(np.array([["a", "1"], ["b", "1"]])) == [
        {"x0": "a", "x1": "1"},
        {"x0": "b", "x1": "1"},
    ]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pd.Categorical(MONTHS), MONTHS),
        (pd.Categorical([1, np.nan, 12]), [1, None, 12]),
        (pd.Categorical([1.5, 2.0, 12.0]), [1.5, 2.0, 12.0]),
        (pd.Categorical([True, False, True]), [True, False, True]),
        (pd.Categorical(WORDS, ordered=True), WORDS),
        (pd.Categorical(TIMES), ["2024-01-01", "2024-02-01", "2024-12-01"]),
        (pd.array([1, None, 12], "Int64"), [1, None, 12]),
        (pd.array([True, None, False], "boolean"), [True, None, False]),
        (pd.array(WORDS, "string"), WORDS),
        (pd.array(WORDS, "string[pyarrow]"), WORDS),
        (pd.array(WORDS, pd.ArrowDtype(pa.string())), WORDS),
        (pd.array(MONTHS, pd.ArrowDtype(pa.int16())), MONTHS),
        (pd.arrays.SparseArray([0.0, 2.0, 0.0]), [0.0, 2.0, 0.0]),
        (np.array(MONTHS, np.longdouble), MONTHS),
        (np.array(MONTHS, np.float16), MONTHS),
        (pd.Series([pd.NA, "Feb", None], dtype=object), [None, "Feb", None]),
        (pd.Series([pd.NaT, 2, np.nan], dtype=object), [None, 2, None]),
        (pd.Series([True, 2, 0.5], dtype=object), [1, 2, 0.5]),
        (pd.Series([Decimal("1.5"), 2, None], dtype=object), [1.5, 2, None]),
        (pd.Series([date(2024, 1, 1), pd.NaT, None]), ["2024-01-01", None, None]),
        (pd.to_datetime(TIMES[:1] * 3, utc=True), ["2024-01-01"] * 3),
    ],
)
def test_columns_of_pandas_are_what_their_cells_are(
    column: Any, expected: list[Any]
) -> None:
    frame = pd.DataFrame({"month": column})
    assert cells(frame) == expected
    frame.index = [7, 7, 5]  # which is no column
    assert cells(frame) == expected


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pl.Series(WORDS, dtype=pl.Categorical), WORDS),
        (pl.Series(WORDS, dtype=pl.Enum(["Feb", "Jan"])), WORDS),
        (pl.Series(WORDS), WORDS),
        (pl.Series([Decimal("1.5"), None], dtype=pl.Decimal(9, 2)), [1.5, None]),
        (
            pl.Series(TIMES).dt.replace_time_zone("Asia/Tokyo")[:1],
            ["2023-12-31T15:00:00"],
        ),
        (pl.Series([None, None], dtype=pl.Null), [None, None]),
        (pl.Series([True, None]), [True, None]),
        (pa.array(WORDS).dictionary_encode(), WORDS),
        (pa.array(MONTHS).dictionary_encode(), MONTHS),
        (pa.array(TIMES).dictionary_encode()[:1], ["2024-01-01"]),
        (
            pa.chunked_array(
                [pa.array([w], pa.string()).dictionary_encode() for w in WORDS]
            ),
            WORDS,
        ),
        (pa.array(WORDS, pa.large_string()), WORDS),
        (pa.array([Decimal(2)], pa.decimal256(40, 2)), [2.0]),
    ],
)
def test_columns_of_polars_and_arrow_are_what_their_cells_are(
    column: Any, expected: list[Any]
) -> None:
    if isinstance(column, pl.Series):
        found = cells(pl.DataFrame({"month": column}))
    else:
        found = cells(pa.table({"month": column}))
    assert found == expected


def test_records_may_hold_what_pandas_writes_into_empty_cells() -> None:
    frame = pd.DataFrame({"age": pd.array([None, 3], "Int64"), "day": [pd.NaT] * 2})
    assert payloads(frame.to_dict("records")) == [
        {"age": None, "day": None},
        {"age": 3, "day": None},
    ]


def test_frames_may_be_of_any_names() -> None:
    numbered = pd.DataFrame([[1, 2]])
    assert payloads(numbered) == [{"0": 1, "1": 2}]
    numbered.columns = pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])
    assert payloads(numbered) == [{"('a', 'b')": 1, "('a', 'c')": 2}]
    batch = pa.record_batch({"a": [1], "b": [2]})
    assert payloads(batch) == [{"a": 1, "b": 2}]


def test_columns_are_matched_by_their_place_where_an_index_is_asked() -> None:
    fitted: Kinds = {"a": "number", "b": "word"}
    for X in (array([[1, "Jan"]]), pd.DataFrame({"b": [1], "a": ["Jan"]})):
        assert payloads(X, fitted) == [{"a": 1, "b": "Jan"}]


def test_strings_mean_what_was_learned_whatever_the_others_are() -> None:
    # alone they look like dates, and as such, of another order
    asked = pd.DataFrame({"code": ["2024-01-31"], "day": ["02.03.2024"]})
    fitted: Kinds = {"code": "word", "day": "date"}
    assert payloads(asked, fitted) == asked.to_dict("records")
    numbers = asked.assign(day=[20240302])
    with pytest.raises(BadInput, match="column 'day' holds numbers; dates were fitted"):
        items_of(numbers, fitted=fitted)
    assert payloads(numbers.assign(day=[None]), fitted)[0]["day"] is None


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (
            array([["red", 0], [7, 0]]),
            "column 'x0' holds strings and, in row 1, int; one or the other is needed: "
            ".astype",
        ),
        (array([[0, 1j], [0, 1]]), "column 'x1' holds, in row 0, complex; numbers or"),
        (array([[0], [10**400]]), "column 'x0' holds, in row 1, a whole number over 1"),
        (array([["a\ud800"]]), "column 'x0' holds strings, of which Arrow says: "),
        (np.zeros((0, 2)), r"an array of shape \(0, 2\) came"),
        (np.zeros((2, 0)), r"an array of shape \(2, 0\) came"),
        (pd.DataFrame({"age": [1, "old"]}), "column 'age' holds strings and, in row 0"),
        (
            pd.DataFrame({"age": pd.Categorical([1, "old"])}),
            "column 'age' holds strings and, in row 0, int",
        ),
        (
            pd.DataFrame({"age": pd.cut([1, 5], [0, 3, 9])}),
            r"column 'age' holds dictionary.*interval.*, of which Arrow says: ",
        ),
        (pd.DataFrame({"age": [[1], [2]]}), "column 'age' holds list"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "X has 2 columns called 'a'"),
        (pd.DataFrame([[1, 2]], columns=["1", 1]), "X has 2 columns called '1'"),
        (pa.table([[1], [2]], names=["age", "age"]), "X has 2 columns called 'age'"),
        (pa.table({"age": pa.array([], pa.int64())}), "X has 0 rows of 1 columns"),
        (pl.LazyFrame({"age": [1]}), r"LazyFrame came, which holds no rows: X.collect"),
        ("a text", "str came"),
        ({"age": 3}, "dict came"),
        (7, "int came"),
        ([], "X is empty"),
        (["a text", picture(7)], "X mixes image and text items"),
    ],
)
def test_what_no_items_can_be_made_of_is_named(X: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        items_of(X)


def test_an_item_that_cannot_be_used_is_named_by_its_place(tmp_path: Path) -> None:
    for X in (["a text", 3.5], pd.Series(["a text", None]), pa.array(["a text", None])):
        with pytest.raises(BadItem, match="item 1: "):
            items_of(X)
    with pytest.raises(BadItem, match=f"item 0: {tmp_path / 'none'}: No such file"):
        items_of([tmp_path / "none"])


COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    "numpy": np.array,
    "objects": lambda values: np.array(values, object),
    "pandas": lambda values: pd.Series(values, index=[5, 3]),
    "pandas strings": lambda values: pd.Series(values, dtype="string[pyarrow]"),
    "categories": lambda values: pd.Series(values, dtype="category"),
    "index": pd.Index,
    "polars": pl.Series,
    "polars categories": lambda values: pl.Series(values, dtype=pl.Categorical),
    "arrow": pa.array,
    "chunked": lambda values: pa.chunked_array([[value] for value in values]),
    "dictionary": lambda values: pa.array(values).dictionary_encode(),
}


@pytest.mark.parametrize("form", COLUMNS)
def test_a_column_is_a_list_of_texts(form: str) -> None:
    assert payloads(COLUMNS[form](["a text", "another"])) == ["a text", "another"]


def test_a_list_may_hold_cells_of_arrow() -> None:
    assert payloads(list(pa.array(["a text", "another"]))) == ["a text", "another"]
    assert payloads(list(pa.array([{"age": 3}]))) == [{"age": 3}]


@pytest.mark.parametrize("form", ["objects", "pandas", "polars", "arrow", "chunked"])
def test_a_column_is_a_list_of_images(form: str, tmp_path: Path) -> None:
    images = [picture(7), picture(9)]
    assert payloads(COLUMNS[form](images)) == images
    assert payloads([bytearray(images[0]), memoryview(images[1])]) == images
    names = [tmp_path / "one", tmp_path / "two"]
    for name, image in zip(names, images, strict=True):
        name.write_bytes(image)
    found = items_of(COLUMNS[form]([str(name) for name in names]), "image")
    assert [item.payload for item in found] == images
    if form in ("objects", "pandas"):
        assert payloads(COLUMNS[form](names)) == images


def test_durations_are_dates_that_long_after_1970_began() -> None:
    X = pd.DataFrame({"waited": [timedelta(days=3), pd.NaT]})
    assert cells(X) == ["1970-01-04", None]
