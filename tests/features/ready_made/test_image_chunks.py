"""What is left out of an encoded image changes no pixel, and no file takes long."""

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
from numpy.typing import NDArray
from PIL import Image, ImageOps

from polydom.features.errors import BadItem
from polydom.features.items import image_item
from polydom.features.loading import load_features
from polydom.features.ready_made.image_chunks import (
    MOST_BEHIND,
    MOST_BETWEEN,
    MOST_ENTRIES,
    MOST_PIECES,
    MOST_PIXEL_PIECES,
    MOST_SCANS,
    USUAL_SCANS,
    orientation_of,
    pixels_of,
)
from polydom.features.ready_made.image_header import open_picture, read_header
from polydom.features.ready_made.image_pixels import decode_grey, decode_small

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


SPOTS = np.random.default_rng(0).integers(60, 190, (5, 7, 3), dtype=np.uint8)
PHOTO = Image.fromarray(SPOTS).resize((210, 150), Image.Resampling.BICUBIC)
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


def photo(format: str, **options: Any) -> bytes:
    return encode(format, PHOTO, **options)


PHOTO_JPEG, PHOTO_PNG = photo("JPEG"), photo("PNG")


def jpeg(*notes: bytes) -> bytes:
    written = b"".join(segment(0xE1, note) for note in notes)
    return PHOTO_JPEG[:2] + written + PHOTO_JPEG[2:]


def png(before: bytes = b"", behind: bytes = b"") -> bytes:
    return PHOTO_PNG[:33] + before + PHOTO_PNG[33:-12] + behind + PHOTO_PNG[-12:]


def png_xmp(number: int) -> bytes:
    return png(chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp_of(number)))


ADOBE = b"http://ns.adobe.com/xap/1.0/\0"
STORED: dict[str, Callable[[int], bytes]] = {
    "JPEG": lambda way: photo("JPEG", exif=exif_of(way)),
    "JPEG, progressive": lambda way: photo("JPEG", exif=exif_of(way), progressive=True),
    "JPEG, big-endian": lambda way: jpeg(exif_of(way, ">")),
    "JPEG, a long": lambda way: jpeg(exif_of(way, "<", 4)),
    "JPEG, twice": lambda way: jpeg(exif_of(way), exif_of(9 - way)),
    "JPEG, EXIF of 60 kB": lambda way: jpeg(exif_of(way) + bytes(60_000)),
    "JPEG, EXIF begun twice": lambda way: jpeg(b"Exif\0\0" + exif_of(way)),
    "JPEG, with a thumbnail": lambda way: jpeg(exif_with_thumbnail(way)),
    "JPEG, XMP": lambda way: jpeg(ADOBE + xmp_of(way)),
    "JPEG, EXIF and XMP": lambda way: jpeg(ADOBE + xmp_of(9 - way), exif_of(way)),
    "PNG": lambda way: photo("PNG", exif=exif_of(way)),
    "PNG, behind its pixels": lambda way: png(b"", chunk(b"eXIf", exif_of(way)[6:])),
    "PNG, XMP": png_xmp,
    "WebP": lambda way: photo("WEBP", exif=exif_of(way), lossless=True),
    "WebP, XMP": lambda way: photo("WEBP", xmp=xmp_of(way), lossless=True),
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
    data = jpeg(exif) if exif else PHOTO_JPEG
    assert open_picture(data).size == (210, 150)
    np.testing.assert_array_equal(decode_grey(data), decode_grey(PHOTO_JPEG))


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
