"""What the clients write and read, as bytes."""

import json
from collections.abc import Iterable
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput, NothingFits, PolydomError
from polydom.server.client.messages import (
    AHEAD_BYTES,
    LAST_CHUNK,
    Address,
    BatchStream,
    FromBatch,
    HttpResponse,
    NoAnswer,
    chunk_of,
    error_of,
)
from polydom.server.errors import STATUSES, TooLittleLeft, UnknownModel
from polydom.server.schema.wire import Entry, ErrorEntry, Totals

ADDRESS = Address("http://x:1", None)
TERMS: dict[str, Any] = {"total_budget_ms": 5.0, "total_budget": None, "exact": False}
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
    for first, data in (("x", lines), (b"x", packed)):
        found = [*answering(first).feed(reply("200 OK", data))]
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


def answering(first: str | bytes = "x") -> BatchStream:
    """A batch whose first item is sent."""
    batch = BatchStream(ADDRESS, AHEAD_BYTES, **TERMS)
    batch.add(first)
    return batch


def reply(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\n\r\n"
    return head.encode() + chunk_of(body) + LAST_CHUNK


@given(st.lists(st.integers(0, 200), max_size=6))
def test_answer_is_read_however_it_is_cut(at: list[int]) -> None:
    data = reply("200 OK", json.dumps(TOTALS).encode() + b"\n")
    places = sorted({*at, len(data)})
    answer, begin = answering(), 0
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
    answer = answering()
    body = json.dumps(failure).encode()
    assert [*answer.feed(reply("400 Bad Request", body))] == []
    with pytest.raises(BadInput, match="no budget"):
        answer.check()
    with pytest.raises(NoAnswer, match="closed before"):
        next(answering().feed(b""))


def written(items: Iterable[str], ahead: int = AHEAD_BYTES) -> list[bytes]:
    """All that is sent of a batch with these texts."""
    batch = BatchStream(ADDRESS, ahead, **TERMS | {"count": 2})
    added = [chunk for item in items if (chunk := batch.add(item))]
    return [*added, batch.end()]


def test_items_may_be_sent_one_by_one() -> None:
    first, *others = written(["a", "b"], ahead=1)
    head, _, chunk = first.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/batch?budget_ms=5.0&count=2 HTTP/1.1\r\n")
    assert chunk == chunk_of(b'{"text":"a"}\n')
    assert others == [chunk_of(b'{"text":"b"}\n'), LAST_CHUNK]


def test_a_batch_of_no_items_is_a_request_too() -> None:
    (whole,) = written([])
    assert whole.endswith(b"\r\n\r\n" + LAST_CHUNK)


@pytest.mark.parametrize("sent_all", [False, True])
def test_a_batch_whose_items_are_read_no_more_ends_with_its_totals(
    sent_all: bool,
) -> None:
    totals = reply("200 OK", json.dumps(TOTALS).encode() + b"\n")
    batch = answering()
    batch._sent = sent_all
    assert [*batch.feed(totals[: -len(LAST_CHUNK)])]
    assert batch.complete == (not sent_all)
    assert [*batch.feed(LAST_CHUNK)] == []
    assert batch.complete


@given(st.lists(st.integers(1, AHEAD_BYTES), min_size=1, max_size=8))
def test_small_items_are_sent_together(sizes: list[int]) -> None:
    sent = written("x" * size for size in sizes)
    head, _, rest = b"".join(sent).partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    assert sent[-1].endswith(LAST_CHUNK)
    texts, chunks = b"", []
    while rest != LAST_CHUNK:
        count, _, rest = rest.partition(b"\r\n")
        chunks.append(int(count, 16))
        texts += rest[: chunks[-1]]
        rest = rest[chunks[-1] + 2 :]
    assert [len(json.loads(line)["text"]) for line in texts.splitlines()] == sizes
    assert all(size >= AHEAD_BYTES for size in chunks[:-1])
    assert all(size < 2 * AHEAD_BYTES + 16 for size in chunks)
