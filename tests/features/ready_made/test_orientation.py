"""Images that are stored turned are read as Pillow turns them, and nothing crashes."""

import io
import struct
import time
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from polydom.features.items import image_item
from polydom.features.loading import load_features
from polydom.features.ready_made.image_pieces import MOST_BEHIND
from polydom.features.ready_made.orientation import MOST_ENTRIES, orientation_of
from polydom.features.ready_made.picture import decode_grey, decode_small, open_picture

SPOTS = np.random.default_rng(0).integers(60, 190, (5, 7, 3), dtype=np.uint8)
COLOURS = Image.fromarray(SPOTS).resize((210, 150), Image.Resampling.BICUBIC)
WAYS = range(1, 9)


def exif_of(number: int, order: str = "<", kind: int = 3, count: int = 1) -> bytes:
    """An EXIF with an orientation, between two other entries."""
    value = struct.pack(f"{order}{'I' if kind == 4 else 'H'}", number).ljust(4, b"\0")
    entries = [(0x0100, 4, 1, b"\1\0\0\0"), (0x0112, kind, count, value)]
    entries.append((0x0128, 3, 1, b"\0\2\0\2"))
    packed = b"".join(struct.pack(f"{order}HHI4s", *one) for one in entries)
    start = b"II*\0\x08\0\0\0" if order == "<" else b"MM\0*\0\0\0\x08"
    return b"Exif\0\0" + start + struct.pack(f"{order}H", 3) + packed + bytes(4)


def exif_with_thumbnail(number: int) -> bytes:
    """An EXIF whose second directory, that of a thumbnail, says another orientation.

    Between them lie a place of division by zero and one without an end.
    """
    first = exif_of(number)[6:-4]
    gps = struct.pack("<HHII", 0x8825, 4, 1, 10**6)
    broken = struct.pack("<HHII", 0x011A, 5, 1, 8)  # 1/0, or what lies there
    first = first[:8] + struct.pack("<H", 5) + broken + gps + first[10:]
    second = struct.pack("<HHHI", 1, 0x0112, 3, 1) + struct.pack("<HH", 9 - number, 0)
    return b"Exif\0\0" + first + struct.pack("<I", len(first) + 4) + second


def xmp_of(number: int) -> bytes:
    return f'<x tiff:Orientation="{number}"/>'.encode()


def encode(format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    COLOURS.save(file, format, **options)
    return file.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I4s", len(data), kind) + data + struct.pack(">I", check)


def segment(data: bytes) -> bytes:
    return b"\xff\xe1" + struct.pack(">H", len(data) + 2) + data


JPEG, PNG = encode("JPEG"), encode("PNG")


def jpeg(*notes: bytes) -> bytes:
    return JPEG[:2] + b"".join(map(segment, notes)) + JPEG[2:]


def png(before: bytes = b"", behind: bytes = b"") -> bytes:
    return PNG[:33] + before + PNG[33:-12] + behind + PNG[-12:]


def png_xmp(number: int) -> bytes:
    return png(chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp_of(number)))


ADOBE = b"http://ns.adobe.com/xap/1.0/\0"
STORED: dict[str, Callable[[int], bytes]] = {
    "JPEG": lambda way: encode("JPEG", exif=exif_of(way)),
    "JPEG, progressive": lambda way: encode(
        "JPEG", exif=exif_of(way), progressive=True
    ),
    "JPEG, big-endian": lambda way: jpeg(exif_of(way, ">")),
    "JPEG, a long": lambda way: jpeg(exif_of(way, "<", 4)),
    "JPEG, twice": lambda way: jpeg(exif_of(way), exif_of(9 - way)),
    "JPEG, EXIF of 60 kB": lambda way: jpeg(exif_of(way) + bytes(60_000)),
    "JPEG, EXIF begun twice": lambda way: jpeg(b"Exif\0\0" + exif_of(way)),
    "JPEG, with a thumbnail": lambda way: jpeg(exif_with_thumbnail(way)),
    "JPEG, XMP": lambda way: jpeg(ADOBE + xmp_of(way)),
    "JPEG, EXIF and XMP": lambda way: jpeg(ADOBE + xmp_of(9 - way), exif_of(way)),
    "PNG": lambda way: encode("PNG", exif=exif_of(way)),
    "PNG, behind its pixels": lambda way: png(b"", chunk(b"eXIf", exif_of(way)[6:])),
    "PNG, XMP": png_xmp,
    "WebP": lambda way: encode("WEBP", exif=exif_of(way), lossless=True),
    "WebP, XMP": lambda way: encode("WEBP", xmp=xmp_of(way), lossless=True),
}


def seen(data: bytes) -> Image.Image:
    with warnings.catch_warnings(), Image.open(io.BytesIO(data)) as picture:
        warnings.simplefilter("ignore")  # of what is broken in an EXIF
        return ImageOps.exif_transpose(picture).convert("RGB")


def lossless(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("how", STORED)
def test_a_stored_image_is_read_as_it_is_seen(how: str) -> None:
    for way in WAYS:
        data = STORED[how](way)
        upright = lossless(seen(data))
        expected = Image.open(io.BytesIO(upright)).size
        assert expected == ((150, 210) if way > 4 else (210, 150))
        assert open_picture(data).size == expected
        assert image_item(data, pair=True).size == expected
        if data[:2] == b"\xff\xd8":  # whose decoder does it in fewer steps
            grey = decode_grey(data).astype(int) - decode_grey(upright)
            assert np.abs(grey).max() <= 2
            continue
        np.testing.assert_array_equal(decode_grey(data), decode_grey(upright))
        np.testing.assert_array_equal(decode_small(data), decode_small(upright))


@pytest.mark.parametrize("side", [100, 300, 600])  # decoded whole, 1/4, 1/8
def test_a_jpeg_decoded_at_a_smaller_scale_is_turned_too(side: int) -> None:
    large = Image.fromarray(SPOTS).resize((side + 40, side), Image.Resampling.BICUBIC)
    for way in WAYS:
        file = io.BytesIO()
        large.save(file, "JPEG", exif=exif_of(way), quality=95)
        upright = lossless(seen(file.getvalue()))
        difference = decode_small(file.getvalue()).astype(int) - decode_small(upright)
        assert np.abs(difference).mean() < 2


def test_every_feature_sees_an_image_upright() -> None:
    names = ["dimensions", "thumbnail", "projections", "hog"]
    features = load_features(names)
    for way in WAYS:
        data = STORED["PNG"](way)
        upright = lossless(seen(data))
        width, height = (seen(data)).size
        assert features[0](data)[:2] == [np.log2(width), np.log2(height)]
        for one, step in zip(features[1:3], (decode_small, decode_grey), strict=True):
            (need,) = one.needs
            np.testing.assert_array_equal(one(need(data)), one(step(upright)))


@pytest.mark.parametrize(
    "exif",
    [
        exif_of(0),
        exif_of(9),
        exif_of(65_535),
        exif_of(6, count=2),
        exif_of(6, kind=1),
        exif_of(6, kind=99),
        exif_of(6)[:20],
        exif_of(6)[6:14],
        b"",
        b"Exif\0\0",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0no TIFF at all",
        b"Exif\0\0II*\0\x08\0\0\0\xff\xff",
    ],
)
def test_what_says_nothing_known_leaves_an_image_as_it_is(exif: bytes) -> None:
    assert orientation_of(exif) == 1
    data = jpeg(exif) if exif else JPEG
    assert open_picture(data).size == (210, 150)
    np.testing.assert_array_equal(decode_grey(data), decode_grey(JPEG))


@given(st.binary(max_size=60), st.binary(max_size=60), st.sampled_from([b"II", b"MM"]))
def test_no_bytes_crash(start: bytes, more: bytes, order: bytes) -> None:
    assert 1 <= orientation_of(order + start + more, b"tiff:Orientation=" + more) <= 8


def test_much_of_it_takes_no_time() -> None:
    entries = struct.pack("<HHI4s", 0x0111, 3, 1, b"\6\0\0\0") * 65_535
    hostile = b"II*\0\x08\0\0\0" + struct.pack("<H", 65_535) + entries
    late = hostile[:-12] + struct.pack("<HHI4s", 0x0112, 3, 1, b"\6\0\0\0")
    assert len(late) > 12 * MOST_ENTRIES
    for data in (
        png(chunk(b"eXIf", late)),
        png(b"", chunk(b"eXIf", late) + bytes(MOST_BEHIND)),
        png(chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + b"tiff:" * 10**6)),
        png(b"", b"\0\0\0\0eXIf" * 10**6),
        jpeg(*[exif_of(6) + late[:60_000]] * 200),
    ):
        begun_s = time.process_time()
        for _ in range(10):
            open_picture(data)
        assert time.process_time() - begun_s < 1.0
