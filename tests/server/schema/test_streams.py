"""Streams split into items, wherever they are cut."""

import itertools
import json
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput, PolydomError
from polydom.server.errors import TooLarge
from polydom.server.schema.streams import JsonLines, MsgpackStream, Stream
from polydom.server.v1.batch_body import read_item

texts = st.lists(st.text(max_size=20), max_size=6)
cuts = st.lists(st.integers(0, 200), max_size=6)


def pieces(data: bytes, at: list[int]) -> list[bytes]:
    ends = [0, *sorted(min(place, len(data)) for place in at), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(ends)]


def split(splitter: Stream, data: list[bytes]) -> list[Any]:
    found: list[Any] = []
    for piece in data:
        found += splitter.feed(piece)
    return [*found, *splitter.finish()]


@given(texts, cuts, st.booleans())
def test_json_lines_are_split_alike_wherever_the_stream_is_cut(
    items: list[str], at: list[int], ends: bool
) -> None:
    data = "\r\n\n".join(json.dumps({"text": text}) for text in items).encode()
    found = split(JsonLines(1000), pieces(data + b"\n" * ends, at))
    assert [read_item(line).text for line in found] == items


@given(texts, cuts)
def test_msgpack_is_split_alike_wherever_the_stream_is_cut(
    items: list[str], at: list[int]
) -> None:
    data = b"".join(msgpack.packb({"text": text}) for text in items)
    found = split(MsgpackStream(1000), pieces(data, at))
    assert [read_item(plain, packed=True).text for plain in found] == items


@pytest.mark.parametrize("size", [100, 5000])
def test_an_item_over_the_limit_ends_the_stream(size: int) -> None:
    long = {"text": "x" * size}
    for splitter, data in (
        (JsonLines(90), json.dumps(long).encode() + b"\n"),
        (MsgpackStream(90), msgpack.packb(long)),
    ):
        for cut in (len(data), 7):
            parts = [data[k : k + cut] for k in range(0, len(data), cut)]
            with pytest.raises(TooLarge, match="limit of 90 bytes"):
                split(type(splitter)(90), parts)


def test_an_item_exactly_at_the_limit_is_split_off() -> None:
    line = json.dumps({"text": "x" * 50}).encode()
    assert split(JsonLines(len(line)), [line + b"\n", line]) == [line, line]


@pytest.mark.parametrize(
    "data",
    [
        b"\xc1",
        b"\xdf\xff\xff\xff\xff",
        b"\x91" * 5000 + b"\x01",
        b"\x81\xa1a",
    ],
)
def test_what_is_no_msgpack_is_refused_and_allocates_nothing(data: bytes) -> None:
    with pytest.raises(PolydomError):
        split(MsgpackStream(1 << 20), [data])


@pytest.mark.parametrize(
    "raw",
    [
        msgpack.packb(7),
        msgpack.packb({"text": 7}),
        msgpack.packb({1: 2}),
        msgpack.packb(msgpack.ExtType(5, b"x")),
        b"\x91" * 400 + b"\x01",
        b"\xa2\xff\xfe",
        b"\x81\xa4text\xa2\xff\xfe",
    ],
)
def test_what_is_no_item_is_refused_in_its_place(raw: bytes) -> None:
    (piece,) = split(MsgpackStream(1 << 20), [raw])
    assert piece == raw
    with pytest.raises(BadInput, match="item: "):
        read_item(piece, packed=True)
