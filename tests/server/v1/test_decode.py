"""Requests of `POST /v1/predict`, read."""

import base64
import contextlib
import json
from typing import Any

import msgpack
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput, BadItem
from polydom.features.extract import Extractor
from polydom.features.items import Kind, ReadRecord
from polydom.features.tables.column_features import columns
from polydom.server.http.headers import type_and_budget_in
from polydom.server.schema.wire import PredictRequest
from polydom.server.v1.batch_body import read_item, read_object
from polydom.server.v1.decode import decode_request, hint_of_one
from tests.support.decoders import decoder_of

# Content type and budget, as they come out of the headers.
Described = tuple[str, str | None]
JSON: Described = ("application/json", None)
TEXT: Described = ("text/plain", None)
BYTES: Described = ("application/octet-stream", None)
PACKED: Described = ("application/msgpack", None)
IMAGE: Described = ("image/jpeg", None)
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


FORM: Described = ("application/x-www-form-urlencoded", None)


@pytest.mark.parametrize(
    "described", [("", None), FORM], ids=["nothing", "curl's default"]
)
def test_decoder_reads_json_where_the_content_type_was_not_thought_of(
    described: Described,
) -> None:
    body = b' \n{"text": "hi", "budget_ms": 5}'
    assert decode_request(described, b"", body, "text") == PredictRequest(
        text="hi", budget_ms=5
    )
    with pytest.raises(BadInput, match=r"^body: Input data was truncated"):
        decode_request(described, b"", b"{", "text")
    with pytest.raises(BadInput, match=r"content type '.*' is not understood"):
        decode_request(described, b"", b"text=hi", "text")


def test_decoder_takes_a_raw_body_as_the_item() -> None:
    assert decode_request(IMAGE, b"", b"\xff\xd8", "image").image_base64 == b"\xff\xd8"
    assert decode_request(TEXT, b"", "ä".encode(), "text").text == "ä"
    assert decode_request(BYTES, b"", b"\xff\xd8", "image").image_base64 == b"\xff\xd8"
    assert decode_request(BYTES, b"", b"plain", "text").text == "plain"
    assert decode_request(TEXT, b"", b"", "text").text == ""


def test_decoder_reads_terms_from_query_and_header() -> None:
    query = b"on_infeasible=error&min_quality=0.5"
    ask = decode_request(("text/plain", "2.5"), query, b"hi", "text")
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
    ("described", "query", "body", "message"),
    [
        pytest.param(JSON, b"", b"{", "body: Input data was truncated", id="cut"),
        pytest.param(JSON, b"", b"", "^the body is empty$", id="empty json"),
        pytest.param(IMAGE, b"", b"", "^the body is empty$", id="empty image"),
        pytest.param(("", None), b"", b"", "^the body is empty$", id="nothing at all"),
        pytest.param(
            JSON, b"", b'{"txt": 1}', "'txt' is unknown; did you mean 'text'", id="key"
        ),
        pytest.param(
            JSON, b"", b'{"text": 1}', "text: expected str | null, got int", id="type"
        ),
        pytest.param(
            JSON, b"", b'{"budget_ms": NaN}', "body: JSON is malformed: ", id="nan"
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
            "exact: expected bool",
            id="no boolean",
        ),
        pytest.param(
            JSON, b"", b'{"text": "a", "exact": 1}', "exact: expected bool", id="one"
        ),
        pytest.param(
            JSON,
            b"",
            b'{"text": null, "exact": null, "on_infeasible": 1}',
            "on_infeasible: expected str",
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
        pytest.param(
            ("", None), b"", b"hi", "content type '' is not", id="no content type"
        ),
        pytest.param(("text/html", None), b"", b"<", "text/html", id="html"),
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
    described: Described, query: bytes, body: bytes, message: str
) -> None:
    with pytest.raises((BadInput, BadItem), match=message):
        decode_request(described, query, body, "text")


@given(query=st.binary(max_size=40), body=st.binary(max_size=60))
def test_decoder_refuses_noise_with_its_own_errors(query: bytes, body: bytes) -> None:
    for described in (JSON, TEXT, BYTES):
        with contextlib.suppress(BadInput, BadItem):
            assert isinstance(
                decode_request(described, query, body, "text"), PredictRequest
            )


PUT = 'no "record": put the columns in it: {"record": '


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("record", {"radius": 5}, PUT + '{"radius": 5}}'),
        ("record", {"radius": None, "budget_ms": 5}, PUT + '{"radius": null}}'),
        ("record", {"job": "clerk", "age": 5}, PUT + '{"job": "clerk", ...}}'),
        ("record", {"a": "x" * 99}, PUT + f'{{"a": "{"x" * 20}..."}}}}'),
        ("record", {"data": {"radius": 5}}, "'data' is unknown; give the columns as "),
        ("record", {"rec": {"radius": 5}}, "'rec' is unknown; give the columns as "),
        ("record", {"records": {}}, "'records' is unknown; did you mean 'record'?"),
        ("record", {"data": [1]}, "'data' is unknown; there are "),
        ("record", {"record": {"a": 1}, "b": 2}, "'b' is unknown; there are "),
        ("record", {"bugdet_ms": 2}, "'bugdet_ms' is unknown; did you mean 'budget_ms"),
        ("text", {"content": "hi"}, "'content' is unknown; give the text as 'text'"),
        ("text", {"txt": "hi"}, "'txt' is unknown; did you mean 'text'?"),
        ("text", {"radius": 5}, "'radius' is unknown; there are "),
        ("text", {"radius": 5, "model": "cells"}, PUT + '{"radius": 5}}'),
        (
            "image",
            {"file": "R0lG"},
            "'file' is unknown; give the image as 'image_base6",
        ),
        (None, {"radius": 5}, "'radius' is unknown; there are "),
    ],
)
def test_an_item_under_no_key_or_another_is_said_where_it_belongs(
    kind: Kind | None, given: dict[str, Any], said: str
) -> None:
    for described, body in (
        (JSON, json.dumps(given).encode()),
        (PACKED, msgpack.packb(given)),
    ):
        with pytest.raises(BadInput) as raised:
            decode_request(described, b"", body, kind)
        assert str(raised.value).startswith("body: " + said)
    if "budget_ms" not in given and "model" not in given:
        with pytest.raises(BadInput) as raised:
            read_item(json.dumps(given).encode(), kind=kind)
        start = said.partition("; there are")[0].replace("did you mean 'budget_ms", "")
        assert str(raised.value).startswith("item: " + start)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'[{"text": "a"}]', 'several items go to /v1/batch, as {"items": [...]}'),
        (b'{"text": "a"}\n{"text": "b"}', "more came behind the first object; several"),
        (b'{"instances": []}', "'instances' is unknown; several items go to"),
        (b'{"inputs": []}', "/v2/models/NAME/infer takes inputs"),
        (b'"{\\"text\\": \\"a\\"}"', "this JSON was made JSON once more"),
        (b"null", "expected object, got null"),
        (b"{'text': 'a'}", "JSON has double quotes, not single ones"),
        (b'{"text": "a",}', "trailing comma"),
        (b'{"budget_ms": NaN}', "NaN is no JSON: null is a gap"),
        (b'{"budget_ms": -Infinity}', "Infinity is no JSON: null is a gap"),
        (b'{"exact": True}', "True is no JSON: it has true"),
        (b'{"model": None}', "None is no JSON: it has null"),
        ('{"text": "a"}'.encode("utf-16"), "it looks like UTF-16: send UTF-8"),
        ('{"text": "a"}'.encode("utf-16-be"), "it looks like UTF-16: send UTF-8"),
        (b"\x1f\x8b\x08", "it begins as gzip does"),
        (b" \n", "the body is empty"),
        (b"\xef\xbb\xbf", "the body is empty"),
    ],
)
def test_what_is_no_request_in_json_is_said_how_to_write(
    body: bytes, said: str
) -> None:
    for described in (JSON, FORM) if body[:1] in (b"{", b"[", b'"') else (JSON,):
        with pytest.raises(BadInput) as raised:
            decode_request(described, b"", body, "text")
        assert said in str(raised.value)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'[{"text": "a"}]', 'put the items in an object: {"items": [...]}'),
        (b'{"text": "a"}', 'no "items": put each item in a list, {"items": [{"text"'),
        (b'{"item": []}', "'item' is unknown; did you mean 'items'?"),
        (b'{"items": []}\n{"text": "b"}', "more came behind the first object; one a l"),
        (b'{"items": [{"record": {"a": NaN}}]}', "NaN is no JSON: null is a gap"),
        (b"", "the body is empty"),
    ],
)
def test_what_is_no_batch_in_json_is_said_how_to_write(body: bytes, said: str) -> None:
    with pytest.raises(BadInput) as raised:
        read_object(body)
    assert said in str(raised.value)


def test_a_mark_before_json_does_not_count() -> None:
    mark = b"\xef\xbb\xbf"
    for described in (JSON, FORM, ("", None)):
        asked = decode_request(described, b"", mark + b'{"text": "a"}', "text")
        assert asked.text == "a"
    assert len(read_object(mark + b'{"items": [{}]}').items) == 1


@pytest.mark.parametrize("kind", [b"text/plain", b"application/octet-stream"])
def test_a_record_is_read_whatever_it_comes_as(kind: bytes) -> None:
    described = type_and_budget_in(((b"content-type", kind),))
    asked = decode_request(described, b"", b' {"record": {"a": 1}}', "record")
    assert asked.record == {"a": 1}


@pytest.mark.parametrize("name", [b"text/json", b"application/vnd.api+json"])
def test_json_has_other_names(name: bytes) -> None:
    described = type_and_budget_in(((b"content-type", name),))
    assert decode_request(described, b"", b'{"text": "a"}', "text").text == "a"


def test_a_text_that_is_a_request_is_not_classified_as_a_text() -> None:
    """As browsers send JSON whose content type nobody said."""
    plain = ("text/plain", None)
    with pytest.raises(BadInput, match="send it as application/json"):
        decode_request(plain, b"", b'{"text": "a", "budget_ms": 5}', "text")
    for text in (b'{"text": 1}', b'{"a": "b"}', b"{}", b"{", b'{"budget_ms": 1}'):
        assert decode_request(plain, b"", text, "text").text == text.decode()


def test_a_long_body_is_not_looked_through() -> None:
    body = b'{"a": "%b"}' % (b"x" * 70_000)
    unknown = ValueError("Object contains unknown field `a`")
    assert hint_of_one(unknown, body, "record", packed=False) is None


@pytest.mark.parametrize("given", [b"-1", b"nan", b"5ms", b"inf", b""])
def test_a_header_that_is_no_budget_is_named(given: bytes) -> None:
    described = type_and_budget_in(
        ((b"content-type", b"text/plain"), (b"x-budget-ms", given))
    )
    with pytest.raises(BadInput, match=f"^x-budget-ms is '{given.decode()}'; a finite"):
        decode_request(described, b"", b"a", "text")
