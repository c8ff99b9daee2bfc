"""What goes over the wire: requests, answers and errors; times in microseconds."""

from collections.abc import Iterable
from typing import Any, Literal
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
from ..features.items import Kind
from ..features.sizes import Size
from ..models.trial import Kind as Kernels
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
from .outcome import Reason
from .pace_facts import Rescaling
from .question import OnInfeasible

Record = dict[str, float | int | str | None]
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
    record: Record | None = None
    image_base64: bytes | None = None


class Answer(msgspec.Struct, kw_only=True, repr_omit_defaults=True):
    """Answer of `POST /v1/predict`.

    Indexes that count seconds have the `_us` fields, others `predicted` and `budget`
    in their own unit. `size_in_range` is there only where it is false.
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


_TERMS = ("model", "budget_ms", "budget", "on_infeasible", "min_accuracy")
# What a request has whose sender did not think of it: nothing, or curl's default.
_UNSAID = ("", "application/x-www-form-urlencoded")
MSGPACK = ("application/msgpack", "application/x-msgpack")
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


def model_in(query: bytes) -> str | None:
    """Name of the model that a query asks for; None where it asks for none."""
    if b"model" not in query:
        return None
    return dict(parse_qsl(query.decode("latin-1"))).get("model")


def read_headers(headers: Headers) -> tuple[str, str | None]:
    """Content type without parameters, and the budget in milliseconds, as they came."""
    content_type, budget = "", None
    for name, value in headers:
        if name == b"content-type":
            content_type = value.decode("latin-1").partition(";")[0].strip().lower()
        elif name == b"x-budget-ms":
            budget = value.decode("latin-1")
    return content_type, budget


def _decode_body(content_type: str, body: bytes, kind: Kind | None) -> Ask:
    if not body and content_type != "text/plain":  # a text may be empty
        raise BadInput("the body is empty")
    if content_type in _UNSAID and body.lstrip().startswith(b"{"):
        content_type = "application/json"
    if content_type == "application/json" or content_type in MSGPACK:
        try:
            if content_type in MSGPACK:
                return _decode_msgpack(body)
            return _decode_json(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadInput(f"body: {error}") from error
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


def _add_terms(ask: Ask, query: bytes, header_budget: str | None) -> None:
    """Set what query and header say, each at most once and not in the body too."""
    terms: list[tuple[str, str]] = []
    try:
        terms += parse_qsl(query.decode("ascii"), keep_blank_values=True)
    except UnicodeDecodeError as error:
        raise BadInput("the query is not ASCII; escape it with %") from error
    if header_budget is not None:
        terms.append(("budget_ms", header_budget))
    given: dict[str, Any] = {}
    for name, value in terms:
        if name not in _TERMS:
            raise BadInput(f"query: {name[:80]!r} is none of {', '.join(_TERMS)}")
        if name in given or getattr(ask, name) != _DEFAULTS[name]:
            raise BadInput(f"{name} is given twice")
        given[name] = value
    try:
        read = msgspec.convert(given, Ask, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(f"query or header: {error}") from error
    for name in given:
        setattr(ask, name, getattr(read, name))


_DEFAULTS = {name: getattr(Ask(), name) for name in _TERMS}


def describe(error: PolydomError) -> tuple[int, Failure]:
    """Status and body for an error; of one that is not the caller's, no details."""
    if isinstance(error, BadFeature) and error.__cause__ is not None:
        # what the operator's own code said may tell about the machine
        message = str(error.args[0]).removesuffix(f": {error.__cause__}")
        raised = f" raised {type(error.__cause__).__name__}"
        message = message.replace(raised, " failed")
        return STATUS[BadFeature], Failure(printable(message), error.code)
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind], Failure(str(error), error.code)
    return 500, UNEXPECTED
