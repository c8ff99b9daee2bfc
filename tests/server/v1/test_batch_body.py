"""The body of a batch: its terms and items, and how long they are waited for."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgpack
import pytest

from polydom.features.errors import BadInput
from polydom.server.batch.batch_budget import CHUNK
from polydom.server.errors import ReceiveTimeout, TooLarge, UnsupportedEncoding
from polydom.server.runtime.admission_control.admission import HeldBytes
from polydom.server.schema.streams import JsonLines
from polydom.server.schema.wire import BatchTerms
from polydom.server.v1 import batch_body
from polydom.server.v1.batch_body import (
    BatchReader,
    content_type_of,
    cut,
    read_batch,
    read_item,
    read_object,
    read_terms,
)

HELD = HeldBytes(1 << 20).body()


def test_source_waits_no_longer_than_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_body, "RECEIVE_S", 0.01)
    told: list[int] = []

    async def receive() -> Any:
        if told == [0]:
            told.append(1)
            return {
                "type": "http.request",
                "body": b'{"text":"x"}\n{',
                "more_body": True,
            }
        await asyncio.Event().wait()

    async def run() -> list[Any]:
        reader = BatchReader(
            {"state": {"stop_timer": lambda: told.append(0)}}, receive, HELD
        )
        chunks = reader.chunks(JsonLines(99))
        found = await anext(chunks)
        with pytest.raises(ReceiveTimeout, match="no whole item came for"):
            await anext(chunks)
        return found

    assert asyncio.run(run()) == [b'{"text":"x"}']


async def listed(chunks: AsyncIterator[list[Any]]) -> list[list[Any]]:
    return [chunk async for chunk in chunks]


def test_a_stream_and_one_piece_come_in_chunks_of_the_same_size() -> None:
    count = 2 * CHUNK + 3
    body = b"".join(b"{}\n" for _ in range(count))

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    stream = listed(BatchReader({}, receive, HELD).chunks(JsonLines(99)))
    lengths = [CHUNK, CHUNK, 3]
    assert [len(chunk) for chunk in asyncio.run(stream)] == lengths
    assert [len(c) for c in asyncio.run(listed(cut([b"{}"] * count)))] == lengths
    assert asyncio.run(listed(cut([]))) == []


def test_source_waits_for_whole_items_and_not_for_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_body, "RECEIVE_S", 0.05)
    sent: list[bytes] = []

    async def receive() -> Any:
        await asyncio.sleep(0.005)
        sent.append(b"x")
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def run() -> None:
        reader = BatchReader({}, receive, HELD)
        with pytest.raises(ReceiveTimeout, match="no whole item came for"):
            await anext(reader.chunks(JsonLines(1 << 20)))

    asyncio.run(run())
    assert sent


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b'"x"',
        b'{"text":1}',
        b'{"txt":"x"}',
        b'{"text":"x","budget_ms":1}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_what_is_no_item_is_refused(raw: bytes) -> None:
    with pytest.raises(BadInput, match="item: "):
        read_item(raw)


def test_images_are_their_own_bytes_in_msgpack_and_base64_in_json() -> None:
    packed = msgpack.packb({"image_base64": b"\xff\xd8"})
    assert read_item(packed, packed=True).image_base64 == b"\xff\xd8"
    assert read_item(b'{"image_base64":"/9g="}').image_base64 == b"\xff\xd8"


def test_terms_are_read_from_the_query() -> None:
    query = b"budget_ms=5.5&count=3&on_bad_item=stop&label=a%20b&top=2&model=m"
    assert read_terms(query) == BatchTerms(
        budget_ms=5.5, count=3, on_bad_item="stop", label="a b", top=2, model="m"
    )
    assert read_terms(b"") == BatchTerms()
    for bad in (b"top=0", b"top=x", b"what=1", b"count=1&count=1", b"label=\xff"):
        with pytest.raises(BadInput):
            read_terms(bad)


def test_terms_of_one_object_are_in_it_or_in_the_query() -> None:
    body = b'{"items": [{"text": "a"}], "budget_ms": 5, "on_bad_item": "stop"}'

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    def read(query: bytes) -> tuple[Any, ...]:
        reader = BatchReader({}, receive, HELD)
        terms, _ = asyncio.run(read_batch(reader, "application/json", query, 99))
        return terms.budget_ms, terms.on_bad_item, terms.model, terms.count

    assert read(b"model=m") == (5.0, "stop", "m", 1)
    with pytest.raises(BadInput, match=r"^on_bad_item is given twice$"):
        read(b"on_bad_item=skip")
    with pytest.raises(BadInput, match=r"^budget_ms is given twice$"):
        read(b"budget_ms=5")
    with pytest.raises(TooLarge, match=r"limit of 9 bytes; send a stream$"):
        asyncio.run(
            read_batch(BatchReader({}, receive, HELD), "application/json", b"", 9)
        )


def _object(item: bytes, count: int) -> bytes:
    return b'{"items":[%b]}' % b",".join([item] * count)


def test_one_object_holds_as_many_records_as_the_limit_says() -> None:
    record = b'{"record":{"a":1,"b":2}}'
    read = read_object(_object(record, batch_body.MOST_ITEMS))
    assert len(read.items) == batch_body.MOST_ITEMS


@pytest.mark.parametrize("count", [1 + batch_body.MOST_ITEMS, 400_000])
def test_one_object_holds_no_more_items_than_the_limit_says(count: int) -> None:
    with pytest.raises(BadInput, match="up to 65,536 items; send a stream"):
        read_object(_object(b"{}", count))


def test_one_object_holds_few_texts_of_whatever_signs() -> None:
    text = json.dumps({"text": '{"a": [1, 2, {}], "b": "\\\\"}, ' * 1_200}).encode()
    assert len(read_object(_object(text, 66)).items) == 66


def test_content_type_is_read_without_its_parameters() -> None:
    assert content_type_of([(b"content-type", b"Application/JSONL; x=y")]) == (
        "application/jsonl"
    )
    assert content_type_of([(b"content-type", b"text/json")]) == "application/json"
    form = (b"content-type", b"application/x-www-form-urlencoded")  # of curl -d
    assert content_type_of([form]) == "application/json"
    assert content_type_of([(b"content-encoding", b" Identity ")]) == "application/json"
    with pytest.raises(BadInput, match="content-type is given twice"):
        content_type_of([(b"content-type", b"application/jsonl")] * 2)
    with pytest.raises(UnsupportedEncoding, match="compressed"):
        content_type_of([(b"content-encoding", b"br")])
