"""Columns of a table read for all rows give the bits that each row alone gives."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadItem
from polydom.features.tables.column_features import Columns, learn_texts
from polydom.features.tables.column_kinds import ColumnTerms, read_column
from polydom.features.tables.dates import NO_DATE, PARTS, micros_of
from polydom.features.tables.exact_numbers import FLOAT32_MAX, Shift
from polydom.features.tables.records import Column, Records, column_names, take

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
).map(lambda values: Column(pa.array(values), "number"))
cells = st.lists(st.sampled_from([None, *WORDS]), min_size=ROWS, max_size=ROWS)
words = cells.map(
    lambda own: Column(pa.array(own, pa.string()).dictionary_encode(), "word")
)
texts = cells.map(lambda own: Column(pa.array(own, pa.large_string()), "text"))
micros = st.none() | st.integers(-(10**16), 10**17)
dates = st.lists(micros, min_size=ROWS, max_size=ROWS).map(
    lambda values: read_column(
        "x", pa.array(values, pa.timestamp("us")), ColumnTerms(typed=True)
    )
)
tables = st.fixed_dictionaries(
    {}, optional={n: numbers | words | texts | dates for n in "abc"}
)
vocabularies = st.dictionaries(
    st.sampled_from("abc"), st.lists(st.sampled_from([*WORDS, "x"]), unique=True)
)
parts = st.dictionaries(
    st.sampled_from("abc"), st.lists(st.sampled_from(PARTS), min_size=1)
)
orders = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["MDY", "DMY"]))
shifts = st.dictionaries(
    st.sampled_from("abc"),
    st.sampled_from([Shift(1e9), Shift(-FLOAT32_MAX), Shift(2.0**40, 2.0**99)]),
)


@given(tables, vocabularies, parts, orders, shifts, st.permutations(range(ROWS)))
def test_all_rows_are_read_as_each_alone(
    table: dict[str, Column],
    known: Any,
    dated: Any,
    ordered: Any,
    moved: Any,
    order: list[int],
) -> None:
    function = Columns(("a", "b", "c"), known, dated, ordered, moved)
    records = Records(table, np.array(order[1:]))
    values = np.empty((len(records), len(function.sources)), np.float32)
    doubtful = function.read(records, values)
    for row, item in enumerate(records if table else ()):
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
def test_texts_are_learned_at_once_as_in_turn(table: dict[str, Column]) -> None:
    dated = {n for n, c in table.items() if set(c.values(np.arange(ROWS))) <= DATED}
    table = {n: c for n, c in table.items() if c.kind == "date" or n not in dated}
    records = Records(table, np.arange(ROWS)[::-1])
    if not table:
        return
    found = learn_texts(records, [*table, "none"])
    items = take(tuple(records), np.arange(ROWS))
    slowly = learn_texts(items, [*table, "none"])
    assert column_names(records) == column_names(items)
    assert found.vocabularies == slowly.vocabularies
    nothing = {n for n, c in table.items() if c.missing().all()}
    assert {n: p for n, p in found.dates.items() if n not in nothing} == slowly.dates


DATED = {None, "2024-05-01"}  # strings that are dates are read as such with the file


def test_items_are_made_when_they_are_asked_for() -> None:
    table = {
        "a": Column(pa.array([1.5, math.nan]), "number"),
        "b": Column(pa.array(["x", None]).dictionary_encode(), "word"),
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


def test_cells_become_values_when_asked_for() -> None:
    days = Column(
        pa.array([micros_of("2024-05-01"), None]).cast("timestamp[us]"), "date"
    )
    assert days.values(np.arange(2)) == ["2024-05-01T00:00:00", None]
    assert days.micros().tolist() == [micros_of("2024-05-01"), NO_DATE]
    assert Column(pa.array([True]), "number").values(np.arange(1)) == [True]


@given(st.lists(st.sampled_from(["b", "a", "c", None]), min_size=1), st.data())
def test_words_of_some_rows_do_not_depend_on_others(
    cells: list[str | None], data: st.DataObject
) -> None:
    rows = np.array(data.draw(st.lists(st.integers(0, len(cells) - 1))), np.int64)
    some = [cells[row] for row in rows]
    words, own = (
        Column(pa.array(held, pa.string()).dictionary_encode(), "word")
        for held in (cells, some)
    )
    assert words.digest(rows) == own.digest(np.arange(len(rows)))
    coded = own.words()
    used = [coded.words[code] for code in coded.used()]
    counts = Counter(sorted(cell for cell in some if cell))
    assert used == [word for word, _ in counts.most_common()]
    assert own.missing().tolist() == [cell is None for cell in some]
