"""The body of a batch: its terms and items, read no faster than items are answered."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec
from starlette.types import Receive, Scope

from polydom.features.errors import BadInput, PolydomError
from polydom.features.items import Kind
from polydom.features.wording import describe_decode_error, without_mark

from ..batch.batch_budget import CHUNK
from ..errors import Abandoned, ReceiveTimeout, UnsupportedEncoding
from ..http.body import arrival, read_body
from ..http.headers import Headers, content_type_in, read_query
from ..runtime.admission_control.admission import HeldBody
from ..runtime.work_queue import run_off_loop
from ..schema.bounds import LARGE, USUAL_COLUMNS, check_body, items_in
from ..schema.record import refuse_record
from ..schema.streams import JSON, JSON_LINES, JsonLines, MsgpackStream, Stream
from ..schema.wire import MSGPACK, BatchBody, BatchItem, BatchTerms, PredictRequest
from .decode import UNSAID, hint_of_many, hint_of_one

# Maximum number of items in one JSON object; a stream may have any number.
MOST_ITEMS = 1 << 16
# Seconds for the next item of a stream to arrive completely.
RECEIVE_S = 10.0

# An undecoded item: bytes from a stream, or Raw from one JSON object.
Raw = bytes | msgspec.Raw


def content_type_of(headers: Headers) -> str:
    """Return a batch's content type, by default JSON.

    Raises UnsupportedEncoding if the body is compressed.
    """
    codings = (value for name, value in headers if name == b"content-encoding")
    if any(coding.strip().lower() not in (b"", b"identity") for coding in codings):
        raise UnsupportedEncoding(
            "compressed batches are not read; send the body as it is"
        )
    kind = content_type_in(headers)
    return JSON if kind in UNSAID else kind


async def read_batch(
    reader: "BatchReader", kind: str, query: bytes, limit: int
) -> tuple[BatchTerms, AsyncIterator[list[Raw]]]:
    """Return the terms of a batch, and an iterator that reads its items in chunks.

    `kind` is the content type, and `query` the query string. `limit` is the maximum
    number of bytes of one item in a stream, or of a whole JSON body.
    """
    terms = read_terms(query)
    if kind in MSGPACK:
        return terms, reader.chunks(MsgpackStream(limit))
    if kind in JSON_LINES:
        return terms, reader.chunks(JsonLines(limit))
    if kind == JSON:
        whole = await reader.whole(limit)
        body = await run_off_loop(read_object, whole, size=len(whole))
        _merge(body, terms)
        body.count = len(body.items)
        return body, cut(body.items)
    raise BadInput(
        f"content type {kind[:80]!r} is not understood; send {MSGPACK[0]}, "
        f"{JSON_LINES[0]} or {JSON}"
    )


def read_terms(query: bytes) -> BatchTerms:
    """Return the terms in a query string; raise BadInput if one is invalid."""
    given = read_query(query)
    try:
        return msgspec.convert(given, BatchTerms, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(f"query: {describe_decode_error(error, BatchTerms)}") from error


def _merge(body: BatchBody, terms: BatchTerms) -> None:
    """Add the query's terms to a body; raise BadInput if a term is in both."""
    for name in BatchTerms.__struct_fields__:
        if (value := getattr(terms, name)) is not None:
            if getattr(body, name) is not None:
                raise BadInput(f"{name} is given twice")
            setattr(body, name, value)


class BatchReader:
    """Reads the body of one batch, no faster than its items are answered."""

    def __init__(self, scope: Scope, receive: Receive, held: HeldBody) -> None:
        self._held, self._kept = held, 0
        self.arrived_s, self.caller = arrival(scope)
        self._receive = receive
        self._headers = scope.get("headers", ())
        self._more = True
        self._first: bytes | None = None
        self._coming = 0
        self._stop_timer: Callable[[], None] = scope.get("state", {}).get(
            "stop_timer", bool
        )

    async def begin(self) -> None:
        """Wait for the first bytes, so that uvicorn sends "100 Continue" if needed."""
        if self._more:
            self._first = await self._next()

    async def _next(self, within_s: float = RECEIVE_S) -> bytes:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        try:
            message = await asyncio.wait_for(self._receive(), within_s)
        except TimeoutError as error:
            self._more = False
            raise ReceiveTimeout(f"no whole item came for {RECEIVE_S:g} s") from error
        if message["type"] == "http.disconnect":
            raise Abandoned("the caller left before the batch was there")
        self._more = message.get("more_body", False)
        data: bytes = message.get("body", b"")
        return data

    async def whole(self, limit: int) -> bytes:
        """Return the whole body; raise TooLarge if it has more than `limit` bytes."""
        given = (self._receive, self._headers, limit, self._held)
        body = await read_body(*given, hint="; send a stream")
        self._more, self._coming = False, len(body)
        return body

    async def chunks(self, splitter: Stream) -> AsyncIterator[list[Raw]]:
        """Yield lists of up to `CHUNK` items as they arrive.

        An error in the stream is raised after all earlier items are yielded.
        """
        self._stop_timer()  # a stream may take longer than other bodies
        chunk: list[Raw] = []
        left_s = RECEIVE_S
        while self._more or self._first is not None:
            broken: PolydomError | None = None
            try:
                began_s = time.monotonic()
                data = await self._next(left_s)
                left_s -= time.monotonic() - began_s
                self._coming = splitter.left + len(data)
                self._held.hold(self._coming + self._kept)
                for piece in splitter.feed(data):
                    left_s = RECEIVE_S
                    chunk.append(piece)
                    if len(chunk) == CHUNK:
                        yield chunk
                        chunk = []
                if not self._more:
                    chunk += splitter.finish()
            except PolydomError as error:
                broken = error
            if chunk:
                yield chunk
                chunk = []
            if broken is not None:
                raise broken

    def keep(self, size: int) -> None:
        """Set how many bytes of answers the batch keeps in memory.

        Raises Overloaded if all requests together keep too many bytes.
        """
        self._kept = size
        self._held.hold(self._coming + size)

    async def drain(self) -> None:
        """Read and drop the rest of the body, for at most `RECEIVE_S`.

        If the connection were closed while the caller still sends, the caller might
        lose the answer.
        """
        with contextlib.suppress(PolydomError, TimeoutError):
            async with asyncio.timeout(RECEIVE_S):
                self._first = None
                while self._more:
                    await self._next()


async def cut(items: Sequence[Raw]) -> AsyncIterator[list[Raw]]:
    """Yield the items of one JSON object in lists of up to `CHUNK`."""
    for start in range(0, len(items), CHUNK):
        yield list(items[start : start + CHUNK])


class _Outer(BatchTerms, forbid_unknown_fields=True, kw_only=True):
    """The body of a batch whose items are not decoded yet."""

    items: msgspec.Raw


_decode_outer = msgspec.json.Decoder(_Outer).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_item = msgspec.json.Decoder(BatchItem).decode
_decode_packed = msgspec.msgpack.Decoder(BatchItem).decode


def read_object(body: bytes) -> BatchBody:
    """Return the terms and the undecoded items of a JSON body; or raise BadInput."""
    body = without_mark(body)
    if not body.strip():
        raise BadInput("the body is empty")
    try:
        outer = _decode_outer(body)
        if len(body) > LARGE:
            _refuse_many(bytes(outer.items))
        return BatchBody(
            items=_decode_items(outer.items),
            **{name: getattr(outer, name) for name in BatchTerms.__struct_fields__},
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = hint_of_many(error)
        said = said or describe_decode_error(error, BatchBody, body)
        raise BadInput(f"body: {said}") from error


def _refuse_many(items: bytes) -> None:
    """Raise BadInput for more than `MOST_ITEMS` items, before the items are split."""
    has_many = items.count(b",") >= MOST_ITEMS
    if has_many and items_in(items, MOST_ITEMS) > MOST_ITEMS:
        raise BadInput(
            f"a body of one object may hold up to {MOST_ITEMS:,} items; send a stream"
        )


def read_item(
    raw: Raw,
    *,
    packed: bool = False,
    columns: int = USUAL_COLUMNS,
    kind: Kind | None = None,
) -> PredictRequest:
    """Decode one item of a batch, from msgpack if `packed`, otherwise from JSON.

    `columns` is the maximum number of columns of a record. `kind` is the index's kind
    of items; it helps to explain an invalid item.
    """
    check_body(raw, packed=packed, columns=columns)
    try:
        return (_decode_packed if packed else _decode_item)(raw).ask()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        refuse_record(raw, packed=packed, error=error)
        said = hint_of_one(error, raw, kind, packed=packed)
        document = b"" if packed else bytes(raw)
        said = said or describe_decode_error(error, BatchItem, document)
        raise BadInput(f"item: {said}") from error
