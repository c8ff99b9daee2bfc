"""The response to a batch: entries one by one, then the totals."""

from typing import Any

from starlette.types import Message, Send

from polydom.features.errors import PolydomError

from ..errors import TooLarge, describe
from ..http.reply import Header
from ..schema.streams import JSON
from ..schema.wire import (
    MSGPACK,
    Answer,
    Entry,
    ErrorEntry,
    Totals,
    encode,
    encode_msgpack,
)

# Maximum bytes of a response over HTTP/1.0, which must be sent as a whole.
MOST_AT_ONCE = 64 << 20


class BatchReply:
    """Sends the response to a batch, entry by entry.

    HTTP/1.0 has no chunks, so there the whole response is sent at the end.
    """

    def __init__(self, send: Send, kind: str, http_version: str = "1.1") -> None:
        self._gathered = _Gathered(send) if http_version == "1.0" else None
        self._send = self._gathered or send
        self._probed = False
        self._kind = kind
        self._whole = kind == JSON
        self.packed = kind in MSGPACK
        self._first = True

    @property
    def kept_bytes(self) -> int:
        """Number of bytes that wait for the end of a response over HTTP/1.0.

        It is 0 for later versions of HTTP, because their entries are sent at once.
        """
        return len(self._gathered.body) if self._gathered is not None else 0

    async def probe(self) -> None:
        """Send one space to find out whether the caller still reads.

        If the caller has left, sending breaks the connection. Nothing is sent in
        msgpack, because every byte has a meaning there.
        """
        if not (self._probed or self.packed):
            self._probed = True
            await self._body(b" ")

    def encode(self, entry: Any) -> bytes:
        """Return an entry as bytes, in the response's encoding."""
        if self.packed:
            return encode_msgpack(entry)
        return encode(entry) + (b"" if self._whole else b"\n")

    async def start(self, *more: Header) -> None:
        """Begin the response, which has the headers `more`.

        The response tells the caller that the connection will close, because the
        request's body may not have been read to its end.
        """
        headers = [
            (b"content-type", self._kind.encode("latin-1")),
            (b"connection", b"close"),
            *more,
        ]
        start = {"type": "http.response.start", "status": 200, "headers": headers}
        await self._send(start)
        if self._whole:
            await self._body(b'{"answers":[')

    async def entries(self, encoded: list[bytes]) -> None:
        """Send encoded entries; return when the connection can take more."""
        if not encoded:
            return
        if self.kept_bytes > MOST_AT_ONCE:
            raise TooLarge(
                f"over HTTP/1.0 a batch's answer has at most {MOST_AT_ONCE:,} bytes; "
                "ask with HTTP/1.1"
            )
        if self._whole and not self._first:
            encoded = [b"", *encoded]
        self._first = False
        await self._body((b"," if self._whole else b"").join(encoded))

    async def totals(self, totals: Totals) -> None:
        """Send the totals as the last entry."""
        before, after = (b'],"totals":', b"}") if self._whole else (b"", b"")
        await self._body(before + self.encode(totals) + after)

    async def finish(self) -> None:
        """End the response."""
        await self._body(b"", more=False)

    async def _body(self, data: bytes, more: bool = True) -> None:
        await self._send(
            {"type": "http.response.body", "body": data, "more_body": more}
        )


class _Gathered:
    """An ASGI `send` that keeps the whole response, then sends it with its length."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message = {}
        self.body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        self.body += message["body"]
        if not message["more_body"]:
            length = (b"content-length", b"%d" % len(self.body))
            headers = [*self._start["headers"], length]
            await self._send({**self._start, "headers": headers})
            await self._send({**message, "body": bytes(self.body)})


def entry_of(number: int, answer: Answer) -> Entry:
    """Return an answer as the entry of item `number`."""
    fields = {name: getattr(answer, name) for name in Answer.__struct_fields__}
    return Entry(item=number, **fields)


def error_entry(number: int, error: PolydomError) -> ErrorEntry:
    """Return an error as the entry of item `number`, without server internals."""
    _, failure = describe(error)
    return ErrorEntry(item=number, error=failure.error, code=failure.code)
