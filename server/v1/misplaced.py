"""Items that are not where they belong in a request, and where that would be."""

import json
import re
from typing import Any

import msgspec

from polydom.features.items import Kind
from polydom.features.wording import SHOWN, nearest

from ..schema.batch import BatchItem
from ..schema.bounds import LARGE
from ..schema.predict import PredictRequest

_KEYS = PredictRequest.__struct_fields__
_ITEMS = BatchItem.__struct_fields__
# A key of the outermost object: a decoder names the place of any other.
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.S)
_A_LIST = "Expected `object`, got `array`"
_MORE = "trailing characters"
# What other servers, and /v1/batch, call items of which there may be many.
_MANY = ("items", "instances", "inputs")
_SEVERAL = 'several items go to /v1/batch, as {"items": [...]} or one a line'
# Characters of a column's value that are shown.
_LONGEST_VALUE = 20


def of_one(
    error: Exception, body: bytes | msgspec.Raw, kind: Kind | None, *, packed: bool
) -> str | None:
    """Say where an item belongs that came alone; None where that is not what is wrong.

    Parameters
    ----------
    error
        What a decoder said of the body.
    body
        An object in JSON, or a map in msgpack where it is `packed`.
    kind
        What the index classifies; None where nobody knows.
    """
    if _UNKNOWN.fullmatch(str(error)) is None or len(body) > LARGE:
        return None
    wire: Any = msgspec.msgpack if packed else msgspec.json
    try:
        given = wire.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    field = "image_base64" if kind == "image" else kind
    strange = {name: value for name, value in given.items() if name not in _KEYS}
    name, value = next(iter(strange.items()), ("", None))
    if field is None or field in given or nearest(name, _KEYS, 0.7):
        return None
    if isinstance(value, str) and kind != "record":
        return f"{name[:SHOWN]!r} is unknown; give the {kind} as {field!r}"
    if isinstance(value, dict):
        return f"{name[:SHOWN]!r} is unknown; give the columns as 'record'"
    if isinstance(value, list) or not (kind == "record" or "model" in given):
        return None
    shown = json.dumps({name[:SHOWN]: _shown(value)}, ensure_ascii=False)
    more = ", ..." if len(strange) > 1 else ""
    return f'no "record": put the columns in it: {{"record": {shown[:-1]}{more}}}}}'


def of_request(error: Exception) -> str | None:
    """Say where several items belong that came as a request for one; None as above."""
    said = str(error)
    unknown = _UNKNOWN.fullmatch(said)
    if said == _A_LIST:
        return f"a list came; {_SEVERAL}"
    if unknown is not None and unknown[1] in _MANY:
        protocol = "; /v2/models/NAME/infer takes inputs" * (unknown[1] == "inputs")
        return f"{unknown[1]!r} is unknown; {_SEVERAL}{protocol}"
    return f"more came behind the first object; {_SEVERAL}" if _MORE in said else None


def _shown(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > _LONGEST_VALUE
    return value[:_LONGEST_VALUE] + "..." if is_long else value


def of_many(error: Exception) -> str | None:
    """Say where the items of a batch belong that came as JSON; None as above."""
    said = str(error)
    unknown = _UNKNOWN.fullmatch(said)
    if said == _A_LIST:
        return 'a list came; put the items in an object: {"items": [...]}'
    if unknown is not None and unknown[1] in _ITEMS:
        return (
            f'no "items": put each item in a list, {{"items": [{{"{unknown[1]}": '
            "...}]}, or send one a line as application/jsonl"
        )
    if _MORE in said:
        return (
            "more came behind the first object; one a line is application/jsonl, which "
            "curl sends by --data-binary"
        )
    return None
