"""Protobuf's wire format, read field by field before protobuf decodes a message.

Protobuf decodes a whole message in one call, and no other code can run meanwhile. A
decoded message may need eight times as many bytes of memory as the encoded message.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from polydom.features import protobuf
from polydom.features.errors import BadInput
from polydom.features.protobuf import LENGTH, LONGEST, Field

# Bytes of long contents that protobuf decodes in one call.
PIECE = 1 << 14


def fields(message: memoryview, most: int) -> Iterator[Field]:
    """Yield the fields of a message in order, as `protobuf.fields` does.

    Raises BadInput for a malformed message, and for more than `most` fields.
    """
    found = protobuf.fields(message)
    try:
        yield from islice(found, most)
        has_more = next(found, None) is not None
    except ValueError as error:
        raise malformed() from error
    if has_more:
        raise BadInput(
            "the request has more fields than its columns and terms need, with numbers "
            "packed"
        )


def malformed() -> BadInput:
    """Return the error for a message that is not valid protobuf."""
    return BadInput("the request is no message of its type")


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
            ends = range(end, min(end + LONGEST, len(numbers) + 1))
            end = next((i for i in ends if numbers[i - 1] < 0x80), end)
        yield numbers[start:end]
        start = end
