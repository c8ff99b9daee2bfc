"""Models and inference of the Open Inference Protocol, shared by HTTP and gRPC."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from polydom.features.errors import BadInput
from polydom.features.items import Item

from ..answer_log.answer_log import name_request
from ..answer_log.line import Entrance
from ..engine.budget import Budget
from ..engine.request import Caller, Outcome, Request
from ..errors import Failure, NotAllowed, NotReady
from ..http.bearer_tokens import Access
from ..http.headers import Headers
from ..runtime.admission_control.admission import Admission
from ..runtime.repository import Repository
from ..runtime.served_model import ServedModel
from ..runtime.translator import Translator
from ..runtime.work_queue import run_off_loop
from ..schema.bounds import LARGE
from ..schema.wire import Answer, Explained, PredictRequest
from .logged import Logged
from .metadata import (
    PLATFORM,
    ModelIndex,
    ModelMetadata,
    ModelsStatistics,
    statistics_of,
)
from .parameters import Parameter, Parameters
from .tensor_items import Items, Requested
from .tensors import BYTES, Tensor


@dataclass(frozen=True, slots=True)
class InferRequest:
    """One decoded inference request; an empty version means any version."""

    model: str
    version: str
    id: str
    parameters: Mapping[str, Any]
    inputs: Sequence[Tensor]
    outputs: Sequence[Requested] = ()


@dataclass(slots=True)
class InferResponse:
    """The answer to an inference request, and the times of its items' answers."""

    model: str
    version: str
    id: str
    parameters: dict[str, Parameter]
    outputs: list[Tensor]
    served: ServedModel
    answered: list[tuple[Request, Outcome, float]]

    def sent(self, sent_s: float) -> None:
        """Count the answer in the metrics, after its last byte was written at `sent_s`.

        Each item counts as one request. The last of these ends at `sent_s`, the others
        when their answers were computed.
        """
        *others, (request, outcome, _) = self.answered
        if others and request.trace is not None:
            facts = {
                "polydom.model": self.model,
                "polydom.version": self.version,
                "polydom.items": len(self.answered),
            }
            request.trace.batch_answered(sent_s, facts)
        for other in others:
            self.served.count(*other)
        self.served.sent(request, outcome, sent_s)


class InferenceService:
    """Answers Open Inference requests over HTTP and gRPC; for the event loop only.

    An empty version means any version. Methods with an argument `model` raise
    UnknownModel or NotReady, like `Repository.get`. If `access` has no administrators'
    tokens, nobody may load or unload models.
    """

    def __init__(self, repository: Repository, access: Access) -> None:
        self.repository = repository
        self.access = access
        # Called after models are loaded, so that other workers load them, too
        self.notify_others: Callable[[], None] | None = None
        # Admission of requests that do not come over HTTP; None lets all begin
        self.admission: Admission | None = None
        self._items: WeakKeyDictionary[ServedModel, Items] = WeakKeyDictionary()

    def _served(self, model: str, version: str) -> ServedModel:
        return self.repository.get(model, version or None)

    def widest(self, model: str, version: str) -> int:
        """Return the maximum number of values per item in one input of the model."""
        return self._items_of(self._served(model, version)).widest

    def model_ready(self, model: str, version: str) -> bool:
        """Return True if the model is loaded and can answer."""
        if version:
            try:
                return self._served(model, version).ready
            except NotReady:  # the name is known, but its index is not loaded
                return False
        return self.repository.state(model).state == "READY"

    def model_metadata(self, model: str, version: str) -> ModelMetadata:
        """Return a model's inputs, outputs and properties."""
        served = self._served(model, version)
        items, package = self._items_of(served), served.planner.package
        return ModelMetadata(
            name=model,
            versions=self.repository.versions(model),
            platform=PLATFORM,
            inputs=items.inputs,
            outputs=items.outputs,
            properties={
                "kind": package.kind,
                "unit": served.planner.unit,
                "task": package.task,
                "measure": package.measure,
                "labels": msgspec.json.encode(package.labels).decode(),
            },
        )

    def statistics(self, model: str, version: str) -> ModelsStatistics:
        """Return the statistics of a model, or of all models if `model` is empty."""
        if version:
            self._served(model, version)
        counted = [
            statistics_of(name, self._version(name), self.repository.metrics(name))
            for name in ([model] if model else self.repository.names())
        ]
        return ModelsStatistics(counted)

    def index(self, *, ready_only: bool = False) -> list[ModelIndex]:
        """Return the state of all models, or only of ready ones if `ready_only`."""
        listed = []
        for name in self.repository.names():
            state = self.repository.state(name)
            if ready_only and state.state != "READY":
                continue
            version = self._version(name)
            listed.append(ModelIndex(name, version, state.state, state.reason))
        return listed

    def _version(self, model: str) -> str:
        if self.repository.state(model).state != "READY":
            return ""
        return self.repository.get(model).version

    def failure(
        self,
        error: Exception,
        model: str,
        arrived_s: float,
        entrance: Entrance | None = None,
        caller: Caller | None = None,
    ) -> tuple[int, Failure]:
        """Count a failed request; return the HTTP status and the body of its error.

        `model` may be a name that is not served. If the request was for inference, its
        `entrance` and its `caller` are given, and the error is logged.
        """
        known = model in self.repository.names()
        metrics = self.repository.metrics(model) if known else self.repository.no_model
        metrics.failed_s += time.monotonic() - arrived_s
        status, failure = metrics.failed(error)
        log = self.repository.answer_log
        if log is not None and entrance is not None and caller is not None:
            ids, _ = name_request(caller)
            log.failed(ids, entrance, metrics.name, arrived_s, status, failure)
        return status, failure

    async def load(self, model: str, parameters: Mapping[str, Any]) -> None:
        """Load a model's current file; `refuse_change` must have been called before."""
        if any(value is not None for value in parameters.values()):
            raise BadInput(
                "a model is loaded from the operator's own file: no configuration and "
                "no files are taken over the wire"
            )
        await self.repository.load(model)
        self.tell_others()

    def tell_others(self) -> None:
        """Make other workers load the files of all models, if there are any."""
        if self.notify_others is not None:
            self.notify_others()

    async def unload(self, model: str) -> None:
        """Unload a model; `refuse_change` must have been called before."""
        if self.notify_others is not None:
            raise NotAllowed("one of several workers cannot unload a model for all")
        await self.repository.unload(model)

    async def infer(
        self,
        inference: InferRequest,
        arrived_s: float,
        caller: Caller,
        caller_timeout_s: float | None = None,
        transport: str = "http",
    ) -> InferResponse:
        """Answer all items of a request within one budget.

        The caller waits at most `caller_timeout_s` seconds from `arrived_s` on. Send
        times are measured separately for each `transport`, "http" or "grpc".
        """
        served = self._served(inference.model, inference.version)
        items, translator = self._items_of(served), served.translator
        items.check(inference.outputs)
        scored = items.asks_scores(inference.outputs)
        # older indexes give no scores to early answers
        whole = scored and not served.planner.package.scores_early
        terms = Parameters.read(inference.parameters, caller_timeout_s)
        asks = await run_off_loop(
            items.read, inference.inputs, size=_size(inference.inputs)
        )
        times = served.send_times_of(transport, len(asks))
        reserve_s = max(kept.at(arrived_s) for kept in (times.loop, times.thread))
        shared = terms.shared(
            translator.unit, translator.settings, arrived_s, reserve_s
        )
        for ask in asks:
            terms.give(ask)
            ask.exact = ask.exact or whole
        fetched = await _fetched(served, asks, shared.budget, arrived_s, caller)
        answers: list[Answer] = []
        answered = []
        fetched_s = served.now()
        for i, ask in enumerate(asks):
            begun_s = arrived_s
            if i:
                # so that other requests are read between two items
                await asyncio.sleep(0)
            if i or fetched:
                begun_s = served.now()
            shared.give(ask, begun_s, len(asks) - i)
            if fetched:
                done = await served.answer_fetched(fetched[i], ask, begun_s, times)
            else:
                done = await served.answer(ask, begun_s, caller, times)
            request, outcome = done
            shared.spent += outcome.predicted
            answers.append(translator.answer(request, outcome))
            answered.append((request, outcome, served.now()))
        if fetched and served.fetches is not None:
            served.fetches.answered([one for _, one, _ in answered], fetched_s)
        request, outcome, done_s = answered[-1]
        out_s = max(done_s, request.out_s(outcome.finished_s))
        met = answers[0].budget_met if len(answers) == 1 else shared.met(out_s)
        if self.repository.answer_log is not None:
            entrance: Entrance = "grpc" if transport == "grpc" else "oip"
            ids, _ = name_request(caller)
            logged = Logged(ids, entrance, served.metrics.name, arrived_s)
            facts = shared.facts(done_s)
            logged.log(self.repository.answer_log, asks, answers, answered, met, facts)
        return InferResponse(
            inference.model,
            served.version,
            inference.id,
            _facts(answers, met, shared.facts(done_s)),
            items.write(answers, met, inference.outputs),
            served,
            answered,
        )

    def _items_of(self, served: ServedModel) -> Items:
        items = self._items.get(served)
        if items is None:
            items = self._items[served] = Items(served.planner.package)
        return items

    def refuse_change(self, headers: Headers) -> None:
        """Raise NotAllowed or Unauthorized unless the caller may change models."""
        if self.access.admin is None:
            raise NotAllowed(
                "the operator lets nobody load or unload models over the wire"
            )
        self.access.admin.check(headers)


async def _fetched(
    served: ServedModel,
    asks: Sequence[PredictRequest],
    budget: Budget,
    arrived_s: float,
    caller: Caller,
) -> list[Request]:
    """Fetch the columns that several records lack, for all of them together.

    Returns a request for each record, with the columns that came in time. The list is
    empty if there is one record, which waits by itself, or if the index has no fetches.
    """
    if served.fetches is None or not served.ready or len(asks) == 1:
        return []
    translator = served.translator
    size = 16 * sum(len(ask.record or ()) for ask in asks)
    read = await run_off_loop(_items_of, translator, asks, size=size)
    requests = [
        replace(translator.request(ask, item, arrived_s, caller), budget=budget)
        for ask, item in zip(asks, read, strict=True)
    ]
    shared = served.fetches.shared_by(len(asks), asks[0])
    return await served.fetches.arrive_all(requests, asks[0], shared)


def _items_of(translator: Translator, asks: Sequence[PredictRequest]) -> list[Item]:
    return [translator.item(ask) for ask in asks]


def _size(inputs: Sequence[Tensor]) -> int:
    """Estimate the number of bytes of all values.

    If the estimate exceeds `LARGE` without the lengths of strings, these are not added.
    """
    size = 8 * sum(len(tensor.values) for tensor in inputs)
    for tensor in inputs if size <= LARGE else ():
        if tensor.datatype == BYTES:
            values: Sequence[Any] = tensor.values
            size += sum(len(value) for value in values if value is not None)
    return size


def _facts(
    answers: Sequence[Answer], met: bool, shared: dict[str, float]
) -> dict[str, Parameter]:
    """Return the parameters of the response.

    For one item, these are the fields of its answer; for several items, facts about all
    of them, such as the mean quality.
    """
    facts: dict[str, Any]
    if len(answers) > 1:
        facts = {"budget_met": met, **shared}
        for name in ("expected_quality", "expected_accuracy"):
            each = [getattr(answer, name) for answer in answers]
            if None not in each:
                facts[name] = math.fsum(each) / len(each)
        return facts | _gaps(answers) | _fetches(answers)
    facts = msgspec.to_builtins(answers[0])
    for name in ("label", "scores", "value", "interval", "index_version"):
        facts.pop(name, None)
    facts["features"] = ",".join(answers[0].features)
    facts |= _gaps(answers)
    if fetched := answers[0].fetched:
        states = (f"{name}={one.state}" for name, one in fetched.items())
        facts["fetched"] = ",".join(states)
    if explained := answers[0].explained:
        facts["explained"] = _listed(
            explained, lambda one: UNSET if one.part else one.state
        )
        facts["took_us"] = _listed(explained, lambda one: one.took_us)
        facts["planned_us"] = _listed(explained, lambda one: one.planned_us)
        facts["left_us"] = _listed(explained, lambda one: one.left_us)
    for threshold in (answers[0].threshold or {}).values():
        facts["threshold"] = threshold
    if best_next := answers[0].best_next:
        facts["best_next"] = ",".join(best_next.columns)
        facts["best_next_quality"] = best_next.expected_quality
    return {name: fact for name, fact in facts.items() if isinstance(fact, Parameter)}


def _listed(explained: Sequence[Explained], fact: Callable[[Explained], object]) -> str:
    """Return a fact about each part that has it; `fetched` tells of fetches."""
    told = {one.name: fact(one) for one in explained if one.part != "fetch"}
    return ",".join(f"{name}={one}" for name, one in told.items() if one is not UNSET)


def _fetches(answers: Sequence[Answer]) -> dict[str, Parameter]:
    """Return what became of the fetches of several items.

    `fetched` counts the items by the state of each fetch. `fetch_us` is the longest
    time that an item waited, and `price` the price of all calls.
    """
    states = Counter(
        f"{name}={one.state}"
        for a in answers
        for name, one in (a.fetched or {}).items()
    )
    if not states:
        return {}
    told: dict[str, Parameter] = {
        "fetched": ",".join(f"{state}:{count}" for state, count in states.items()),
        "fetch_us": max(answer.fetch_us or 0.0 for answer in answers),
    }
    if price := math.fsum(answer.price or 0.0 for answer in answers):
        told["price"] = price
    return told


def _gaps(answers: Sequence[Answer]) -> dict[str, Parameter]:
    """Return unknown columns, and the largest number of columns missing in an item."""
    told: dict[str, Parameter] = {}
    unknown = dict.fromkeys(name for a in answers for name in a.unknown or ())
    if unknown:
        told["unknown"] = ",".join(unknown)
    if missing := max(answer.missing or 0 for answer in answers):
        told["missing"] = missing
    return told
