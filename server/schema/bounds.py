"""Bounds on what a long body holds, checked before it is decoded.

A decoder makes all objects of a body in one call, and nobody else is answered
meanwhile. A typed decoder stops at a value of a wrong type. The values that a body may
have many of are counted here beforehand: names and texts in JSON, and the keys that a
map in msgpack announces.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadItem

# Bytes of the longest body that is decoded unchecked.
LARGE = 64 << 10
# Bytes of each part of a long request of the Open Inference Protocol that is no tensor.
TERMS = 4096
# Bytes of JSON that are searched at a time.
PIECE = 64 << 10
# Most columns of a record, for an index whose features may read any column.
USUAL_COLUMNS = 4096
# More keys than a request has, or an item of a batch.
MOST_KEYS = 16


def check_body(body: bytes | Raw, *, packed: bool, columns: int) -> None:
    """Refuse a long body with more names and texts than an item and its terms have.

    The body is an object in JSON, or a map in msgpack if `packed`. BadInput is raised
    for more keys than a request has; BadItem if a record may have more than `columns`.
    """
    if len(body) <= LARGE:
        return
    if not packed:
        _check_strings(bytes(body), columns)
    elif (keys := _packed_length(bytes(memoryview(body)[:8]))) > MOST_KEYS:
        raise BadInput(f"body: an object of {keys:,} keys came; a request has fewer")


def check_record(raw: bytes, *, columns: int) -> None:
    """Raise BadItem for a long record in JSON that may have more than `columns`."""
    if len(raw) > LARGE:
        _check_strings(raw, columns)


def _check_strings(raw: bytes, columns: int) -> None:
    # a key has two quotes around its name, and two more if its value is a string
    if strings_at_most(raw) > 4 * (columns + MOST_KEYS):
        raise BadItem(
            f"{len(raw):,} bytes hold more names and texts than {columns:,} columns "
            "have, and that is the most there can be"
        )


def strings_at_most(raw: bytes) -> int:
    """Return an upper bound on the strings in JSON, names included.

    It is the number of quotes that no backslash precedes; the quote that begins a
    string is one of them.
    """
    return raw.count(b'"') - raw.count(b'\\"')


def arrays_in(raw: bytes) -> int:
    """Count the arrays in well-formed JSON."""
    pieces = _outside_strings(raw)
    return sum(int(np.count_nonzero(piece == ord("["))) for piece in pieces)


def items_in(array: bytes, most: int) -> int:
    """Count the items of an array in well-formed JSON, until they exceed `most`.

    An empty array counts as an array of one item.
    """
    items, depth = 1, 0
    for piece in _outside_strings(array):
        opens = (piece == ord("[")) | (piece == ord("{"))
        closes = (piece == ord("]")) | (piece == ord("}"))
        depths = depth + np.cumsum(opens.astype(np.int32) - closes)
        items += int(np.count_nonzero((piece == ord(",")) & (depths == 1)))
        depth = int(depths[-1]) if depths.size else depth
        if items > most:
            break
    return items


def _outside_strings(raw: bytes) -> Iterator[NDArray[np.uint8]]:
    """Yield the bytes of well-formed JSON outside its strings, piece by piece."""
    start, quotes = 0, 0
    while start < len(raw):
        piece = raw[start : start + PIECE]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # add the escaped byte
            piece = raw[start : start + PIECE + 1]
        start += len(piece)
        plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        signs = np.frombuffer(plain, np.uint8)
        before = quotes + np.cumsum(signs == ord('"'))
        quotes = int(before[-1]) if before.size else quotes
        yield signs[before % 2 == 0]


def _packed_length(raw: bytes) -> int:
    """Return the number of pairs that a map announces; 0 if there is no map."""
    first = raw[0]
    if first & 0xF0 == 0x80:
        return first & 0x0F
    width = {0xDE: 2, 0xDF: 4}.get(first, 0)
    return int.from_bytes(raw[1 : 1 + width], "big")
