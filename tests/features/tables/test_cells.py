"""Cells in arrays hold what was put in, in little memory."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.tables.cells import (
    Cells,
    Dates,
    Gathered,
    Numbers,
    Words,
    joined,
    narrow,
)
from polydom.features.tables.dates import NO_DATE, micros_of

numbers = st.one_of(
    st.lists(st.booleans()),
    st.lists(st.integers(-(2**53), 2**53)),
    st.lists(st.floats()),
    st.lists(st.floats(width=32)),
)


@given(st.lists(numbers, max_size=4))
def test_chunks_of_numbers_are_held_exactly(chunks: list[list[Any]]) -> None:
    gathered = Gathered(sum(map(len, chunks)) + 3)
    for chunk in chunks:
        if chunk:
            gathered.add(np.array(chunk))
    values = [float(value) for chunk in chunks for value in chunk]
    np.testing.assert_array_equal(gathered.whole.astype(np.float64), values)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.0, 2.5, math.nan, math.inf], "f4"),
        ([0.1], "f8"),
        ([1e39], "f8"),
        ([0, 127, -128], "i1"),
        ([128], "i2"),
        ([2**15], "i4"),
        ([2**31], "i8"),
        ([True, False], "?"),
    ],
)
def test_numbers_are_held_in_the_smallest_type(values: list[Any], kind: str) -> None:
    assert narrow(np.array(values)).dtype == np.dtype(kind)


def test_cells_become_values_when_asked_for() -> None:
    assert Numbers(np.array([1.5, np.nan])).value(1) is None
    assert Numbers(np.array([True])).value(0) is True
    assert Numbers(np.array([7], np.int8)).value(0) == 7
    words = Words(np.array([1, -1, 0]), ("b", "a"))
    assert [words.value(row) for row in range(3)] == ["a", None, "b"]
    days = Dates(np.array([micros_of("2024-05-01"), NO_DATE]))
    assert [days.value(row) for row in range(2)] == ["2024-05-01", None]
    times = Dates(np.array([micros_of("2024-05-01 07:00")]))
    assert times.value(0) == "2024-05-01T07:00:00"


@given(st.lists(st.sampled_from(["b", "a", "c", None]), min_size=1), st.data())
def test_words_of_some_rows_do_not_depend_on_others(
    cells: list[str | None], data: st.DataObject
) -> None:
    rows = np.array(data.draw(st.lists(st.integers(0, len(cells) - 1))), np.int64)
    words = of_words(cells)
    own = of_words([cells[row] for row in rows])
    assert words.digest(rows) == own.digest(np.arange(len(rows)))
    used = [words.words[code] for code in words.used(rows)]
    counts = Counter(sorted(cell for row in rows if (cell := cells[row])))
    assert used == [word for word, _ in counts.most_common()]
    assert words.missing(rows).tolist() == [cells[row] is None for row in rows]


NONE: dict[str, Cells] = {
    "numbers": Numbers(np.array([math.nan])),
    "words": Words(np.array([-1]), ()),
    "dates": Dates(np.array([NO_DATE])),
}
SOME: dict[str, Cells] = {
    "numbers": Numbers(np.array([7])),
    "words": Words(np.array([0, 1]), ("b", "a")),
    "dates": Dates(np.array([micros_of("2024-05-01")])),
}


def values_of(cells: Cells) -> list[Any]:
    return [cells.value(row) for row in range(len(cells))]


@pytest.mark.parametrize("kind", SOME)
def test_columns_of_two_files_are_put_together(kind: str) -> None:
    one = SOME[kind]
    assert values_of(joined(one, one)) == [*values_of(one), *values_of(one)]
    for nothing in NONE.values():
        assert values_of(joined(one, nothing)) == [*values_of(one), None]
        assert values_of(joined(nothing, one)) == [None, *values_of(one)]
        assert type(joined(nothing, one)) is type(one)
    for other in SOME.keys() - {kind}:
        with pytest.raises(TypeError, match=f"{kind} and {other}"):
            joined(one, SOME[other])


def test_words_of_two_files_share_their_codes() -> None:
    both = joined(SOME["words"], Words(np.array([1, -1, 0]), ("c", "a")))
    assert values_of(both) == ["b", "a", "a", None, "c"]
    assert isinstance(both, Words)
    assert both.words == ("b", "a", "c")


def of_words(cells: list[str | None]) -> Words:
    words = [*dict.fromkeys(cell for cell in cells if cell)]
    codes = [words.index(cell) if cell else -1 for cell in cells]
    return Words(np.array(codes, np.int64), tuple(words))
