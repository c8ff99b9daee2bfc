"""What a batch looks like on the wire: its terms, its items and its entries."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgpack
import msgspec

from ..features.errors import BadInput, PolydomError
from ..features.wording import in_words
from .bounds import LARGE
from .errors import TooLarge, UnsupportedEncoding, describe
from .headers import Headers, content_type_in, read_query
from .json_keys import (
    Twice,
    refuse_twice,
    twice_in_json,
)
from .schema_predict import Answer, Ask, Record
from .v1_decode import refuse_keys

JSON_LINES = ("application/jsonl", "application/x-ndjson", "application/x-jsonlines")
JSON = "application/json"
# Items of one object; of a stream there may be any number.
MOST_ITEMS = 1 << 16


class BatchTerms(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What the query of `POST /v1/batch` may say."""

    model: str | None = None
    budget_ms: float | None = None
    budget: float | None = None
    count: Annotated[int, msgspec.Meta(ge=0)] | None = None
    on_bad_item: Literal["skip", "stop"] = "skip"
    label: str | None = None
    top: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None


class BatchItem(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One item of a batch; in msgpack `image_base64` holds the image's own bytes."""

    text: str | None = None
    record: Record = None
    image_base64: bytes | None = None

    def ask(self) -> Ask:
        """Ask for it alone."""
        return Ask(text=self.text, record=self.record, image_base64=self.image_base64)


class BatchBody(BatchTerms, forbid_unknown_fields=True, kw_only=True):
    """Body of `POST /v1/batch` as one JSON object: the items, and the terms."""

    items: list[msgspec.Raw]


class Entry(Answer, kw_only=True):
    """The answer to one item; `item` counts them from 0."""

    item: int


class ErrorEntry(msgspec.Struct, kw_only=True):
    """What is wrong with one item, in its place."""

    item: int
    error: str
    code: str


class Totals(msgspec.Struct, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """What became of all items; the `_us` fields where the index counts seconds.

    `expected_accuracy` is the mean of those answered; `error` and `code` say why
    there may have been more items than are counted.
    """

    items: int
    errors: int
    expected_accuracy: float | None
    budget_met: bool
    budget_us: float | None = None
    spent_us: float | None = None
    budget: float | None = None
    spent: float | None = None
    error: str | None = None
    code: str | None = None


def entry_of(number: int, answer: Answer) -> Entry:
    """Give an answer its item's number."""
    fields = {name: getattr(answer, name) for name in Answer.__struct_fields__}
    return Entry(item=number, **fields)


def error_entry(number: int, error: PolydomError) -> ErrorEntry:
    """Give an error its item's number, and nothing of the inside of the server."""
    _, failure = describe(error)
    return ErrorEntry(item=number, error=failure.error, code=failure.code)


def content_type_of(headers: Headers) -> str:
    """Say what a batch comes as; "" where nobody said.

    Raises
    ------
    UnsupportedEncoding
        If it is compressed.
    BadInput
        As `content_type_in`.
    """
    codings = (value for name, value in headers if name == b"content-encoding")
    if any(coding.strip().lower() not in (b"", b"identity") for coding in codings):
        raise UnsupportedEncoding(
            "compressed batches are not read; send the body as it is"
        )
    return content_type_in(headers)


def read_terms(query: bytes) -> BatchTerms:
    """Read the query of a batch.

    Raises
    ------
    BadInput
        If a term is unknown, malformed or given twice.
    """
    given = read_query(query)
    try:
        return msgspec.convert(given, BatchTerms, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(f"query: {in_words(error, BatchTerms)}") from error


class _Outer(BatchTerms, forbid_unknown_fields=True, kw_only=True):
    """A body of which the items are left as they are."""

    items: msgspec.Raw


class _Object(msgspec.Struct):
    """Any object."""


_decode_outer = msgspec.json.Decoder(_Outer).decode
_decode_objects = msgspec.json.Decoder(list[_Object]).decode
_decode_item = msgspec.json.Decoder(BatchItem).decode
_decode_packed = msgspec.msgpack.Decoder(BatchItem).decode
_decode_body = msgspec.json.Decoder(BatchBody).decode


def read_body(body: bytes) -> BatchBody:
    """Read a small batch that came as one JSON object.

    Raises
    ------
    BadInput
        If it is none.
    """
    try:
        if len(body) > LARGE:
            _refuse_many(bytes(_decode_outer(body).items))
        read = _decode_body(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"body: {in_words(error, BatchBody)}") from error
    inside = sum(bytes(item).count(b":") for item in read.items)
    if body.count(b":") - inside > 1:  # there are terms, or items are given twice
        refuse_twice("body", Twice(twice_in_json(body).outside))
    return read


def read_item(raw: Any, *, packed: bool = False) -> Ask:
    """Read what `JsonLines` split off, or `MsgpackStream` where it is `packed`.

    Raises
    ------
    BadInput
        If it is no item.
    """
    try:
        ask = (_decode_packed if packed else _decode_item)(raw).ask()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"item: {in_words(error, BatchItem)}") from error
    refuse_keys(ask, bytes(raw), where="item", msgpack=packed)
    return ask


def _refuse_many(items: bytes) -> None:
    """Refuse what would be more objects than one body may hold.

    There are no more items than commas, nor than braces where all are objects.
    """
    if items.count(b",") >= MOST_ITEMS:
        if items.count(b"{") > MOST_ITEMS:
            raise BadInput(
                f"a body of one object may hold up to {MOST_ITEMS:,} items; send a "
                "stream"
            )
        _decode_objects(items)


class JsonLines:
    """Splits a stream of bytes at line ends; empty lines count for nothing.

    Parameters
    ----------
    limit
        Bytes of the longest line.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest: list[bytes] = []
        self._size = 0

    @property
    def left(self) -> int:
        """Bytes of the item that is not whole yet."""
        return self._size

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take more of the stream; give the lines that are whole now.

        Raises
        ------
        TooLarge
            If a line is over the limit; the stream cannot be read on then.
        """
        head, end, tail = data.partition(b"\n")
        if end:
            lines = tail.split(b"\n")
            first = b"".join([*self._rest, head])
            self._rest, self._size = [lines[-1]], len(lines[-1])
            for line in (first, *lines[:-1]):
                self._check(len(line))
                if line.strip():
                    yield line
        else:
            self._rest.append(head)
            self._size += len(head)
        self._check(self._size)

    def finish(self) -> Iterator[bytes]:
        """Give the last line, which need not have an end."""
        line = b"".join(self._rest)
        self._rest = []
        if line.strip():
            yield line

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise TooLarge(f"an item is over the limit of {self._limit:,} bytes")


class MsgpackStream:
    """Splits a stream of msgpack objects, one after the other.

    Parameters
    ----------
    limit
        Bytes of the largest object.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._unpacker = msgpack.Unpacker(max_buffer_size=2 * limit)
        self._fed = self._end = 0
        self._rest = bytearray()

    @property
    def left(self) -> int:
        """Bytes of the object that is not whole yet."""
        return len(self._rest)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take more of the stream; give the objects that are whole now, undecoded.

        Raises
        ------
        TooLarge
            If an object is over the limit.
        BadInput
            If the stream is no msgpack. It cannot be read on in either case.
        """
        try:
            self._unpacker.feed(data)
            self._fed += len(data)
            self._rest += data
            while True:
                self._unpacker.skip()
                size = self._unpacker.tell() - self._end
                self._check(self._unpacker.tell())
                self._end += size
                piece = bytes(memoryview(self._rest)[:size])
                del self._rest[:size]
                yield piece
        except msgpack.OutOfData:
            self._check(self._fed)
        except msgpack.BufferFull as error:
            raise self._too_large() from error
        except (msgpack.UnpackException, ValueError, TypeError) as error:
            reason = str(error) or "nested too deeply, or a byte that begins nothing"
            raise BadInput(f"the stream is no msgpack: {reason}"[:200]) from error

    def finish(self) -> Iterator[Any]:
        """Make sure that nothing is left.

        Raises
        ------
        BadInput
            If the stream ended within an object.
        """
        left = self._fed - self._end
        if left:
            raise BadInput(f"the stream ended within an item, after {left:,} bytes")
        return iter(())

    def _check(self, at: int) -> None:
        if at - self._end > self._limit:
            raise self._too_large()

    def _too_large(self) -> TooLarge:
        return TooLarge(f"an item is over the limit of {self._limit:,} bytes")
