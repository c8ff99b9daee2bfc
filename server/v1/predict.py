"""`POST /v1/predict`: an item is decoded, a model is asked, its answer is encoded.

What need not wait for anything is answered inside the protocol: an ASGI cycle, a task
and the framework's routing cost more than a cheap plan. All else, and every request
that is not answered with 200, is answered by a route of the application, as if nobody
had looked at it before.
"""

from functools import partial

from starlette.types import Receive, Scope, Send

from polydom.features.items import Item

from ..errors import NotReady
from ..http.body import arrival, coding_of, read_body
from ..http.headers import Headers, model_in, type_and_budget_in
from ..http.raw_request import RawRequest
from ..http.reply import JSON, Reply, error_reply, send_and_count
from ..runtime.held_bytes import HeldBody
from ..runtime.repository import Repository
from ..runtime.served_model import ServedModel
from ..runtime.translator import Translator
from ..schema.bounds import LARGE
from ..schema.predict import MSGPACK, PredictRequest, Terms, encode, encode_msgpack
from .decode import check_request, decode_request, model_in_body

PREDICT = "/v1/predict"
# Bytes of the longest body that is read on the event loop without a look beforehand.
LONGEST_BODY = 65536
_TELLING = frozenset((b"content-type", b"content-encoding", b"x-budget-ms"))
_PLAIN_JSON = [(b"content-type", JSON)]


class Predict:
    """Answers requests for one item; an ASGI application for one path."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._longest = min(LONGEST_BODY, repository.settings.body_limit)

    def at_once(self, request: RawRequest) -> bytes | None:
        """Answer a request if that need not wait; None where the route has to.

        Then nothing was counted, and nothing remembers that it came.
        """
        if len(request.body) > self._longest:
            return None
        try:
            served = self._repository.get()
            if served.waiting:
                return None
            ask = _read(served.translator, request.headers, request.query, request.body)
            if ask is None:
                return None
            answered = served.answer_at_once(ask, request.arrived_s, request.caller)
            if answered is None:
                return None
            answer = encode(served.translator.answer(*answered))
        except Exception:  # the route will meet it again, and say what it is
            return None
        request.when_written(partial(served.sent, *answered))
        return answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever becomes of it."""
        with self._repository.held_bytes.body() as held:
            await self._answer(scope, receive, send, held)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, held: HeldBody
    ) -> None:
        repository = self._repository
        arrived_s, caller = arrival(scope)
        headers, query = scope["headers"], scope["query_string"]
        served: ServedModel | None = None  # what is blamed for an error
        try:
            limit = repository.settings.body_limit
            body = await read_body(receive, headers, limit, held)
            served = self._served(headers, query, body)
            ask = _decode(served, headers, query, body)
            if served is None or ask.model is not None:
                served = None
                served = repository.get(ask.model)
            request, outcome = await served.answer(ask, arrived_s, caller)
            answer = served.translator.answer(request, outcome)
        except Exception as error:
            metrics = repository.no_model if served is None else served.metrics
            await error_reply(*metrics.failed(error))(scope, receive, send)
            return
        if type_and_budget_in(headers)[0] in MSGPACK:
            packed = encode_msgpack(answer)
            reply = Reply(200, packed, kind=MSGPACK[0].encode())
        else:
            reply = Reply(200, encode(answer))
        count = partial(served.sent, request, outcome)
        await send_and_count(reply(scope, receive, send), caller, served.now, count)

    def _served(
        self, headers: Headers, query: bytes, body: bytes
    ) -> ServedModel | None:
        """Find what answers, before the body is decoded; None if only that can say."""
        name = model_in(query) if query else None
        if name is None and len(body) > LARGE:
            name = model_in_body(headers, body)
        try:
            return self._repository.get(name)
        except NotReady:  # the body may name one that is
            if len(body) > LARGE:
                raise
            return None


def _decode(
    served: ServedModel | None, headers: Headers, query: bytes, body: bytes
) -> PredictRequest:
    if served is None:
        return decode_request(headers, query, body, None)
    kind = served.planner.package.kind
    if len(body) > LARGE:
        check_request(headers, body, kind, served.translator.columns)
    return decode_request(headers, query, body, kind)


def _read(
    translator: Translator, headers: Headers, query: bytes, body: bytes
) -> PredictRequest | tuple[Terms, Item] | None:
    """Read a request; None where that takes long, or it is for a model by name."""
    telling = [header for header in headers if header[0] in _TELLING]
    is_bare = not query and telling == _PLAIN_JSON
    if not is_bare:
        content_type, budget = type_and_budget_in(telling)
        if coding_of(telling) or content_type in MSGPACK:
            return None
        is_bare = not query and content_type == "application/json" and budget is None
    if translator.record_decoder is not None and is_bare:
        read = translator.record_decoder.read(body)
        return None if read is None or read[0].model is not None else read
    kind = translator.planner.package.kind
    if kind == "image":
        return None
    ask = decode_request(telling, query, body, kind)
    return None if ask.model is not None else ask
