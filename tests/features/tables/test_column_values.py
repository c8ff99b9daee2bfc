"""Columns of a table read for all rows give the bits that each row alone gives."""

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadItem
from polydom.features.tables.cells import Cells, Dates, Numbers, Words
from polydom.features.tables.column_values import ColumnValues
from polydom.features.tables.columns import Columns, learn_texts
from polydom.features.tables.dates import NO_DATE, PARTS
from polydom.features.tables.exact_numbers import FLOAT32_MAX, Shift
from polydom.features.tables.records import Records, column_names, take

ROWS = 6
WORDS = ("true", "b", "2024-05-01", "false")
EXTREMES = [math.nan, math.inf, -math.inf, 1e39, FLOAT32_MAX, FLOAT32_MAX * (1 + 1e-9)]

floats = st.floats() | st.sampled_from(EXTREMES)
numbers = st.one_of(
    st.lists(floats, min_size=ROWS, max_size=ROWS).map(np.array),
    st.lists(st.integers(-(2**62), 2**62), min_size=ROWS, max_size=ROWS).map(np.array),
    st.lists(st.booleans(), min_size=ROWS, max_size=ROWS).map(np.array),
    st.lists(st.floats(width=32), min_size=ROWS, max_size=ROWS).map(
        lambda values: np.array(values, np.float32)
    ),
).map(Numbers)
words = st.lists(st.integers(-1, 3), min_size=ROWS, max_size=ROWS).map(
    lambda codes: Words(np.array(codes), WORDS)
)
micros = st.just(NO_DATE) | st.integers(-(10**16), 10**17)
dates = st.lists(micros, min_size=ROWS, max_size=ROWS).map(
    lambda values: Dates(np.array(values))
)
tables = st.fixed_dictionaries({}, optional={n: numbers | words | dates for n in "abc"})
vocabularies = st.dictionaries(
    st.sampled_from("abc"), st.lists(st.sampled_from([*WORDS, "x"]), unique=True)
)
parts = st.dictionaries(
    st.sampled_from("abc"), st.lists(st.sampled_from(PARTS), min_size=1)
)
shifts = st.dictionaries(
    st.sampled_from("abc"),
    st.sampled_from([Shift(1e9), Shift(-FLOAT32_MAX), Shift(2.0**40, 2.0**99)]),
)


@given(tables, vocabularies, parts, shifts, st.permutations(range(ROWS)))
def test_all_rows_are_read_as_each_alone(
    table: dict[str, Cells], known: Any, dated: Any, moved: Any, order: list[int]
) -> None:
    function = Columns(("a", "b", "c"), known, dated, moved)
    records = Records(table, np.array(order[1:]))
    values = np.empty((len(records), len(function.sources)), np.float32)
    doubtful = ColumnValues(function, records).read(records.rows, values)
    for row, item in enumerate(records):
        try:
            alone = function(item.payload)  # type: ignore[arg-type]
        except BadItem:
            assert doubtful[row]
            continue
        if np.isinf(alone).any():  # an extractor refuses it
            assert doubtful[row]
        if not doubtful[row]:
            assert bits(values[row]) == bits(alone)


def bits(row: Any) -> list[int]:
    """Of each number, all NaN being alike."""
    row = np.where(np.isnan(row), np.float32(math.nan), row)
    return list(row.view(np.int32).tolist())


@given(tables)
def test_texts_are_learned_at_once_as_in_turn(table: dict[str, Cells]) -> None:
    records = Records(table, np.arange(ROWS)[::-1])
    if not table:
        return
    found = learn_texts(records, [*table, "none"])
    items = take(tuple(records), np.arange(ROWS))
    slowly = learn_texts(items, [*table, "none"])
    assert column_names(records) == column_names(items)
    assert found.vocabularies == slowly.vocabularies
    nothing = {n for n, c in table.items() if c.missing(records.rows).all()}
    assert {n: p for n, p in found.dates.items() if n not in nothing} == slowly.dates


def test_items_are_made_when_they_are_asked_for() -> None:
    table: dict[str, Cells] = {
        "a": Numbers(np.array([1.5, math.nan])),
        "b": Words(np.array([0, -1]), ("x",)),
    }
    records = Records(table, np.array([1, 0, 1]))
    assert len(records) == 3
    assert [item.payload for item in records[:2]] == [
        {"a": None, "b": None},
        {"a": 1.5, "b": "x"},
    ]
    assert records[-1] == records[0]
    kept = take(records, np.array([1]))
    assert [item.payload for item in kept] == [{"a": 1.5, "b": "x"}]
    assert isinstance(kept, Records)
    assert kept.digest == Records(table, np.array([0])).digest != records.digest
