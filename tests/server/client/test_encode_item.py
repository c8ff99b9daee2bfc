"""Items of whatever library go over the wire as the records that they are."""

import json
import math
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pandas as pd
import pytest

from polydom.features.errors import BadInput, BadItem, PolydomError
from polydom.features.items import record_item
from polydom.server.client.encode_item import body_of, packer_of


def test_items_become_bodies_and_pieces_of_a_batch(tmp_path: Path) -> None:
    record, image, text = (tmp_path / name for name in ("a.json", "b.jpg", "c.txt"))
    record.write_text('{"a":1}')
    image.write_bytes(b"\xff\xd8")
    text.write_text("hi")
    assert body_of(record) == (b'{"record":{"a":1}}', "application/json")
    assert body_of({"a": 1}) == (b'{"record":{"a":1}}', "application/json")
    assert body_of(image) == (b"\xff\xd8", "application/octet-stream")
    assert body_of("hi") == (b"hi", "text/plain")
    kind, pack = packer_of(image)
    assert kind == "application/msgpack"
    assert msgpack.unpackb(pack(image)) == {"image_base64": b"\xff\xd8"}
    assert msgpack.unpackb(pack(b"\xff\xd8")) == {"image_base64": b"\xff\xd8"}
    assert msgpack.unpackb(pack(text)) == {"text": "hi"}
    assert msgpack.unpackb(pack(record)) == {"record": {"a": 1}}
    kind, pack = packer_of("hi")
    assert (kind, pack("hi")) == ("application/jsonl", b'{"text":"hi"}\n')
    assert pack({"a": 1}) == b'{"record":{"a":1}}\n'
    for write in (body_of, pack):
        with pytest.raises(BadInput, match="not int"):
            write(3)  # type: ignore[arg-type]


def test_a_text_that_looks_like_a_request_is_sent_as_the_text_in_one() -> None:
    text = ' {"text": "a"}'
    body, kind = body_of(text)
    assert (json.loads(body), kind) == ({"text": text}, "application/json")


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (np.int64(5), 5),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.float64("nan"), None),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.datetime64("2024-01-31"), "2024-01-31T00:00:00"),
        (np.datetime64("2024-01-31T10:00:00.123456789"), "2024-01-31T10:00:00.123456"),
        (np.datetime64("NaT"), None),
        (pd.NA, None),
        (pd.NaT, None),
        (pd.Timestamp("2024-01-31 10:00"), "2024-01-31T10:00:00"),
        (date(2024, 1, 31), "2024-01-31"),
        (datetime(2024, 1, 31, 10), "2024-01-31T10:00:00"),
        (Decimal("5.25"), 5.25),
        (math.nan, None),
        (None, None),
        (True, True),
    ],
)
def test_values_of_tables_are_sent_as_they_are_read_without_a_server(
    value: Any, sent: Any
) -> None:
    body, _ = body_of({"a": value})
    assert json.loads(body) == {"record": {"a": sent}}
    _, pack = packer_of({"a": 1})
    assert pack({"a": value}) == body + b"\n"
    if value is not pd.NA:
        own = record_item({"a": value}).payload["a"]  # type: ignore[index, call-overload]
        assert own == sent or (sent is None and own != own)


def test_rows_of_a_frame_can_be_sent() -> None:
    frame = pd.DataFrame({"age": [5], "job": ["clerk"], "day": ["2024-01-31"]})
    frame["day"] = pd.to_datetime(frame["day"])
    row = frame.iloc[0]
    sent = {"age": 5, "job": "clerk", "day": "2024-01-31T00:00:00"}
    for given in (dict(row), row.to_dict(), frame.to_dict("records")[0]):
        assert json.loads(body_of(given)[0]) == {"record": sent}
    with pytest.raises(BadInput, match=r"not Series; give its to_dict\(\)"):
        body_of(row)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"x", "column 'a' holds b'x'; a finite number"),
        (np.bytes_(b"x"), "column 'a' holds "),
        (math.inf, "column 'a' holds inf"),
        (np.float32("-inf"), "a column holds -inf"),
        (np.array([1, 2]), "a column holds a ndarray"),
        (object(), "a column holds a object"),
        ("\ud800", "half a character"),
    ],
)
def test_what_no_column_holds_is_refused_before_it_is_sent(
    value: Any, said: str
) -> None:
    with pytest.raises(BadItem) as raised:
        body_of({"a": value})
    assert said in str(raised.value)


def test_half_a_character_is_refused_in_texts_too() -> None:
    _, pack = packer_of("a")
    for write in (body_of, pack):
        with pytest.raises(PolydomError, match="half a character"):
            write("\ud800")


def test_a_file_of_columns_may_begin_with_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"a": 1}')
    assert json.loads(body_of(path)[0]) == {"record": {"a": 1}}
    assert json.loads(packer_of("a")[1](path)) == {"record": {"a": 1}}
