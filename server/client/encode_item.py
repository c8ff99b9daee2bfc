"""Encode a caller's items as bodies of requests."""

import json
import math
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from polydom.features.errors import BadInput, BadItem
from polydom.features.wording import without_mark

from ..schema.streams import JSON, JSON_LINES
from ..schema.wire import MSGPACK

AnyItem = bytes | str | Mapping[str, Any] | Path
_BYTES = (bytes, bytearray, memoryview)
# Names of the types of pandas' missing values.
_NOTHING = ("NAType", "NaTType")
_WANTED = "a finite number, a string, a boolean, a date or nothing is needed"


def body_of(item: AnyItem) -> tuple[bytes, str]:
    """Return the body of a request with one item, and the body's content type.

    Raises BadItem if a value cannot be written as JSON, BadInput if the item has a
    wrong type, and OSError if its file cannot be read.
    """
    if isinstance(item, Path):
        data = item.read_bytes()
        if item.suffix.lower() == ".json":
            return b'{"record":' + without_mark(data) + b"}", JSON
        return data, "application/octet-stream"
    if isinstance(item, str) and not item.lstrip().startswith("{"):
        return _written(str.encode, item), "text/plain"
    # the server refuses plain text that begins with "{", so such a text is sent as JSON
    fields = _fields(item)
    if "image_base64" not in fields:
        return _written(_encode, fields), JSON
    return fields["image_base64"], "application/octet-stream"


def packer_of(first: AnyItem) -> tuple[str, Callable[[AnyItem], bytes]]:
    """Return a batch's content type, and a function that encodes one of its items.

    Both depend on the `first` item. Images are sent as msgpack, because base64 would
    make them a third longer; texts and records are sent as JSON Lines.
    """
    if isinstance(first, (*_BYTES, Path)):
        return MSGPACK[0], lambda item: _written(_encode_packed, _fields(item))
    return JSON_LINES[0], lambda item: _written(_encode, _fields(item)) + b"\n"


def _fields(item: AnyItem) -> dict[str, Any]:
    if isinstance(item, Path):
        if item.suffix.lower() == ".json":
            return {"record": json.loads(item.read_bytes())}
        if item.suffix.lower() in (".txt", ".text", ".md"):
            return {"text": item.read_text(encoding="utf-8")}
        return {"image_base64": item.read_bytes()}
    if isinstance(item, str):
        return {"text": item}
    if isinstance(item, Mapping):
        for name, value in item.items():
            if isinstance(value, _BYTES) or _is_infinite(value):
                raise BadItem(f"column {name!r:.80} holds {value!r:.40}; {_WANTED}")
        return {"record": dict(item)}
    if isinstance(item, _BYTES):
        return {"image_base64": bytes(item)}
    cure = "; give its to_dict()" if type(item).__name__ == "Series" else ""
    raise BadInput(
        f"an item is bytes, str, a mapping or a path, not {type(item).__name__}{cure}"
    )


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and math.isinf(value)


def _plain(value: Any) -> Any:
    """Convert a value of NumPy or pandas for JSON, without importing the libraries."""
    if type(value).__name__ in _NOTHING:
        return None
    if isinstance(value, date):  # pandas' timestamps are dates, too
        return value.isoformat()
    if isinstance(value, str):
        return str.__str__(value)
    if type(value).__module__ != "numpy" or getattr(value, "shape", None) != ():
        raise BadItem(f"a column holds a {type(value).__name__}; {_WANTED}")
    # `item()` of nanoseconds would return an int
    if type(value).__name__ == "datetime64":
        value = value.astype("M8[us]")
    if _is_infinite(plain := value.item()):
        raise BadItem(f"a column holds {plain}; {_WANTED}")
    return plain


def _written(write: Callable[[Any], bytes], item: Any) -> bytes:
    try:
        return write(item)
    except UnicodeEncodeError as error:
        raise BadItem(
            f"a text holds half a character ({item!r:.40}), which UTF-8 has not"
        ) from error


_encode = msgspec.json.Encoder(enc_hook=_plain, decimal_format="number").encode
_encode_packed = msgspec.msgpack.Encoder(
    enc_hook=_plain, decimal_format="number"
).encode
