"""A batch as a client sends it and reads what comes of it, over whatever connection."""

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

from ..features.errors import BadInput
from .client_wire import Address, Entries, FromBatch, Response, error_of

# Bytes of items that are ready to be sent; more are not asked for before.
AHEAD_BYTES = 64 << 10
LAST_CHUNK = b"0\r\n\r\n"


def batch_terms(
    items: object,
    total_budget_ms: float | None,
    total_budget: float | None,
    count: int | None,
    model: str | None,
    on_bad_item: str | None,
    label: str | None,
    top: int | None,
) -> Mapping[str, Any]:
    """Name the terms of a batch as the query does."""
    if count is None and isinstance(items, Sized):
        count = len(items)
    if total_budget_ms is None and total_budget is None:
        raise BadInput("say with total_budget_ms what all items may take together")
    return {
        "budget_ms": total_budget_ms,
        "budget": total_budget,
        "count": count,
        "model": model,
        "on_bad_item": on_bad_item,
        "label": label,
        "top": top,
    }


def batch_head(address: Address, terms: Mapping[str, Any], kind: str) -> bytes:
    """Write the beginning of a batch's request; its items follow in chunks."""
    headers = (f"content-type: {kind}", "transfer-encoding: chunked")
    return address.head("POST", "/v1/batch", terms, *headers)


def chunked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Write pieces as HTTP's chunks, small ones together, and the end."""
    gathered: list[bytes] = []
    size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= AHEAD_BYTES:
            yield chunk_of(b"".join(gathered))
            gathered, size = [], 0
    if gathered:
        yield chunk_of(b"".join(gathered))
    yield LAST_CHUNK


def chunk_of(data: bytes) -> bytes:
    """Write one of HTTP's chunks; `data` must not be empty."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class BatchAnswer:
    """Reads the answer to a batch as it comes in.

    Parameters
    ----------
    kind
        Content type of the batch.
    """

    def __init__(self, kind: str) -> None:
        self._response = Response()
        self._entries = Entries(kind)
        self._refused = bytearray()

    @property
    def complete(self) -> bool:
        """Whether all of it is here."""
        return self._response.complete

    def feed(self, data: bytes) -> Iterator[FromBatch]:
        """Take what was received, give the entries that are whole now.

        Raises
        ------
        NoAnswer
            As `Response.feed`.
        """
        self._response.feed(data)
        if self._response.status == 200:
            yield from self._entries.feed(self._response.take())
        else:
            self._refused += self._response.take()

    def check(self) -> None:
        """Raise what the server refused the whole batch with, once it is complete."""
        if self._response.status != 200:
            raise error_of(self._response.status, bytes(self._refused))
