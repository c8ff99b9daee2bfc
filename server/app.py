"""The HTTP surface: decode, ask, encode. No choosing and no computing here."""

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from threadpoolctl import threadpool_limits

from ..features.errors import BadInput, PolydomError
from ..features.items import Kind
from .access import CHALLENGE, Access, TokenGate
from .admin import RELOAD, Admin
from .admission import Admission
from .batch import BATCH, BatchEndpoint
from .body import read_body
from .bounds import LARGE
from .desk import Settings
from .docs_page import DOCS, show_docs
from .errors import NotReady, not_ready
from .handing import hand_over
from .intake import Body
from .mounted import path_in_app
from .names import AnyPath
from .oip import Oip
from .oip_openapi import OIP_STRUCTS, describe_oip
from .oip_rest import OipRoutes
from .openapi import V1_STRUCTS, describe_v1
from .openapi_parts import document
from .question import Caller
from .ready_made import RETRY_AFTER_S, ReadyMade
from .repository import Repository
from .settings import GrpcAt
from .shortcut import PREDICT, Shortcut
from .wire import (
    MSGPACK,
    UNEXPECTED,
    Failure,
    Health,
    check_ask,
    decode_ask,
    describe,
    encode,
    encode_msgpack,
    model_in,
    model_in_body,
    only_model_in,
    read_headers,
)

# Longest time that the computing thread may keep the interpreter from the one that
# reads requests; Python's own 5 ms is a whole budget.
SWITCH_INTERVAL_S = 0.0005

log = logging.getLogger("polydom")


def create_app(
    index_path: AnyPath | Iterable[AnyPath] | Mapping[str, AnyPath],
    *,
    features: Sequence[Path] = (),
    settings: Settings | None = None,
    access: Access = Access(),  # noqa: B008  frozen
    grpc_at: GrpcAt | None = None,
) -> FastAPI:
    """Make the application that serves one index, or several by name.

    Parameters
    ----------
    index_path
        A `.pdx` file with a package; or several, each called as its file; or one for
        each name. The first is what answers a request that names none.
    features
        Python files with the operator's own features; an index never names any.
    settings
        The operator's limits.
    access
        The tokens that are asked for; none by default.
    grpc_at
        Where to answer gRPC too; needs `polydom[grpc]`.

    Raises
    ------
    BadInput, BadIndexFile, BadFeature
        As `Repository.open`.

    Notes
    -----
    It may be mounted in another application, which then has to run its lifespan:
    Starlette runs none of what is mounted. Without that everything is answered with
    503.

    Examples
    --------
    ::

        answers = create_app("my.pdx")

        @contextlib.asynccontextmanager
        async def lifespan(app):
            async with answers.router.lifespan_context(answers):
                yield

        app = FastAPI(lifespan=lifespan)
        app.mount("/ml", answers)  # /ml/v1/predict
    """
    if grpc_at is not None and find_spec("grpc") is None:
        raise BadInput("gRPC needs grpcio: pip install 'polydom[grpc]'")
    paths = [index_path] if isinstance(index_path, (str, os.PathLike)) else index_path
    repository = Repository.open(paths, features=features, settings=settings)

    app = FastAPI(title="polydom", lifespan=_lifespan, docs_url=None, redoc_url=None)
    app.state.repository, app.state.access = repository, access
    app.state.worker, app.state.others = None, None  # workers have both
    app.state.when_stopping = []
    app.state.oip, app.state.grpc_at = Oip(repository, access), grpc_at
    app.add_middleware(LastResort, repository=repository)
    app.add_middleware(OipRoutes, oip=app.state.oip)
    app.add_middleware(PredictRoute, repository=repository)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(PolydomError, _answer_error)
    app.add_exception_handler(Exception, _answer_unexpected)
    app.add_api_route("/livez", livez)
    app.add_api_route("/readyz", readyz)
    app.add_api_route("/v1/index", show_index)
    app.add_api_route("/v1/models", show_models)
    app.add_api_route("/metrics", show_metrics)
    app.add_api_route(DOCS, show_docs)
    batches = Route(BATCH, BatchEndpoint(repository), methods=["POST"])
    app.router.routes.append(batches)
    if access.admin is not None:
        app.state.admin = Admin(repository, access.admin)
        app.add_api_route(RELOAD, app.state.admin.reload, methods=["POST"])
    if access.tokens is not None:
        # the last to be added is the first that is asked, whatever the path
        app.add_middleware(TokenGate, tokens=access.tokens)
    app.openapi = describe_routes  # type: ignore[method-assign]  # as FastAPI advises
    return app


def describe_routes() -> dict[str, Any]:
    """Return the OpenAPI document of every route."""
    paths = {**describe_v1(), **describe_oip()}
    return document(paths, (*V1_STRUCTS, *OIP_STRUCTS))


class PredictRoute:
    """`POST /v1/predict`, in front of the framework's routing, which costs more.

    Everything else is passed on to `app`.
    """

    def __init__(self, app: ASGIApp, repository: Repository) -> None:
        self._app = app
        self._repository = repository

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or path_in_app(scope) != PREDICT:
            await self._app(scope, receive, send)
        elif scope["method"] != "POST":
            failure = Failure("only POST is answered here", "method_not_allowed")
            await _send(send, 405, encode(failure), (b"allow", b"POST"))
        else:
            with self._repository.intake.body() as held:
                await self._predict(scope, receive, send, held)

    async def _predict(
        self, scope: Scope, receive: Receive, send: Send, held: Body
    ) -> None:
        repository, state = self._repository, scope.get("state", {})
        arrived_s = state.get("arrived_s") or time.monotonic()
        metrics = repository.stray
        try:
            limit = repository.settings.body_limit
            body = await read_body(receive, scope["headers"], limit, held)
            query = scope["query_string"]
            name = model_in(query) if query else None
            if name is None and len(body) > LARGE:
                name = model_in_body(scope["headers"], body)
            kind: Kind | None = None
            try:
                serving = repository.get(name)
                metrics = serving.metrics
                kind = serving.desk.engine.package.kind
            except NotReady:  # the body may name one that is
                if len(body) > LARGE:
                    raise
            if kind is not None and len(body) > LARGE:
                check_ask(scope["headers"], body, kind, serving.desk.columns)
            ask = decode_ask(scope["headers"], query, body, kind)
            if ask.model is not None or kind is None:
                metrics = repository.stray
                serving = repository.get(ask.model)
                metrics = serving.metrics
            caller = state.get("caller") or Caller()
            reply = await serving.answer(ask, arrived_s, caller)
        except Exception as error:
            status, failure = describe(error)
            metrics.errors[failure.code] += 1
            if failure is UNEXPECTED:
                log.exception("a request failed")
            await _send(send, status, encode(failure))
            return
        if read_headers(scope["headers"])[0] in MSGPACK:
            packed = encode_msgpack(reply.answer)
            sending = _send(send, 200, packed, kind=MSGPACK[0].encode())
        else:
            sending = _send(send, 200, encode(reply.answer))
        count = partial(serving.sent, reply, arrived_s)
        await hand_over(sending, caller, serving.now, count)


class LastResort:
    """Answers where `app` raised what nobody expected: logs it and counts it, once.

    What has begun to be answered is counted too, and left to the server, which logs it
    and closes the connection.
    """

    def __init__(self, app: ASGIApp, repository: Repository) -> None:
        self._app = app
        self._repository = repository

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            if scope["type"] != "http":
                raise
            self._repository.stray.errors[UNEXPECTED.code] += 1
            if begun:
                raise
            log.exception("a request failed")
            await _send(send, 500, encode(UNEXPECTED))


async def _send(
    send: Send,
    status: int,
    body: bytes,
    *headers: tuple[bytes, bytes],
    kind: bytes = b"application/json",
) -> None:
    more = list(headers)
    if status == 413:
        # what is still on its way is not read
        more.append((b"connection", b"close"))
    if status == 429:
        more.append((b"retry-after", RETRY_AFTER_S))
    length = (b"content-length", b"%d" % len(body))
    content_type = (b"content-type", kind)
    start = {"status": status, "headers": [content_type, length, *more]}
    await send({"type": "http.response.start", **start})
    await send({"type": "http.response.body", "body": body})


async def livez() -> Response:
    """Say that the process answers."""
    return _reply(200, Health("ok"))


async def readyz(request: Request) -> Response:
    """Say whether features and models are warm."""
    repository: Repository = request.app.state.repository
    if not repository.ready:
        why = not_ready(repository.queue.begun)
        if repository.leaving:
            why = NotReady("the server is about to stop")
        return _reply(*describe(why))  # not counted: whoever probes wants to know
    return _reply(200, Health("ok"))


async def show_index(request: Request) -> Response:
    """Say what is being served under a name."""
    repository: Repository = request.app.state.repository
    serving = repository.get(only_model_in(request.scope["query_string"]))
    return _reply(200, serving.desk.facts())


async def show_models(request: Request) -> Response:
    """Say which names are served, and whether they answer."""
    repository: Repository = request.app.state.repository
    return _reply(200, repository.facts())


async def show_metrics(request: Request) -> Response:
    """Say what was counted, in Prometheus's text format."""
    from prometheus_client import CONTENT_TYPE_LATEST

    from .exposition import render

    state = request.app.state
    others = {} if state.others is None else await state.others()
    body = render(state.repository, state.worker, others)
    return Response(body, media_type=CONTENT_TYPE_LATEST)


def _reply(status: int, body: msgspec.Struct) -> Response:
    return Response(encode(body), status, media_type="application/json")


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, PolydomError)
    status, failure = describe(error)
    repository: Repository = request.app.state.repository
    repository.stray.errors[failure.code] += 1
    if failure is UNEXPECTED:
        log.error("a request failed", exc_info=error)
    reply = _reply(status, failure)
    if reply.status_code == 401:
        reply.raw_headers.append(CHALLENGE)
    if reply.status_code == 429:
        reply.raw_headers.append((b"retry-after", RETRY_AFTER_S))
    return reply


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = error.detail.lower().replace(" ", "_")
    reply = _reply(error.status_code, Failure(error.detail, code))
    reply.headers.update(error.headers or {})  # which methods are allowed
    return reply


async def _answer_unexpected(request: Request, error: Exception) -> Response:
    return _reply(500, UNEXPECTED)


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    repository: Repository = app.state.repository
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with threadpool_limits(1):
        warming = asyncio.create_task(repository.start())
        warming.add_done_callback(_log_failure)
        try:
            if app.state.worker is not None:
                # what comes meanwhile is for those that are warm, or waits
                await asyncio.wait([warming])
            async with _beside(app):
                yield _state(app)
        finally:
            warming.cancel()
            await repository.stop()
            sys.setswitchinterval(before_s)


def _beside(app: FastAPI) -> contextlib.AbstractAsyncContextManager[object]:
    """Serve gRPC too, where that is wanted; what is under way there ends first."""
    if app.state.grpc_at is None:
        return contextlib.nullcontext()
    from .grpc_service import serving_grpc

    state = app.state
    return serving_grpc(state.oip, state.grpc_at, state.when_stopping)


def _state(app: FastAPI) -> dict[str, Any]:
    """Give connections what is before the application, and ways past it.

    The shortcut is none where tokens are asked for.
    """
    repository: Repository = app.state.repository
    call_soon = asyncio.get_running_loop().call_soon
    admission = Admission(repository.settings.budget_s, call_soon)
    app.state.oip.admission = admission
    state: dict[str, Any] = {
        "application": app,
        "admission": admission,
        "ready_made": ReadyMade(repository),
    }
    if app.state.access.tokens is None:
        state["shortcut"] = Shortcut(repository)
    return state


def _log_failure(warming: asyncio.Task[None]) -> None:
    if not warming.cancelled() and (error := warming.exception()) is not None:
        log.error("the warm-up failed, so /readyz stays 503", exc_info=error)
