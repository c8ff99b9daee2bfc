"""Decodes a request's bytes into an item and its terms, or raises a helpful error."""

import json
import math
import re
from typing import Any

import msgspec

from polydom.features.errors import BadInput, BadItem
from polydom.features.items import Kind
from polydom.features.wording import (
    SHOWN,
    describe_decode_error,
    nearest,
    without_mark,
)

from ..http.headers import read_query
from ..schema.bounds import LARGE, USUAL_COLUMNS, check_body
from ..schema.record import refuse_record
from ..schema.streams import JSON
from ..schema.wire import MSGPACK, BatchItem, PredictRequest, Terms

_TERMS = Terms.__struct_fields__
# Content types of callers who did not choose one: none, or curl's default.
UNSAID = ("", "application/x-www-form-urlencoded")
# Content types of a body that is the item itself; records have no such form.
_OWN = ("text/plain", "application/octet-stream")
_KEYS = PredictRequest.__struct_fields__
_ITEMS = BatchItem.__struct_fields__
# The decoder's error for an unknown key of the outermost object; for inner objects, the
# message also has a place.
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.S)
_A_LIST = "Expected `object`, got `array`"
_MORE = "trailing characters"
# Keys for several items, in /v1/batch and in other servers.
_MANY = ("items", "instances", "inputs")
_SEVERAL = 'several items go to /v1/batch, as {"items": [...]} or one a line'
# Maximum number of characters of a column's value in an error message.
_LONGEST_VALUE = 20
_decode_json = msgspec.json.Decoder(PredictRequest).decode
_decode_msgpack = msgspec.msgpack.Decoder(PredictRequest).decode


def decode_request(
    described: tuple[str, str | None],
    query: bytes,
    body: bytes,
    kind: Kind | None,
    columns: int = USUAL_COLUMNS,
) -> PredictRequest:
    """Decode one request of `POST /v1/predict`.

    `described` has the content type, and the budget in a header or None. The content
    type says whether the body is JSON, msgpack, an image or a text. A body that begins
    like JSON is also read as JSON if it has no content type, or that of a form, which
    curl sends by default. If `kind` is "record", the same holds for text/plain and
    application/octet-stream. `kind` is the index's kind of items, or None if the body
    may name another index. `columns` is the maximum number of columns of a record.
    """
    content_type, header_budget = described
    ask = _decode_body(content_type, body, kind, columns)
    if query or header_budget is not None:
        _add_terms(ask, query, header_budget)
    return ask


def _packed(content_type: str, body: bytes, kind: Kind | None) -> bool | None:
    """Return True for a msgpack object, False for a JSON object, None for raw bytes."""
    if content_type in MSGPACK:
        return True
    unsaid = content_type in UNSAID or (kind == "record" and content_type in _OWN)
    is_json = unsaid and without_mark(body).lstrip()[:1] in (b"{", b"[", b'"')
    return False if is_json or content_type == JSON else None


def _decode_body(
    content_type: str, body: bytes, kind: Kind | None, columns: int
) -> PredictRequest:
    if not body and content_type != "text/plain":  # only a text may be empty
        raise BadInput("the body is empty")
    packed = _packed(content_type, body, kind)
    if packed is not None:
        return _decode_object(body, packed, columns, kind)
    if content_type == "application/octet-stream" and kind != "record":
        content_type = "text/plain" if kind == "text" else "image/*"
    if content_type.startswith("image/"):
        return PredictRequest(image_base64=body)
    if content_type == "text/plain":
        if kind == "text" and body.lstrip().startswith(b"{"):
            _refuse_request(body)
        try:
            return PredictRequest(text=body.decode())
        except UnicodeDecodeError as error:
            raise BadItem(
                f"the text is not UTF-8 (byte {error.start} of {len(body)})"
            ) from error
    raise BadInput(
        f"content type {content_type[:80]!r} is not understood; send application/json, "
        "application/msgpack, or the item itself as image/*, text/plain or "
        "application/octet-stream"
    )


def _refuse_request(text: bytes) -> None:
    """Raise BadInput if a body sent as plain text is a JSON request with a text."""
    try:
        ask = _decode_json(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if ask.text is not None:
        raise BadInput(
            "this text/plain is a request in JSON: send it as application/json; or, if "
            'it is the text that is meant, as {"text": ...} there'
        )


def _decode_object(
    body: bytes, packed: bool, columns: int, kind: Kind | None
) -> PredictRequest:
    body = body if packed else without_mark(body)
    if not (packed or body.strip()):
        raise BadInput("the body is empty")
    check_body(body, packed=packed, columns=columns)
    try:
        return (_decode_msgpack if packed else _decode_json)(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        refuse_record(body, packed=packed, error=error)
        said = hint_of_request(error)
        said = said or hint_of_one(error, body, kind, packed=packed)
        document = b"" if packed else body
        said = said or describe_decode_error(error, PredictRequest, document)
        raise BadInput(f"body: {said}") from error


def _add_terms(ask: PredictRequest, query: bytes, header_budget: str | None) -> None:
    """Add terms of query and header to `ask`; raise BadInput if a term is repeated."""
    given: dict[str, Any] = dict(read_query(query))
    if header_budget is not None:
        if "budget_ms" in given:
            raise BadInput("budget_ms is given twice: in the query, and as x-budget-ms")
        given["budget_ms"] = _read_header(header_budget)
    for name in given:
        if name not in _TERMS:
            raise BadInput(f"query: {name[:80]!r} is none of {', '.join(_TERMS)}")
        if getattr(ask, name) is not None:
            raise BadInput(f"{name} is given twice")
    try:
        read = msgspec.convert(given, PredictRequest, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"query: {describe_decode_error(error, PredictRequest)}"
        ) from error
    for name in given:
        setattr(ask, name, getattr(read, name))


def _read_header(given: str) -> float:
    """Return the header's budget in milliseconds; raise BadInput if it is invalid."""
    try:
        amount = msgspec.convert(given, float, strict=False)
    except msgspec.ValidationError:
        amount = math.nan
    if not 0 <= amount < math.inf:
        raise BadInput(
            f"x-budget-ms is {given[:40]!r}; a finite number of milliseconds, 0 or "
            "more, is needed"
        )
    return amount


def hint_of_one(
    error: Exception, body: bytes | msgspec.Raw, kind: Kind | None, *, packed: bool
) -> str | None:
    """Return a hint if an item under a wrong key caused the error; else None."""
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


def hint_of_request(error: Exception) -> str | None:
    """Return a hint if several items in one request caused the error; else None."""
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


def hint_of_many(error: Exception) -> str | None:
    """Return a hint if a JSON batch without `items` caused the error; else None."""
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
