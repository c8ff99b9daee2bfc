"""Routes for operators and the web page: probes, models, indexes, metrics, reload."""

from functools import partial

from fastapi import Request, Response
from starlette.datastructures import State

from ..errors import NotReady, UnknownSample, describe, not_ready
from ..http.headers import flag_in, host_in, is_this_machine, only_in, only_model_in
from ..http.raw_request import Direct
from ..http.reply import Reply, error_reply, json_reply
from ..metrics.kept_metrics import KeptMetrics
from ..runtime.repository import Repository
from ..runtime.served_model import ServedModel
from ..schema.facts import Health
from ..schema.wire import encode

LIVEZ, READYZ = "/livez", "/readyz"
RELOAD = "/v1/admin/reload"
NO_SNIFFING = (b"x-content-type-options", b"nosniff")


async def livez(_: Request) -> Response:
    """Answer `GET /livez` with status 200: the process is alive."""
    return json_reply(Health("ok"))


async def readyz(request: Request) -> Response:
    """Answer `GET /readyz`: 200 if ready, 503 while warming up or stopping."""
    repository: Repository = request.app.state.repository
    if not repository.ready:
        why = not_ready(repository.queue.begun)
        if repository.leaving:
            why = NotReady("the server is about to stop")
        # not counted, because a probe is not a failed request
        return error_reply(*describe(why))
    return json_reply(Health("ok"))


def direct_probes(repository: Repository) -> dict[tuple[bytes, bytes], Direct]:
    """Map the methods and paths of health probes to functions that answer without ASGI.

    A function returns None if the probe fails; the ASGI route then answers.
    """
    well = encode(Health("ok"))
    return {
        (b"GET", LIVEZ.encode()): lambda _: well,
        (b"GET", READYZ.encode()): lambda _: well if repository.ready else None,
    }


def shows_items(request: Request) -> bool:
    """Return True if the answer to this request may show training items.

    If the setting `samples` is "here", the Host header must be `localhost` or a
    loopback address. A hostile page can make its own host name resolve to this machine
    (DNS rebinding), but then the Host header has that name.
    """
    repository: Repository = request.app.state.repository
    shown = repository.settings.samples
    if shown == "here":
        host = host_in(request.scope["headers"])
        return host is not None and is_this_machine(host)
    return shown == "everybody"


async def show_index(request: Request) -> Response:
    """Answer `GET /v1/index`: the facts about a served index."""
    return json_reply(_served(request).facts(shows_items=shows_items(request)))


async def show_curves(request: Request) -> Response:
    """Answer `GET /v1/index/curves`: the features' costs and the measured times."""
    return json_reply(_served(request).curves())


async def show_inputs(request: Request) -> Response:
    """Answer `GET /v1/index/inputs`: how present items differ from the build's."""
    return json_reply(_served(request).inputs(shows_items=shows_items(request)))


async def show_sample(request: Request) -> Response:
    """Answer `GET /v1/index/samples/N`: sample item N of the index."""
    served = _served(request)
    shown = served.samples if shows_items(request) else []
    number = request.path_params["number"]
    if not 0 <= number < len(shown):
        raise UnknownSample(f"there is no sample {number}; {len(shown)} are shown here")
    sample = shown[number]
    if isinstance(sample, bytes):
        return Reply(200, sample, NO_SNIFFING, kind=b"application/octet-stream")
    if isinstance(sample, str):
        text = sample.encode("utf-8", "replace")
        return Reply(200, text, NO_SNIFFING, kind=b"text/plain; charset=utf-8")
    return json_reply(sample)


def _served(request: Request) -> ServedModel:
    repository: Repository = request.app.state.repository
    return repository.get(only_model_in(request.scope["query_string"]))


async def show_models(request: Request) -> Response:
    """Answer `GET /v1/models`: names, states and versions of all models."""
    repository: Repository = request.app.state.repository
    return json_reply(repository.facts())


async def show_metrics(request: Request) -> Response:
    """Answer `GET /metrics` in Prometheus's text format."""
    from prometheus_client import CONTENT_TYPE_LATEST

    body = await _kept_metrics(request.app.state).get()
    return Response(body, media_type=CONTENT_TYPE_LATEST)


def _kept_metrics(state: State) -> KeptMetrics:
    from ..metrics.prometheus import render

    if state.metrics is None:
        of_all = partial(render, state.repository, state.worker)
        state.metrics = KeptMetrics(of_all, state.others)
    kept: KeptMetrics = state.metrics
    return kept


async def reload_models(request: Request) -> Response:
    """Answer `POST /v1/admin/reload`: load files anew, then answer as `show_models`."""
    state = request.app.state
    state.inference.refuse_change(request.headers.raw)
    query = only_in(request.scope["query_string"], ("model", "allow_changes"))
    allowed = flag_in(query, "allow_changes")
    await state.repository.reload(query.get("model"), allow_changes=allowed)
    state.inference.tell_others()
    return await show_models(request)
