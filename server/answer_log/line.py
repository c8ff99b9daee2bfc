"""Lines about answers, as JSON objects: what the access log and recorded answers share.

A line has the fields of `Head`, then those of what was sent: an `Answer`, the `Totals`
of a batch, or a `Failure`. In a recorded line, the item follows, under the name that it
has in a request.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from polydom.features.errors import PolydomError
from polydom.features.sizes import Size

from ..errors import Failure
from ..schema.record import Record
from ..schema.request_ids import RequestIds
from ..schema.wire import Answer, PredictRequest, Totals, encode

Entrance = Literal["predict", "batch", "oip", "grpc"]


class ItemFields(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The item of a line, in one of these fields; an image is base64 in JSON."""

    text: str | None = None
    record: Record | None = None
    image_base64: bytes | None = None


class Head(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The first fields of every line.

    `time` is when the request's first byte arrived, in UTC. `id` is the request's;
    an item of several in one request has the request's id, a slash and its number.
    `model` is absent if the request reached no model. `elapsed_us` is present in
    failures, from the first byte to the error; answers have their own.
    """

    time: datetime
    id: str
    trace_id: str | UnsetType = UNSET
    entrance: Entrance
    model: str | UnsetType = UNSET
    size: Size | UnsetType = UNSET
    status: int
    elapsed_us: float | UnsetType = UNSET


# Returns the item of a request, or raises PolydomError; called in the writing thread
ReadItem = Callable[[], PredictRequest]


class Entry(msgspec.Struct, frozen=True, gc=False):
    """What is written about one answer, one batch, or one error.

    `ids` are those of the request, with a request id. `arrived_s` is monotonic. `sent`
    is the answer: encoded as JSON, or as a structure. If the answer is recorded, `item`
    reads its item, for which `held` bytes are in memory; otherwise `item` is None.
    """

    ids: RequestIds
    arrived_s: float
    entrance: Entrance
    model: str | UnsetType
    size: Size | UnsetType
    sent: bytes | Answer | Totals | Failure
    status: int = 200
    elapsed_us: float | UnsetType = UNSET
    item: ReadItem | None = None
    held: int = 0
    logged: bool = True  # False to write no line into the access log
    number: int | None = None  # Number of the item, if the request has several


def line_of(entry: Entry, epoch_s: float) -> bytes:
    """Return an entry as a JSON object, without its item.

    `epoch_s` is the time in seconds since 1970 at which the monotonic clock was 0.
    """
    ids, number = entry.ids, "" if entry.number is None else f"/{entry.number}"
    head = Head(
        time=datetime.fromtimestamp(epoch_s + entry.arrived_s, UTC),
        id=ids.request_id.decode() + number,
        trace_id=ids.trace_id or UNSET,
        entrance=entry.entrance,
        model=entry.model,
        size=entry.size,
        status=entry.status,
        elapsed_us=entry.elapsed_us,
    )
    sent = entry.sent
    return _joined(encode(head), sent if isinstance(sent, bytes) else encode(sent))


def recorded_line_of(entry: Entry, epoch_s: float) -> bytes:
    """Return an entry as `line_of` does, with its item if that can be read."""
    line = line_of(entry, epoch_s)
    assert entry.item is not None
    try:
        ask = entry.item()
    except PolydomError:
        return line
    item = ItemFields(text=ask.text, record=ask.record, image_base64=ask.image_base64)
    return _joined(line, encode(item))


def _joined(one: bytes, other: bytes) -> bytes:
    """Return one JSON object with the fields of two; the first has fields."""
    return one[:-1] + b"," + other[1:] if other != b"{}" else one
