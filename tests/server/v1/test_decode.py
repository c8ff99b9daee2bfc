"""Requests of `POST /v1/predict`, read."""

import base64
import contextlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput, BadItem
from polydom.server.http.headers import Headers
from polydom.server.schema.predict import PredictRequest
from polydom.server.v1.decode import decode_request

JSON: Headers = ((b"content-type", b"application/json; charset=utf-8"),)
TEXT: Headers = ((b"content-type", b"text/plain"),)
BYTES: Headers = ((b"content-type", b"application/octet-stream"),)
PACKED: Headers = ((b"content-type", b"application/msgpack"),)
IMAGE: Headers = ((b"content-type", b"image/jpeg"),)


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


@pytest.mark.parametrize(
    "twice",
    [
        b'{"text": "a", "exact": true, "exact": true}',
        b'{"text": "a", "exact": false, "exact": true}',
        b'{"text": "a", "exact": true, "ex\\u0061ct": true, "budget_ms": 5}',
        b'{"record": {"a": 1}, "exact": true, "exact": false}',
    ],
)
def test_decoder_refuses_to_be_told_twice_whether_scores_are_needed(
    twice: bytes,
) -> None:
    with pytest.raises(BadInput, match="'exact' is given twice"):
        decode_request(JSON, b"", twice, "text")
    packed = b"\x83" + b"".join(
        map(msgspec.msgpack.encode, ("text", "a", "exact", True, "exact", True))
    )
    with pytest.raises(BadInput, match="'exact' is given twice"):
        decode_request(PACKED, b"", packed, "text")
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
        pytest.param(
            JSON, b"", b'{"text": "a", "text": "b"}', "'text' is given twice", id="twin"
        ),
        pytest.param(
            JSON,
            b"",
            b'{"record": {"a": 1, "\\u0061": 1}}',
            "^column 'a' is given twice",
            id="twin column",
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
