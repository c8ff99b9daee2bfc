"""A record on the wire: what its columns may hold, refused before it is built.

A typed decoder stops at the first list or object in a column. An untyped one would
build millions of them out of one body, in one go, in which nobody else is answered.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Raw

from polydom.features.errors import BadItem

from .bounds import LARGE
from .json_keys import Twice, refuse_twice, twice_in_json

# Columns of one record; msgpack says beforehand how many come.
MOST_COLUMNS = 1 << 16
Record = Annotated[
    dict[str, bool | int | float | str | None], msgspec.Meta(max_length=MOST_COLUMNS)
]

# How values begin that no column holds: in JSON, and in msgpack.
_IN_JSON = {0x5B: "a list", 0x7B: "an object"}
_IN_MSGPACK = {
    **dict.fromkeys(range(0x80, 0x90), "an object"),
    **dict.fromkeys(range(0x90, 0xA0), "a list"),
    **dict.fromkeys((0xC4, 0xC5, 0xC6), "bytes"),
    **dict.fromkeys((0xC7, 0xC8, 0xC9, *range(0xD4, 0xD9)), "an extension type"),
    **dict.fromkeys((0xDC, 0xDD), "a list"),
    **dict.fromkeys((0xDE, 0xDF), "an object"),
}


class _Holder(msgspec.Struct):
    """A request or an item: its record's columns are left as they are."""

    record: dict[str, Raw] | None = None


_decode = msgspec.json.Decoder(Record).decode
_columns_json = msgspec.json.Decoder(_Holder).decode
_columns_msgpack = msgspec.msgpack.Decoder(_Holder).decode


def decode_record(data: str | bytes) -> dict[str, Any]:
    """Read a record that came as JSON alone.

    Raises
    ------
    msgspec.DecodeError, UnicodeDecodeError, RecursionError
        If it is no JSON object.
    BadItem
        If a column holds a list or an object, or is given twice.
    """
    document = data.encode() if isinstance(data, str) else data
    try:
        record = _decode(document)
    except msgspec.ValidationError as error:
        refuse_column(b'{"record":%b}' % document, packed=False, error=error)
        raise
    if document.count(b":") > len(record):
        refuse_twice("record", Twice(None, twice_in_json(document).any))
    return record


def refuse_column(holder: bytes | Raw, *, packed: bool, error: Exception) -> None:
    """Name the column of a record that holds what none can hold, by BadItem.

    Nothing is said where there is no such column, nor above `LARGE` bytes, where to
    look for it would take long.

    Parameters
    ----------
    holder
        An object in JSON, or a map in msgpack where it is `packed`, whose key `record`
        has the columns.
    error
        What a decoder said of it.
    """
    if len(holder) > LARGE:
        return
    decode = _columns_msgpack if packed else _columns_json
    kinds = _IN_MSGPACK if packed else _IN_JSON
    try:
        columns = decode(holder).record or {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    for name, value in columns.items():
        if (kind := kinds.get(bytes(value).lstrip()[0])) is not None:
            raise BadItem(
                f"column {name[:80]!r} holds {kind}; a number, a text, true, false or "
                "null is needed"
            ) from error
