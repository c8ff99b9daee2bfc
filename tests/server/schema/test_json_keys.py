"""Keys given twice are found wherever they are, however they are written."""

import json
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput, BadItem
from polydom.features.extract import Extractor
from polydom.features.tables.columns import columns
from polydom.server.schema.json_keys import Twice, twice_in_json
from polydom.server.schema.streams import MsgpackStream
from polydom.server.v1.batch_body import read_item
from polydom.server.v1.decode import decode_request
from tests.support.decoders import decoder_of

HEADERS = {
    "json": ((b"content-type", b"application/json"),),
    "msgpack": ((b"content-type", b"application/msgpack"),),
}
READER = decoder_of(
    Extractor([columns("row", ["a", "b"], vocabularies={"b": ["x", ":"]})], [2])
)

Pairs = list[tuple[str, Any]]


def write(pairs: Pairs) -> str:
    """JSON of an object with these keys, in whose strings colons may be escaped."""
    texts = (
        f"{json.dumps(name)} : {write(value) if isinstance(value, list) else value}"
        for name, value in pairs
    )
    return "{" + ", ".join(texts) + "}"


def pack(pairs: Pairs) -> bytes:
    """The same in msgpack."""
    parts = [bytes([0x80 + len(pairs)])]
    for name, value in pairs:
        packed = pack(value) if isinstance(value, list) else None
        parts += [
            msgpack.packb(name),
            msgpack.packb(json.loads(value)) if packed is None else packed,
        ]
    return b"".join(parts)


def has_twice(pairs: Pairs) -> bool:
    names = [name for name, _ in pairs]
    inside = (value for _, value in pairs if isinstance(value, list))
    return len(set(names)) < len(names) or any(map(has_twice, inside))


words = st.sampled_from(['"x"', '":"', r'"\u003a"', r'"\":"', "null", '"::"'])
people = st.lists(
    st.one_of(
        st.tuples(st.just("a"), st.sampled_from(["1", "null", "2.5"])),
        st.tuples(st.just("b"), words),
    ),
    min_size=1,
    max_size=4,
)
terms = st.lists(
    st.sampled_from(
        [("budget_ms", "5"), ("budget_ms", "null"), ("min_quality", "0.0")]
    ),
    max_size=2,
)
one_item = st.one_of(
    people.map(lambda person: ("record", person)),
    words.map(lambda word: ("text", word)),
)
asks = st.tuples(terms, st.lists(one_item, min_size=1, max_size=2), terms).map(
    lambda parts: [*parts[0], *parts[1], *parts[2]]
)


def refused(headers: Any, body: bytes) -> bool:
    try:
        decode_request(headers, b"", body, "text")
    except (BadInput, BadItem) as error:
        return str(error).endswith("is given twice")
    return False


@given(asks)
def test_twice_is_refused_and_nothing_else(pairs: Pairs) -> None:
    body, packed = write(pairs).encode(), pack(pairs)
    assert (twice_in_json(body) != Twice()) == has_twice(pairs)
    assert twice_in_json(packed, packed=True) == twice_in_json(body)
    assert refused(HEADERS["json"], body) == has_twice(pairs)
    assert refused(HEADERS["msgpack"], packed) == has_twice(pairs)


@given(asks)
def test_reader_reads_nothing_that_has_a_key_twice(pairs: Pairs) -> None:
    found = READER.read(write(pairs).encode())
    names = [name for name, _ in pairs]
    assert found is None or (not has_twice(pairs) and "text" not in names)
    assert found is not None or has_twice(pairs) or "text" in names


@given(st.lists(one_item, min_size=1, max_size=2))
def test_item_of_a_batch_has_no_key_twice(pairs: Pairs) -> None:
    (split,) = MsgpackStream(1000).feed(pack(pairs))
    for raw, packed in ((write(pairs).encode(), False), (split, True)):
        if has_twice(pairs):
            with pytest.raises((BadInput, BadItem), match=r"is given twice$"):
                read_item(raw, packed=packed)
        else:
            read_item(raw, packed=packed)


def test_what_is_read_is_as_deep_and_large_as_decoders_allow() -> None:
    number = b"9" * 5000
    assert twice_in_json(b'{"a": %b, "b": 1e999, "\\u0061": NaN}' % number).any == "a"
    assert twice_in_json(b"\x82\xff\x01\xff\x02", packed=True) == Twice("-1")
    assert twice_in_json(b'{"a": {"b": 1, "b": 2}, "c": {}}') == Twice(None, "b")
    deep = 10_000
    with pytest.raises(BadInput, match="nested too deeply"):
        twice_in_json(b"[" * deep + b"]" * deep)
    with pytest.raises(BadInput, match="nested too deeply"):
        twice_in_json(b"\x91" * deep + b"\x00", packed=True)
