"""Finds the pieces of an encoded image that a decoder needs, and its orientation.

A file may have millions of pieces that say nothing about the pixels: comments,
profiles, empty blocks. Pillow reads each of them in Python. So this module counts the
pieces, and passes only the pieces that a decoder needs. The orientation is read from
the EXIF or XMP notes: a camera stores pixels as its sensor gives them, and notes how to
turn them.
"""

import re
import struct
import zlib
from typing import NamedTuple

from ..errors import BadItem

# Most pieces of a file before its pixels. Large profiles and the notes of cameras and
# editors take some hundreds.
MOST_PIECES = 2048
# Most pieces before the pixels that a decoder needs, such as tables and a palette, and
# the most bytes of all of them.
MOST_TABLES, MOST_TABLE_BYTES = 256, 1 << 17
# Most bytes that lie between two pieces and belong to neither.
MOST_BETWEEN = 1 << 16
# Usual and highest number of scans in the pixels of a progressive JPEG.
USUAL_SCANS, MOST_SCANS = 10, 100
# Bytes of the pixels that are kept for a header: they say how pixels are encoded.
FIRST_PIXELS = 1024
# Most pieces of a PNG's pixels; encoders write some kilobytes at a time.
MOST_PIXEL_PIECES = 1 << 14
# Bytes at the end of a PNG that are searched for EXIF behind the pixels.
MOST_BEHIND = 1 << 17
# Limits of run-length BMPs, since Pillow decodes them byte by byte in Python.
MOST_RUN_BYTES, MOST_RUN_PIXELS = 1 << 16, 1 << 18

# Markers of the frames of a JPEG, and of all pieces that the pixels depend on.
_JPEG_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_JPEG_TABLES = _JPEG_FRAMES | {0xC4, 0xCC, 0xDB, 0xDC, 0xDD}
# Notes that say how colours are stored.
_JPEG_NOTES = {0xE0: b"JFIF", 0xEE: b"Adobe"}
_JPEG_APP1 = 0xE1  # notes of cameras and editors
_EXIF, _XMP = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0"
_JPEG_SCAN, _JPEG_END, _SCAN = 0xDA, 0xD9, b"\xff\xda"
_PROGRESSIVE = {0xC2, 0xC6, 0xCA, 0xCE}
_JPEG_ALONE = {0x01, *range(0xD0, 0xDA)}  # markers without a length
# A marker; not a byte 255 among compressed pixels, and not a restart.
_JPEG_NEXT = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
_WEBP_HAS_EXIF, _WEBP_HAS_XMP = 8, 4  # flags in its first piece
_GIF_NEXT = re.compile(rb"[!,;]")
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_TABLES = {b"IHDR", b"PLTE", b"tRNS"}
_PNG_XMP = b"XML:com.adobe.xmp\0\0"  # only if it is not compressed
_PNG_END = b"\0\0\0\0IEND\xae\x42\x60\x82"

UPRIGHT = 1  # also for images without a valid orientation
# Orientations in EXIF are 1 to 8; from SIDEWAYS on, width and height are exchanged.
SIDEWAYS, LAST = 5, 8
# Most entries of EXIF and bytes of XMP that are read; cameras write a tenth of that.
MOST_ENTRIES, MOST_XMP_BYTES = 1024, 1 << 17

_ORIENTATION = 0x0112
_ORDERS = {b"II": "<", b"MM": ">"}
_WHOLE_NUMBERS = {3: "H", 8: "h", 4: "I", 9: "i"}  # types of an entry
_IN_XMP = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')


class Pieces(NamedTuple):
    """The parts of an encoded image that a decoder needs.

    The decoder reads the bytes `head`, and then the file from offset `pixels` on.
    """

    head: bytes  # Beginning of the file, without pieces that say nothing of the pixels
    pixels: int  # Offset of the pixels in the file
    # True for a JPEG whose decoder goes over the pixels once for each scan
    several_scans: bool = False
    orientation: int = UPRIGHT  # How to turn the pixels upright: 1 to 8, as in EXIF


def find_pieces(data: bytes) -> Pieces:
    """Find the pieces that a decoder needs, without reading a pixel.

    A file of an unknown format is returned whole. An image that is cut off raises an
    error only in its decoder, not here. Raises BadItem if there are implausibly many
    pieces, or implausibly long tables.
    """
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg_pieces(data)
    if data.startswith(_PNG):
        return _png_pieces(data)
    if data.startswith((b"GIF87a", b"GIF89a")):
        return _gif_pieces(data)
    if data.startswith(b"BM"):
        _check_bmp(data)
    elif data.startswith(b"RIFF"):
        return _webp_pieces(data)
    return Pieces(data, len(data))


class Header(NamedTuple):
    """The part of an encoded image from which its size is read."""

    # Beginning of the file, as `find_pieces` leaves it; the whole file for formats
    # whose header a library reads quickly
    start: bytes
    dearer: float  # Time to decode the pixels relative to the usual time, at least 1
    orientation: int  # How to turn the pixels upright: 1 to 8, as in EXIF


def header_of(data: bytes) -> Header:
    """Find the part of an encoded image that states the image's size.

    Raises the same errors as `find_pieces`.
    """
    head, pixels, several_scans, orientation = find_pieces(data)
    scans = data.count(_SCAN, pixels) if several_scans else 0
    start = head + data[pixels : pixels + FIRST_PIXELS]
    dearer = max(1.0, min(scans, MOST_SCANS) / USUAL_SCANS)
    return Header(start, dearer, orientation)


class Pixels(NamedTuple):
    """An encoded image without its notes, and its orientation in EXIF, 1 to 8."""

    data: bytes
    orientation: int


def pixels_of(data: bytes) -> Pixels:
    """Remove the pieces of an encoded image that say nothing about its pixels.

    Raises BadItem as `find_pieces` does, and if the pixels come in too many pieces.
    """
    head, pixels, several_scans, orientation = find_pieces(data)
    if several_scans:
        _check_scans(data, pixels)
    if data.startswith(_PNG):
        end = _end_of_pixels(data, pixels)
        return Pixels(head + data[pixels:end] + _PNG_END, orientation)
    return Pixels(head + data[pixels:], orientation)


class _Tables:
    """Counts the pieces of a file, and keeps the pieces that a decoder needs."""

    def __init__(self, name: str, start: bytes) -> None:
        self._name = name
        self._left, self._left_between = MOST_PIECES, MOST_BETWEEN
        self._kept = [start]
        self._size = len(start)
        self.exif, self.xmp = b"", b""  # notes with the orientation

    def next(
        self, pattern: re.Pattern[bytes], data: bytes, place: int
    ) -> re.Match[bytes] | None:
        """Return the match of the next piece from `place` on, or None at the end."""
        found = pattern.search(data, place, place + self._left_between + 2)
        self._left_between -= (found.start() if found else len(data)) - place
        self.count()
        if self._left_between < 0:
            raise BadItem(
                f"the {self._name} has more than {MOST_BETWEEN:,} bytes between the "
                "pieces before its pixels that belong to none"
            )
        return found

    def count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise BadItem(
                f"the {self._name} has more than {MOST_PIECES:,} pieces before its "
                "pixels; save it anew without its notes"
            )

    def keep(self, piece: bytes) -> None:
        self._kept.append(piece)
        self._size += len(piece)
        if len(self._kept) > MOST_TABLES or self._size > MOST_TABLE_BYTES:
            raise BadItem(
                f"the {self._name} has more than {MOST_TABLES} tables before its "
                f"pixels, or more than {MOST_TABLE_BYTES:,} bytes of them"
            )

    def pieces(self, pixels: int, *, several_scans: bool = False) -> Pieces:
        turned = orientation_of(self.exif, self.xmp)
        return Pieces(b"".join(self._kept), pixels, several_scans, turned)


def _jpeg_pieces(data: bytes) -> Pieces:
    tables, place = _Tables("JPEG", data[:2]), 2
    progressive, colours = False, b""
    while (found := tables.next(_JPEG_NEXT, data, place)) is not None:
        start, place, code = found.start(), found.end(), data[found.start() + 1]
        if code == _JPEG_SCAN:
            # if a JPEG is not progressive, a scan with all colours is its only scan
            several = progressive or data[start + 4 : start + 5] < colours
            return tables.pieces(start, several_scans=several)
        if code in _JPEG_ALONE:
            continue
        said = _JPEG_NOTES.get(code)
        is_said = said is not None and data.startswith(said, place + 2)
        begin = place + 2
        place += max(int.from_bytes(data[place : place + 2], "big"), 2)
        if place > len(data):
            break
        if code == _JPEG_APP1 and not tables.exif and data.startswith(_EXIF, begin):
            tables.exif = data[begin:place]
        elif code == _JPEG_APP1 and data.startswith(_XMP, begin):
            tables.xmp = data[begin:place]
        if code in _JPEG_TABLES or is_said:
            tables.keep(data[start:place])
        if code in _JPEG_FRAMES:
            progressive = progressive or code in _PROGRESSIVE
            colours = max(colours, data[start + 9 : start + 10])
    return tables.pieces(len(data))


def _check_scans(data: bytes, place: int) -> None:
    if data.count(_SCAN, place) <= MOST_SCANS:
        return
    scans = 0  # count up to the end of the image, as a film may follow
    while (found := _JPEG_NEXT.search(data, place)) is not None:
        place, code = found.end(), data[found.start() + 1]
        if code == _JPEG_END:
            return
        scans += code == _JPEG_SCAN
        if scans > MOST_SCANS:
            raise BadItem(f"the JPEG goes over its pixels more than {MOST_SCANS} times")
        if code not in _JPEG_ALONE:
            place += int.from_bytes(data[place : place + 2], "big")


def _png_pieces(data: bytes) -> Pieces:
    tables, place = _Tables("PNG", data[:8]), 8
    while place + 8 <= len(data):
        kind, end = _png_piece(data, place)
        if kind in (b"IDAT", b"IEND") or end > len(data):
            break
        tables.count()
        if kind in _PNG_TABLES:
            tables.keep(data[place:end])
        elif kind == b"eXIf":
            tables.exif = data[place + 8 : end - 4]
        elif kind == b"iTXt" and data.startswith(_PNG_XMP, place + 8):
            tables.xmp = data[place + 8 : end - 4]
        place = end
    tables.exif = tables.exif or _exif_behind(data, place)
    return tables.pieces(place)


def _exif_behind(data: bytes, pixels: int) -> bytes:
    """Return the EXIF notes after the pixels of a PNG; b"" if there are none."""
    # from the end of the file, since the pixels may have many pieces
    found = data.rfind(b"eXIf", max(pixels, len(data) - MOST_BEHIND))
    if found < 0:
        return b""
    _, end = _png_piece(data, found - 4)
    check = int.from_bytes(data[end - 4 : end], "big")
    is_whole = end <= len(data) and zlib.crc32(data[found : end - 4]) == check
    return data[found + 4 : end - 4] if is_whole else b""


def _png_piece(data: bytes, place: int) -> tuple[bytes, int]:
    """Return the type of a piece of a PNG, and the offset of its end."""
    length = int.from_bytes(data[place : place + 4], "big")
    return data[place + 4 : place + 8], place + length + 12


def _end_of_pixels(data: bytes, place: int) -> int:
    for _ in range(MOST_PIXEL_PIECES):
        kind, end = _png_piece(data, place)
        if kind != b"IDAT":
            return place
        if end > len(data):
            return len(data)
        place = end
    raise BadItem(f"the PNG has its pixels in more than {MOST_PIXEL_PIECES:,} pieces")


def _gif_pieces(data: bytes) -> Pieces:
    flags = data[10] if len(data) > 10 else 0
    place = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    tables, transparent = _Tables("GIF", data[:place]), b""
    while (found := tables.next(_GIF_NEXT, data, place)) is not None:
        place = found.start()
        if not data.startswith(b"!", place):
            break
        # the area around the first frame has the colour that this piece names
        control = data[place : place + 8]
        if control.startswith(b"!\xf9\x04") and control[3:4] > b"" and control[3] & 1:
            transparent = control
        place = _end_of_blocks(data, place + 2, tables)
    tables.keep(transparent)
    return tables.pieces(place if found else len(data))


def _end_of_blocks(data: bytes, place: int, tables: _Tables) -> int:
    """Return the offset after the data blocks of a GIF that begin at `place`."""
    while place < len(data) and (length := data[place]):
        tables.count()
        place += length + 1
    return place + 1


def _check_bmp(data: bytes) -> None:
    """Raise BadItem for palettes and run lengths that Pillow would decode slowly."""
    if int.from_bytes(data[14:18], "little") < 40:
        return
    width, height, bits, compression, colours = (
        int.from_bytes(data[start:end], "little")
        for start, end in ((18, 22), (22, 26), (28, 30), (30, 34), (46, 50))
    )
    if bits <= 8 and colours > 256:
        raise BadItem(f"the BMP says that {bits} bits a pixel are {colours:,} colours")
    height = min(height, 2**32 - height)  # negative: rows from the top
    is_large = len(data) > MOST_RUN_BYTES or width * height > MOST_RUN_PIXELS
    if compression in (1, 2) and is_large:
        raise BadItem(
            f"the BMP of {len(data):,} bytes and {width} x {height} pixels is "
            f"compressed by run lengths; up to {MOST_RUN_BYTES:,} bytes and "
            f"{MOST_RUN_PIXELS:,} pixels are read so: save it as PNG"
        )


def _webp_pieces(data: bytes) -> Pieces:
    """Count the pieces of a WebP and find its notes; a decoder gets the whole file."""
    tables, place = _Tables("WebP image", data), 12
    has = data[20] if data.startswith(b"VP8X", 12) and len(data) > 20 else 0
    while place + 8 <= len(data):
        tables.count()
        kind = data[place : place + 4]
        length = int.from_bytes(data[place + 4 : place + 8], "little")
        begin = place + 8
        if kind == b"EXIF" and has & _WEBP_HAS_EXIF and not tables.exif:
            tables.exif = data[begin : begin + length]
        elif kind == b"XMP " and has & _WEBP_HAS_XMP and not tables.xmp:
            tables.xmp = data[begin : begin + length]
        # step into a frame, since it contains pieces
        place += 24 if kind == b"ANMF" else 8 + length + length % 2
    return tables.pieces(len(data))


def orientation_of(exif: bytes, xmp: bytes = b"") -> int:
    """Return an image's orientation, 1 to 8 as in EXIF; UPRIGHT if none is noted.

    `exif` is a TIFF file, which may begin with `Exif`; only its first directory counts.
    `xmp` is a text, used if `exif` has no orientation.
    """
    said = _in_exif(exif.removeprefix(_EXIF).removeprefix(_EXIF))
    if said is None and (found := _IN_XMP.search(xmp, 0, MOST_XMP_BYTES)):
        said = int(found[1])
    return said if said is not None and UPRIGHT <= said <= LAST else UPRIGHT


def _in_exif(tiff: bytes) -> int | None:
    """Return the last orientation in a TIFF file: 0 if invalid, None if absent."""
    order = _ORDERS.get(tiff[:2])
    if order is None or len(tiff) < 8:
        return None
    (start,) = struct.unpack_from(f"{order}I", tiff, 4)
    if start + 2 > len(tiff):
        return None
    (count,) = struct.unpack_from(f"{order}H", tiff, start)
    size = 12 * min(count, MOST_ENTRIES, (len(tiff) - start - 2) // 12)
    entries = tiff[start + 2 : start + 2 + size]
    said = None
    for tag, kind, values, value in struct.iter_unpack(f"{order}HHI4s", entries):
        if tag == _ORIENTATION:
            form = _WHOLE_NUMBERS.get(kind)
            known = form is not None and values == 1
            said = struct.unpack_from(f"{order}{form}", value)[0] if known else 0
    return said
