"""Finds in an ONNX model what it needs from outside of itself, without a library.

A server asks this of each model of an index before a library reads the model.
"""

from ..protobuf import fields

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
    for field in fields(content, start, end):
        place = kind, field.number
        if place == EXTERNAL_DATA:
            return True
        if place == OPERATOR and content[field.value : field.end] == b"EPContext":
            return True
        inner = INSIDE[kind].get(field.number)
        if inner and _message_needs(content, inner, field.value, field.end, left - 1):
            return True
    return False
