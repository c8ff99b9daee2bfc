"""How much a long body may hold, found out before it is made into objects.

What a decoder makes of a body it makes in one go, in which nobody else is answered. A
typed decoder stops at what has no place; what there may be many of is counted here
beforehand: names and texts in JSON, and the keys that msgpack says it has.
"""

from msgspec import Raw

from polydom.features.errors import BadInput, BadItem

# Bodies up to so many bytes are read without a look beforehand.
LARGE = 64 << 10
# Bytes of all that is no item: the terms, and the names.
TERMS = 4096
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


def _packed_length(raw: bytes) -> int:
    """Read how many pairs a map says it has; 0 where it is none."""
    first = raw[0]
    if first & 0xF0 == 0x80:
        return first & 0x0F
    width = {0xDE: 2, 0xDF: 4}.get(first, 0)
    return int.from_bytes(raw[1 : 1 + width], "big")
