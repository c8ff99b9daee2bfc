"""What a long body holds is found out before it is decoded, and never wrongly."""

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.features.errors import BadInput, BadItem
from polydom.server.schema import bounds
from polydom.server.schema.bounds import (
    LARGE,
    MOST_KEYS,
    USUAL_COLUMNS,
    arrays_in,
    check_body,
    check_record,
    items_in,
    strings_at_most,
)
from tests.support.examples import few


def encoded(ask: Any, packed: bool) -> bytes:
    return msgspec.msgpack.encode(ask) if packed else json.dumps(ask).encode()


strings = st.text('\\"a:,{[', max_size=9)
cells = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), strings)
everything = st.recursive(
    cells, lambda inner: st.one_of(st.lists(inner), st.dictionaries(strings, inner))
)


@given(st.dictionaries(st.text(), cells, min_size=1), st.booleans())
def test_honest_records_pass_whatever_is_in_their_strings(
    record: dict[str, Any], packed: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "LARGE", 0)
        body = encoded({"record": record, "budget_ms": 5}, packed)
        check_body(body, packed=packed, columns=len(record))


@given(everything)
def test_no_document_has_more_strings_than_are_counted(document: Any) -> None:
    def count(value: Any) -> int:
        if isinstance(value, dict):
            return len(value) + sum(map(count, value.values()))
        if isinstance(value, list):
            return sum(map(count, value))
        return isinstance(value, str)

    assert count(document) <= strings_at_most(json.dumps(document).encode())


@settings(max_examples=few(40))
@given(st.lists(everything, min_size=1), st.integers(4, 60), st.booleans())
def test_items_and_arrays_are_counted_whatever_is_in_strings(
    items: list[Any], piece: int, pretty: bool
) -> None:
    def count(value: Any) -> int:
        if isinstance(value, dict):
            return sum(map(count, value.values()))
        return 1 + sum(map(count, value)) if isinstance(value, list) else 0

    raw = json.dumps(items, indent=2 if pretty else None, ensure_ascii=pretty).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "PIECE", piece)  # cut anywhere, also within an escape
        assert items_in(raw, 1 << 30) == len(items)
        assert arrays_in(raw) == count(items)
        assert items_in(raw, len(items) - 1) >= len(items)


@pytest.mark.parametrize("inner", [b'"\\\\"', b'"\\""', b'""', b"{}", b"[],[]", b'","'])
def test_a_long_array_is_counted_in_short_pieces_and_in_little_time(
    inner: bytes,
) -> None:
    """All of them take far less than what reading the array takes."""
    raw = b"[%b]" % b",".join([inner] * ((8 << 20) // (len(inner) + 1)))
    pieces = list(bounds._outside_strings(raw))
    assert max(piece.size for piece in pieces) <= bounds.PIECE + 1
    began_s = time.thread_time()
    assert items_in(raw, 1 << 16) > 1 << 16
    assert time.thread_time() - began_s < 2


@pytest.mark.parametrize("columns", [14, USUAL_COLUMNS])
def test_records_of_more_columns_than_there_are_do_not_pass(columns: int) -> None:
    record = {f'c"\\{k}': 1.5 for k in range(5 * USUAL_COLUMNS)}
    body = encoded({"record": record}, False)
    with pytest.raises(BadItem, match=f"than {columns:,} columns have"):
        check_body(body, packed=False, columns=columns)
    with pytest.raises(BadItem, match=f"than {columns:,} columns have"):
        check_record(encoded(record, False), columns=columns)


def test_keys_given_again_and_again_are_counted_each_time() -> None:
    again = b",".join([b'"record":{"a":1}'] * 20_000)
    with pytest.raises(BadItem, match="more names and texts"):
        check_body(b"{%b}" % again, packed=False, columns=14)
    pairs = msgspec.msgpack.encode("record") + b"\x80"
    for count, passes in ((MOST_KEYS, True), (MOST_KEYS + 1, False), (20_000, False)):
        body = b"\xde" + count.to_bytes(2, "big") + pairs * 20_000
        if passes:
            check_body(body, packed=True, columns=14)
            continue
        with pytest.raises(BadInput, match=f"an object of {count:,} keys came"):
            check_body(body, packed=True, columns=14)


@pytest.mark.parametrize("packed", [False, True])
def test_long_texts_pass_and_what_is_no_object_is_left_to_the_decoder(
    packed: bool,
) -> None:
    for ask in ({"text": "a\n" * LARGE}, "a" * 2 * LARGE, [1] * 2 * LARGE):
        check_body(encoded(ask, packed), packed=packed, columns=1)


def test_short_bodies_are_not_looked_at() -> None:
    many = b'"' * LARGE
    check_body(many, packed=False, columns=1)
    check_record(many, columns=1)
    with pytest.raises(BadItem, match="more names and texts"):
        check_record(many + b'"', columns=1)
