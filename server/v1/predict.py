"""`POST /v1/predict`: decodes an item, asks a model, and encodes its answer.

`HttpProtocol` calls `Predict.at_once` without ASGI, because an ASGI cycle, a task and
the framework's routing cost more than a quick plan. If a record waits for fetches,
`at_once` returns a `Fetching`, whose plan is then computed without ASGI, too. If a plan
must wait for the computing thread, it returns a `Planned` request, and the ASGI route
continues with it. In all other cases, and after an error, the route reads the request
from the start.
"""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from starlette.types import Receive, Scope, Send

from polydom.features.errors import FeatureFailed
from polydom.features.items import Item, Kind, ReadRecord
from polydom.features.sizes import Size

from ..answer_log.answer_log import NewId, name_request
from ..answer_log.line import Entry
from ..engine.request import Outcome, Request
from ..errors import Abandoned, NotReady, Overloaded
from ..http.body import arrival, read_body
from ..http.headers import model_in, type_and_budget_in
from ..http.raw_request import Later, RawRequest, Received
from ..http.reply import JSON, Reply, error_reply, send_and_count
from ..metrics.counts import Metrics
from ..runtime.admission_control.admission import HeldBody
from ..runtime.record_answerer import SIZE
from ..runtime.record_decoder import record_of
from ..runtime.repository import Repository
from ..runtime.rollout.split import Split
from ..runtime.served_model import Begun, ServedModel
from ..runtime.waiting import Waiting
from ..runtime.work_queue import run_off_loop
from ..schema.bounds import LARGE, USUAL_COLUMNS
from ..schema.wire import MSGPACK, Answer, PredictRequest, Terms, encode, encode_msgpack
from .decode import decode_request

PREDICT = "/v1/predict"
# Bytes of the longest body that is decoded inside the protocol, on the event loop.
LONGEST_BODY = 65536
# The headers that say how to read a body, and those of them that a plain JSON request
# has.
_TELLING = frozenset((b"content-type", b"content-encoding", b"x-budget-ms"))
_PLAIN_JSON = [(b"content-type", JSON)]
_JSON_ALONE: tuple[str, str | None] = ("application/json", None)


class Planned(NamedTuple):
    """A decoded request that waits for the computing thread or for fetches."""

    served: ServedModel  # The model that answers
    # The decoded request, with its item and its budget; or an error, of a feature that
    # failed or after a wait, so that nothing is computed or fetched again
    request: Request | Exception
    begun: Begun  # The plan, or the fetches that the record waits for, if any
    raw: RawRequest  # Its body counts as held while the request waits


class Chosen(NamedTuple):
    """The version of a model that was chosen for a request that the route answers."""

    served: ServedModel


class Fetching(Later):
    """An answer to a record that waits for fetches.

    `held` counts the body of `raw` meanwhile. `note`, if not None, is called with the
    encoded answer.
    """

    def __init__(
        self,
        served: ServedModel,
        terms: Terms,
        request: Request,
        waiting: Waiting,
        raw: RawRequest,
        held: HeldBody,
        note: Callable[[bytes], object] | None,
    ) -> None:
        self._served, self._terms = served, terms
        self._request, self._waiting = request, waiting
        self._raw, self._held, self._note = raw, held, note
        held.hold(len(raw.body))

    def begin(self, done: Callable[[object], object]) -> None:
        """Wait; call `done` with the answer, or with a `Planned` request."""
        fetches = self._served.fetches
        assert fetches is not None
        fetches.then(self._request, self._waiting, lambda: done(self._answer()))

    def stop(self) -> Planned:
        """Return the request, which may go on waiting."""
        self._waiting.stop()
        self._held.hold(0)
        return Planned(self._served, self._request, self._waiting, self._raw)

    def _answer(self) -> bytes | Planned:
        answer = self._answer_or_plan()
        if self._note is not None and isinstance(answer, bytes):
            self._note(answer)
        return answer

    def _answer_or_plan(self) -> bytes | Planned:
        served, fetches = self._served, self._served.fetches
        assert fetches is not None
        self._held.hold(0)
        try:
            request = fetches.settled(self._request, self._waiting)
            is_read = type(request.item.payload) is ReadRecord
            if is_read and not (request.timed or served.queue.waiting):
                given = self._terms, request, self._raw.when_written
                done = served.records.answer_fetched(*given)
                if done is not None:
                    return done
            request, begun = served.begin_fetched(request)
            if not isinstance(begun, Outcome):
                return Planned(served, request, begun, self._raw)
            answer = encode(served.translator.answer(request, begun))
        except Exception as error:  # the route answers and counts it
            return Planned(served, error, None, self._raw)
        self._raw.when_written(partial(served.sent, request, begun))
        return answer


class Predict:
    """The ASGI application that answers requests for single items."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._log = repository.answer_log
        self._longest = min(LONGEST_BODY, repository.settings.body_limit)

    def at_once(
        self, raw: RawRequest, chosen: ServedModel | None = None
    ) -> bytes | Later | Planned | Chosen | None:
        """Return the encoded answer if the plan is quick and no request waits.

        If the record waits for fetches, a `Later` is returned. If the plan is longer or
        fails, a `Planned` request is returned, and the route must answer it. If None is
        returned, the route must read the request from the start; if a version was
        chosen, it is returned as `Chosen` then. `chosen` is this version.
        """
        if len(raw.body) > self._longest or self._repository.queue.waiting:
            return None
        try:
            telling = [header for header in raw.headers if header[0] in _TELLING]
            described = _JSON_ALONE
            if telling != _PLAIN_JSON:
                described = type_and_budget_in(telling)
                if described[0] in MSGPACK or b"content-encoding" in dict(telling):
                    return None
            query = raw.query
            if chosen is not None:
                served = chosen
            else:
                served = self._repository.get(model_in(query) if query else None)
                if served.split is not None:
                    return self._divided(served, served.split, raw)
            if not served.ready:
                return None
            decoder, read = served.translator.record_decoder, None
            if decoder is not None and not query and described == _JSON_ALONE:
                read = decoder.read(raw.body)
                if read is None and served.fetches is None:
                    return None
            if read is None:
                kind = served.planner.package.kind
                ask = decode_request(described, query, raw.body, kind)
                if ask.model is not None:
                    if chosen is not None:
                        return None
                    served = self._repository.get(ask.model)
                    if served.split is not None:
                        return None
                return self._answer_item(served, raw, ask, served.translator.item(ask))
            terms, row, gaps = read
            if terms.model is not None:
                return None
            ids = raw.caller.ids
            if served.records.applies and (ids is None or ids.trace is None):
                answer = served.records.answer(
                    terms, row, gaps, raw.arrived_s, raw.when_written
                )
                if answer is not None:
                    if self._log is not None:
                        self._note(served, raw, SIZE, answer)
                    return answer
            return self._answer_item(served, raw, terms, record_of(row.copy(), gaps))
        # the route will meet this error again, and will answer and count it
        except Exception:
            return None

    def _divided(
        self, current: ServedModel, split: Split[ServedModel], raw: RawRequest
    ) -> bytes | Later | Planned | Chosen:
        """Let one of two versions answer as `at_once` does."""
        chosen = split.choose(current, raw.headers)
        answer = self.at_once(raw, chosen)
        if split.shadow is not None and isinstance(answer, bytes):
            raw.when_written(partial(_compare, chosen, raw, answer))
        return answer or Chosen(chosen)

    def _answer_item(
        self, served: ServedModel, raw: RawRequest, terms: Terms, item: Item
    ) -> bytes | Later | Planned | None:
        """Return the answer if the plan is quick, otherwise the planned request.

        Returns None if the route must read the request from the start.
        """
        if not served.ready:
            return None
        try:
            request, done = served.begin(terms, item, raw.arrived_s, raw.caller)
        except FeatureFailed as failure:
            return Planned(served, failure, None, raw)
        if isinstance(done, Outcome):
            answer = encode(served.translator.answer(request, done))
            raw.when_written(partial(served.sent, request, done))
            if self._log is not None:
                self._note(served, raw, item.size, answer)
            return answer
        if isinstance(done, Waiting) and not served.computes_meanwhile(done):
            held = self._repository.held_bytes.body()
            with contextlib.suppress(Overloaded):  # the route will meet it again
                note = None
                if self._log is not None:
                    note = partial(self._note, served, raw, item.size)
                return Fetching(served, terms, request, done, raw, held, note)
        return Planned(served, request, done, raw)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, continuing with the `Planned` request if there is one."""
        # removed here, because uvicorn keeps a connection's last scope
        planned: Planned | Chosen | None = scope.get("state", {}).pop("planned", None)
        with self._repository.held_bytes.body() as held:
            if isinstance(planned, Planned):
                await self._answer_planned(planned, scope, receive, send, held)
            else:
                chosen = None if planned is None else planned.served
                await self._answer(scope, receive, send, held, chosen)

    async def _answer_planned(
        self,
        planned: Planned,
        scope: Scope,
        receive: Receive,
        send: Send,
        held: HeldBody,
    ) -> None:
        served, metrics = planned.served, self._repository.no_model
        try:
            held.hold(len(planned.raw.body))
            message = await receive()  # reads the body, so that uvicorn drops it
            if message["type"] == "http.disconnect":
                raise Abandoned("the caller left before the body was there")
            metrics = served.metrics
            request = planned.request
            if isinstance(request, Exception):
                raise request
            request, outcome = await served.answer_in_turn(request, planned.begun)
            encoded = encode(served.translator.answer(request, outcome))
        except Exception as error:
            reply = self._error_reply(error, metrics, planned.raw)
            await reply(scope, receive, send)
            return
        more: NewId = ()
        if self._log is not None:
            more = self._note(served, planned.raw, request.item.size, encoded)
        sending = Reply(200, encoded, *more)(scope, receive, send)
        count = partial(served.sent, request, outcome)
        await send_and_count(sending, request.caller, served.now, count)
        if served.split is not None:
            _compare(served, planned.raw, encoded)

    async def _answer(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        held: HeldBody,
        chosen: ServedModel | None = None,
    ) -> None:
        """Read a request from the start, and answer it.

        `chosen` is the version that is to answer, unless the body names a model.
        """
        repository = self._repository
        arrived_s, caller = arrival(scope)
        headers, query = scope["headers"], scope["query_string"]
        received = Received(query, headers, b"", arrived_s, caller)
        served: ServedModel | None = None  # the model whose metrics count an error
        try:
            limit = repository.settings.body_limit
            body = await read_body(receive, headers, limit, held)
            received = Received(query, headers, body, arrived_s, caller)
            served = self._served(query)
            kind = None if served is None else served.planner.package.kind
            described, size = type_and_budget_in(headers), len(body)
            columns = repository.columns if size > LARGE else USUAL_COLUMNS
            given = described, query, body, kind, columns
            ask = await run_off_loop(decode_request, *given, size=size)
            if served is None or ask.model is not None:
                served = chosen = None
                served = repository.get(ask.model)
            if served.split is not None:
                served = chosen or served.split.choose(served, headers)
            request, outcome = await served.answer(ask, arrived_s, caller)
            answer = served.translator.answer(request, outcome)
        except Exception as error:
            metrics = repository.no_model if served is None else served.metrics
            reply = self._error_reply(error, metrics, received)
            await reply(scope, receive, send)
            return
        more: NewId = ()
        if self._log is not None:
            more = self._note(served, received, request.item.size, answer)
        if described[0] in MSGPACK:
            packed = encode_msgpack(answer)
            reply = Reply(200, packed, *more, kind=MSGPACK[0].encode())
        else:
            reply = Reply(200, encode(answer), *more)
        count = partial(served.sent, request, outcome)
        await send_and_count(reply(scope, receive, send), caller, served.now, count)
        if served.split is not None:
            _compare(served, received, answer)

    def _note(
        self, served: ServedModel, asked: Received, size: Size, answer: bytes | Answer
    ) -> NewId:
        """Give an answer to the log; only if there is one.

        Returns the headers that give the caller a new request id back, for a reply that
        `HttpProtocol` does not write itself.
        """
        log = self._log
        assert log is not None
        drawn = log.draws()
        if not (drawn or log.logs_all):
            return ()
        ids, more = name_request(asked.caller)
        item, held = None, 0
        if drawn:
            item = partial(_read_again, asked, served.planner.package.kind)
            held = len(asked.body)
        entry = Entry(
            ids,
            asked.arrived_s,
            "predict",
            served.metrics.name,
            size,
            answer,
            item=item,
            held=held,
        )
        log.add(entry)
        return more

    def _error_reply(
        self, error: Exception, metrics: Metrics, asked: Received
    ) -> Reply:
        """Count and log an error; return the response."""
        status, failure = metrics.failed(error)
        if asked.caller.trace is not None:
            asked.caller.trace.failed(failure, metrics.name)
        more: NewId = ()
        if self._log is not None:
            ids, more = name_request(asked.caller)
            self._log.failed(
                ids,
                "predict",
                metrics.name,
                asked.arrived_s,
                status,
                failure,
                partial(_read_again, asked, None),
                len(asked.body),
            )
        return error_reply(status, failure, *more)

    def _served(self, query: bytes) -> ServedModel | None:
        """Return the model that the query names, or the default model.

        Returns None if this model is not loaded, because the body may name another.
        """
        try:
            return self._repository.get(model_in(query) if query else None)
        except NotReady:
            return None


def _compare(served: ServedModel, asked: Received, answer: bytes | Answer) -> None:
    """Let the candidate answer a request again, if the operator wants that."""
    split = served.split
    if split is not None and split.shadow is not None:
        read = partial(_read_again, asked, served.planner.package.kind)
        split.shadow.add(read, len(asked.body), answer)


def _read_again(asked: Received, kind: Kind | None) -> PredictRequest:
    """Decode a request again, for its item; raise BadInput or BadItem if it is bad."""
    described = type_and_budget_in(asked.headers)
    return decode_request(described, asked.query, asked.body, kind)
