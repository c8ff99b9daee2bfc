"""Reads JSON Lines, files with one JSON object per line: a whole file, or a part."""

from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..errors import BadInput, BadItem
from ..wording import describe_decode_error
from .encodings import check_encoding

JSON_LINES = (".jsonl", ".ndjson")

Row = dict[str, Any] | BadItem  # values by key, or the reason why a row cannot be read

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Span(NamedTuple):
    """Whole lines of a file: `length` bytes from `offset` on, with `rows` rows."""

    offset: int
    length: int
    rows: int


class Line(NamedTuple):
    """A line of JSON Lines that is not blank."""

    number: int  # Number of the line, from 1, blank lines included
    document: bytes  # JSON of the line, in UTF-8
    # Values of the line, or a BadItem if it cannot be read; the cause of the BadItem is
    # a UnicodeError if bytes could not be decoded
    row: Row
    # Bytes of the file before the line; None if the file is not in UTF-8
    offset: int | None


def read_json_lines(
    path: Path, encoding: str | None = None, span: Span | None = None
) -> Iterator[Line]:
    """Yield the lines of a file, or of a span of a file, that are not blank.

    A line that is no JSON object has a BadItem in place of its values. Without
    `encoding`, the file is read as UTF-8.
    """
    if span is None:
        documents = _documents(path, encoding)
        offset = 0 if encoding else _bom_length(path)
    else:
        documents, offset = _lines_in(path, span), span.offset
    for number, document in enumerate(documents, 1):
        if document.strip():
            row = _row(document, encoding)
            yield Line(number, document, row, None if encoding else offset)
        offset += len(document)


def divide_json_lines(path: Path, most: int) -> Iterator[Span]:
    """Divide a file in UTF-8 into spans with at most `most` rows each."""
    offset, length, count = _bom_length(path), 0, 0
    for document in _documents(path, None):
        length += len(document)
        count += bool(document.strip())
        if count == most:
            yield Span(offset, length, count)
            offset, length, count = offset + length, 0, 0
    if count:
        yield Span(offset, length, count)


def count_json_lines(path: Path, encoding: str | None = None) -> int:
    """Count the lines that are not blank; errors are those of `read_json_lines`."""
    return sum(1 for document in _documents(path, encoding) if document.strip())


def _documents(path: Path, encoding: str | None) -> Iterator[bytes]:
    """Yield the lines of a file as UTF-8; undecodable bytes are passed on unchanged."""
    check_encoding(encoding)
    try:
        if encoding is None:
            with path.open("rb") as file:
                if file.read(len(BOM_UTF8)) != BOM_UTF8:
                    file.seek(0)
                yield from file
            return
        with path.open(encoding=encoding, errors="surrogateescape") as text:
            for line in text:
                yield line.encode("utf-8", "surrogateescape")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except UnicodeError as error:
        raise BadInput(f"{path}: not {encoding}: {error}") from error


def _bom_length(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return len(BOM_UTF8) if file.read(len(BOM_UTF8)) == BOM_UTF8 else 0
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


def _lines_in(path: Path, span: Span) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(span.offset)
            left = span.length
            while left > 0 and (line := file.readline(left)):
                left -= len(line)
                yield line
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


def _row(document: bytes, encoding: str | None) -> Row:
    try:
        return _decode(document)
    except UnicodeDecodeError as error:
        failure = BadItem(f"not {encoding or 'UTF-8'}: {_decoding(document) or error}")
        failure.__cause__ = error
        return failure
    except (msgspec.DecodeError, RecursionError) as error:
        return BadItem(
            f"{describe_decode_error(error)}; each line is to be one JSON object"
        )


def _decoding(document: bytes) -> UnicodeDecodeError | None:
    try:
        document.decode()
    except UnicodeDecodeError as error:
        return error
    return None
