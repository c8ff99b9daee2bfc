"""The Open Inference Protocol over HTTP: the routes of `/v2`."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import Receive, Scope, Send

from polydom.features.errors import BadInput
from polydom.features.wording import describe_decode_error, without_mark

from ..answer_log.answer_log import NewId, name_request
from ..answer_log.line import Entrance
from ..http.body import SMALL_BODY, arrival, read_body
from ..http.headers import Headers, only_header
from ..http.reply import Reply, error_reply, json_reply, send_and_count
from ..runtime.admission_control.admission import HeldBody
from ..runtime.work_queue import run_off_loop
from .metadata import Live, ModelReady, Ready, config_of, server_facts
from .rest_body import decode_infer
from .service import InferenceService

ROOT = "/v2"
JSON_LENGTH = b"inference-header-content-length"


class RestCall:
    """One HTTP request under `/v2`. Each public method answers one kind of request."""

    def __init__(
        self, service: InferenceService, scope: Scope, receive: Receive, held: HeldBody
    ) -> None:
        self._service = service
        self._held = held
        self._receive = receive
        self._headers = scope["headers"]
        self._name: str = scope["path_params"].get("name", "")
        self._version: str = scope["path_params"].get("version", "")
        self.arrived_s, self.caller = arrival(scope)
        # name of the model whose metrics count an error; empty for none
        self.blamed = ""
        # called with the time at which the answer is written
        self.when_sent: Callable[[float], object] = bool

    async def server_metadata(self) -> Reply:
        """Return the server's metadata."""
        return json_reply(server_facts())

    async def server_live(self) -> Reply:
        """Return an answer that says that the process is alive."""
        return json_reply(Live(live=True))

    async def server_ready(self) -> Reply:
        """Return an answer that says whether all models are ready."""
        ready = self._service.repository.ready
        return _readiness(Ready(live=True, ready=ready))

    async def model_metadata(self) -> Reply:
        """Return a model's input and output tensors."""
        return json_reply(self._service.model_metadata(self._name, self._version))

    async def model_ready(self) -> Reply:
        """Return an answer that says whether a model is ready."""
        ready = self._service.model_ready(self._name, self._version)
        return _readiness(ModelReady(self._name, ready))

    async def model_config(self) -> Reply:
        """Return a model's metadata as Triton's model configuration."""
        metadata = self._service.model_metadata(self._name, self._version)
        return json_reply(config_of(metadata))

    async def statistics(self) -> Reply:
        """Return the statistics of a model, or of all models."""
        return json_reply(self._service.statistics(self._name, self._version))

    async def infer(self) -> Reply:
        """Return the answer to an inference request."""
        service = self._service
        self.blamed = self._name
        limit = service.repository.settings.body_limit
        length = _json_length(self._headers)
        widest = service.widest(self._name, self._version)
        body = await read_body(self._receive, self._headers, limit, self._held)
        given = (self._name, self._version, body, length, widest)
        decoded = await run_off_loop(decode_infer, *given, size=len(body))
        inferred = await service.infer(decoded.inference, self.arrived_s, self.caller)
        payload, length = decoded.encode(inferred)
        self.when_sent = inferred.sent
        if length is None:
            return Reply(200, payload)
        described = (JSON_LENGTH, b"%d" % length)
        return Reply(200, payload, described, kind=b"application/octet-stream")

    async def index(self) -> Reply:
        """Return the list of all models, or of ready models if the request says so."""
        given = await self._read_object()
        ready = given.get("ready") or False
        if not isinstance(ready, bool):
            raise BadInput("'ready' must be true or false")
        return json_reply(self._service.index(ready_only=ready))

    async def load(self) -> Reply:
        """Load a model's file again, or for the first time."""
        self._service.refuse_change(self._headers)
        given = await self._read_object()
        parameters = given.get("parameters") or {}
        if not isinstance(parameters, dict):
            raise BadInput("'parameters' must be an object")
        await self._service.load(self._name, parameters)
        return Reply(200, b"{}")

    async def unload(self) -> Reply:
        """Unload a model."""
        self._service.refuse_change(self._headers)
        await self._read_object()
        await self._service.unload(self._name)
        return Reply(200, b"{}")

    async def _read_object(self) -> dict[str, Any]:
        """Return the body as a dict; an empty body or null gives an empty dict."""
        limit = min(SMALL_BODY, self._service.repository.settings.body_limit)
        body = await read_body(self._receive, self._headers, limit, self._held)
        body = without_mark(body).strip()
        try:
            read = msgspec.json.decode(body or b"{}", type=dict[str, Any] | None)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            said = describe_decode_error(error, document=body)
            raise BadInput(f"body: {said}") from error
        return read or {}


class Endpoint:
    """The ASGI application of one path; it turns exceptions into error responses."""

    def __init__(
        self, service: InferenceService, answer: Callable[[RestCall], Awaitable[Reply]]
    ) -> None:
        self._service = service
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        with self._service.repository.held_bytes.body() as held:
            call = RestCall(self._service, scope, receive, held)
            arrived_s, caller = call.arrived_s, call.caller
            more: NewId = ()
            if self._service.repository.answer_log is not None:
                _, more = name_request(caller)
            try:
                reply = await self._answer(call)
            except Exception as error:
                entrance: Entrance | None = "oip" if call.blamed else None
                given = error, call.blamed, arrived_s, entrance, caller
                failed = self._service.failure(*given)
                if caller.trace is not None:
                    caller.trace.failed(failed[1], call.blamed)
                reply = error_reply(*failed)
            reply.raw_headers += more
            sending = reply(scope, receive, send)
            await send_and_count(sending, caller, time.monotonic, call.when_sent)


# The most frequent routes come first; `stats` comes before a model with that name.
_ROUTES = (
    ("POST", "/models/{name}/infer", RestCall.infer),
    ("POST", "/models/{name}/versions/{version}/infer", RestCall.infer),
    ("GET", "/", RestCall.server_metadata),
    ("GET", "/health/live", RestCall.server_live),
    ("GET", "/health/ready", RestCall.server_ready),
    ("GET", "/models/stats", RestCall.statistics),
    ("GET", "/models/{name}", RestCall.model_metadata),
    ("GET", "/models/{name}/ready", RestCall.model_ready),
    ("GET", "/models/{name}/config", RestCall.model_config),
    ("GET", "/models/{name}/stats", RestCall.statistics),
    ("GET", "/models/{name}/versions/{version}", RestCall.model_metadata),
    ("GET", "/models/{name}/versions/{version}/ready", RestCall.model_ready),
    ("GET", "/models/{name}/versions/{version}/config", RestCall.model_config),
    ("GET", "/models/{name}/versions/{version}/stats", RestCall.statistics),
    ("POST", "/repository/index", RestCall.index),
    ("POST", "/repository/models/{name}/load", RestCall.load),
    ("POST", "/repository/models/{name}/unload", RestCall.unload),
)


def routes_of(service: InferenceService) -> list[BaseRoute]:
    """Return the routes of `/v2`, with and without a slash at the end."""
    below: list[BaseRoute] = []
    for method, path, answer in _ROUTES:
        for written in {path, path.rstrip("/") + "/"}:
            below.append(Route(written, Endpoint(service, answer), methods=[method]))
    metadata = Endpoint(service, RestCall.server_metadata)
    root = Route(ROOT, metadata, methods=["GET"])
    return [Mount(ROOT, app=Router(below, redirect_slashes=False)), root]


def _json_length(headers: Headers) -> int | None:
    value = only_header(headers, JSON_LENGTH)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit()) or len(value) > 18:
        raise BadInput(f"{JSON_LENGTH.decode()} is {value[:40]!r}, no number of bytes")
    return int(value)


def _readiness(answer: Ready | ModelReady) -> Reply:
    if not answer.ready:
        answer.error = "not ready yet"
    return json_reply(answer, 200 if answer.ready else 503)
