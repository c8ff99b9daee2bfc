"""Records in requests: columns hold numbers, strings, booleans or null.

A typed decoder stops at the first list or object in a column. An untyped decoder could
create millions of objects from one body, and no other request is answered meanwhile.
"""

import re
from typing import Annotated, Any

import msgspec
from msgspec import Raw

from polydom.features.errors import BadItem
from polydom.features.items import NEEDED
from polydom.features.wording import without_mark

from .bounds import LARGE

# Maximum number of columns of a record in msgpack, where a record states this number.
MOST_COLUMNS = 1 << 16
Record = Annotated[
    dict[str, bool | int | float | str | None], msgspec.Meta(max_length=MOST_COLUMNS)
]

# The decoder's message if a record, or a column, has a wrong type.
_SAID = re.compile(
    r"Expected `[^`]*`(?:, got `(?P<came>\w+)`| of length .*?)"
    r"(?: - at `(?P<place>.*)`)?"
)
_KINDS = {"array": "list", "object": "dict", "null": "NoneType", "ext": "ExtType"}
# First bytes of a list, an object and bytes, in JSON and in msgpack.
_IN_JSON = frozenset(b"[{")
_IN_MSGPACK = frozenset(
    (*range(0x80, 0xA0), *range(0xC4, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0))
)


class _Holder(msgspec.Struct):
    """A request or an item whose record is split into undecoded columns."""

    record: dict[str, Raw] | None = None


_decode = msgspec.json.Decoder(Record).decode
_columns_json = msgspec.json.Decoder(_Holder).decode
_columns_msgpack = msgspec.msgpack.Decoder(_Holder).decode


def decode_record(data: str | bytes) -> dict[str, Any]:
    """Decode a JSON object that is itself a record, not a request with a record."""
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
    """Raise BadItem, with the column's name, if a decoder's error is about a record.

    `holder` is the undecoded object that has the record under the key `record`: JSON,
    or msgpack if `packed`. `place` is the path of the record in the text of `error`. If
    `holder` has more than `LARGE` bytes, the column is not named, because the search
    would take long.
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
    """Return the name of the first column that holds a list, an object or bytes."""
    decode = _columns_msgpack if packed else _columns_json
    begin = _IN_MSGPACK if packed else _IN_JSON
    try:
        columns = decode(holder).record or {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    wrong = (name for name, raw in columns.items() if bytes(raw).lstrip()[0] in begin)
    return next(wrong, None)
