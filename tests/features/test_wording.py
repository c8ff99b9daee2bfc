"""Parts of messages: a place, what is wrong there, and what may be meant."""

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from polydom.features.wording import SHOWN, describe_decode_error


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    choice: Literal["x", "y"] = "x"


class Form(msgspec.Struct, forbid_unknown_fields=True):
    count: int
    share: Annotated[float, Meta(ge=0, lt=1)] = 0
    above: Annotated[int, Meta(gt=0)] | None = None
    names: Annotated[list[str], Meta(min_length=1, max_length=2)] | None = None
    cells: dict[str, float | int | str | None] | None = None
    flag: bool = False
    data: bytes | None = None
    inner: Inner | None = None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"count": "1"}, "count: expected int, got str"),
        ({"share": -1}, "share: expected float >= 0.0"),
        ({"names": []}, "names: expected array of length >= 1"),
        ({"names": ["a", 2]}, "names[1]: expected str, got int"),
        ({"cells": {"a": []}},
            "cells[...]: expected int | float | str | null, got array"),
        ({"data": "*"}, "data: Invalid base64 encoded string"),
        ({"inner": {"choice": "z"}}, "inner.choice: 'z' came; one of 'x', 'y' is "
            "needed"),
        ({"inner": {"coice": 1}}, "inner: 'coice' is unknown; did you mean 'choice'?"),
        ({"x" * 500: 1}, f"'{'x' * SHOWN}' is unknown; there are count, share, above, "
            "names, cells, flag, data, inner"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_words(change: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(json.dumps({"count": 1} | change), type=Form)
    assert describe_decode_error(caught.value, Form) == said


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{}", "'count' is missing"),
        (b"[]", "expected object, got array"),
        (b"{", "Input data was truncated"),
        (b"{]", "JSON is malformed: object keys must be strings (byte 1)"),
        (b'{"count": 1, "share": 1e999}', "share: Number out of range"),
        (b'{"cells":' * 10_000, "cells[...]: "),
    ],
)
def test_bodies_that_cannot_be_read_are_told_in_words(body: bytes, said: str) -> None:
    with pytest.raises((msgspec.DecodeError, RecursionError)) as caught:
        msgspec.json.decode(body, type=Form)
    assert said in describe_decode_error(caught.value, Form)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"share": NaN}', "(byte 10); NaN is no JSON: null is a gap"),
        (b'{"share": -Infinity}', "(byte 11); Infinity is no JSON: null is a gap"),
        (b'{"share": nan, "count": 1}', "; nan is no JSON: null is a gap"),
        (b'{"share": None}', "; None is no JSON: it has null"),
        (b'{"flag": True}', "; True is no JSON: it has true"),
        (b"{'count': 1}", "; JSON has double quotes, not single ones"),
        (b'{"names": ["a\nb"]}', "; in a text of JSON a line end is \\n, a tab \\t"),
        ('{"count": 1}'.encode("utf-16"), "; it looks like UTF-16: send UTF-8"),
        (
            b"\x1f\x8b\x08",
            "; it begins as gzip does, which a content encoding has to say",
        ),
        (
            b'"{}"',
            "expected object, got str: this JSON was made JSON once more",
        ),
        (b'"text"', "expected object, got str"),
        (b'{"names": ["NaN", x]}', "invalid character (byte 18)"),
    ],
)
def test_what_is_no_json_is_told_with_what_to_write_instead(
    body: bytes, said: str
) -> None:
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(body, type=Form)
    assert describe_decode_error(caught.value, Form, body).endswith(said)


def test_other_errors_of_decoders_have_words_too() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        b"ab\xff".decode()
    assert describe_decode_error(caught.value) == "it is not UTF-8 (byte 2)"
    assert (
        describe_decode_error(RecursionError("maximum recursion"))
        == "it is nested too deeply"
    )
    with pytest.raises(msgspec.DecodeError) as broken:
        msgspec.msgpack.decode(b"\xc1")
    assert describe_decode_error(broken.value).startswith(
        "MessagePack data is malformed: "
    )
    with pytest.raises(msgspec.ValidationError) as key:
        msgspec.convert({"count": 1, "cells": {3: 4}}, Form)
    assert describe_decode_error(key.value) == "a key of cells: expected str, got int"
