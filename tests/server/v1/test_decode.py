"""Requests of `POST /v1/predict`, read."""

import base64
import contextlib
import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput, BadItem
from polydom.features.extract import Extractor
from polydom.features.items import ReadRecord
from polydom.features.tables.column_features import columns
from polydom.server.http.headers import Headers
from polydom.server.schema.predict import PredictRequest
from polydom.server.v1.batch_body import read_item
from polydom.server.v1.decode import decode_request
from tests.support.decoders import decoder_of

JSON: Headers = ((b"content-type", b"application/json; charset=utf-8"),)
TEXT: Headers = ((b"content-type", b"text/plain"),)
BYTES: Headers = ((b"content-type", b"application/octet-stream"),)
PACKED: Headers = ((b"content-type", b"application/msgpack"),)
IMAGE: Headers = ((b"content-type", b"image/jpeg"),)
RECORDS = decoder_of(
    Extractor([columns("row", ["a", "b"], vocabularies={"b": ["x", ":"]})], [2])
)

Pairs = list[tuple[str, Any]]


def test_decoder_reads_each_kind_of_item_from_json() -> None:
    image = base64.b64encode(b"\xff\xd8").decode()
    bodies = [{"text": "hi"}, {"record": {"a": 1.5, "b": "x", "c": None}}]
    asks = [decode_request(JSON, b"", json.dumps(b).encode(), "text") for b in bodies]
    assert asks[0].text == "hi"
    assert asks[1].record == {"a": 1.5, "b": "x", "c": None}
    body = json.dumps({"image_base64": image, "budget_ms": 5}).encode()
    ask = decode_request(JSON, b"", body, "image")
    assert (ask.image_base64, ask.budget_ms) == (b"\xff\xd8", 5.0)


FORM: Headers = ((b"content-type", b"application/x-www-form-urlencoded"),)


@pytest.mark.parametrize("headers", [(), FORM], ids=["nothing", "curl's default"])
def test_decoder_reads_json_where_the_content_type_was_not_thought_of(
    headers: Headers,
) -> None:
    body = b' \n{"text": "hi", "budget_ms": 5}'
    assert decode_request(headers, b"", body, "text") == PredictRequest(
        text="hi", budget_ms=5
    )
    with pytest.raises(BadInput, match=r"^body: it ends too early"):
        decode_request(headers, b"", b"{", "text")
    with pytest.raises(BadInput, match=r"content type '.*' is not understood"):
        decode_request(headers, b"", b"text=hi", "text")


def test_decoder_takes_a_raw_body_as_the_item() -> None:
    assert decode_request(IMAGE, b"", b"\xff\xd8", "image").image_base64 == b"\xff\xd8"
    assert decode_request(TEXT, b"", "ä".encode(), "text").text == "ä"
    assert decode_request(BYTES, b"", b"\xff\xd8", "image").image_base64 == b"\xff\xd8"
    assert decode_request(BYTES, b"", b"plain", "text").text == "plain"
    assert decode_request(TEXT, b"", b"", "text").text == ""


def test_decoder_reads_terms_from_query_and_header() -> None:
    query = b"on_infeasible=error&min_quality=0.5"
    ask = decode_request((*TEXT, (b"x-budget-ms", b"2.5")), query, b"hi", "text")
    assert ask == PredictRequest(
        text="hi", budget_ms=2.5, on_infeasible="error", min_quality=0.5
    )
    assert decode_request(TEXT, b"budget_ms=7", b"hi", "text").budget_ms == 7


@pytest.mark.parametrize("exact", [True, False])
def test_decoder_reads_whether_scores_are_needed(exact: bool) -> None:
    asked = PredictRequest(text="a:b", exact=exact)
    body = {"text": "a:b", "exact": exact}
    assert decode_request(JSON, b"", json.dumps(body).encode(), "text") == asked
    assert decode_request(PACKED, b"", msgspec.msgpack.encode(body), "text") == asked
    for said in (b"true", b"True", b"1") if exact else (b"false", b"0"):
        assert decode_request(TEXT, b"exact=" + said, b"a:b", "text") == asked
    assert not decode_request(TEXT, b"", b"a:b", "text").exact


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
            msgspec.msgpack.encode(name),
            msgspec.msgpack.encode(json.loads(value)) if packed is None else packed,
        ]
    return b"".join(parts)


words = st.sampled_from(['"x"', '":"', r'"\u003a"', r'"\":"', "null"])
records = st.lists(
    st.one_of(
        st.tuples(st.just("a"), st.sampled_from(["1", "null", "2.5"])),
        st.tuples(st.just("b"), words),
    ),
    max_size=4,
)
terms = st.sampled_from(
    [("budget_ms", "5"), ("budget_ms", "null"), ("exact", "true"), ("exact", "false")]
)
one_item = st.one_of(
    records.map(lambda record: ("record", record)),
    words.map(lambda word: ("text", word)),
)


@given(st.lists(st.one_of(one_item, one_item, terms), max_size=5))
def test_of_a_key_that_comes_twice_the_last_value_counts(pairs: Pairs) -> None:
    body, packed = write(pairs).encode(), pack(pairs)
    expected = PredictRequest(**json.loads(body))
    assert decode_request(JSON, b"", body, "record") == expected
    assert decode_request(PACKED, b"", packed, "record") == expected
    if not any(name in ("budget_ms", "exact") for name, _ in pairs):
        assert read_item(body) == read_item(packed, packed=True) == expected
    if (read := RECORDS.read(body)) is not None:
        terms, row, gaps = read
        assert (terms.budget_ms, terms.exact) == (expected.budget_ms, expected.exact)
        item = RECORDS.item(expected.record or {})
        assert isinstance(item.payload, ReadRecord)
        np.testing.assert_array_equal(row, item.payload.row)
        assert gaps == item.gaps


def test_a_term_in_the_body_and_in_the_query_is_refused() -> None:
    with pytest.raises(BadInput, match="exact is given twice"):
        decode_request(JSON, b"exact=1", b'{"text": "a", "exact": true}', "text")


@pytest.mark.parametrize(
    ("headers", "query", "body", "message"),
    [
        pytest.param(JSON, b"", b"{", "body: it ends too early", id="truncated json"),
        pytest.param(JSON, b"", b"", "^the body is empty$", id="empty json"),
        pytest.param(IMAGE, b"", b"", "^the body is empty$", id="empty image"),
        pytest.param((), b"", b"", "^the body is empty$", id="nothing at all"),
        pytest.param(
            JSON, b"", b'{"txt": 1}', "'txt' is unknown; did you mean 'text'", id="key"
        ),
        pytest.param(
            JSON, b"", b'{"text": 1}', "text: a whole number came; a text is", id="type"
        ),
        pytest.param(
            JSON, b"", b'{"budget_ms": NaN}', "body: this is no JSON: ", id="nan"
        ),
        pytest.param(JSON, b"", b'{"text": "\xff"}', "body: ", id="json not utf-8"),
        pytest.param(JSON, b"", b"[" * 100_000, "body: ", id="deep json"),
        pytest.param(
            JSON, b"", b'{"image_base64": "*"}', "base64", id="base64 that is none"
        ),
        pytest.param(TEXT, b"", b"\xff", "not UTF-8", id="text not utf-8"),
        pytest.param(TEXT, b"speed=9", b"", "'speed' is none of", id="unknown term"),
        pytest.param(
            TEXT, b"budget_ms=fast", b"", "query: budget_ms: ", id="no number"
        ),
        pytest.param(
            TEXT,
            b"exact=yes",
            b"",
            "exact: .* true or false is needed",
            id="no boolean",
        ),
        pytest.param(
            JSON, b"", b'{"text": "a", "exact": 1}', "exact: a whole number", id="one"
        ),
        pytest.param(
            JSON,
            b"",
            b'{"text": null, "exact": null, "on_infeasible": 1}',
            "on_infeasible: a whole number came",
            id="null beside what is wrong",
        ),
        pytest.param(TEXT, b"budget_ms=1&budget_ms=2", b"", "given twice", id="twice"),
        pytest.param(
            JSON,
            b"budget_ms=1",
            b'{"budget_ms": 2}',
            "given twice",
            id="both",
        ),
        pytest.param(TEXT, b"budget_ms=\xff", b"", "not ASCII", id="query not ascii"),
        pytest.param((), b"", b"hi", "content type '' is not", id="no content type"),
        pytest.param(
            ((b"content-type", b"text/html"),), b"", b"<", "text/html", id="html"
        ),
        pytest.param(JSON, b"", b"[" * 100_000, "body: ", id="deep arrays"),
        pytest.param(
            JSON,
            b"",
            b'{"record":' * 100_000,
            "more names and texts",
            id="deep objects",
        ),
    ],
)
def test_decoder_refuses_with_what_and_where(
    headers: Headers, query: bytes, body: bytes, message: str
) -> None:
    with pytest.raises((BadInput, BadItem), match=message):
        decode_request(headers, query, body, "text")


@given(query=st.binary(max_size=40), body=st.binary(max_size=60))
def test_decoder_refuses_noise_with_its_own_errors(query: bytes, body: bytes) -> None:
    for headers in (JSON, TEXT, BYTES):
        with contextlib.suppress(BadInput, BadItem):
            assert isinstance(
                decode_request(headers, query, body, "text"), PredictRequest
            )
