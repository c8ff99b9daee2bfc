"""A batch as a client writes it, and what it reads however the answer is cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.server.client_batch import (
    AHEAD_BYTES,
    LAST_CHUNK,
    BatchAnswer,
    batch_head,
    batch_terms,
    chunk_of,
    chunked,
)
from polydom.server.client_wire import Address, FromBatch, NoAnswer
from polydom.server.schema_batch import Totals

TOTALS = {"items": 0, "errors": 0, "expected_accuracy": None, "budget_met": True}


def reply(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\n\r\n"
    return head.encode() + chunk_of(body) + LAST_CHUNK


@given(st.lists(st.integers(0, 200), max_size=6))
def test_answer_is_read_however_it_is_cut(at: list[int]) -> None:
    data = reply("200 OK", json.dumps(TOTALS).encode() + b"\n")
    places = sorted({*at, len(data)})
    answer, begin = BatchAnswer("application/jsonl"), 0
    found: list[FromBatch] = []
    for place in places:
        if piece := data[begin:place]:
            assert not answer.complete
            found += answer.feed(piece)
            begin = place
    assert answer.complete
    answer.check()
    totals = Totals(items=0, errors=0, expected_accuracy=None, budget_met=True)
    assert found == [totals]


def test_a_batch_that_is_refused_raises_what_the_server_did() -> None:
    failure = {"error": "no budget", "code": "bad_input"}
    answer = BatchAnswer("application/jsonl")
    body = json.dumps(failure).encode()
    assert [*answer.feed(reply("400 Bad Request", body))] == []
    with pytest.raises(BadInput, match="no budget"):
        answer.check()
    with pytest.raises(NoAnswer, match="closed before"):
        next(BatchAnswer("application/jsonl").feed(b""))


@given(st.lists(st.integers(1, AHEAD_BYTES), max_size=8))
def test_pieces_are_sent_together_as_far_as_they_are_small(sizes: list[int]) -> None:
    *chunks, last = chunked(b"x" * size for size in sizes)
    assert last == LAST_CHUNK
    whole = b"".join(chunk.split(b"\r\n", 1)[1][:-2] for chunk in chunks)
    assert len(whole) == sum(sizes)
    assert all(len(chunk) >= AHEAD_BYTES for chunk in chunks[:-1])
    assert all(len(chunk) < 2 * AHEAD_BYTES + 16 for chunk in chunks)


def test_terms_count_the_items_where_they_can() -> None:
    terms = batch_terms(["a", "b"], 5.0, None, None, None, None, None, None)
    assert terms["count"] == 2
    head = batch_head(Address("http://x:1", None), terms, "application/jsonl")
    assert head.startswith(b"POST /v1/batch?budget_ms=5.0&count=2 HTTP/1.1\r\n")
    assert b"transfer-encoding: chunked\r\n" in head
    with pytest.raises(BadInput, match="total_budget_ms"):
        batch_terms(iter([]), None, None, None, None, None, None, None)
