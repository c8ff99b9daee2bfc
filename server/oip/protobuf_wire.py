"""Protobuf's wire format, read field by field before protobuf decodes a message.

Protobuf decodes a whole message in one call, and no other code can run meanwhile. A
decoded message may need eight times as many bytes of memory as the encoded message.
Here, skipping a field takes one step, whatever its length.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from polydom.features.errors import BadInput

# Bytes of long contents that protobuf decodes in one call.
PIECE = 1 << 14
# Wire types: a varint, 8 bytes, a length followed by bytes, 4 bytes.
VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5
_WIDTHS = {EIGHT: 8, FOUR: 4}
# Bytes of the longest varint.
_LONGEST = 10


class Field(NamedTuple):
    """The position of one field in an encoded message."""

    # Number of the field in the `.proto` file, and its wire type
    number: int
    kind: int
    # Offsets of the field's tag, of its value, and of the value's end
    begin: int
    value: int
    end: int


def fields(message: memoryview, most: int) -> Iterator[Field]:
    """Yield the fields of a message in order, without looking into nested messages.

    Raises BadInput for a malformed message, and for more than `most` fields.
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
    """Return the error for a message that is not valid protobuf."""
    return BadInput("the request is no message of its type")


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return the integer encoded at offset `at`, and the offset after it."""
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
    """Return a field of bytes in wire format: its number and length, then `value`."""
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
    """Split a message into short messages with the same fields in the same order.

    The message may have only repeated fields, at most `most` of them. `packed` maps the
    field number of each packed field to the bytes of one value, or to 0 for varints.
    Only packed fields are split.
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
    """Split the values of a packed field into pieces.

    `width` is the number of bytes of each value, or 0 for varints.
    """
    start = 0
    while start < len(numbers):
        end = min(start + PIECE, len(numbers))
        if not width:
            ends = range(end, min(end + _LONGEST, len(numbers) + 1))
            end = next((i for i in ends if numbers[i - 1] < 0x80), end)
        yield numbers[start:end]
        start = end
