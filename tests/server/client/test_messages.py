"""What the clients write and read, as bytes."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput, NothingFits, PolydomError
from polydom.server.client.messages import (
    AHEAD_BYTES,
    LAST_CHUNK,
    Address,
    BatchExchange,
    FromBatch,
    HttpResponse,
    NoAnswer,
    chunk_of,
    error_of,
)
from polydom.server.errors import STATUSES, TooLittleLeft, UnknownModel
from polydom.server.schema.wire import Entry, ErrorEntry, Totals

ADDRESS = Address("http://x:1", None)
TOTALS = {
    "items": 0,
    "errors": 0,
    "expected_quality": None,
    "expected_accuracy": None,
    "budget_met": True,
}


def test_address_writes_requests_for_its_host_and_path() -> None:
    terms = {"budget_ms": 5, "model": "a b", "budget": None}
    address = Address("http://h:81/x/", "secret")
    request = address.request("POST", "/v1/predict", terms, b"x", "t")
    assert request.split(b"\r\n") == [
        b"POST /x/v1/predict?budget_ms=5&model=a%20b HTTP/1.1",
        b"host: h:81",
        b"authorization: Bearer secret",
        b"content-length: 1",
        b"content-type: t",
        b"",
        b"x",
    ]
    assert Address("https://h", None).port == 443
    assert b"host: [::1]:80\r\n" in Address("http://[::1]", None).head("GET", "/", {})


NONE = ["h:80", "ftp://h", "http://", "http://h:x", "http://[x", "http://h/a b"]


@pytest.mark.parametrize("url", NONE)
def test_address_refuses_what_is_none(url: str) -> None:
    with pytest.raises(BadInput, match="no address such as"):
        Address(url, None)


@pytest.mark.parametrize("token", ["a\r\nb: c", "ä"])
def test_address_refuses_a_token_that_no_header_holds(token: str) -> None:
    with pytest.raises(BadInput, match="ASCII"):
        Address("http://h", token)


def test_response_is_read_however_it_is_cut() -> None:
    whole = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"
        b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    )
    for size in (1, 7, len(whole)):
        response, body = HttpResponse(), b""
        for start in range(0, len(whole), size):
            assert not response.complete
            response.feed(whole[start : start + size])
            body += response.take()
        assert (response.status, body, response.complete) == (200, b"abcde", True)
        assert response.lasting


def test_every_error_of_the_wire_comes_back_as_its_own_class() -> None:
    for status in STATUSES:
        for kind in status.errors:
            body = json.dumps({"error": "why", "code": kind.code}).encode()
            error = error_of(status.number, body)
            assert type(error) is kind
            assert str(error) == "why"
    assert issubclass(TooLittleLeft, NothingFits)
    unknown = error_of(418, b'{"error":"tea","code":"teapot"}')
    assert type(unknown) is NoAnswer
    assert isinstance(
        error_of(404, b'{"error":"","code":"unknown_model"}'), UnknownModel
    )
    assert isinstance(error_of(502, b"<html>"), PolydomError)


def test_entries_are_told_apart_by_what_they_hold() -> None:
    answer = {
        "item": 0,
        "label": "a",
        "scores": {"a": 1.0},
        "features": [],
        "expected_quality": 0.5,
        "expected_accuracy": 0.5,
        "reason": None,
        "budget_met": True,
        "actual_us": 1.0,
        "queue_us": 1.0,
        "elapsed_us": 1.0,
        "index_version": "",
    }
    error = {"item": 1, "error": "why", "code": "bad_item"}
    totals = {
        "items": 2,
        "errors": 1,
        "expected_quality": 0.5,
        "expected_accuracy": 0.5,
        "budget_met": True,
    }
    plain = (answer, error, totals)
    lines = b"".join(json.dumps(entry).encode() + b"\n" for entry in plain)
    packed = b"".join(msgpack.packb(entry) for entry in plain)
    for kind, data in (("application/jsonl", lines), ("application/msgpack", packed)):
        found = [*BatchExchange(ADDRESS, {}, kind).feed(reply("200 OK", data))]
        assert [type(entry) for entry in found] == [Entry, ErrorEntry, Totals]
        # fields of the other unit of costs are not there, and are not shown
        assert [repr(entry) for entry in found] == [
            "Entry(label='a', scores={'a': 1.0}, features=(), expected_quality=0.5, "
            "expected_accuracy=0.5, reason=None, budget_met=True, actual_us=1.0, "
            "queue_us=1.0, elapsed_us=1.0, index_version='', item=0)",
            "ErrorEntry(item=1, error='why', code='bad_item')",
            "Totals(items=2, errors=1, expected_quality=0.5, expected_accuracy=0.5, "
            "budget_met=True)",
        ]


def reply(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\n\r\n"
    return head.encode() + chunk_of(body) + LAST_CHUNK


@given(st.lists(st.integers(0, 200), max_size=6))
def test_answer_is_read_however_it_is_cut(at: list[int]) -> None:
    data = reply("200 OK", json.dumps(TOTALS).encode() + b"\n")
    places = sorted({*at, len(data)})
    answer, begin = BatchExchange(ADDRESS, {}, "application/jsonl"), 0
    answer._sent = True
    found: list[FromBatch] = []
    for place in places:
        if piece := data[begin:place]:
            assert not answer.complete
            found += answer.feed(piece)
            begin = place
    assert answer.complete
    answer.check()
    totals = Totals(
        items=0,
        errors=0,
        expected_quality=None,
        expected_accuracy=None,
        budget_met=True,
    )
    assert found == [totals]


def test_a_batch_that_is_refused_raises_what_the_server_did() -> None:
    failure = {"error": "no budget", "code": "bad_input"}
    answer = BatchExchange(ADDRESS, {}, "application/jsonl")
    body = json.dumps(failure).encode()
    assert [*answer.feed(reply("400 Bad Request", body))] == []
    with pytest.raises(BadInput, match="no budget"):
        answer.check()
    with pytest.raises(NoAnswer, match="closed before"):
        next(BatchExchange(ADDRESS, {}, "application/jsonl").feed(b""))


def written(pieces: Iterable[bytes], ahead: int = AHEAD_BYTES) -> list[bytes]:
    """All chunks of a batch with these items."""

    async def run() -> list[bytes]:
        async def given() -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

        chunks = BatchExchange(ADDRESS, {"count": 2}, "application/jsonl").chunks
        return [chunk async for chunk in chunks(given(), ahead)]

    return asyncio.run(run())


def test_pieces_may_be_sent_one_by_one() -> None:
    head, *chunks = written([b"a\n", b"b\n"], ahead=1)
    assert head.startswith(b"POST /v1/batch?count=2 HTTP/1.1\r\n")
    assert chunks == [b"2\r\na\n\r\n", b"2\r\nb\n\r\n", LAST_CHUNK]


@pytest.mark.parametrize("sent_all", [False, True])
def test_a_batch_whose_items_are_read_no_more_ends_with_its_totals(
    sent_all: bool,
) -> None:
    totals = reply("200 OK", json.dumps(TOTALS).encode() + b"\n")
    batch = BatchExchange(ADDRESS, {}, "application/jsonl")
    batch._sent = sent_all
    assert [*batch.feed(totals[: -len(LAST_CHUNK)])]
    assert batch.complete == (not sent_all)
    assert [*batch.feed(LAST_CHUNK)] == []
    assert batch.complete


@given(st.lists(st.integers(1, AHEAD_BYTES), max_size=8))
def test_pieces_are_sent_together_as_far_as_they_are_small(sizes: list[int]) -> None:
    head, *chunks, last = written(b"x" * size for size in sizes)
    assert b"transfer-encoding: chunked\r\n" in head
    assert last == LAST_CHUNK
    whole = b"".join(chunk.split(b"\r\n", 1)[1][:-2] for chunk in chunks)
    assert len(whole) == sum(sizes)
    assert all(len(chunk) >= AHEAD_BYTES for chunk in chunks[:-1])
    assert all(len(chunk) < 2 * AHEAD_BYTES + 16 for chunk in chunks)
