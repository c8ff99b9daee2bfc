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
from ..http.headers import model_in, type_and_budget_in
from ..http.raw_request import RawRequest
from ..http.reply import JSON, Reply, error_reply, send_and_count
from ..runtime.admission import HeldBody
from ..runtime.record_decoder import RecordDecoder, record_of
from ..runtime.repository import Repository
from ..runtime.served_model import ServedModel
from ..runtime.work_queue import run_off_loop
from ..schema.wire import MSGPACK, Terms, encode, encode_msgpack
from .decode import decode_request

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
            if served.queue.waiting:
                return None
            is_bare = _is_bare(request)
            if is_bare is None:
                return None
            decoder = served.translator.record_decoder
            if decoder is None or not is_bare:
                return _answer_any(served, request)
            return _answer_record(served, request, decoder)
        except Exception:  # the route will meet it again, and say what it is
            return None

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
            served = self._served(query)
            kind = None if served is None else served.planner.package.kind
            given = headers, query, body, kind, repository.columns
            ask = await run_off_loop(decode_request, *given, size=len(body))
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

    def _served(self, query: bytes) -> ServedModel | None:
        """Find what answers, before the body is decoded; None if only that can say."""
        try:
            return self._repository.get(model_in(query) if query else None)
        except NotReady:  # the body may name one that is
            return None


def _is_bare(request: RawRequest) -> bool | None:
    """Say whether there is nothing but a body in JSON; None where it is for the route.

    That is msgpack, and what is compressed.
    """
    telling = [header for header in request.headers if header[0] in _TELLING]
    if telling == _PLAIN_JSON:
        return not request.query
    content_type, budget = type_and_budget_in(telling)
    if coding_of(telling) or content_type in MSGPACK:
        return None
    return not request.query and content_type == "application/json" and budget is None


def _answer_record(
    served: ServedModel, request: RawRequest, decoder: RecordDecoder
) -> bytes | None:
    """Answer for a record, in one go where that can be."""
    read = decoder.read(request.body)
    if read is None or not served.ready:
        return None
    terms, row, gaps = read
    if terms.model is not None:
        return None
    if served.records.applies:
        arrived_s, then = request.arrived_s, request.when_written
        answer = served.records.answer(terms, row, gaps, arrived_s, then)
        if answer is not None:
            return answer
    return _answer_item(served, request, terms, record_of(row, gaps))


def _answer_any(served: ServedModel, request: RawRequest) -> bytes | None:
    """Answer whatever is read fast, for the only model."""
    kind = served.planner.package.kind
    if kind == "image":
        return None
    ask = decode_request(request.headers, request.query, request.body, kind)
    if ask.model is not None:
        return None
    return _answer_item(served, request, ask, served.translator.item(ask))


def _answer_item(
    served: ServedModel, request: RawRequest, terms: Terms, item: Item
) -> bytes | None:
    """Answer in the ordinary way, if that need not wait."""
    done = served.answer_at_once(terms, item, request.arrived_s, request.caller)
    if done is None:
        return None
    answer = encode(served.translator.answer(*done))
    request.when_written(partial(served.sent, *done))
    return answer
