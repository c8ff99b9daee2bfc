"""The Open Inference Protocol over HTTP: `/v2`, in front of the framework's routing."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from ..features.errors import BadInput
from ..features.wording import in_words
from .access import CHALLENGE
from .aside import aside
from .body import read_body
from .errors import Failure
from .handing import hand_over
from .headers import Headers, only_header
from .intake import Body
from .json_keys import Twice, refuse_twice, twice_in_json
from .mounted import path_in_app
from .oip import Oip
from .oip_body import decode_infer
from .oip_metadata import config_of
from .question import Caller
from .ready_made import RETRY_AFTER_S
from .schema_predict import encode

ROOT = "/v2"
# Bytes of a body that says which models are listed, loaded or unloaded.
SMALL_BODY = 16 << 10
JSON_LENGTH = b"inference-header-content-length"

Extra = tuple[tuple[bytes, bytes], ...]
_Call = Callable[[], Awaitable["Answered"]]


class Answered(msgspec.Struct):
    """What is sent back, and what is to be told when it was written."""

    status: int
    body: bytes
    headers: Extra = ()
    when_sent: Callable[[float], None] | None = None


class OipRoutes:
    """All that is below `/v2`; everything else is passed on to `app`."""

    def __init__(self, app: ASGIApp, oip: Oip) -> None:
        self._app = app
        self._oip = oip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = path_in_app(scope) if scope["type"] == "http" else ""
        if not f"{path}/".startswith(f"{ROOT}/"):
            await self._app(scope, receive, send)
            return
        with self._oip.repository.intake.body() as held:
            exchange = Exchange(self._oip, scope, receive, held)
            answered = await exchange.answer(path)
            sending, caller = _send(send, answered), exchange.caller
            if answered.when_sent is None:
                await sending
            else:
                await hand_over(sending, caller, time.monotonic, answered.when_sent)


class Exchange:
    """One request being answered."""

    def __init__(self, oip: Oip, scope: Scope, receive: Receive, held: Body) -> None:
        self._oip = oip
        self._held = held
        self._scope = scope
        self._receive = receive
        state = scope.get("state", {})
        self._arrived_s: float = state.get("arrived_s") or time.monotonic()
        self.caller: Caller = state.get("caller") or Caller()
        self._model = ""

    async def answer(self, path: str) -> Answered:
        """Find the route and follow it; an error is an answer too."""
        try:
            calls = self._calls([part for part in path.split("/")[2:] if part])
            method = self._scope["method"]
            if not calls:
                return _failed(404, Failure("nothing is at this path", "not_found"))
            if method not in calls:
                allowed = ", ".join(calls)
                failure = Failure(f"only {allowed} is answered", "method_not_allowed")
                return _failed(405, failure, (b"allow", allowed.encode()))
            return await calls[method]()
        except Exception as error:
            status, failure = self._oip.failure(error, self._model, self._arrived_s)
            return _failed(status, failure)

    def _calls(self, parts: list[str]) -> dict[str, _Call]:
        """List what can be done at a path, by method; nothing at one that is none."""
        match parts:
            case []:
                return {"GET": self._give(self._oip.server_metadata)}
            case ["health", "live"]:
                return {"GET": self._give(lambda: {"live": True})}
            case ["health", "ready"]:
                return {"GET": self._server_ready}
            case ["models", "stats"]:
                return {"GET": self._give(lambda: self._statistics("", ""))}
            case ["models", name]:
                return self._model_calls(name, "", [])
            case ["models", name, "versions", version, *rest]:
                return self._model_calls(name, version, rest)
            case ["models", name, *rest]:
                return self._model_calls(name, "", rest)
            case ["repository", "index"]:
                return {"POST": self._index}
            case ["repository", "models", name, "load"]:
                return {"POST": lambda: self._load(name)}
            case ["repository", "models", name, "unload"]:
                return {"POST": lambda: self._unload(name)}
        return {}

    def _model_calls(
        self, name: str, version: str, rest: list[str]
    ) -> dict[str, _Call]:
        oip = self._oip
        match rest:
            case []:
                return {"GET": self._give(lambda: oip.model_metadata(name, version))}
            case ["ready"]:
                return {"GET": lambda: self._model_ready(name, version)}
            case ["config"]:
                metadata = oip.model_metadata
                return {"GET": self._give(lambda: config_of(metadata(name, version)))}
            case ["stats"]:
                return {"GET": self._give(lambda: self._statistics(name, version))}
            case ["infer"]:
                return {"POST": lambda: self._infer(name, version)}
        return {}

    def _give(self, make: Callable[[], Any]) -> _Call:
        async def call() -> Answered:
            return Answered(200, encode(make()))

        return call

    def _statistics(self, name: str, version: str) -> dict[str, Any]:
        return {"model_stats": self._oip.statistics(name, version)}

    async def _server_ready(self) -> Answered:
        ready = self._oip.repository.ready
        # the specification says "live", its clients read "ready"
        return _readiness(ready, {"live": True, "ready": ready})

    async def _model_ready(self, name: str, version: str) -> Answered:
        ready = self._oip.model_ready(name, version)
        return _readiness(ready, {"name": name, "ready": ready})

    async def _infer(self, name: str, version: str) -> Answered:
        oip = self._oip
        self._model = name
        limit = oip.repository.settings.body_limit
        headers = self._scope["headers"]
        length, widest = _json_length(headers), oip.widest(name, version)
        body = await read_body(self._receive, headers, limit, self._held)
        given = (name, version, body, length, widest)
        decoded = await aside(decode_infer, *given, size=len(body))
        inferred = await oip.infer(decoded.inference, self._arrived_s, self.caller)
        payload, length = decoded.encode(inferred)
        if length is None:
            return Answered(200, payload, when_sent=inferred.sent)
        described = (
            (b"content-type", b"application/octet-stream"),
            (JSON_LENGTH, b"%d" % length),
        )
        return Answered(200, payload, described, inferred.sent)

    async def _index(self) -> Answered:
        given = await self._read_object()
        ready = given.get("ready", False)
        if not isinstance(ready, bool):
            raise BadInput("'ready' must be true or false")
        return Answered(200, encode(self._oip.index(ready_only=ready)))

    async def _load(self, name: str) -> Answered:
        self._oip.refuse_change(self._scope["headers"])
        given = await self._read_object()
        await self._oip.load(
            name, given.get("parameters") or {}, self._scope["headers"]
        )
        return Answered(200, b"{}")

    async def _unload(self, name: str) -> Answered:
        self._oip.refuse_change(self._scope["headers"])
        await self._read_object()
        await self._oip.unload(name, self._scope["headers"])
        return Answered(200, b"{}")

    async def _read_object(self) -> dict[str, Any]:
        """Read a JSON object; an empty body is an empty one."""
        limit = min(SMALL_BODY, self._oip.repository.settings.body_limit)
        headers = self._scope["headers"]
        body = await read_body(self._receive, headers, limit, self._held)
        try:
            given = msgspec.json.decode(body or b"{}", type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadInput(f"body: {in_words(error)}") from error
        if body.count(b":") > len(given):
            refuse_twice("body", Twice(twice_in_json(body).any))
        return given


def _json_length(headers: Headers) -> int | None:
    value = only_header(headers, JSON_LENGTH)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit()) or len(value) > 18:
        raise BadInput(f"{JSON_LENGTH.decode()} is {value[:40]!r}, no number of bytes")
    return int(value)


def _readiness(ready: bool, body: dict[str, Any]) -> Answered:
    if ready:
        return Answered(200, encode(body))
    return Answered(503, encode({**body, "error": "not ready yet"}))


def _failed(status: int, failure: Failure, *headers: tuple[bytes, bytes]) -> Answered:
    more = list(headers)
    if status == 401:
        more.append(CHALLENGE)
    if status == 413:
        # what is still on its way is not read
        more.append((b"connection", b"close"))
    if status == 429:
        more.append((b"retry-after", RETRY_AFTER_S))
    return Answered(status, encode(failure), tuple(more))


async def _send(send: Send, answered: Answered) -> None:
    headers = [(b"content-length", b"%d" % len(answered.body)), *answered.headers]
    if not any(name == b"content-type" for name, _ in headers):
        headers.append((b"content-type", b"application/json"))
    start = {"status": answered.status, "headers": headers}
    await send({"type": "http.response.start", **start})
    await send({"type": "http.response.body", "body": answered.body})
