"""Who puts an item where it does not belong is told where it does."""

import json
from typing import Any

import msgpack
import pytest

from polydom.features.errors import BadInput
from polydom.features.items import Kind
from polydom.server.v1.batch_body import read_item, read_object
from polydom.server.v1.decode import decode_request
from polydom.server.v1.misplaced import of_one

JSON = ((b"content-type", b"application/json"),)
FORM = ((b"content-type", b"application/x-www-form-urlencoded"),)
PACKED = ((b"content-type", b"application/msgpack"),)
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
    for headers, body in (
        (JSON, json.dumps(given).encode()),
        (PACKED, msgpack.packb(given)),
    ):
        with pytest.raises(BadInput) as raised:
            decode_request(headers, b"", body, kind)
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
        (b"null", "null came; an object is needed"),
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
    for headers in (JSON, FORM) if body[:1] in (b"{", b"[", b'"') else (JSON,):
        with pytest.raises(BadInput) as raised:
            decode_request(headers, b"", body, "text")
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
    for headers in (JSON, FORM, ()):
        asked = decode_request(headers, b"", mark + b'{"text": "a"}', "text")
        assert asked.text == "a"
    assert len(read_object(mark + b'{"items": [{}]}').items) == 1


@pytest.mark.parametrize("kind", [b"text/plain", b"application/octet-stream"])
def test_a_record_is_read_whatever_it_comes_as(kind: bytes) -> None:
    headers = ((b"content-type", kind),)
    asked = decode_request(headers, b"", b' {"record": {"a": 1}}', "record")
    assert asked.record == {"a": 1}


@pytest.mark.parametrize("name", [b"text/json", b"application/vnd.api+json"])
def test_json_has_other_names(name: bytes) -> None:
    headers = ((b"content-type", name),)
    assert decode_request(headers, b"", b'{"text": "a"}', "text").text == "a"


def test_a_text_that_is_a_request_is_not_classified_as_a_text() -> None:
    """As browsers send JSON whose content type nobody said."""
    plain = ((b"content-type", b"text/plain;charset=UTF-8"),)
    with pytest.raises(BadInput, match="send it as application/json"):
        decode_request(plain, b"", b'{"text": "a", "budget_ms": 5}', "text")
    for text in (b'{"text": 1}', b'{"a": "b"}', b"{}", b"{", b'{"budget_ms": 1}'):
        assert decode_request(plain, b"", text, "text").text == text.decode()


def test_a_long_body_is_not_looked_through() -> None:
    body = b'{"a": "%b"}' % (b"x" * 70_000)
    unknown = ValueError("Object contains unknown field `a`")
    assert of_one(unknown, body, "record", packed=False) is None


@pytest.mark.parametrize("given", [b"-1", b"nan", b"5ms", b"inf", b""])
def test_a_header_that_is_no_budget_is_named(given: bytes) -> None:
    headers = ((b"content-type", b"text/plain"), (b"x-budget-ms", given))
    with pytest.raises(BadInput, match=f"^x-budget-ms is '{given.decode()}'; a finite"):
        decode_request(headers, b"", b"a", "text")
