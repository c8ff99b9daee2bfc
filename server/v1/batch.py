"""`POST /v1/batch`: answers a stream of items within one budget, as a stream.

The event loop only splits the stream. The computing thread decodes, plans, computes and
encodes items for a millisecond at a time, so that single requests run in between.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from starlette.types import Receive, Scope, Send

from polydom.features.errors import BadInput, PolydomError, without_frames
from polydom.features.items import Item

from ..batch.batch_budget import Answered, BatchBudget, Failed
from ..batch.top_k import make_top_k
from ..engine.budget import MoneyBudget, read_amount
from ..engine.request import Request
from ..errors import Abandoned, NotReady, Overloaded, not_ready
from ..metrics.counts import AnswerKind
from ..runtime.repository import Repository
from ..schema.bounds import USUAL_COLUMNS
from ..schema.wire import BatchTerms
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
        """Answer one batch; raise Overloaded if too many batches are running."""
        if self.running >= RUNNING:
            raise Overloaded(f"{self.running} batches are being answered already")
        with self._repository.held_bytes.body() as held:
            await self._answer(scope, BatchReader(scope, receive, held), send)

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """Count a batch as running while the context is open."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    async def _answer(self, scope: Scope, reader: BatchReader, send: Send) -> None:
        kind = content_type_of(scope["headers"])
        limit = self._repository.settings.body_limit
        terms, chunks = await read_batch(reader, kind, scope["query_string"], limit)
        reply = BatchReply(send, kind, scope.get("http_version", "1.1"))
        batch = Batch(self._repository, terms, reader, reply, self._slot)
        await reader.begin()
        await reply.start()
        await batch.run(chunks)


class Batch:
    """One running batch. It ends early if the server stops."""

    def __init__(
        self,
        repository: Repository,
        terms: BatchTerms,
        reader: BatchReader,
        reply: BatchReply,
        slot: Callable[[], AbstractContextManager[None]],
    ) -> None:
        served = repository.get(terms.model)
        if not served.ready:
            raise not_ready(served.queue.begun)
        translator = served.translator
        amount = read_amount(translator.unit, terms.budget_ms, terms.budget)
        if amount is None:
            name = "budget_ms" if translator.unit == "s" else "budget"
            raise BadInput(f"say with {name!r} what all items may cost together")
        self._repository = repository
        self._served = served
        self._reader = reader
        self._reply = reply
        self._slot = slot
        self._stops = terms.on_bad_item == "stop"
        self._stopped = False
        self._number = 0
        self._counts: Counter[AnswerKind] = Counter()
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
                await self._advance(self._answers(chunk))
                if self._stopped:
                    break
            if self._top_k is not None:
                await self._advance(self._top_answers())
        except Abandoned:
            return
        except Exception as error:
            broken = error
        totals = self._budget.totals()
        if broken is not None:
            _, failure = self._served.metrics.failed(broken, "a batch failed")
            totals.error, totals.code = failure.error, failure.code
        await self._reply.totals(totals)
        await self._reader.drain()
        await self._reply.finish()

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
            # the computing thread does not change `_counts` between two turns
            self._served.metrics.answers.update(self._counts)
            self._counts.clear()
            kept = 0 if self._top_k is None else self._top_k.kept_bytes
            self._reader.keep(kept + self._reply.kept_bytes)
            await self._reply.entries(encoded)
            if self._reader.caller.ended:
                await self._reply.probe()

    def _answers(self, chunk: list[Raw]) -> Iterator[bytes | None]:
        """Answer a chunk in steps; each step yields an encoded entry or None.

        The computing thread calls this.
        """
        read_s = self._served.now()
        items = [(self._number + k, self._read(raw)) for k, raw in enumerate(chunk)]
        self._number += len(items)
        yield None
        for result in self._budget.answers(items, self._reader.caller):
            if isinstance(result, Failed):
                self._stopped = self._stops
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
            translator, packed = self._served.translator, self._reply.packed
            columns = translator.columns or USUAL_COLUMNS
            kind = translator.planner.package.kind
            ask = read_item(raw, packed=packed, columns=columns, kind=kind)
            return translator.item(ask)
        except PolydomError as error:
            return without_frames(error)

    def _encoded(self, result: Answered, read_s: float) -> bytes:
        budget = MoneyBudget(result.outcome.predicted)
        read_s = min(read_s, result.outcome.started_s)
        request = Request(result.item, budget, arrived_s=read_s, read_s=read_s)
        answer = self._served.translator.answer(request, result.outcome)
        answer.budget_met = self._budget.spent <= self._budget.amount
        key = (answer.features, answer.reason or "", answer.budget_met)
        self._counts[key] += 1
        return self._reply.encode(entry_of(result.number, answer))


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
