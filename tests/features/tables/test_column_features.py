"""Columns of records: numbers, vocabularies, what is missing, declared costs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadFeature, BadItem
from polydom.features.extract import Extractor
from polydom.features.items import Value, record_item, text_item
from polydom.features.tables.column_features import Columns, columns, learn_texts
from polydom.features.tables.dates import Part

JOBS = {"job": ["baker", "clerk"]}
PERSON = columns("person", ["age", "job"], vocabularies=JOBS, declared={"usd": 3.5})
NAN = pytest.approx(math.nan, nan_ok=True)

values = st.one_of(
    st.none(), st.floats(allow_infinity=False, width=32), st.integers(-9, 9), st.text()
)


def read(record: dict[str, Value], *names: str, **vocabularies: list[str]) -> object:
    made = columns("some", names, vocabularies=vocabularies)
    return made(record).tolist()


def test_columns_takes_numbers_and_positions_in_vocabularies() -> None:
    assert PERSON({"age": 31, "job": "clerk", "more": "x"}).tolist() == [31.0, 1.0]


def test_columns_is_a_feature_of_records_with_declared_costs() -> None:
    assert (PERSON.name, PERSON.kind, PERSON.declared) == (
        "person",
        "record",
        {"usd": 3.5},
    )
    assert PERSON.missing


def test_columns_keeps_what_rebuilds_it() -> None:
    function = PERSON.function
    assert isinstance(function, Columns)
    again = columns("again", function.names, vocabularies=function.vocabularies)
    assert again({"age": 5, "job": "baker"}).tolist() == [5.0, 0.0]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"job": "clerk"}, [NAN, 1.0]),
        ({"age": None, "job": "clerk"}, [NAN, 1.0]),
        ({"age": math.nan, "job": "clerk"}, [NAN, 1.0]),
        ({"age": 31, "job": "pilot"}, [31.0, NAN]),
        ({"age": 31, "job": None}, [31.0, NAN]),
        ({"age": 31, "job": 1}, [31.0, NAN]),
        ({}, [NAN, NAN]),
    ],
    ids=[
        "a column absent",
        "None for a number",
        "NaN for a number",
        "a string unknown",
        "None for a string",
        "a number for a string",
        "nothing at all",
    ],
)
def test_columns_gives_nan_for(record: dict[str, Value], expected: object) -> None:
    assert PERSON(record).tolist() == expected


def test_columns_takes_dates_for_several_numbers() -> None:
    made = columns("when", ["a", "b"], dates={"a": ["day", "month"], "c": ["hour"]})
    assert made({"a": "1970-02-02T12:00", "b": 1}).tolist() == [32.5, 2, 1]
    for nothing in ({"b": 1}, {"a": None, "b": 1}, {"a": "soon", "b": 1}):
        assert made(nothing).tolist() == [NAN, NAN, 1]
    assert made({"a": 19_000, "b": 1}).tolist() == [NAN, NAN, 1]


@pytest.mark.parametrize("words", [["false", "true"], ["FALSE", "TRUE"], ["true"]])
def test_columns_takes_words_of_truth_and_booleans_alike(words: list[str]) -> None:
    for code, word in enumerate(words):
        for value in (word, word.casefold() == "true"):
            assert read({"a": value}, "a", a=words) == [code]
    assert read({"a": True}, "a", a=["true", "x"]) == [NAN]


@pytest.mark.parametrize(
    "words",
    [["True", "False"], ["TRUE", "FALSE"], ["t", "f"], ["yes", "no"], ["Y", "N"]],
)
def test_columns_takes_what_other_programs_write_for_truths(words: list[str]) -> None:
    yes, no = words
    alike: list[list[Value]] = [
        [
            yes,
            yes.lower(),
            yes.upper(),
            f" {yes} ",
            "True",
            "TRUE",
            "true",
            True,
            1,
            "1",
        ],
        [
            no,
            no.lower(),
            no.upper(),
            f"{no}\u200b",
            "False",
            "FALSE",
            False,
            0,
            0.0,
            "0",
        ],
    ]
    for number, values in enumerate(alike):
        for value in values:
            assert read({"x": value}, "x", x=words) == [number]
    assert read({"x": "perhaps"}, "x", x=words) == [NAN]
    assert read({"x": True}, "x", x=["yes", "no", "maybe"]) == [NAN]


def test_columns_takes_numbers_for_words_that_are_digits() -> None:
    words = ["7", "1.5", "007", "2.0", str(2**60)]
    for value, number in (
        (7, 0),
        (7.0, 0),
        ("7.0", 0),
        (1.5, 1),
        ("007", 2),
        (2, 3),
        ("2", 3),
        (str(2**60), 4),
    ):
        assert read({"x": value}, "x", x=words) == [number]
    for unknown in (2**60, 8, "07", "7.00", True):
        assert read({"x": unknown}, "x", x=words) == [NAN]


def test_columns_takes_booleans_and_large_integers() -> None:
    assert read({"a": True, "b": 2**24, "c": False}, "a", "b", "c") == [1, 2**24, 0]


@pytest.mark.parametrize("large", [1e39, -1e39, 10**400])
@pytest.mark.parametrize("other", [1.0, None])
def test_columns_refuses_what_float32_cannot_hold(large: float, other: Value) -> None:
    with pytest.raises(BadItem, match="column 'b' holds a number beyond float32's"):
        read({"a": other, "b": large}, "a", "b")


@pytest.mark.parametrize("other", [1.0, None])
def test_columns_refuses_a_string_where_a_number_is_needed(other: Value) -> None:
    with pytest.raises(BadItem, match=r"column 'b' holds 'old'; a number is needed"):
        read({"a": other, "b": "old"}, "a", "b")


def obvious(value: Value, words: list[str] | None) -> float:
    """One column, written out."""
    if words is not None:
        return float(words.index(value)) if value in words else math.nan
    return float(value) if isinstance(value, float | int) else math.nan


@given(
    st.dictionaries(st.sampled_from("abcd"), values),
    st.lists(st.sampled_from("abcd"), min_size=1, unique=True),
    st.dictionaries(st.sampled_from("abcd"), st.lists(st.text(), unique=True)),
)
def test_columns_agrees_with_reading_one_by_one(
    record: dict[str, Value], names: list[str], vocabularies: dict[str, list[str]]
) -> None:
    strings = {name for name, value in record.items() if isinstance(value, str)}
    names = [n for n in names if n in vocabularies or n not in strings] or ["none"]
    for known in vocabularies.values():
        known.extend({v for v in record.values() if isinstance(v, str)} - {*known})
    expected = [obvious(record.get(name), vocabularies.get(name)) for name in names]
    found = columns("some", names, vocabularies=vocabularies)(record)
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


def test_columns_refuses_a_column_named_twice() -> None:
    with pytest.raises(BadFeature, match="feature 'x' names 'a' twice"):
        columns("x", ["a", "b", "a"])


def test_columns_refuses_a_word_known_twice() -> None:
    with pytest.raises(BadFeature, match="the vocabulary of 'a' names 'u' twice"):
        columns("x", ["a"], vocabularies={"a": ["u", "u"]})


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "the dates of 'a' are read as no number"),
        (["day", "day"], "the dates of 'a' names 'day' twice"),
    ],
)
def test_columns_refuses_dates_read_as_nothing_or_twice(
    parts: list[Part], message: str
) -> None:
    with pytest.raises(BadFeature, match=message):
        columns("x", ["a"], dates={"a": parts})


def test_columns_refuses_to_be_empty() -> None:
    with pytest.raises(BadFeature, match="feature 'x' needs at least one column"):
        columns("x", [])


def test_columns_refuses_a_negative_cost() -> None:
    with pytest.raises(BadFeature, match="feature 'x' declares -1 usd"):
        columns("x", ["a"], declared={"usd": -1})


def test_learn_texts_gives_the_most_frequent_strings_first() -> None:
    items = [
        record_item({"job": "clerk", "age": 3}),
        record_item({"job": "baker", "age": 4, "city": None}),
        record_item({"job": "clerk"}),
        record_item({"job": "actor"}),
    ]
    found = learn_texts(items, ["job", "age", "city"])
    assert found == ({"job": ("clerk", "actor", "baker")}, {}, {})


def test_learn_texts_finds_columns_of_dates_alone() -> None:
    items = [
        record_item({"a": "2024-05-01", "b": "2024-05-01", "c": "2024-01-01"}),
        record_item({"a": "2024-05-02", "b": "soon", "c": None}),
    ]
    found = learn_texts(items, ["a", "b", "c"])
    assert found.vocabularies == {"b": ("2024-05-01", "soon")}
    assert found.dates == {"a": ("day", "weekday"), "c": ("day",)}


def test_learn_texts_refuses_an_item_that_is_no_record() -> None:
    with pytest.raises(
        BadItem, match="an item of kind 'text' came; a record is needed"
    ):
        learn_texts([text_item("x")], ["a"])


def test_extractor_lets_a_record_s_columns_be_missing() -> None:
    extractor = Extractor.probe([PERSON, columns("pay", ["pay"])], record_item({}))
    row = extractor.extract(record_item({"job": "baker"}))
    assert extractor.widths == (2, 1)
    assert row.tolist() == [NAN, 0.0, NAN]
