"""Limits on the content of long bodies, checked before the bodies are decoded.

A decoder creates all objects of a body in one call, and no other request is answered
meanwhile. It stops at the first value of a wrong type, but not after millions of names
and texts. So the names and texts in JSON are counted here first. In msgpack, the header
of a map has the number of its keys.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadItem

# Bytes of the longest body that is decoded without these checks.
LARGE = 64 << 10
# Maximum bytes of each part of a long Open Inference request, except tensor data.
TERMS = 4096
# Bytes of JSON that are searched at once.
PIECE = 64 << 10
# Maximum number of columns of a record if the index's features may read any column.
USUAL_COLUMNS = 4096
# More than the number of keys in a request, or in an item of a batch.
MOST_KEYS = 16


def check_body(body: bytes | Raw, *, packed: bool, columns: int) -> None:
    """Raise an error if a long body has more names and texts than a request can have.

    The body is a JSON object, or a msgpack map if `packed`. Raises BadInput for a map
    with too many keys, and BadItem for JSON with too many names and texts for a record
    of `columns` columns.
    """
    if len(body) <= LARGE:
        return
    if not packed:
        _check_strings(bytes(body), columns)
    elif (keys := _packed_length(bytes(memoryview(body)[:8]))) > MOST_KEYS:
        raise BadInput(f"body: an object of {keys:,} keys came; a request has fewer")


def check_record(raw: bytes, *, columns: int) -> None:
    """Raise BadItem if long JSON has too many names and texts for `columns` columns."""
    if len(raw) > LARGE:
        _check_strings(raw, columns)


def _check_strings(raw: bytes, columns: int) -> None:
    # each key has two quotes around its name, and two more around a string value
    if strings_at_most(raw) > 4 * (columns + MOST_KEYS):
        raise BadItem(
            f"{len(raw):,} bytes hold more names and texts than {columns:,} columns "
            "have, and that is the most there can be"
        )


def strings_at_most(raw: bytes) -> int:
    """Return an upper bound on the number of strings in JSON, including names.

    The bound is the number of quotes without a backslash before them. Every string
    begins with such a quote.
    """
    return raw.count(b'"') - raw.count(b'\\"')


def arrays_in(raw: bytes) -> int:
    """Return the number of arrays in well-formed JSON."""
    pieces = _outside_strings(raw)
    return sum(int(np.count_nonzero(piece == ord("["))) for piece in pieces)


def items_in(array: bytes, most: int) -> int:
    """Return the number of items in a JSON array; 1 for an empty array.

    If there are more than `most`, counting stops early, at some number above `most`.
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
    """Yield the bytes of well-formed JSON that are outside strings, in pieces."""
    start, quotes = 0, 0
    while start < len(raw):
        piece = raw[start : start + PIECE]
        # the piece ends in a backslash: add the byte that it escapes
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = raw[start : start + PIECE + 1]
        start += len(piece)
        plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        signs = np.frombuffer(plain, np.uint8)
        before = quotes + np.cumsum(signs == ord('"'))
        quotes = int(before[-1]) if before.size else quotes
        yield signs[before % 2 == 0]


def _packed_length(raw: bytes) -> int:
    """Return how many pairs the header of a msgpack map states; 0 if not a map."""
    first = raw[0]
    if first & 0xF0 == 0x80:
        return first & 0x0F
    width = {0xDE: 2, 0xDF: 4}.get(first, 0)
    return int.from_bytes(raw[1 : 1 + width], "big")
