"""A record on the wire: what its columns may hold, refused before it is built.

A typed decoder stops at the first list or object in a column. An untyped one would
build millions of them out of one body, in one go, in which nobody else is answered.
"""

import re
from typing import Annotated, Any

import msgspec
from msgspec import Raw

from polydom.features.errors import BadItem
from polydom.features.items import NEEDED
from polydom.features.wording import without_mark

from .bounds import LARGE

# Columns of one record; msgpack says beforehand how many come.
MOST_COLUMNS = 1 << 16
Record = Annotated[
    dict[str, bool | int | float | str | None], msgspec.Meta(max_length=MOST_COLUMNS)
]

# What a decoder says of a record, or of one of its columns, that holds what none can.
_SAID = re.compile(
    r"Expected `[^`]*`(?:, got `(?P<came>\w+)`| of length .*?)"
    r"(?: - at `(?P<place>.*)`)?"
)
_KINDS = {"array": "list", "object": "dict", "null": "NoneType", "ext": "ExtType"}
# How such columns begin in JSON, and in msgpack.
_IN_JSON = frozenset(b"[{")
_IN_MSGPACK = frozenset(
    (*range(0x80, 0xA0), *range(0xC4, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0))
)


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
        If it is no JSON.
    BadItem
        If it is no object, or a column holds a list or an object.
    """
    document = without_mark(data.encode() if isinstance(data, str) else data)
    try:
        return _decode(document)
    except msgspec.ValidationError as error:
        holder = b'{"record":%b}' % document
        refuse_record(holder, packed=False, error=error, place="$")
        raise


def refuse_record(
    holder: bytes | Raw, *, packed: bool, error: Exception, place: str = "$.record"
) -> None:
    """Say by BadItem what is wrong with a record, where a decoder found that wrong.

    The column is named up to `LARGE` bytes: to look for it in more would take long.

    Parameters
    ----------
    holder
        An object in JSON, or a map in msgpack where it is `packed`, whose key `record`
        has the columns.
    error
        What a decoder said of it.
    place
        Where the record was in what was decoded.
    """
    said = _SAID.fullmatch(str(error))
    found = said and (said["place"] or "$")
    if said is None or found not in (place, f"{place}[...]"):
        return
    if said["came"] is None:
        raise BadItem(f"the record has more than {MOST_COLUMNS:,} columns") from error
    came = _KINDS.get(said["came"], said["came"])
    if found == place:
        raise BadItem(f"a record was expected, not {came}") from error
    name = None if len(holder) > LARGE else _wrong_column(holder, packed)
    column = "a column" if name is None else f"column {name[:80]!r}"
    twice = "; are the columns in it?" if name == "record" and came == "dict" else ""
    raise BadItem(f"{column} holds a {came}; {NEEDED}{twice}") from error


def _wrong_column(holder: bytes | Raw, packed: bool) -> str | None:
    """Name the first column that holds what none can."""
    decode = _columns_msgpack if packed else _columns_json
    begin = _IN_MSGPACK if packed else _IN_JSON
    try:
        columns = decode(holder).record or {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    wrong = (name for name, raw in columns.items() if bytes(raw).lstrip()[0] in begin)
    return next(wrong, None)
