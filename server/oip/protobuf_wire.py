"""Protobuf's wire format, looked at before messages are made of it.

What protobuf makes of a message it makes in one go, in which nobody else is answered,
and of two bytes it makes sixteen and more. To skip from field to field takes a step
each, however long a field is.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from polydom.features.errors import BadInput

# Bytes that protobuf is given at a time of what may be long.
PIECE = 1 << 14
# How a field is written: as a varint, as 8 bytes, after its length, as 4 bytes.
VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5
_WIDTHS = {EIGHT: 8, FOUR: 4}
# Bytes of the longest varint.
_LONGEST = 10


class Field(NamedTuple):
    """Where a field is in a message.

    Attributes
    ----------
    number, kind
        As in the `.proto`, and how it is written.
    begin, value, end
        Where its tag begins, where its value does, and where that ends.
    """

    number: int
    kind: int
    begin: int
    value: int
    end: int


def fields(message: memoryview, most: int) -> Iterator[Field]:
    """Go through a message's own fields, not into those of messages in it.

    Raises
    ------
    BadInput
        If it is malformed, has groups, or more than `most` fields.
    """
    at = count = 0
    while at < len(message):
        if count == most:
            raise BadInput(
                "the request has more fields than its columns and terms need, with "
                "numbers packed"
            )
        begin, count = at, count + 1
        tag, at = _varint(message, at)
        kind, value = tag & 7, at
        if kind == VARINT:
            _, at = _varint(message, at)
        elif kind == LENGTH:
            length, value = _varint(message, at)
            at = value + length
        elif kind in _WIDTHS:
            at += _WIDTHS[kind]
        else:
            raise malformed()
        if at > len(message):
            raise malformed()
        yield Field(tag >> 3, kind, begin, value, at)


def malformed() -> BadInput:
    """Make the error for bytes that are no message."""
    return BadInput("the request is no message of its type")


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Read a number; it, and where it ends."""
    if (first := message[at] if at < len(message) else 0x80) < 0x80:
        return first, at + 1
    number = shift = 0
    for end, byte in enumerate(message[at : at + _LONGEST], at + 1):
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, end
        shift += 7
    raise malformed()


def written(number: int, value: bytes | memoryview) -> bytes:
    """Write a field that has its length before it."""
    out = bytearray()
    for part in (number << 3 | LENGTH, len(value)):
        while part > 0x7F:
            out.append(part & 0x7F | 0x80)
            part >>= 7
        out.append(part)
    return bytes(out) + value


def pieces(
    message: memoryview, packed: Mapping[int, int], most: int
) -> Iterator[bytes]:
    """Cut a message into short ones, whose fields in a row are those that it has.

    Parameters
    ----------
    message
        It has repeated fields alone, or fields that need not be looked at.
    packed
        Fields of numbers, which may be cut: bytes of each number, 0 for varints.
    most
        Fields that it may have.

    Raises
    ------
    BadInput
        As `fields`.
    """
    start = 0
    for field in fields(message, most):
        if field.end - start <= PIECE:
            continue
        if start < field.begin:
            yield bytes(message[start : field.begin])
        start = field.begin
        if field.end - start > PIECE and field.kind == LENGTH:
            value = message[field.value : field.end]
            if field.number in packed:
                for numbers in _cut(value, packed[field.number]):
                    yield written(field.number, numbers)
            else:
                yield bytes(message[start : field.end])
            start = field.end
    if start < len(message):
        yield bytes(message[start:])


def _cut(numbers: memoryview, width: int) -> Iterator[memoryview]:
    """Cut packed numbers between two of them."""
    start = 0
    while start < len(numbers):
        end = min(start + PIECE, len(numbers))
        if not width:
            ends = range(end, min(end + _LONGEST, len(numbers) + 1))
            end = next((i for i in ends if numbers[i - 1] < 0x80), end)
        yield numbers[start:end]
        start = end
