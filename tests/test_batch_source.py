"""The body of a batch as it comes in, and how long it is waited for."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from polydom.server import batch_source
from polydom.server.admission import Intake
from polydom.server.batch_source import CHUNK, Source, cut
from polydom.server.batch_wire import JsonLines
from polydom.server.errors import ReceiveTimeout

HELD = Intake(1 << 20).body()


def test_source_waits_no_longer_than_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_source, "RECEIVE_S", 0.01)
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
        source = Source(
            {"state": {"wait_no_more": lambda: told.append(0)}}, receive, HELD
        )
        chunks = source.chunks(JsonLines(99))
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

    stream = listed(Source({}, receive, HELD).chunks(JsonLines(99)))
    lengths = [CHUNK, CHUNK, 3]
    assert [len(chunk) for chunk in asyncio.run(stream)] == lengths
    assert [len(c) for c in asyncio.run(listed(cut(list(range(count)))))] == lengths
    assert asyncio.run(listed(cut([]))) == []


def test_source_waits_for_whole_items_and_not_for_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_source, "RECEIVE_S", 0.05)
    sent: list[bytes] = []

    async def receive() -> Any:
        await asyncio.sleep(0.005)
        sent.append(b"x")
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def run() -> None:
        source = Source({}, receive, HELD)
        with pytest.raises(ReceiveTimeout, match="no whole item came for"):
            await anext(source.chunks(JsonLines(1 << 20)))

    asyncio.run(run())
    assert sent
