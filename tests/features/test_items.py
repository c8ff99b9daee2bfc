"""Items: what is accepted, and how large it is."""

import contextlib
import io
import struct
import warnings
import zlib
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from polydom.features.errors import BadItem
from polydom.features.items import SIZE_NAMES, Kind, image_item, record_item, text_item


def encode(format: str, width: int = 12, height: int = 7) -> bytes:
    file = io.BytesIO()
    pixels = np.arange(width * height, dtype=np.uint8).reshape(height, width)
    Image.fromarray(pixels).save(file, format)
    return file.getvalue()


def png_claiming(width: int, height: int) -> bytes:
    """A few bytes whose header asks for any number of pixels."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    header = struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))
    return b"\x89PNG\r\n\x1a\n" + header + b"\0\0\0\0IEND\xaeB`\x82"


JPEG = encode("JPEG")


@pytest.mark.parametrize("format", ["JPEG", "PNG", "GIF", "BMP", "WEBP"])
def test_image_item_counts_the_pixels(format: str) -> None:
    item = image_item(encode(format))
    assert (item.kind, item.size) == ("image", 84.0)


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_image_item_reads_no_more_than_the_header(format: str) -> None:
    data = encode(format, 200, 100)
    assert image_item(data[: len(data) // 2]).size == 20_000


def test_image_item_names_what_came_when_it_is_no_image() -> None:
    with pytest.raises(BadItem, match=r"11 bytes that begin 68 65 .* no .* image$"):
        image_item(b"hello world")


def test_image_item_refuses_no_bytes_at_all() -> None:
    with pytest.raises(BadItem, match="0 bytes that begin with nothing"):
        image_item(b"")


def test_image_item_refuses_what_is_not_bytes() -> None:
    with pytest.raises(BadItem, match="must come as bytes, not str"):
        image_item("cat.jpg")  # type: ignore[arg-type]


def test_image_item_accepts_exactly_the_largest_number_of_pixels() -> None:
    assert image_item(JPEG, max_pixels=84).size == 84
    with pytest.raises(BadItem, match=r"12 x 7 = 84 pixels; between 1 and 83"):
        image_item(JPEG, max_pixels=83)


@pytest.mark.parametrize("side", [7_072, 10_000, 65_000, 2**31 - 1])
def test_image_item_refuses_a_decompression_bomb(side: int) -> None:
    with pytest.raises(BadItem, match="pixels"):
        image_item(png_claiming(side, side))


def test_image_item_refuses_a_bomb_that_pillow_would_only_warn_of() -> None:
    with warnings.catch_warnings(action="ignore"), pytest.raises(BadItem, match="acce"):
        image_item(png_claiming(10_000, 10_000))


@given(st.binary(max_size=300), st.sampled_from([b"", JPEG[:20], b"\x89PNG\r\n\x1a\n"]))
def test_image_item_never_raises_anything_else(data: bytes, start: bytes) -> None:
    with contextlib.suppress(BadItem):
        assert image_item(start + data).size >= 1  # type: ignore[operator]


def test_text_item_counts_characters_and_not_bytes() -> None:
    item = text_item("na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve")
    assert (item.kind, item.size) == ("text", 5.0)


def test_text_item_of_nothing_has_size_1() -> None:
    assert text_item("").size == 1.0


def test_text_item_refuses_bytes() -> None:
    with pytest.raises(BadItem, match="must come as str, not bytes"):
        text_item(b"bytes")  # type: ignore[arg-type]


def test_record_item_has_size_1() -> None:
    item = record_item({"age": 31, "job": "clerk", "income": None, "rate": 0.5})
    assert (item.kind, item.size) == ("record", 1.0)


def test_record_item_may_be_empty() -> None:
    assert record_item({}).payload == {}


def test_record_item_takes_what_rows_of_tables_hold() -> None:
    row = {"a": np.float32(0.5), "b": np.int64(3), "c": np.str_("x"), "d": np.bool_(1)}
    payload = record_item(row).payload  # type: ignore[arg-type]
    assert payload == {"a": 0.5, "b": 3, "c": "x", "d": True}
    assert isinstance(payload, dict)
    assert [type(value) for value in payload.values()] == [float, int, str, bool]


def test_record_item_makes_texts_of_dates_and_floats_of_decimals() -> None:
    noon = np.datetime64("2024-05-01T12:00", "ns")
    given = {"a": date(2024, 5, 1), "b": noon, "c": Decimal("1.5"), "d": None}
    assert record_item(given).payload == {  # type: ignore[arg-type]
        "a": "2024-05-01",
        "b": "2024-05-01T12:00:00",
        "c": 1.5,
        "d": None,
    }


def test_record_item_makes_texts_of_times() -> None:
    cells: dict[str, Any] = {
        "at": time(14, 30),
        "took": timedelta(days=1, hours=2),
        "numpy": np.timedelta64(93_600_000, "ms"),
    }
    item = record_item(cells)
    assert item.payload == {
        "at": "14:30:00",
        "took": "1 day, 2:00:00",
        "numpy": "1 day, 2:00:00",
    }


def test_record_item_refuses_what_is_no_mapping() -> None:
    with pytest.raises(BadItem, match="must come as a mapping, not list"):
        record_item([1, 2])  # type: ignore[arg-type]


def test_record_item_names_the_column_that_cannot_be_used() -> None:
    with pytest.raises(BadItem, match=r"column 'b' holds a list; a number, a string"):
        record_item({"a": 1, "b": [2]})  # type: ignore[dict-item]


def test_record_item_refuses_a_name_that_is_no_string() -> None:
    with pytest.raises(BadItem, match="names must be strings; 3 came"):
        record_item({3: 1.0})  # type: ignore[dict-item]


def test_image_size_may_be_its_width_and_height() -> None:
    assert image_item(JPEG, pair=True).size == (12.0, 7.0)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", (1.0, 1.0)),
        ("one", (1.0, 1.0)),
        ("One two. Three!\nFour?", (4.0, 4.0)),
        ("a\tb  c", (4.0, 1.0)),
    ],
)
def test_text_size_may_be_counts_of_words_and_sentences(
    text: str, size: tuple[float, float]
) -> None:
    assert text_item(text, pair=True).size == size


def test_size_has_a_name_for_each_number_of_each_kind() -> None:
    for kind in get_args(Kind):
        assert [len(names) for names in SIZE_NAMES[kind]] in ([1], [1, 2])


@pytest.mark.parametrize(
    ("mode", "kind", "dearer"),
    [
        ("L", "PNG", 1),
        ("P", "PNG", 1),
        ("RGB", "PNG", 1),
        ("RGBA", "PNG", 4 / 3),
        ("I;16", "PNG", 1),
        ("CMYK", "JPEG", 4 / 3),
        ("RGB", "JPEG", 1),
    ],
)
def test_image_item_of_dear_pixels_is_larger(
    mode: str, kind: str, dearer: float
) -> None:
    out = io.BytesIO()
    Image.new(mode, (40, 30)).save(out, kind)
    assert image_item(out.getvalue()).size == pytest.approx(1200 * dearer)
    pair = image_item(out.getvalue(), pair=True).size
    assert pair == pytest.approx((40 * dearer, 30))


def test_image_item_of_two_bytes_a_channel_is_twice_as_large() -> None:
    """Pillow writes none, so the header says it, which alone is read."""
    out = io.BytesIO()
    Image.new("RGB", (40, 30)).save(out, "PNG")
    png = out.getvalue()
    header = png[12:24] + b"\x10" + png[25:29]
    deep = png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:]
    assert image_item(deep).size == 2 * image_item(png).size
    assert image_item(png, max_decoded=3600).size == 1200
    with pytest.raises(BadItem, match="pixels of 6 bytes = 7,200 bytes; up to 7,199"):
        image_item(deep, max_decoded=7199)
