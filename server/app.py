"""The ASGI application: all routes, middleware, error handlers and the lifespan."""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from polydom.features.errors import BadInput, PolydomError
from polydom.features.threads import one_thread
from polydom.features.wording import nearest

from .answer_log.answer_log import AnswerLog, LogOptions
from .errors import UNEXPECTED, Failure, Overloaded
from .http.bearer_tokens import Access, TokenGate, path_in_app
from .http.known_heads import KnownHeads
from .http.openapi_parts import document
from .http.reply import RawReplies, error_reply
from .oip.openapi import OIP_STRUCTS, describe_oip
from .oip.rest import ROOT as OIP
from .oip.rest import routes_of
from .oip.service import InferenceService
from .page.routes import DOCS, page_routes
from .runtime.admission_control.admission import Admission, HeldBytes
from .runtime.model_names import AnyPath
from .runtime.repository import Repository
from .runtime.rollout.gate import Gate
from .settings import UNREAD_LIMIT, GrpcAt, Settings
from .tracing.variables import check_tracing
from .v1.batch import BATCH, BatchEndpoint
from .v1.openapi import V1_STRUCTS, describe_v1
from .v1.operator_routes import (
    LIVEZ,
    READYZ,
    RELOAD,
    direct_probes,
    livez,
    readyz,
    reload_models,
    show_curves,
    show_index,
    show_inputs,
    show_metrics,
    show_models,
    show_sample,
)
from .v1.predict import PREDICT, Predict
from .v1.rollout_routes import ROLLOUT, roll_out

# Longest time in seconds for which the computing thread may hold the interpreter's lock
# while the event loop waits. Python's default of 5 ms is a whole budget.
SWITCH_INTERVAL_S = 0.0005

log = logging.getLogger("polydom")


def create_app(
    index_path: AnyPath | Iterable[AnyPath] | Mapping[str, AnyPath],
    *,
    features: Sequence[Path] = (),
    fetches: Sequence[Path] = (),
    settings: Settings | None = None,
    access: Access = Access(),  # noqa: B008  frozen
    grpc_at: GrpcAt | None = None,
    page: bool = True,
    log: LogOptions | None = None,
    traces: bool = False,
    candidates: Mapping[str, Path] = MappingProxyType({}),
    gate: Gate | None = None,
) -> FastAPI:
    """Return the application that serves one index, or several by name.

    Parameters
    ----------
    index_path
        A `.pdx` file; several files, whose stems name the models; or a mapping from
        model names to files. The first model answers requests that name no model.
    features
        Python files that define the operator's own features.
    fetches
        TOML or Python files that define how columns are fetched that records lack.
    settings
        Budgets, limits and switches; by default, those of `Settings()`.
    access
        The tokens that requests need; none by default.
    grpc_at
        Address for gRPC, which needs `polydom[grpc]`; None for HTTP alone.
    page
        True to serve a page at `/` with charts of the index.
    log
        Where lines about answers are written; by default, none are.
    traces
        True to make spans of requests, which needs `polydom[otel]`. The variables of
        OpenTelemetry's SDK say which requests, and where the spans go.
    candidates
        Files of new indexes to try beside the served ones, by the name of the model. A
        file may be missing, and appear later.
    gate
        Compares new indexes with the served ones; by default, nothing does.

    Raises
    ------
    BadInput, BadIndexFile, BadFeature, BadFetch
        An argument, an index file, a feature file or a file of fetches cannot be used,
        or gRPC is not installed.

    Notes
    -----
    If this application is mounted in another, the other must run this application's
    lifespan, because Starlette does not. Otherwise, every request gets status 503.

    Examples
    --------
    ```python
    answers = create_app("my.pdx")

    @contextlib.asynccontextmanager
    async def lifespan(app):
        async with answers.router.lifespan_context(answers):
            yield

    app = FastAPI(lifespan=lifespan)
    app.mount("/ml", answers)  # /ml/v1/predict
    ```
    """
    if grpc_at is not None and find_spec("grpc") is None:
        raise BadInput("gRPC needs grpcio: pip install 'polydom[grpc]'")
    if traces:
        check_tracing()
    paths = [index_path] if isinstance(index_path, (str, os.PathLike)) else index_path
    repository = Repository(
        paths,
        features=features,
        fetches=fetches,
        settings=settings,
        answer_log=None if log is None else AnswerLog(log),
        candidates=candidates,
        gate=gate,
    )

    app = FastAPI(title="polydom", lifespan=_lifespan, docs_url=None, redoc_url=None)
    app.state.repository, app.state.access = repository, access
    # set by worker processes
    app.state.worker, app.state.others, app.state.tell_orders = None, None, None
    app.state.when_stopping = []
    app.state.inference = InferenceService(repository, access)
    app.state.grpc_at, app.state.traces = grpc_at, traces
    app.add_middleware(LastResort, repository=repository)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(PolydomError, _answer_error)
    # `_answer_http_error` redirects, and explains errors, too
    app.router.redirect_slashes = False
    app.state.predict = Predict(repository)
    predict = Route(PREDICT, app.state.predict, methods=["POST"])
    app.router.routes.insert(0, predict)  # Starlette tries routes in order
    app.add_route(LIVEZ, livez)
    app.add_route(READYZ, readyz)
    app.add_route("/v1/index", show_index)
    app.add_route("/v1/index/curves", show_curves)
    app.add_route("/v1/index/inputs", show_inputs)
    app.add_route("/v1/index/samples/{number:int}", show_sample)
    app.add_route("/v1/models", show_models)
    app.add_route("/metrics", show_metrics)
    batches = Route(BATCH, BatchEndpoint(repository), methods=["POST"])
    pages = page_routes(with_page=page)
    app.router.routes.extend((batches, *routes_of(app.state.inference), *pages))
    if access.admin is not None:
        app.add_route(RELOAD, reload_models, methods=["POST"])
        app.add_route(ROLLOUT, roll_out, methods=["GET", "POST"])
    if access.tokens is not None:
        # The middleware added last sees requests first. Pages need no token: their
        # scripts request data with the token that a person types in.
        free = [route.path for route in pages]
        app.add_middleware(TokenGate, tokens=access.tokens, free=free)
    app.openapi = describe_routes  # type: ignore[method-assign]  # as FastAPI advises
    return app


@cache
def describe_routes() -> dict[str, Any]:
    """Return the OpenAPI document of every route."""
    paths = {**describe_v1(), **describe_oip()}
    return document(paths, (*V1_STRUCTS, *OIP_STRUCTS))


class LastResort:
    """ASGI middleware that answers a request if `app` raises an unexpected error.

    The error is logged and counted. If the response has already begun, the error is
    counted and raised again; uvicorn then logs it and closes the connection.
    """

    def __init__(self, app: ASGIApp, repository: Repository) -> None:
        self._app = app
        self._repository = repository

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run `app` on one request; if `app` raises, send an error response."""
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if scope["type"] != "http":
                raise
            if begun:
                self._repository.no_model.errors[UNEXPECTED.code] += 1
                raise
            reply = error_reply(*self._repository.no_model.failed(error))
            await reply(scope, receive, send)


async def _answer_error(request: Request, error: Exception) -> Response:
    repository: Repository = request.app.state.repository
    return error_reply(*repository.no_model.failed(error))


async def _answer_http_error(request: Request, error: Exception) -> Response:
    """Answer a request that matches no route; redirect, or suggest a similar path."""
    assert isinstance(error, HTTPException)
    status, said, headers = error.status_code, error.detail, dict(error.headers or {})
    code = said.lower().replace(" ", "_")
    if "Allow" in headers:
        headers["Allow"] = ", ".join(sorted(headers["Allow"].split(", ")))
        said = f"only {headers['Allow']} is answered here"
    elif status == 404:
        # under `/v2`, routing has moved that part of the path to the root path
        root = request.scope.get("root_path", "").removesuffix(OIP)
        path = path_in_app({**request.scope, "root_path": root})
        meant = nearest(path, (DOCS, *describe_routes()["paths"]), cutoff=0.6)
        hint = f"did you mean {meant!r}?" if meant else f"{DOCS} has all there are"
        hint = "this server does not offer it" if meant == path else hint
        said = f"nothing is at {path[:80]!r}; {hint}"
        if meant is not None and path != meant == path.rstrip("/"):
            status, query = 307, request.url.query
            headers["Location"] = quote(request.scope["path"].rstrip("/"))
            headers["Location"] += f"?{query}" if query else ""
    reply = error_reply(status, Failure(said, code))
    reply.headers.update(headers)
    return reply


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    repository: Repository = app.state.repository
    app.state.metrics = None
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    if repository.answer_log is not None:
        repository.answer_log.start(app.state.worker or 0)
    if app.state.traces:
        from .tracing.spans import Tracing

        repository.tracing = Tracing()
    with one_thread():
        warming = asyncio.create_task(repository.start())
        warming.add_done_callback(_log_failure)
        try:
            if app.state.worker is not None:
                # other workers that are warm answer meanwhile
                await asyncio.wait([warming])
            async with _beside(app):
                yield _state(app)
        finally:
            warming.cancel()
            await repository.stop()
            if repository.answer_log is not None:
                await asyncio.to_thread(repository.answer_log.stop)
            if repository.tracing is not None:
                await asyncio.to_thread(repository.tracing.stop)
            sys.setswitchinterval(before_s)


def _beside(app: FastAPI) -> contextlib.AbstractAsyncContextManager[object]:
    if app.state.grpc_at is None:
        return contextlib.nullcontext()
    from .oip.grpc_service import serving_grpc

    state = app.state
    return serving_grpc(state.inference, state.grpc_at, state.when_stopping)


def _state(app: FastAPI) -> dict[str, Any]:
    """Return the objects that all connections share, such as the admission control."""
    repository: Repository = app.state.repository
    errors = repository.no_model.errors
    call_soon = asyncio.get_running_loop().call_soon
    admission = Admission(repository.usual_budget, call_soon)
    app.state.inference.admission = admission
    direct = direct_probes(repository)
    if app.state.access.tokens is None:
        direct[b"POST", PREDICT.encode()] = app.state.predict.at_once
    tracing = repository.tracing
    return {
        "application": app,
        "trace": None if tracing is None else tracing.begin,
        "admission": admission,
        "direct": direct,
        "heads": KnownHeads(),
        "unparsed_bytes": HeldBytes(UNREAD_LIMIT),
        "replies": RawReplies(lambda count: errors.update({Overloaded.code: count})),
    }


def _log_failure(warming: asyncio.Task[None]) -> None:
    if not warming.cancelled() and (error := warming.exception()) is not None:
        log.error("the warm-up failed, so /readyz stays 503", exc_info=error)
