"""`POST /v1/batch`: answers a stream of items within one budget, as a stream.

The event loop only splits the stream. The computing thread decodes, plans, computes and
encodes items for a millisecond at a time, so that single requests run in between.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TypeGuard

from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from starlette.types import Receive, Scope, Send

from polydom.features.errors import BadInput, PolydomError, without_frames
from polydom.features.items import Item
from polydom.features.sizes import Size

from ..answer_log.answer_log import NewId, name_request
from ..answer_log.line import Entry
from ..batch.batch_budget import Answered, BatchBudget, Failed, Numbered
from ..batch.top_k import make_top_k
from ..engine.budget import Deadline, MoneyBudget, read_amount
from ..engine.request import FetchOutcome, Request, with_fetches
from ..errors import Abandoned, Failure, NotReady, Overloaded, describe, not_ready
from ..http.reply import error_reply
from ..metrics.counts import AnswerKind
from ..runtime.repository import Repository
from ..runtime.served_model import ServedModel
from ..runtime.translator import check_price
from ..runtime.waiting import Allowance, Shared
from ..schema.bounds import USUAL_COLUMNS
from ..schema.wire import Answer, BatchTerms, PredictRequest, Terms, Totals
from .batch_body import BatchReader, Raw, content_type_of, read_batch, read_item
from .batch_reply import BatchReply, entry_of, error_entry

BATCH = "/v1/batch"
# Seconds that the computing thread works for a batch at a time. A single request waits
# no longer than this for a batch.
TURN_S = 0.001
# Maximum number of batches that are computed at the same time.
RUNNING = 8


class BatchEndpoint:
    """The ASGI application that answers batches."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        # number of batches that the computing thread works for, or soon will
        self.running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one batch."""
        with self._repository.held_bytes.body() as held:
            reader = BatchReader(scope, receive, held)
            log = self._repository.answer_log
            more: NewId = ()
            if log is not None:
                _, more = name_request(reader.caller)
            try:
                await self._answer(scope, reader, send, more)
            except PolydomError as error:
                status, failure = self._repository.no_model.failed(error)
                _log_failure(self._repository, reader, "", status, failure)
                await error_reply(status, failure, *more)(scope, receive, send)

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """Count a batch as running while the context is open."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    async def _answer(
        self, scope: Scope, reader: BatchReader, send: Send, more: NewId
    ) -> None:
        """Answer a batch; `more` are headers of the response."""
        if self.running >= RUNNING:
            raise Overloaded(f"{self.running} batches are being answered already")
        kind = content_type_of(scope["headers"])
        limit = self._repository.settings.body_limit
        terms, chunks = await read_batch(reader, kind, scope["query_string"], limit)
        reply = BatchReply(send, kind, scope.get("http_version", "1.1"))
        served = self._repository.get(terms.model)
        if served.split is not None:
            served = served.split.choose(served, scope["headers"])
        batch = Batch(self._repository, served, terms, reader, reply, self._slot)
        await reader.begin()
        await reply.start(*more)
        await batch.run(chunks)


class Batch:
    """One running batch. It ends early if the server stops."""

    def __init__(
        self,
        repository: Repository,
        served: ServedModel,
        terms: BatchTerms,
        reader: BatchReader,
        reply: BatchReply,
        slot: Callable[[], AbstractContextManager[None]],
    ) -> None:
        if not served.ready:
            raise not_ready(served.queue.begun)
        translator = served.translator
        amount = read_amount(translator.unit, terms.budget_ms, terms.budget)
        if amount is None:
            name = "budget_ms" if translator.unit == "s" else "budget"
            raise BadInput(f"say with {name!r} what all items may cost together")
        check_price(terms.max_price)
        self._repository = repository
        self._served = served
        # Terms of each record's fetches, and what all may still cost
        self._terms = Terms(fetch=terms.fetch, exact=terms.exact)
        self._allowed = Allowance(terms.max_price)
        self._reader = reader
        self._reply = reply
        self._log = repository.answer_log
        self._trace = reader.caller.trace
        self._ids = reader.caller.ids
        # Entries for the log of answers, and undecoded items whose answers are recorded
        self._entries: list[Entry] = []
        self._drawn: dict[int, bytes] = {}
        self._slot = slot
        self._stops = terms.on_bad_item == "stop"
        self._stopped = False
        self._number = 0
        self._counts: Counter[AnswerKind] = Counter()
        self._traffic = served.traffic.like()
        self._budget = BatchBudget(
            translator.planner,
            amount,
            count=terms.count,
            started_s=reader.arrived_s,
            exact=bool(terms.exact),
        )
        self._top_k = make_top_k(self._budget, terms.label, terms.top)

    async def run(self, chunks: AsyncIterator[list[Raw]]) -> None:
        """Answer the items chunk by chunk, then send the totals, with any error."""
        broken: Exception | None = None
        try:
            async for chunk in chunks:
                await self._answer(chunk)
                if self._stopped:
                    break
            if self._top_k is not None:
                await self._advance(self._top_answers())
        except Abandoned as error:
            name, told = self._served.metrics.name, describe(error)
            _log_failure(self._repository, self._reader, name, *told)
            return
        except Exception as error:
            broken = error
        totals = self._budget.totals()
        if broken is not None:
            _, failure = self._served.metrics.failed(broken, "a batch failed")
            totals.error, totals.code = failure.error, failure.code
        if self._log is not None:
            self._log.add(self._entry(UNSET, totals))
        await self._reply.totals(totals)
        await self._reader.drain()
        await self._reply.finish()
        if self._trace is not None:
            name = self._served.metrics.name
            if broken is not None:
                self._trace.failed(failure, name, batch=True)
            else:
                facts = {
                    "polydom.model": name,
                    "polydom.version": self._served.version,
                    "polydom.items": totals.items,
                    "polydom.errors": totals.errors,
                    "polydom.budget": self._budget.amount,
                    "polydom.budget_met": totals.budget_met,
                }
                self._trace.batch_answered(self._served.now(), facts)

    async def _advance(self, work: Iterator[bytes | None]) -> None:
        """Run `work` in slices on the computing thread; send each slice's answers."""
        done = False
        while not done:
            if self._reader.caller.gone:
                raise Abandoned("the caller left before the batch was done")
            if self._repository.leaving:
                raise NotReady("the server is about to stop")
            # due after all requests, because no request has more than the largest
            # budget
            now_s = self._served.now()
            soonest_s = now_s + self._served.translator.settings.max_budget_s
            due_s = max(self._budget.due_s, soonest_s)
            turn = partial(_turn, work, now_s=self._served.now)
            with self._slot():
                encoded, done = await self._served.queue.compute(turn, due_s)
            # the computing thread changes neither between two turns
            self._served.metrics.answers.update(self._counts)
            self._counts.clear()
            self._served.traffic.take(self._traffic)
            self._log_entries()
            kept = 0 if self._top_k is None else self._top_k.kept_bytes
            self._reader.keep(kept + self._reply.kept_bytes)
            await self._reply.entries(encoded)
            if self._reader.caller.ended:
                await self._reply.probe()

    async def _answer(self, chunk: list[Raw]) -> None:
        """Answer a chunk; if records lack columns of fetches, wait for these first."""
        lacking: list[Numbered] = []
        await self._advance(self._read_and_answer(chunk, lacking))
        if lacking:
            fetches = await self._fetch(lacking)
            read_s = self._served.now()
            await self._advance(self._answers(lacking, read_s, fetches))

    async def _fetch(self, items: list[Numbered]) -> dict[int, FetchOutcome]:
        """Wait for the columns that records lack, and give them to the `items`.

        The keys of all are asked for at once. The items wait as long as it pays, at
        most until the rest of the part of the budget that is theirs is needed for their
        plans. No thread is held meanwhile. Returns what was fetched by the item's
        number.
        """
        fetches, budget, now_s = self._served.fetches, self._budget, self._served.now()
        assert fetches is not None
        part = Deadline(now_s, budget.part_of(len(items)))
        caller, exact = self._reader.caller, self._budget.exact
        places, requests = [], []
        for place, (_, item) in enumerate(items):
            if _lacks(item):
                places.append(place)
                requests.append(Request(item, part, caller=caller, exact=exact))
        shared = Shared(len(items), budget.timing.overhead_s, self._allowed)
        found = await fetches.arrive_all(requests, self._terms, shared)
        outcomes = {}
        for place, request in zip(places, found, strict=True):
            number, _ = items[place]
            items[place] = number, request.item
            if request.fetches is not None:
                outcomes[number] = request.fetches
        budget.waited(self._served.now() - now_s, len(items))
        return outcomes

    def _read_and_answer(
        self, chunk: list[Raw], lacking: list[Numbered]
    ) -> Iterator[bytes | None]:
        """Read a chunk, and answer it as `_answers` does.

        If an item lacks columns of a fetch, all items are added to `lacking` instead.
        """
        read_s = self._served.now()
        items = [(self._number + k, self._read(raw)) for k, raw in enumerate(chunk)]
        if self._log is not None and self._top_k is None:
            for k, raw in enumerate(chunk):
                if self._log.draws():
                    # a copy, because `raw` may keep a whole body in memory
                    self._drawn[self._number + k] = bytes(raw)
        self._number += len(items)
        yield None
        if self._served.fetches and any(_lacks(item) for _, item in items):
            lacking += items
        else:
            yield from self._answers(items, read_s, {})

    def _answers(
        self,
        items: list[Numbered],
        read_s: float,
        fetches: Mapping[int, FetchOutcome],
    ) -> Iterator[bytes | None]:
        """Answer items in steps; each step yields an encoded entry or None.

        `read_s` is when the items were read, or when their fetches had ended. `fetches`
        are those of items that waited, by number. The computing thread calls this.
        """
        for result in self._budget.answers(items, self._reader.caller):
            if isinstance(result, Answered) and fetches:
                result = result._replace(fetches=fetches.get(result.number))
            if isinstance(result, Failed):
                self._stopped = self._stops
                self._drawn.pop(result.number, None)
                yield self._reply.encode(error_entry(result.number, result.error))
                if self._stopped:
                    return
            elif self._top_k is None:
                yield self._encoded(result, read_s)
            else:
                self._top_k.offer(result)
                yield None

    def _top_answers(self) -> Iterator[bytes | None]:
        """Improve the answers to the likeliest items of a class, then yield them.

        Each step that improves an answer yields None. The computing thread calls this.
        """
        assert self._top_k is not None
        began_s = self._served.now()
        for _ in self._top_k.improve(self._reader.caller):
            yield None
        for result in self._top_k.ranking():
            yield self._encoded(result, began_s)

    def _read(self, raw: Raw) -> Item | PolydomError:
        try:
            return self._served.translator.item(self._decode(raw))
        except PolydomError as error:
            return without_frames(error)

    def _decode(self, raw: Raw) -> PredictRequest:
        translator, packed = self._served.translator, self._reply.packed
        columns = translator.columns or USUAL_COLUMNS
        kind = translator.planner.package.kind
        return read_item(raw, packed=packed, columns=columns, kind=kind)

    def _recorded(self, result: Answered, answer: Answer, raw: bytes) -> Entry:
        """Return the entry of an item whose answer is recorded."""
        entry, read = self._entry(result.item.size, answer), partial(self._decode, raw)
        number = result.number
        return replace(entry, item=read, held=len(raw), logged=False, number=number)

    def _entry(self, size: Size | UnsetType, sent: Answer | Totals) -> Entry:
        assert self._ids is not None
        name, arrived_s = self._served.metrics.name, self._reader.arrived_s
        return Entry(self._ids, arrived_s, "batch", name, size, sent)

    def _log_entries(self) -> None:
        """Give the log the entries that the computing thread made."""
        if self._log is not None:
            for entry in self._entries:
                self._log.add(entry)
            self._entries.clear()

    def _encoded(self, result: Answered, read_s: float) -> bytes:
        budget, fetches = MoneyBudget(result.outcome.predicted), result.fetches
        read_s = min(read_s, result.outcome.started_s)
        arrived_s = read_s if fetches is None else read_s - fetches.waited_s
        request = Request(
            result.item, budget, arrived_s=arrived_s, read_s=read_s, fetches=fetches
        )
        outcome = with_fetches(request, result.outcome)
        answer = self._served.translator.answer(request, outcome)
        answer.budget_met = self._budget.spent <= self._budget.amount
        key = (answer.features, answer.reason or "", answer.budget_met)
        self._counts[key] += 1
        self._served.note(result.item, result.outcome, self._traffic)
        if answer.label is not None:
            self._traffic.labels[answer.label] += 1
        if (raw := self._drawn.pop(result.number, None)) is not None:
            self._entries.append(self._recorded(result, answer, raw))
        return self._reply.encode(entry_of(result.number, answer))


def _lacks(item: Item | PolydomError) -> TypeGuard[Item]:
    """Return True if an item lacks columns that a fetch brings."""
    return isinstance(item, Item) and item.gaps is not None and item.gaps.unfetched != 0


def _turn(
    work: Iterator[bytes | None], now_s: Callable[[], float]
) -> tuple[list[bytes], bool]:
    """Advance `work` for about `TURN_S` seconds.

    Returns the entries that `work` yielded, and True if `work` has ended.
    """
    end_s, encoded = now_s() + TURN_S, []
    for piece in work:
        if piece is not None:
            encoded.append(piece)
        if now_s() >= end_s:
            return encoded, False
    return encoded, True


def _log_failure(
    repository: Repository,
    reader: BatchReader,
    model: str,
    status: int,
    failure: Failure,
) -> None:
    """Give the error of a whole batch to its trace and the log, if there are any."""
    if reader.caller.trace is not None:
        reader.caller.trace.failed(failure, model, batch=True)
    log, ids = repository.answer_log, reader.caller.ids
    if log is not None and ids is not None:
        log.failed(ids, "batch", model, reader.arrived_s, status, failure)
