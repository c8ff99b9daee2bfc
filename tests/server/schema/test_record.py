"""A column holds a number, a text, a truth value or nothing; all else is refused."""

import json
import time
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput, BadItem
from polydom.server.schema.bounds import LARGE
from polydom.server.schema.record import MOST_COLUMNS, decode_record
from polydom.server.v1.batch_body import read_item
from polydom.server.v1.decode import decode_request

KINDS = {
    False: ("application/json", None),
    True: ("application/msgpack", None),
}
EIGHT_MB = 8 << 20
# Decoding stops where a container begins; to build what follows took seconds.
SOON_S = 0.5

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
containers = st.recursive(
    st.one_of(st.lists(scalars), st.dictionaries(st.text(), scalars)),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
)


def encoded(ask: Any, packed: bool) -> bytes:
    return msgpack.packb(ask) if packed else json.dumps(ask).encode()


@given(st.dictionaries(st.text(), scalars), st.booleans())
def test_columns_come_as_they_were_sent(record: dict[str, Any], packed: bool) -> None:
    body = encoded({"record": record}, packed)
    asks = (
        decode_request(KINDS[packed], b"", body, None),
        read_item(body, packed=packed, columns=10),
    )
    for ask in asks:
        assert ask.record == record
        assert [*map(type, ask.record.values())] == [*map(type, record.values())]
    assert decode_record(json.dumps(record)) == record


@given(
    st.dictionaries(st.text(), scalars), st.text(max_size=90), containers, st.booleans()
)
def test_a_column_that_holds_a_container_is_named(
    record: dict[str, Any], name: str, value: Any, packed: bool
) -> None:
    record = {**record, name: value}
    kind = "a list" if isinstance(value, list) else "a dict"
    body = encoded({"record": record, "budget_ms": 5}, packed)
    said = str(BadItem(f"column {name[:80]!r} holds {kind}; a number, a string"))
    for read in (
        lambda: decode_request(KINDS[packed], b"", body, None),
        lambda: read_item(
            encoded({"record": record}, packed), packed=packed, columns=9
        ),
        lambda: decode_record(json.dumps(record)),
    ):
        with pytest.raises(BadItem) as caught:
            read()
        assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"\x00", "a bytes"),
        (b"\x00" * 300, "a bytes"),
        (msgpack.ExtType(5, b"a"), "a ext|a ExtType"),
        (msgpack.Timestamp(1), "a ext|a ExtType"),
        ([1] * 20, "a list"),
        ({str(k): k for k in range(20)}, "a dict"),
    ],
)
def test_what_only_msgpack_has_is_named_too(value: Any, kind: str) -> None:
    body = msgpack.packb({"record": {"a": 1, "b": value}})
    with pytest.raises(BadItem, match=f"column 'b' holds {kind};"):
        decode_request(KINDS[True], b"", body, None)


def fill(piece: bytes, end: bytes = b"") -> bytes:
    return piece * ((EIGHT_MB - 100) // len(piece)) + end


PACKED_RECORD = b"\x81" + msgpack.packb("record")
LONG = {
    "lists": (False, b'{"record":{"a":[%b}}' % fill(b"[],", b"1]")),
    "objects": (False, b'{"record":{"a":[%b}}' % fill(b"{},", b"1]")),
    "deep": (False, b'{"record":{"a":%b}}' % fill(b"[")),
    "numbers": (False, b'{"record":{"a":[%b}}' % fill(b"1,", b"1]")),
    "columns": (False, b'{"record":{%b}}' % fill(b'"a":1,', b'"a":1')),
    "records": (False, b"{%b}" % fill(b'"record":{},', b'"record":{}')),
    "a list of records": (False, b'{"record":[%b}' % fill(b"{},", b"1]")),
    "lists of nothing": (False, fill(b"[")),
    "packed lists": (
        True,
        PACKED_RECORD + b"\x81\xa1a\xdd\x00\x7f\xff\x00" + fill(b"\x90"),
    ),
    "packed maps": (
        True,
        PACKED_RECORD + b"\x81\xa1a\xdd\x00\x7f\xff\x00" + fill(b"\x80"),
    ),
    "packed columns": (
        True,
        PACKED_RECORD + b"\xdf\x00\x20\x00\x00" + fill(b"\xa1a\x01"),
    ),
    "packed records": (
        True,
        b"\xdf\x00\x08\x00\x00" + fill(msgpack.packb("record") + b"\x80"),
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_eight_megabytes_are_refused_before_they_are_built(name: str) -> None:
    packed, body = LONG[name]
    began_s = time.thread_time()
    with pytest.raises((BadInput, BadItem)):
        decode_request(KINDS[packed], b"", body, "record", 14)
    with pytest.raises((BadInput, BadItem)):
        read_item(body, packed=packed, columns=14)
    assert time.thread_time() - began_s < SOON_S


def test_msgpack_says_how_many_columns_come() -> None:
    for count in (MOST_COLUMNS, MOST_COLUMNS + 1):
        body = PACKED_RECORD + b"\xdf" + count.to_bytes(4, "big")
        body += b"".join(msgpack.packb(str(k)) + b"\x01" for k in range(count))
        if count == MOST_COLUMNS:
            ask = decode_request(KINDS[True], b"", body, None)
            assert len(ask.record or ()) == count
            continue
        with pytest.raises(BadItem, match=f"more than {MOST_COLUMNS:,} columns"):
            decode_request(KINDS[True], b"", body, None)


def test_of_long_records_the_column_is_not_looked_for() -> None:
    body = b'{"record":{"a":"%b","b":[]}}' % (b"x" * LARGE)
    with pytest.raises(BadItem, match="a column holds a list; a number"):
        decode_request(KINDS[False], b"", body, None)


def test_what_is_no_object_is_no_record() -> None:
    for data, came in (("1", "int"), ("[]", "list"), ('"a"', "str"), ("null", "None")):
        with pytest.raises(BadItem, match=f"a record was expected, not {came}"):
            decode_record(data)
    for broken in ("", '{"a":', '{"a":1},"b":2'):
        with pytest.raises(msgspec.DecodeError):
            decode_record(broken)
