"""Protobuf's wire format: the fields of a message, found without decoding them.

Skipping a field takes one step, whatever its length.
"""

from collections.abc import Iterator
from typing import NamedTuple

# Wire types: a varint, 8 bytes, a length followed by bytes, 4 bytes.
VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5
_WIDTHS = {EIGHT: 8, FOUR: 4}
LONGEST = 10  # bytes of the longest varint


class Field(NamedTuple):
    """The position of one field in an encoded message."""

    # Number of the field in the `.proto` file, and its wire type
    number: int
    kind: int
    # Offsets of the field's tag, of its value, and of the value's end
    begin: int
    value: int
    end: int


def fields(
    content: bytes | memoryview, at: int = 0, end: int | None = None
) -> Iterator[Field]:
    """Yield the fields of the message `content[at:end]`, in order.

    Nested messages are fields of bytes. Raises ValueError for a malformed message.
    """
    end = len(content) if end is None else end
    while at < end:
        begin = at
        tag, at = _varint(content, at, end)
        kind, value = tag & 7, at
        if kind == VARINT:
            _, at = _varint(content, at, end)
        elif kind == LENGTH:
            length, value = _varint(content, at, end)
            at = value + length
        elif kind in _WIDTHS:
            at += _WIDTHS[kind]
        else:
            raise ValueError(f"there is no wire type {kind}")
        if at > end:
            raise ValueError("a field ends after its message")
        yield Field(tag >> 3, kind, begin, value, at)


def _varint(content: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """Return the integer encoded at offset `at`, and the offset after it."""
    if at < end and (first := content[at]) < 0x80:
        return first, at + 1
    number = shift = 0
    for after, byte in enumerate(content[at : min(at + LONGEST, end)], at + 1):
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, after
        shift += 7
    raise ValueError("a number has no end")
