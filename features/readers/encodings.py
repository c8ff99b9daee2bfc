"""Finds and checks the encodings of text files, and decodes texts."""

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..errors import BadInput

# Byte order marks. The mark of UTF-32 begins with the mark of UTF-16, so it is first.
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
SAMPLE = 2**16  # bytes at the beginning of a file, which are searched for zeros
CHUNK = 2**20  # bytes that are read at a time
# Up to this share of zero bytes, the zeros are padding in cells. A larger share means
# an encoding with two bytes per character.
FEW_ZEROS = 0.01
NOT_IN_WINDOWS = frozenset(b"\x81\x8d\x8f\x90\x9d")  # bytes that cp1252 does not define
MOSTLY_UTF8 = "UTF-8 but for some bytes"
# A file counts as `MOSTLY_UTF8` if its bytes that are not UTF-8 number at most this
# share of its characters of UTF-8 beyond ASCII.
FEW_BAD = 0.1


def find_encoding(path: Path) -> str:
    """Return the encoding of a text file.

    If the file begins with a byte order mark, the mark names the encoding. Otherwise
    the result is the first of these encodings that fits the bytes: UTF-8,
    `MOSTLY_UTF8`, UTF-16 without a mark, Windows-1252, or Latin-1 if the file has bytes
    that Windows-1252 does not define. Raises BadInput if the file has too many zero
    bytes for a text.
    """
    with path.open("rb") as file:
        start = file.read(SAMPLE)
        for mark, encoding in MARKS.items():
            if start.startswith(mark):
                return encoding
        if start.count(0) > FEW_ZEROS * len(start):
            return _utf_16_without_mark(path, start)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            for chunk in chunks(file):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            if _is_mostly_utf8(file):
                return MOSTLY_UTF8
            lacking = any(NOT_IN_WINDOWS & set(part) for part in chunks(file))
            return "latin-1" if lacking else "cp1252"
    return "utf-8"


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """Read a file from its beginning, `CHUNK` bytes at a time."""
    file.seek(0)
    while chunk := file.read(CHUNK):
        yield chunk


def codec_of(encoding: str) -> str:
    """Return the name of Python's codec for an encoding found by `find_encoding`."""
    return "utf-8" if encoding == MOSTLY_UTF8 else encoding


def check_encoding(encoding: str | None) -> None:
    """Raise BadInput for an encoding that Python does not know; None is allowed."""
    if encoding is None:
        return
    try:
        "".encode(encoding)
    except (LookupError, ValueError):
        raise BadInput(
            f"encoding is {encoding[:80]!r}, which is unknown; 'utf-8', 'latin-1', "
            "'cp1252' or 'utf-16', for instance, is needed"
        ) from None


def decode_text(data: bytes, encoding: str | None = None) -> str:
    """Decode the bytes of a text, and change every line end to a line feed.

    If `encoding` is None, the text's byte order mark names the encoding, and a text
    without a mark is UTF-8. Raises UnicodeDecodeError if the bytes do not fit it.
    """
    if not encoding:
        found = (name for mark, name in MARKS.items() if data.startswith(mark))
        encoding = next(found, "utf-8")
    text = data.decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _is_mostly_utf8(file: BinaryIO) -> bool:
    """Return True if a file is UTF-8 apart from a few bytes of another encoding."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    good = bad = 0
    for chunk in chunks(file):
        text = decoder.decode(chunk)
        bad += text.count("\ufffd")
        good += len(chunk) - len(text)  # bytes beyond the first of each character
    return bad < FEW_BAD * good


def _utf_16_without_mark(path: Path, start: bytes) -> str:
    """Return "utf-16-be" or "utf-16-le"; raise BadInput if zero bytes fit neither."""
    half = len(start) // 2
    for first, encoding in ((0, "utf-16-be"), (1, "utf-16-le")):
        if start[first::2].count(0) > 0.5 * half and not start[1 - first :: 2].count(0):
            return encoding
    raise BadInput(
        f"{path} is no text: it holds zero bytes; a CSV file is needed, not one of a "
        "spreadsheet program or an archive"
    )
