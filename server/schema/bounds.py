"""How much a body holds, found out before it is made into objects.

What msgspec makes of a long body it makes in one go, in which nobody else is answered;
to skip over it takes a fortieth of that.
"""

import msgspec
from msgspec import UNSET, Raw, UnsetType

from polydom.features.errors import BadInput, BadItem
from polydom.features.items import Kind
from polydom.features.wording import describe_decode_error

# Bodies up to so many bytes are read without a look beforehand.
LARGE = 64 << 10
# Bytes of all that is no item: the terms, and the names.
TERMS = 4096
# Columns of a record where the index does not know how many there may be.
MOST_COLUMNS = 4096
_FIELDS: dict[str, Kind] = {"text": "text", "record": "record", "image_base64": "image"}


class _Outer(msgspec.Struct):
    """A body of which the items are left as they are."""

    text: Raw | UnsetType = UNSET
    record: Raw | UnsetType = UNSET
    image_base64: Raw | UnsetType = UNSET


_outer_json = msgspec.json.Decoder(_Outer).decode
_outer_msgpack = msgspec.msgpack.Decoder(_Outer).decode


def check_item(body: bytes | Raw, *, packed: bool, kind: Kind, columns: int) -> None:
    """Refuse a long body that holds something else than one item of a kind.

    Parameters
    ----------
    body
        JSON, or msgpack where it is `packed`.
    kind, columns
        What the index classifies, and how many columns it knows; 0 where it knows none
        beforehand.

    Raises
    ------
    BadInput
        If it is malformed, or holds much beside the item.
    BadItem
        If it holds another kind of item, or more columns than there can be.
    """
    if len(body) <= LARGE:
        return
    body = bytes(body) if packed else bytes(body).strip()
    try:
        outer = _outer_msgpack(body) if packed else _outer_json(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"body: {describe_decode_error(error)}") from error
    given = {field: getattr(outer, field) for field in _FIELDS}
    named = [field for field, raw in given.items() if raw is not UNSET]
    if [_FIELDS[field] for field in named] != [kind]:
        field = next(field for field, of in _FIELDS.items() if of == kind)
        raise BadItem(f"this index classifies one {kind} per request: give {field!r}")
    raw = bytes(given[named[0]])
    if len(body) - len(raw) > TERMS:
        raise BadInput(
            f"the body has {len(body) - len(raw):,} bytes beside the item; up to "
            f"{TERMS:,} are read"
        )
    if kind == "record":
        check_record(raw, packed=packed, columns=columns)


def check_record(raw: bytes, *, packed: bool = False, columns: int) -> None:
    """Refuse a long record of more columns than there can be, by BadItem.

    It is an object in JSON, or a map in msgpack where it is `packed`; `columns` are as
    for `check_item`.
    """
    if len(raw) <= LARGE:
        return
    most = columns or MOST_COLUMNS
    # a column has two in its name, and two in its value where that is a string
    came = _packed_length(raw) if packed else strings_at_most(raw)
    if came > (most if packed else 4 * most):
        raise BadItem(
            f"a record of {len(raw):,} bytes has more columns than the {most:,} that "
            "there can be"
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
