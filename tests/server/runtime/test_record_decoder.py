"""A record read at once has the columns that its features would have read."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadItem, PolydomError
from polydom.features.extract import Extractor
from polydom.features.feature import feature
from polydom.features.items import Gaps, Item, ReadRecord, record_item
from polydom.features.tables.column_features import columns
from polydom.features.tables.exact_numbers import Shift
from tests.support.decoders import decoder_of

SHIFTS = {"a": Shift(1e9), "c": Shift(-2.0, 2.0**100)}
EXTRACTOR = Extractor(
    [
        columns("first", ["a", "b"], vocabularies={"b": ["no", "yes"]}),
        columns("second", ["c", "a"]),
    ],
    [2, 2],
)
DATED = Extractor(
    [
        columns(
            "all",
            ["a", "b", "c"],
            vocabularies={"b": ["false", "true"]},
            dates={"c": ["day", "hour"]},
        )
    ],
    [4],
)
MOVED = Extractor(
    [
        columns("first", ["a", "b"], vocabularies={"b": ["no"]}, shifts=SHIFTS),
        columns("second", ["c", "a"], shifts=SHIFTS),
    ],
    [2, 2],
)
PLAIN = Extractor([columns("row", ["a", "b"])], [2])


def read(extractor: Extractor, body: bytes) -> Any:
    return decoder_of(extractor).read(body)


def row_of(found: Any) -> list[float]:
    return list(found[1].tolist())


texts = ["no", "yes", "x", "true", "2024-05-01T12:30:00", "2024-05-01"]
values = st.one_of(
    st.none(), st.sampled_from(texts), st.integers(), st.floats(), st.booleans()
)


@pytest.mark.parametrize("extractor", [EXTRACTOR, DATED, MOVED, PLAIN])
@given(st.dictionaries(st.sampled_from("abcd"), values))
def test_row_is_that_of_the_features(extractor: Extractor, record: Any) -> None:
    body = json.dumps({"record": record}).encode()
    found = read(extractor, body)
    known = {"a", "b"} if extractor is PLAIN else {"a", "b", "c"}
    usable = record and known.issuperset(record) and b"NaN" not in body
    try:
        expected = extractor.extract(record_item(record))
    except PolydomError:
        usable = False
    if not usable or b"Infinity" in body:
        assert found is None
    elif found is not None:  # an unusual value may be left to the ordinary way
        np.testing.assert_array_equal(row_of(found), expected)


@pytest.mark.parametrize(
    "name", ['height (")', "a\\b", "two\nlines", "é ü 漢", " a", ""]
)
def test_any_text_is_a_name(name: str) -> None:
    extractor = Extractor([columns("row", [name, "b"])], [2])
    record = {name: 1.5, "b": 2}
    found = read(extractor, json.dumps({"record": record}).encode())
    assert found is None or row_of(found) == [1.5, 2]
    payload = decoder_of(extractor).item(record).payload
    assert isinstance(payload, ReadRecord)
    assert payload.row.tolist() == [1.5, 2]


def test_usual_records_are_read() -> None:
    full = read(PLAIN, b'{"record": {"b": 2.5, "a": 1}, "budget_ms": 5}')
    assert row_of(full) == [1, 2.5]
    assert (full[0].budget_ms, full[0].model) == (5, None)
    assert full[2] is None
    gaps = read(PLAIN, b'{"record": {"b": null}}')
    assert np.isnan(row_of(gaps)).all()
    assert gaps[2] == Gaps((), 0b11, 0b1)
    words = read(EXTRACTOR, b'{"record": {"a": 7, "b": "yes", "c": 2}}')
    assert row_of(words) == [7, 1, 2, 7]


def test_dates_and_booleans_are_read_and_what_is_none_is_told() -> None:
    body = b'{"record": {"a": 1, "b": "true", "c": "2024-05-01T12:30:00"}}'
    found = read(DATED, body)
    noon = 19_844 + 12.5 / 24
    assert row_of(found) == [1, 1, np.float32(noon), 12]
    assert found[2] is None
    decoder = decoder_of(DATED)
    spoken = decoder.item({"a": 1, "b": True, "c": "2024-05-01T12:30:00"})
    assert isinstance(spoken.payload, ReadRecord)
    assert spoken.payload.row.tolist() == row_of(found)
    found = read(DATED, b'{"record": {"a": 1, "b": "x", "c": "soon"}}')
    assert found[2] == Gaps(("b", "c"))
    assert np.isnan(row_of(found)[1:]).all()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"record": {}}', id="no columns"),
        pytest.param(b'{"record": {"a": 1, "d": 1}}', id="an unknown column"),
        pytest.param(b'{"record": {"a": "1"}}', id="a string for a number"),
        pytest.param(b'{"record": {"a": 1e39}}', id="beyond float32"),
        pytest.param(b'{"record": {"a": true}}', id="a boolean"),
        pytest.param(b'{"record": {"a": 1}, "text": "x"}', id="two items"),
        pytest.param(b'{"budget_ms": 5}', id="no item"),
        pytest.param(b'{"record": {"a": 1}', id="cut off"),
        pytest.param(b"", id="empty"),
        pytest.param(b'{"record": {"a": 1}, "on_infeasible": "x"}', id="odd terms"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b'{"record": {"\xff": 1}}', id="no UTF-8"),
    ],
)
def test_what_is_not_usual_is_left_to_the_ordinary_way(body: bytes) -> None:
    assert read(PLAIN, body) is None


def test_features_that_are_functions_need_more_than_the_row() -> None:
    @feature(kind="record")
    def double(record: Any) -> list[float]:
        return [2 * record["a"]]

    words = columns("row", ["a", "b", "c"], vocabularies={"b": ["no", "yes"]})
    decoder = decoder_of(Extractor([words, double], [3, 1]))
    assert not decoder.whole
    assert decoder_of(EXTRACTOR).whole
    records: list[tuple[dict[str, Any], Gaps | None]] = [
        ({"a": 1, "b": "yes", "c": 2, "d": 3}, None),
        ({"a": 1, "b": "x", "c": 2}, Gaps(("b",))),
        ({"a": 1, "d": 3}, Gaps((), 0b110)),
        ({"d": 3}, Gaps((), 0b111, 0b01)),  # the other feature may read any column
    ]
    for record, gaps in records:
        assert decoder.item(record) == Item("record", record, 1.0, gaps)
    with pytest.raises(BadItem, match="column 'a' holds 'one'"):
        decoder.item({"a": "one"})


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**70), 10**300])
def test_an_integer_in_a_column_of_words_is_unknown(number: int) -> None:
    item = decoder_of(EXTRACTOR).item({"a": 1, "b": number, "c": 2})
    assert item.gaps == Gaps(("b",))


def test_an_integer_beyond_all_floats_is_refused_in_every_column() -> None:
    for name, most in (("a", "float32's largest"), ("b", "float64's largest")):
        with pytest.raises(BadItem, match=f"column '{name}' holds .* beyond {most}"):
            decoder_of(EXTRACTOR).item({"a": 1, "b": "no", "c": 2, name: 10**400})
