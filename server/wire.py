"""What goes over the wire: requests, answers and errors; times in microseconds."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, UnsetType

from ..features.errors import (
    BadFeature,
    BadInput,
    BadItem,
    NothingFits,
    PolydomError,
    printable,
)
from ..features.items import Gaps, Kind
from ..features.sizes import Size
from ..features.wording import in_words
from ..models.trial import Kind as Kernels
from .bounds import check_item
from .errors import (
    Abandoned,
    NotAllowed,
    NotReady,
    Overloaded,
    ReceiveTimeout,
    ReloadFailed,
    TooLarge,
    Unauthorized,
    UnknownModel,
    UnsupportedEncoding,
)
from .exit_facts import ExitFacts
from .json_keys import refuse_twice, twice_in_json
from .outcome import Reason
from .pace_facts import Rescaling
from .question import OnInfeasible
from .schema_streams import MSGPACK

# What it holds is looked at by `Desk.read`, which is the same for every entrance.
Record = Annotated[
    Any,
    msgspec.Meta(
        extra_json_schema={
            "type": ["object", "null"],
            "additionalProperties": {"type": ["number", "string", "boolean", "null"]},
        }
    ),
]
Headers = Iterable[tuple[bytes, bytes]]

STATUS: dict[type[PolydomError], int] = {
    BadInput: 400,
    BadItem: 400,
    NotAllowed: 403,
    Unauthorized: 401,
    UnknownModel: 404,
    ReceiveTimeout: 408,
    TooLarge: 413,
    UnsupportedEncoding: 415,
    BadFeature: 422,
    ReloadFailed: 422,
    Overloaded: 429,
    Abandoned: 499,
    NotReady: 503,
    NothingFits: 504,
}


class Terms(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """On what terms an item is to be classified, whatever kind it is."""

    model: str | None = None
    budget_ms: float | None = None
    budget: float | None = None
    on_infeasible: OnInfeasible = "prior"
    min_accuracy: float = 0.0


class Ask(Terms, forbid_unknown_fields=True, kw_only=True):
    """Body of `POST /v1/predict` as JSON: one item, and on what terms.

    With a raw body the item is the body, and the terms come in the query.
    """

    text: str | None = None
    record: Record = None
    image_base64: bytes | None = None


class Answer(msgspec.Struct, kw_only=True, repr_omit_defaults=True):
    """Answer of `POST /v1/predict`.

    Indexes that count seconds have the `_us` fields, others `predicted` and `budget`
    in their own unit. `size_in_range` is there only where it is false; `unknown` where
    a record's columns hold what the index never saw in them, and `missing` where more
    than half of its columns hold nothing.
    """

    label: str
    scores: dict[str, float]
    features: tuple[str, ...]
    expected_accuracy: float
    reason: Reason | None
    budget_met: bool
    budget_us: float | UnsetType = UNSET
    predicted_us: float | UnsetType = UNSET
    reserve_us: float | UnsetType = UNSET
    budget: float | UnsetType = UNSET
    predicted: float | UnsetType = UNSET
    actual_us: float
    queue_us: float
    elapsed_us: float
    index_version: str
    size_in_range: bool | UnsetType = UNSET
    unknown: tuple[str, ...] | UnsetType = UNSET
    missing: int | UnsetType = UNSET

    def tell(self, gaps: Gaps) -> None:
        """Say what the index cannot tell of the record."""
        if gaps.unknown:
            self.unknown = gaps.unknown
        if gaps.missing:
            self.missing = gaps.missing


class Failure(msgspec.Struct):
    """Body of every answer that is an error."""

    error: str
    code: str


UNEXPECTED = Failure("the server failed to answer; its log says why", "internal")


class Health(msgspec.Struct):
    """Answer of `/livez` and `/readyz`."""

    status: str


class SetFacts(msgspec.Struct):
    """One feature set that the index may answer with.

    `cost` is its polynomial in the item's size, in the index's unit: 1, n, n^2 ..., or
    1, a, b, a^2, ab, b^2 ... where a size is of two numbers.
    """

    features: tuple[str, ...]
    expected_accuracy: float
    cost: list[float]


class FeatureFacts(msgspec.Struct):
    """One feature, and how many columns it gives."""

    name: str
    width: int


class ModelFacts(msgspec.Struct):
    """One name that is served; `version` is null while nothing answers for it.

    `reason` says why it does not.
    """

    name: str
    version: str | None
    state: Literal["READY", "LOADING", "UNAVAILABLE"]
    reason: str


class ModelsFacts(msgspec.Struct):
    """Answer of `GET /v1/models`; the first is served where no name is given."""

    models: list[ModelFacts]


class MeasuredFacts(msgspec.Struct):
    """What others took of the machine while an index's costs were measured.

    `lost` is a share of the time of what was timed, `others` are processors, null where
    the system did not tell, of `processors`.
    """

    busy: bool
    lost: float
    others: float | None
    processors: int


class IndexFacts(msgspec.Struct):
    """Answer of `GET /v1/index`: what is being served."""

    version: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    size: tuple[str, ...]
    smallest_size: Size
    largest_size: Size
    accuracy: float
    features: list[FeatureFacts]
    sets: list[SetFacts]
    rescaling: Rescaling
    drift: float
    kernels: Kernels
    exits: ExitFacts | None
    measured: MeasuredFacts | None = None


_TERMS = ("model", "budget_ms", "budget", "on_infeasible", "min_accuracy")
# What a request has whose sender did not think of it: nothing, or curl's default.
_UNSAID = ("", "application/x-www-form-urlencoded")
_IN_UTF8 = ("application/json", "text/plain")
_UTF8 = ("utf-8", "utf8", "us-ascii", "ascii")


class _Named(msgspec.Struct):
    """A body of which everything but this is skipped."""

    model: str | None = None


_named_json = msgspec.json.Decoder(_Named).decode
_named_msgpack = msgspec.msgpack.Decoder(_Named).decode
_decode_json = msgspec.json.Decoder(Ask).decode
_decode_msgpack = msgspec.msgpack.Decoder(Ask).decode
encode = msgspec.json.Encoder().encode
encode_msgpack = msgspec.msgpack.Encoder().encode


def decode_ask(headers: Headers, query: bytes, body: bytes, kind: Kind | None) -> Ask:
    """Read one request of `POST /v1/predict`.

    Parameters
    ----------
    headers
        Names in lower case.
    query
        The raw query string.
    body
        JSON, or an image's or text's own bytes, as the content type says. Without one,
        and as a form, what begins like a JSON object is read as one.
    kind
        What the index classifies; decides what `application/octet-stream` holds. None
        where only the body may say which index that is.

    Raises
    ------
    BadInput
        If the request is malformed or its body empty, or its terms are given twice.
    BadItem
        If a text is not UTF-8.
    """
    content_type, header_budget = read_headers(headers)
    ask = _decode_body(content_type, body, kind)
    if query or header_budget is not None:
        _add_terms(ask, query, header_budget)
    return ask


def read_query(query: bytes) -> dict[str, str]:
    """Split a query into its names and values.

    Raises
    ------
    BadInput
        If it is not ASCII, or has a name twice.
    """
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True)
    except UnicodeDecodeError as error:
        raise BadInput("the query is not ASCII; escape it with %") from error
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"query: {name[:80]!r} is given twice")
    return found


def check_ask(headers: Headers, body: bytes, kind: Kind, columns: int) -> None:
    """Refuse a long body by what it holds, before it is decoded.

    Raises
    ------
    BadInput, BadItem
        As `check_item`.
    """
    packed = _packed(headers, body)
    if packed is not None:
        check_item(body, packed=packed, kind=kind, columns=columns)


def _packed(headers: Headers, body: bytes) -> bool | None:
    """Say whether an object comes in msgpack, not JSON; None where the item is all."""
    content_type = content_type_in(headers)
    if content_type in MSGPACK:
        return True
    is_form = content_type in _UNSAID and body.lstrip().startswith(b"{")
    return False if is_form or content_type == "application/json" else None


def model_in_body(headers: Headers, body: bytes) -> str | None:
    """Return which model a body names, if it does, without decoding its item."""
    packed = _packed(headers, body)
    if packed is None:
        return None
    try:
        return (_named_msgpack if packed else _named_json)(body).model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # whoever reads the body says what is wrong with it


def model_in(query: bytes) -> str | None:
    """Name of the model that a query asks for; None where it asks for none.

    Raises
    ------
    BadInput
        As `read_query`.
    """
    return read_query(query).get("model") if b"model" in query else None


def only_model_in(query: bytes) -> str | None:
    """Return the same where a query can ask for nothing else.

    Raises
    ------
    BadInput
        As `read_query`, and if it does.
    """
    found = read_query(query)
    other = next((name for name in found if name != "model"), None)
    if other is not None:
        raise BadInput(f"query: {other[:80]!r} is unknown; only 'model' is read here")
    return found.get("model")


def only_header(headers: Headers, name: bytes) -> str | None:
    """Value of a header that is no list, without the space around it; None without one.

    Raises
    ------
    BadInput
        If it came more than once (RFC 9110, 5.3).
    """
    found = [value for own, value in headers if own == name]
    if len(found) > 1:
        raise BadInput(f"the header {name.decode()} is given twice")
    return found[0].decode("latin-1").strip(" \t") if found else None


def content_type_in(headers: Headers) -> str:
    """Content type in lower case, without parameters; empty where there is none.

    Raises
    ------
    BadInput
        If it came more than once, or with a charset that is not read.
    """
    value = only_header(headers, b"content-type") or ""
    kind, _, parameters = value.partition(";")
    kind = kind.strip().lower()
    for parameter in parameters.split(";") if kind in _IN_UTF8 else ():
        name, _, given = parameter.partition("=")
        charset = given.strip(' \t"').lower()
        if name.strip().lower() == "charset" and charset not in _UTF8:
            raise BadInput(f"charset {charset[:40]!r} is not read; send UTF-8")
    return kind


def read_headers(headers: Headers) -> tuple[str, str | None]:
    """Content type, and the budget in milliseconds as it came.

    Raises
    ------
    BadInput
        As `content_type_in`, and if the budget came more than once.
    """
    return content_type_in(headers), only_header(headers, b"x-budget-ms")


def _decode_body(content_type: str, body: bytes, kind: Kind | None) -> Ask:
    if not body and content_type != "text/plain":  # a text may be empty
        raise BadInput("the body is empty")
    if content_type in _UNSAID and body.lstrip().startswith(b"{"):
        content_type = "application/json"
    if content_type == "application/json" or content_type in MSGPACK:
        try:
            if content_type in MSGPACK:
                ask = _decode_msgpack(body)
            else:
                ask = _decode_json(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadInput(f"body: {in_words(error, Ask)}") from error
        refuse_keys(ask, body, msgpack=content_type in MSGPACK)
        return ask
    if content_type == "application/octet-stream" and kind != "record":
        content_type = "text/plain" if kind == "text" else "image/*"
    if content_type.startswith("image/"):
        return Ask(image_base64=body)
    if content_type == "text/plain":
        try:
            return Ask(text=body.decode())
        except UnicodeDecodeError as error:
            raise BadItem(
                f"the text is not UTF-8 (byte {error.start} of {len(body)})"
            ) from error
    raise BadInput(
        f"content type {content_type[:80]!r} is not understood; send application/json, "
        "application/msgpack, or the item itself as image/*, text/plain or "
        "application/octet-stream"
    )


def refuse_keys(
    ask: Ask, body: bytes, *, where: str = "body", msgpack: bool = False
) -> None:
    """Refuse what was decoded from an object that has a key twice.

    Raises
    ------
    BadInput, BadItem
        If the body has, or its record.
    """
    if msgpack:
        # the first byte of a small map counts its keys
        if ask.record is not None or body[0] != 0x80 + _keys_given(ask):
            refuse_twice(where, twice_in_json(body, packed=True))
        return
    # Each key has a colon: only if there are more than that can one have come twice.
    colons = body.count(b":")
    if ask.text is not None and b"\\u003" not in body:  # no colon is written as that
        colons -= ask.text.count(":")
    if isinstance(ask.record, dict):
        colons -= len(ask.record)
    few = 1 if ask.budget_ms is None else 2
    if colons > few and colons > _keys_given(ask):
        refuse_twice(where, twice_in_json(body))


def _keys_given(ask: Ask) -> int:
    """Count the keys that were given for certain: their values are not the default."""
    return sum(getattr(ask, name) != value for name, value in _ALL_DEFAULTS)


def _add_terms(ask: Ask, query: bytes, header_budget: str | None) -> None:
    """Set what query and header say, each at most once and not in the body too."""
    given: dict[str, Any] = dict(read_query(query))
    if header_budget is not None:
        if "budget_ms" in given:
            raise BadInput("budget_ms is given twice")
        given["budget_ms"] = header_budget
    for name in given:
        if name not in _TERMS:
            raise BadInput(f"query: {name[:80]!r} is none of {', '.join(_TERMS)}")
        if getattr(ask, name) != _DEFAULTS[name]:
            raise BadInput(f"{name} is given twice")
    try:
        read = msgspec.convert(given, Ask, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(f"query or header: {in_words(error, Ask)}") from error
    for name in given:
        setattr(ask, name, getattr(read, name))


_DEFAULTS = {name: getattr(Ask(), name) for name in _TERMS}
_ALL_DEFAULTS = [(name, getattr(Ask(), name)) for name in Ask.__struct_fields__]


def describe(error: Exception) -> tuple[int, Failure]:
    """Status and body for an error; of one that is not the caller's, no details.

    That is `UNEXPECTED` then, and belongs in the log.
    """
    if isinstance(error, BadFeature) and error.__cause__ is not None:
        # what the operator's own code said may tell about the machine
        message = str(error.args[0]).removesuffix(f": {error.__cause__}")
        raised = f" raised {type(error.__cause__).__name__}"
        message = message.replace(raised, " failed")
        return STATUS[BadFeature], Failure(printable(message), error.code)
    if isinstance(error, PolydomError):
        for kind in type(error).__mro__:
            if kind in STATUS:
                return STATUS[kind], Failure(str(error), error.code)
    return 500, UNEXPECTED
