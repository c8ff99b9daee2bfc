"""What the server says of itself: probes, models, an index, metrics."""

import asyncio
from collections.abc import Callable

from fastapi import Request, Response
from starlette.datastructures import State

from ..errors import NotReady, UnknownSample, describe, not_ready
from ..http.bearer_tokens import Tokens
from ..http.headers import host_in, is_this_machine, only_model_in
from ..http.raw_request import Direct
from ..http.reply import Reply, error_reply, json_reply
from ..runtime.repository import Repository
from ..schema.facts import Health
from ..schema.wire import encode

LIVEZ, READYZ = "/livez", "/readyz"
RELOAD = "/v1/admin/reload"
NO_SNIFFING = (b"x-content-type-options", b"nosniff")


async def livez(_: Request) -> Response:
    """Say that the process answers."""
    return json_reply(Health("ok"))


async def readyz(request: Request) -> Response:
    """Say whether features and models are warm."""
    repository: Repository = request.app.state.repository
    if not repository.ready:
        why = not_ready(repository.queue.begun)
        if repository.leaving:
            why = NotReady("the server is about to stop")
        return error_reply(*describe(why))  # not counted: whoever probes wants to know
    return json_reply(Health("ok"))


def direct_probes(repository: Repository) -> dict[tuple[bytes, bytes], Direct]:
    """Answer probes inside the protocol, while there is nothing wrong to tell."""
    well = encode(Health("ok"))
    return {
        (b"GET", LIVEZ.encode()): lambda _: well,
        (b"GET", READYZ.encode()): lambda _: well if repository.ready else None,
    }


def shows_items(request: Request) -> bool:
    """Whether this request may be told what single training items hold.

    A page of somebody else may have its own name lead to this machine (DNS rebinding),
    but not `localhost` nor an address.
    """
    repository: Repository = request.app.state.repository
    shown = repository.settings.samples
    if shown == "here":
        host = host_in(request.scope["headers"])
        return host is not None and is_this_machine(host)
    return shown == "everybody"


async def show_index(request: Request) -> Response:
    """Say what is being served under a name."""
    repository: Repository = request.app.state.repository
    served = repository.get(only_model_in(request.scope["query_string"]))
    return json_reply(served.facts(shows_items=shows_items(request)))


async def show_curves(request: Request) -> Response:
    """Say what features cost, and what that was fitted to."""
    repository: Repository = request.app.state.repository
    served = repository.get(only_model_in(request.scope["query_string"]))
    return json_reply(served.curves())


async def show_sample(request: Request) -> Response:
    """Give one of the items that an index carries, as it may be asked about."""
    repository: Repository = request.app.state.repository
    served = repository.get(only_model_in(request.scope["query_string"]))
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


async def show_models(request: Request) -> Response:
    """Say which names are served, and whether they answer."""
    repository: Repository = request.app.state.repository
    return json_reply(repository.facts())


async def show_metrics(request: Request) -> Response:
    """Say what was counted, in Prometheus's text format.

    Nobody is refused that, and it takes milliseconds: all who ask in one turn of the
    event loop are given the same.
    """
    from prometheus_client import CONTENT_TYPE_LATEST

    state = request.app.state
    if state.metrics_due is None:
        state.metrics_due = asyncio.create_task(_render_metrics(state))
    body = await asyncio.shield(state.metrics_due)
    return Response(body, media_type=CONTENT_TYPE_LATEST)


async def _render_metrics(state: State) -> bytes:
    from ..metrics.prometheus import render

    state.metrics_due = None  # who asks from now on may have seen more
    others = {} if state.others is None else await state.others()
    return render(state.repository, state.worker, others)


class Admin:
    """Reloads at the request of whoever has one of the tokens.

    Attributes
    ----------
    notify_others
        Called after a reload that went well; makes other processes follow.
    """

    def __init__(self, repository: Repository, tokens: Tokens) -> None:
        self._repository = repository
        self._tokens = tokens
        self.notify_others: Callable[[], object] = bool

    async def reload(self, request: Request) -> Response:
        """Load one model's file again, or all; say then what is served."""
        self._tokens.check(request.headers.raw)
        await self._repository.reload(only_model_in(request.scope["query_string"]))
        self.notify_others()
        return json_reply(self._repository.facts())
