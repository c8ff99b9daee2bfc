"""How much a long body may hold, found out before it is made into objects.

What a decoder makes of a body it makes in one go, in which nobody else is answered. A
typed decoder stops at what has no place; what there may be many of is counted here
beforehand: names and texts in JSON, and the keys that msgpack says it has.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadItem

# Bodies up to so many bytes are read without a look beforehand.
LARGE = 64 << 10
# Bytes of all that is no item: the terms, and the names.
TERMS = 4096
# Bytes of JSON that are looked through at a time.
PIECE = 64 << 10
# Columns of a record at most, where an index does not know how many there may be.
USUAL_COLUMNS = 4096
# Keys of a request, or of an item of a batch, are fewer than these.
MOST_KEYS = 16


def check_body(body: bytes | Raw, *, packed: bool, columns: int) -> None:
    """Refuse a long body of more names and texts than one item and its terms have.

    Parameters
    ----------
    body
        An object in JSON, or a map in msgpack where it is `packed`: an item of any
        kind, and its terms.
    columns
        How many a record may have.

    Raises
    ------
    BadInput
        If it has more keys than a request.
    BadItem
        If it holds more columns than there can be.
    """
    if len(body) <= LARGE:
        return
    if not packed:
        _check_strings(bytes(body), columns)
    elif (keys := _packed_length(bytes(memoryview(body)[:8]))) > MOST_KEYS:
        raise BadInput(f"body: an object of {keys:,} keys came; a request has fewer")


def check_record(raw: bytes, *, columns: int) -> None:
    """Refuse a long record in JSON of more columns than there can be, by BadItem."""
    if len(raw) > LARGE:
        _check_strings(raw, columns)


def _check_strings(raw: bytes, columns: int) -> None:
    # a key has two quotes in its name, and two in its value where that is a string
    if strings_at_most(raw) > 4 * (columns + MOST_KEYS):
        raise BadItem(
            f"{len(raw):,} bytes hold more names and texts than {columns:,} columns "
            "have, and that is the most there can be"
        )


def strings_at_most(raw: bytes) -> int:
    """Count quotes that are not escaped: one or two for every name and every string.

    One that begins a string never is, so that there are no more strings than this.
    """
    return raw.count(b'"') - raw.count(b'\\"')


def arrays_in(raw: bytes) -> int:
    """Count the arrays in well-formed JSON."""
    pieces = _outside_strings(raw)
    return sum(int(np.count_nonzero(piece == ord("["))) for piece in pieces)


def items_in(array: bytes, most: int) -> int:
    """Count the items of an array in well-formed JSON, until there are over `most`.

    One that is empty counts as one of one item.
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
    """Give what well-formed JSON has outside its strings; others run between pieces."""
    start, quotes = 0, 0
    while start < len(raw):
        piece = raw[start : start + PIECE]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # what it escapes is cut off
            piece = raw[start : start + PIECE + 1]
        start += len(piece)
        plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        signs = np.frombuffer(plain, np.uint8)
        before = quotes + np.cumsum(signs == ord('"'))
        quotes = int(before[-1]) if before.size else quotes
        yield signs[before % 2 == 0]


def _packed_length(raw: bytes) -> int:
    """Read how many pairs a map says it has; 0 where it is none."""
    first = raw[0]
    if first & 0xF0 == 0x80:
        return first & 0x0F
    width = {0xDE: 2, 0xDF: 4}.get(first, 0)
    return int.from_bytes(raw[1 : 1 + width], "big")
