"""What is left out of an encoded image changes no pixel, and no file takes long."""

import io
import struct
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from polydom.features.errors import BadItem
from polydom.features.items import image_item
from polydom.features.ready_made.image_pieces import (
    MOST_BETWEEN,
    MOST_PIECES,
    MOST_PIXEL_PIECES,
    MOST_SCANS,
    USUAL_SCANS,
    pixels_of,
)
from polydom.features.ready_made.picture import decode_grey, decode_small, read_header

EIGHT_MB = 8 << 20
NOISE = np.random.default_rng(0).integers(0, 256, (40, 56, 3), dtype=np.uint8)
COLOURS = Image.fromarray(NOISE)


def encode(format: str, picture: Image.Image = COLOURS, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, format, **options)
    return file.getvalue()


def segment(code: int, data: bytes = b"") -> bytes:
    return struct.pack(">BBH", 0xFF, code, len(data) + 2) + data


def chunk(kind: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I4s", len(data), kind) + data + crc(kind + data)


def crc(data: bytes) -> bytes:
    return struct.pack(">I", zlib.crc32(data))


JPEG, PROGRESSIVE = encode("JPEG"), encode("JPEG", progressive=True)
CMYK = encode("JPEG", COLOURS.convert("CMYK"))
PNG, GIF = encode("PNG"), encode("GIF", COLOURS.quantize(16))
PIXELS = PNG.index(b"IDAT") - 4
PALETTE_END = 13 + (3 << (GIF[10] & 7) + 1)
EXIF = Image.Exif()
EXIF[0x0112] = 6  # turned, which changes no stored pixel
CONTROL = b"!\xf9\x04\x01\0\0\x03\0"


def jpeg_with(pieces: bytes, data: bytes = JPEG) -> bytes:
    return data[:2] + pieces + data[2:]


def png_with(before: bytes, after: bytes = b"") -> bytes:
    return PNG[:PIXELS] + before + PNG[PIXELS:-12] + after + PNG[-12:]


def gif_with(pieces: bytes) -> bytes:
    return GIF[:PALETTE_END] + pieces + GIF[PALETTE_END:]


def pixels(data: bytes) -> NDArray[Any]:
    """What Pillow itself makes of a file; its transparency is no matter here."""
    with Image.open(io.BytesIO(data)) as picture:
        picture.load()
        picture.info.pop("transparency", None)
        return np.asarray(picture.convert("RGB"))


jpeg_pieces = st.lists(
    st.one_of(
        st.builds(
            segment,
            st.sampled_from([0xE1, 0xE2, 0xED, 0xEF, 0xFE]),
            st.binary(max_size=30),
        ),
        st.sampled_from([b"\xff", b"\xff\xff", b"\xff\x00", b"\xff\xd0"]),
    ),
    max_size=6,
).map(b"".join)
png_pieces = st.lists(
    st.builds(
        chunk,
        st.sampled_from([b"aaAa", b"teXt", b"gAMA", b"pHYs", b"eXIf"]),
        st.binary(min_size=9, max_size=30),
    ),
    max_size=6,
).map(b"".join)
blocks = st.lists(st.binary(min_size=1, max_size=9), max_size=4).map(
    lambda parts: b"".join(bytes([len(part)]) + part for part in parts) + b"\0"
)
gif_pieces = st.lists(
    st.one_of(
        st.builds(b"!\xfe%b".__mod__, blocks),
        st.sampled_from([b"", b"aa", CONTROL, b"!\xff\x0bNETSCAPE2.0\x03\1\0\0\0"]),
    ),
    max_size=6,
).map(b"".join)


@given(
    st.one_of(
        st.builds(jpeg_with, jpeg_pieces, st.sampled_from([JPEG, PROGRESSIVE, CMYK])),
        st.builds(png_with, png_pieces, png_pieces),
        st.builds(gif_with, gif_pieces),
    )
)
def test_no_pixel_depends_on_what_is_left_out(data: bytes) -> None:
    kept = pixels_of(data).data
    assert len(kept) <= len(data)
    np.testing.assert_array_equal(pixels(kept), pixels(data))
    with Image.open(io.BytesIO(data)) as picture:
        assert read_header(data)[0].file.size == picture.size
        assert read_header(data)[0].file.getbands() == picture.getbands()


def test_notes_and_profiles_of_every_format_are_left_out() -> None:
    note = b"n" * 60_000
    many = b"".join(segment(0xE2, b"ICC_PROFILE\0" + note) for _ in range(100))
    for data in (
        jpeg_with(many),
        encode("JPEG", exif=EXIF.tobytes()),
        encode("JPEG", comment=note),
        png_with(chunk(b"zTXt", b"a\0\0" + zlib.compress(note))),
        encode("GIF", COLOURS.quantize(16), comment=note),
        encode("MPO", save_all=True, append_images=[COLOURS]),
    ):
        np.testing.assert_array_equal(pixels(pixels_of(data).data), pixels(data))
        assert note[:1000] not in pixels_of(data).data


def test_a_frame_within_a_gif_lies_on_the_colour_that_it_says() -> None:
    screen = struct.pack("<HH", 60, 60)
    for data in (GIF, gif_with(CONTROL), gif_with(CONTROL + b"!\xfe\1a\0" + CONTROL)):
        within = data[:6] + screen + data[10:]
        np.testing.assert_array_equal(pixels(pixels_of(within).data), pixels(within))


@pytest.mark.parametrize(
    "data",
    [
        JPEG,
        PROGRESSIVE,
        PNG,
        GIF,
        encode("BMP"),
        encode("WEBP"),
        b"",
        b"GIF89a",
        b"RIFF",
    ],
)
def test_wherever_a_file_is_cut_off_it_decodes_or_is_refused(data: bytes) -> None:
    for end in {*range(min(len(data), 700)), *range(0, len(data), 97)}:
        for read in (read_header, decode_grey):
            try:
                read(data[:end])
            except BadItem:
                continue


def fill(piece: bytes) -> bytes:
    return piece * ((EIGHT_MB - 20_000) // len(piece))


def bmp(bits: int, compression: int, colours: int, pixels: bytes, side: int) -> bytes:
    head = struct.pack("<IiiHHIIiiII", 40, side, side, 1, bits, compression, *[0] * 5)
    head = head[:32] + struct.pack("<I", colours) + head[36:]
    return b"BM" + bytes(8) + struct.pack("<I", 1078) + head + bytes(1024) + pixels


def tiff(entries: int) -> bytes:
    """A directory of EXIF, which Pillow would read whole for its resolution."""
    each = b"".join(struct.pack("<HHII", k, 3, 1, 1) for k in range(entries))
    return b"II*\0\x08\0\0\0" + struct.pack("<H", entries) + each


def exif(entries: int) -> bytes:
    data = tiff(entries)
    parts = (data[at : at + 60_000] for at in range(0, len(data), 60_000))
    return b"".join(segment(0xE1, b"Exif\0\0" + part) for part in parts)


def webp(pieces: bytes) -> bytes:
    frames = [Image.fromarray(NOISE[:16, :16] + k) for k in range(2)]
    data = encode("WEBP", frames[0], save_all=True, append_images=frames[1:])
    body = data[12:] + pieces
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


LAST_SCAN = PROGRESSIVE[PROGRESSIVE.rindex(b"\xff\xda") : -2]
ONE_COLOUR = segment(0xDA, b"\1\1\0\0\x3f\0")  # of which no pixel is there
TABLES = segment(0xDB, (b"\0" + bytes(64)) * 1000)
LONG: dict[str, tuple[bytes, str]] = {
    "notes": (jpeg_with(fill(segment(0xE1))), "pieces before"),
    "notes of no length": (jpeg_with(fill(b"\xff\xe0\0\0")), "pieces before"),
    "comments": (jpeg_with(fill(segment(0xFE))), "pieces before"),
    "unknown markers": (jpeg_with(fill(segment(0xF0))), "pieces before"),
    "beginnings": (jpeg_with(fill(b"\xff\xd8")), "pieces before"),
    "ends": (jpeg_with(fill(b"\xff\xd9")), "pieces before"),
    "tables": (jpeg_with(fill(segment(0xC4))), "tables before"),
    "large tables": (jpeg_with(fill(TABLES)), "tables before"),
    "restarts": (jpeg_with(fill(b"\xff\xd0")), "bytes between"),
    "fill bytes": (jpeg_with(fill(b"\xff")), "bytes between"),
    "fill bytes of no marker": (jpeg_with(fill(b"\xff") + b"\0"), "bytes between"),
    "EXIF": (jpeg_with(exif(65_535)), ""),
    "scans": (PROGRESSIVE[:-2] + fill(LAST_SCAN) + b"\xff\xd9", "over its pixels"),
    "scans of a colour": (
        JPEG[: JPEG.index(b"\xff\xda")] + fill(ONE_COLOUR) + b"\xff\xd9",
        "over its pixels",
    ),
    "texts": (png_with(fill(chunk(b"tEXt", b"a\0b"))), "pieces before"),
    "packed texts": (
        png_with(fill(chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(10**6))))),
        "pieces before",
    ),
    "palettes": (png_with(fill(chunk(b"PLTE", b"abc"))), "tables before"),
    "empty pixels": (png_with(fill(chunk(b"IDAT"))), "its pixels in more"),
    "behind the pixels": (png_with(b"", fill(chunk(b"tEXt", b"a\0b"))), ""),
    "extensions": (gif_with(fill(b"!\xfe\0")), "pieces before"),
    "blocks": (gif_with(b"!\xfe" + fill(b"\1a") + b"\0"), "pieces before"),
    "junk": (gif_with(fill(b"a")), "bytes between"),
    "controls": (gif_with(fill(CONTROL)), "pieces before"),
    "colours": (bmp(8, 0, 65_536, fill(b"\0"), 64), "65,536 colours"),
    "runs": (bmp(8, 1, 0, fill(b"\1\5"), 64), "run lengths"),
    "runs of nothing": (bmp(8, 2, 0, b"\1\5\0\0" * 1000, 7000), "run lengths"),
    "RIFF": (webp(fill(b"abcd\0\0\0\0")), "pieces before"),
    "frames": (webp(fill(b"ANMF\x10\0\0\0" + bytes(16))), "pieces before"),
    "within a frame": (
        webp(b"ANMF" + struct.pack("<I", EIGHT_MB) + bytes(16) + fill(bytes(8))),
        "pieces before",
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_eight_megabytes_of_pieces_are_soon_read_or_refused(name: str) -> None:
    data, said = LONG[name]
    took_s = {}
    for read in (image_item, decode_grey, decode_small):
        read_one: Callable[[bytes], Any] = read
        began_s, found = time.thread_time(), ""
        try:
            read_one(data)
        except BadItem as error:
            found = str(error)
        took_s[read_one] = time.thread_time() - began_s
        if read is image_item and "its pixels" in said and "before" not in said:
            assert not found  # which only a decoder looks at
        else:
            assert bool(found) == bool(said)
            assert said in found
    # all of it took seconds in Pillow
    assert max(took_s.values()) < 0.2, took_s


def test_what_is_exactly_at_the_limits_is_read() -> None:
    before = len(jpeg_pieces_before(JPEG))
    note = segment(0xE1)
    assert image_item(jpeg_with(note * (MOST_PIECES - before))).size == 40 * 56
    with pytest.raises(BadItem, match="pieces before"):
        image_item(jpeg_with(note * (MOST_PIECES - before + 1)))
    assert image_item(jpeg_with(b"\xff" * MOST_BETWEEN)).size == 40 * 56
    with pytest.raises(BadItem, match="bytes between"):
        image_item(jpeg_with(b"\xff" * (MOST_BETWEEN + 1)))
    empty = chunk(b"IDAT")
    usual = PNG.count(b"IDAT")
    assert decode_grey(png_with(empty * (MOST_PIXEL_PIECES - usual - 1))).size
    with pytest.raises(BadItem, match="its pixels in more"):
        decode_grey(png_with(empty * (MOST_PIXEL_PIECES - usual)))


def jpeg_pieces_before(data: bytes) -> list[int]:
    """Markers up to the first scan, found the slow way."""
    codes, place = [], 2
    while (code := data[place + 1]) != 0xDA:
        codes.append(code)
        place += 2 + struct.unpack_from(">H", data, place + 2)[0]
    return [*codes, code]


def test_a_jpeg_of_many_scans_counts_as_larger_and_may_have_a_film_behind_it() -> None:
    usual = PROGRESSIVE.count(b"\xff\xda")
    assert usual <= USUAL_SCANS
    most = PROGRESSIVE[:-2] + LAST_SCAN * (MOST_SCANS - usual) + b"\xff\xd9"
    assert image_item(most).size == 40 * 56 * MOST_SCANS / USUAL_SCANS
    np.testing.assert_array_equal(pixels(pixels_of(most).data), pixels(most))
    with pytest.raises(BadItem, match="over its pixels"):
        decode_grey(most[:-2] + LAST_SCAN + b"\xff\xd9")
    film = PROGRESSIVE + b"\xff\xda" * 1000
    np.testing.assert_array_equal(decode_grey(film), decode_grey(PROGRESSIVE))
