"""Finds in an ONNX model what it needs from outside of itself, without a library.

A server asks this of each model of an index before a library reads the model. ONNX is a
message of protobuf: fields, each with a number, a type of encoding, and a value, which
may be a message itself.
"""

from collections.abc import Iterator
from typing import NamedTuple

# The key of a weight outside the file, and the operator of a compiled model beside it.
MARKS = (b"location", b"EPContext")
# Messages in which these may be, with the numbers of fields and the messages there.
INSIDE = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {
        5: "tensor",
        6: "graph",
        10: "tensor",
        11: "graph",
        22: "sparse",
        23: "sparse",
    },
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
# Fields that refer outside: `external_data` of a tensor, `op_type` of a node.
EXTERNAL_DATA, OPERATOR = ("tensor", 13), ("node", 4)
DEEPEST = 100  # messages in each other, as many as protobuf reads
VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5  # types of encoding
MOST_VARINT = 10  # bytes


class Field(NamedTuple):
    """A field of a message: its number, and where its value is."""

    number: int
    start: int
    end: int


def needs_outside(content: bytes) -> bool:
    """Return True if an ONNX model needs a file outside of it, or a compiled model.

    Returns True also for bytes that are no message of protobuf but hold one of `MARKS`.
    """
    if not any(mark in content for mark in MARKS):
        return False  # nearly always, and this is quick
    try:
        return _message_needs(content, "model", 0, len(content), DEEPEST)
    except ValueError:
        return True


def _message_needs(content: bytes, kind: str, start: int, end: int, left: int) -> bool:
    if left == 0:
        raise ValueError("too many messages in each other")
    for field in _fields(content, start, end):
        place = kind, field.number
        if place == EXTERNAL_DATA:
            return True
        if place == OPERATOR and content[field.start : field.end] == b"EPContext":
            return True
        inner = INSIDE[kind].get(field.number)
        if inner and _message_needs(content, inner, field.start, field.end, left - 1):
            return True
    return False


def _fields(content: bytes, at: int, end: int) -> Iterator[Field]:
    """Yield the fields of a message; raise ValueError if it is none."""
    while at < end:
        tag, at = _varint(content, at, end)
        number, encoding = tag >> 3, tag & 7
        if encoding == VARINT:
            _, after = _varint(content, at, end)
        elif encoding == BYTES:
            length, at = _varint(content, at, end)
            after = at + length
        elif encoding in (EIGHT, FOUR):
            after = at + (8 if encoding == EIGHT else 4)
        else:
            raise ValueError(f"no encoding {encoding}")
        if after > end:
            raise ValueError("a field ends after its message")
        yield Field(number, at, after)
        at = after


def _varint(content: bytes, at: int, end: int) -> tuple[int, int]:
    """Read a number of seven bits a byte; return it, and where it ends."""
    number = 0
    for place in range(min(MOST_VARINT, end - at)):
        byte = content[at + place]
        number |= (byte & 127) << 7 * place
        if byte < 128:
            return number, at + place + 1
    raise ValueError("a number has no end")
