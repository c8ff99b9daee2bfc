"""What a long body holds is found out before it is decoded, and never wrongly."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput, BadItem
from polydom.features.items import Kind
from polydom.server.schema import bounds
from polydom.server.schema.bounds import (
    LARGE,
    MOST_COLUMNS,
    TERMS,
    check_item,
    check_record,
)

KINDS: dict[Kind, str] = {"text": "text", "record": "record", "image": "image_base64"}


def encoded(ask: Any, packed: bool) -> bytes:
    return msgspec.msgpack.encode(ask) if packed else json.dumps(ask).encode()


@given(
    st.dictionaries(
        st.text(),
        st.one_of(
            st.none(),
            st.floats(allow_nan=False, allow_infinity=False),
            st.text('\\"a:,{[', max_size=9),
        ),
        min_size=1,
    ),
    st.booleans(),
)
def test_honest_records_pass_whatever_is_in_their_strings(
    record: dict[str, Any], packed: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "LARGE", 0)
        body = encoded({"record": record, "budget_ms": 5}, packed)
        check_item(body, packed=packed, kind="record", columns=len(record))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("columns", [14, 0])
def test_records_of_more_columns_than_there_are_do_not_pass(
    columns: int, packed: bool
) -> None:
    record = {f'c"\\{k}': 1.5 for k in range(5 * MOST_COLUMNS)}
    body = encoded({"record": record}, packed)
    with pytest.raises(BadItem, match="has more columns than the"):
        check_item(body, packed=packed, kind="record", columns=columns)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_only_items_of_the_kind_pass(kind: Kind, other: Kind, packed: bool) -> None:
    long: Any = "a\n" * LARGE if other != "record" else {"a": "b" * 2 * LARGE}
    body = encoded({KINDS[other]: long, "on_infeasible": "error"}, packed)
    if kind == other:
        check_item(body, packed=packed, kind=kind, columns=1)
        return
    with pytest.raises(BadItem, match=f"one {kind} per request: give '{KINDS[kind]}'"):
        check_item(body, packed=packed, kind=kind, columns=1)


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_beside_the_item_is_short(packed: bool) -> None:
    body = encoded({"text": "a", "model": "m" * LARGE}, packed)
    with pytest.raises(BadInput, match=f"beside the item; up to {TERMS:,}"):
        check_item(body, packed=packed, kind="text", columns=0)


def test_an_item_given_twice_is_counted_twice() -> None:
    record = b"{%b}" % b",".join(b'"%d":1' % k for k in range(20_000))
    body = b'{"record":%b,"record":{"a":1}}' % record
    with pytest.raises(BadInput, match="beside the item"):
        check_item(body, packed=False, kind="record", columns=14)


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_malformed_is_refused_as_such(packed: bool) -> None:
    for body in (
        b"\xc1" * 2 * LARGE,
        b"[" * 2 * LARGE,
        b'{"text":"' + b"a" * 2 * LARGE,
    ):
        with pytest.raises(BadInput, match="body: "):
            check_item(body, packed=packed, kind="text", columns=0)


def test_short_bodies_are_not_looked_at() -> None:
    check_item(b"what is this", packed=False, kind="text", columns=0)
    check_record(b"{" * LARGE, columns=1)
    padded = b'{"text":"a"}' + b" " * 2 * LARGE
    check_item(padded, packed=False, kind="text", columns=0)
