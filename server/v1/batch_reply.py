"""The answer to a batch: entries one after the other, then the totals."""

from typing import Any

from starlette.types import Send

from polydom.features.errors import PolydomError

from ..errors import describe
from ..schema.batch import Entry, ErrorEntry, Totals
from ..schema.predict import MSGPACK, Answer, encode, encode_msgpack
from ..schema.streams import JSON


class BatchReply:
    """Sends entries in the form in which the items came, of content type `kind`.

    Attributes
    ----------
    packed
        Whether that is msgpack, not JSON.
    """

    def __init__(self, send: Send, kind: str) -> None:
        self._send = send
        self._kind = kind or JSON
        self._whole = self._kind == JSON
        self.packed = kind in MSGPACK
        self._first = True

    def encode(self, entry: Any) -> bytes:
        """Write one entry down."""
        if self.packed:
            return encode_msgpack(entry)
        return encode(entry) + (b"" if self._whole else b"\n")

    async def start(self) -> None:
        """Begin the answer. The connection is not used again: it may be half read."""
        headers = [
            (b"content-type", self._kind.encode("latin-1")),
            (b"connection", b"close"),
        ]
        start = {"type": "http.response.start", "status": 200, "headers": headers}
        await self._send(start)
        if self._whole:
            await self._body(b'{"answers":[')

    async def entries(self, encoded: list[bytes]) -> None:
        """Send some entries; returns once there is room for more."""
        if not encoded:
            return
        if self._whole and not self._first:
            encoded = [b"", *encoded]
        self._first = False
        await self._body((b"," if self._whole else b"").join(encoded))

    async def totals(self, totals: Totals) -> None:
        """Send the last entry."""
        before, after = (b'],"totals":', b"}") if self._whole else (b"", b"")
        await self._body(before + self.encode(totals) + after)

    async def finish(self) -> None:
        """End the answer."""
        await self._body(b"", more=False)

    async def _body(self, data: bytes, more: bool = True) -> None:
        await self._send(
            {"type": "http.response.body", "body": data, "more_body": more}
        )


def entry_of(number: int, answer: Answer) -> Entry:
    """Give an answer its item's number."""
    fields = {name: getattr(answer, name) for name in Answer.__struct_fields__}
    return Entry(item=number, **fields)


def error_entry(number: int, error: PolydomError) -> ErrorEntry:
    """Give an error its item's number, and nothing of the inside of the server."""
    _, failure = describe(error)
    return ErrorEntry(item=number, error=failure.error, code=failure.code)
