"""What the clients send and read, without doing either: bytes out, bytes in."""

import math
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httptools
import msgspec

from polydom.features import errors as feature_errors
from polydom.features.errors import BadInput, PolydomError

from .. import errors as server_errors
from ..errors import Failure
from ..schema.streams import JsonLines, MsgpackStream, Stream
from ..schema.wire import MSGPACK, Answer, Entry, ErrorEntry, Totals
from .items import AnyItem, body_of

FromBatch = Entry | ErrorEntry | Totals

READ_BYTES = 256 << 10
# Bytes of a batch's items that are sent together, where that needs no waiting.
AHEAD_BYTES = 64 << 10
LAST_CHUNK = b"0\r\n\r\n"
# How much longer than its budget an answer is waited for: the way there and back.
GRACE_S = 5.0
# Budget of a request that names none: no server gives one more by default.
UNNAMED_S = 1.0
ENTRY_LIMIT = 64 << 20

_ERRORS: dict[str, type[PolydomError]] = {
    kind.code: kind
    for module in (feature_errors, server_errors)
    for kind in vars(module).values()
    if isinstance(kind, type)
    and issubclass(kind, PolydomError)
    and "code" in vars(kind)
}


class NoAnswer(PolydomError):
    """The server cannot be reached, or its answer did not come in time or whole."""

    code = "no_answer"


class Address:
    """Where a server is, and what every request to it says.

    `url` is `http://host:port` or `https://...`, perhaps with a path in front of
    `/v1`, or BadInput is raised; `token` is a bearer token, where one is asked for.
    """

    def __init__(self, url: str, token: str | None) -> None:
        refused = BadInput(f"{url!r} is no address such as http://127.0.0.1:8000")
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:  # an open bracket, or a port that cannot be
            raise refused from error
        broken = not url.isprintable() or " " in url  # which would break the request
        if parts.scheme not in ("http", "https") or not host or broken:
            raise refused
        secure = parts.scheme == "https"
        self.host = host
        self.port = port or (443 if secure else 80)
        self.tls = ssl.create_default_context() if secure else None
        self._path = parts.path.rstrip("/")
        shown = f"[{self.host}]" if ":" in self.host else self.host
        lines = f"host: {shown}:{self.port}\r\n"
        if token is not None:
            if not token.isascii() or not token.isprintable():
                raise BadInput("a token holds printable ASCII characters only")
            lines += f"authorization: Bearer {token}\r\n"
        self._lines = lines.encode()

    def head(
        self, method: str, path: str, terms: Mapping[str, Any], *headers: str
    ) -> bytes:
        """Write the beginning of a request."""
        given = {name: value for name, value in terms.items() if value is not None}
        query = f"?{urlencode(given, quote_via=quote)}" if given else ""
        start = f"{method} {self._path}{path}{query} HTTP/1.1\r\n".encode()
        rest = "".join(f"{header}\r\n" for header in headers)
        return start + self._lines + rest.encode() + b"\r\n"

    def request(
        self, method: str, path: str, terms: Mapping[str, Any], body: bytes, kind: str
    ) -> bytes:
        """Write a whole request."""
        headers = [f"content-length: {len(body)}"] if method != "GET" else []
        if kind:
            headers.append(f"content-type: {kind}")
        return self.head(method, path, terms, *headers) + body

    def predict(self, item: AnyItem, **terms: Any) -> bytes:
        """Write the request that one item be classified."""
        body, kind = body_of(item)
        return self.request("POST", "/v1/predict", terms, body, kind)


class HttpResponse:
    """One HTTP response as it comes in.

    Attributes
    ----------
    status
        0 until it is known.
    complete
        Whether all of it is here.
    touched
        Whether anything is.
    lasting
        Whether the connection can be used again.
    """

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self.status = 0
        self.touched = self.complete = self.lasting = False

    def feed(self, data: bytes) -> None:
        """Take what was received; nothing means that the connection is closed.

        NoAnswer is raised if that is too early, or what came is no HTTP.
        """
        if not data:
            raise NoAnswer("the connection was closed before the answer was there")
        self.touched = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise NoAnswer(f"what came is no HTTP: {error}") from error

    def take(self) -> bytes:
        """Return what has come of the body, once."""
        body = b"".join(self._body)
        self._body.clear()
        return body

    def on_body(self, body: bytes) -> None:
        """For the parser."""
        self._body.append(body)

    def on_headers_complete(self) -> None:
        """For the parser."""
        status = self._parser.get_status_code()
        if status >= 200:  # not "100 Continue"
            self.status = status

    def on_message_complete(self) -> None:
        """For the parser."""
        if self.status:
            self.complete = True
            self.lasting = self._parser.should_keep_alive()


def patience_s(budget_ms: float | None, grace_s: float) -> float:
    """Say how long an answer is waited for."""
    return (UNNAMED_S if budget_ms is None else budget_ms / 1e3) + grace_s


def refuse_budget(name: str, amount: float | None) -> None:
    """Raise BadInput where an argument of that name is no budget."""
    if amount is not None and not 0 <= amount < math.inf:
        raise BadInput(f"{name} is {amount!r}; it must be a finite number, 0 or more")


class BatchExchange:
    """One batch: its request in chunks, and the entries of its answer.

    It goes to `address` with `terms` as its query; items and entries are of the
    content type `kind`.
    """

    def __init__(self, address: Address, terms: Mapping[str, Any], kind: str) -> None:
        headers = (f"content-type: {kind}", "transfer-encoding: chunked")
        self._head = address.head("POST", "/v1/batch", terms, *headers)
        self._packed = kind in MSGPACK
        splitter = MsgpackStream if self._packed else JsonLines
        self._splitter: Stream = splitter(ENTRY_LIMIT)
        self._response = HttpResponse()
        self._sent = self._summed_up = False

    async def chunks(
        self, pieces: AsyncIterator[bytes], ahead: int
    ) -> AsyncIterator[bytes]:
        """Write the request: its beginning, items as HTTP's chunks, and its end.

        Pieces of fewer than `ahead` bytes go together.
        """
        yield self._head
        gathered = bytearray()
        async for piece in pieces:
            gathered += piece
            if len(gathered) >= ahead:
                yield chunk_of(gathered)
                gathered.clear()
        if gathered:
            yield chunk_of(gathered)
        self._sent = True
        yield LAST_CHUNK

    @property
    def complete(self) -> bool:
        """Whether all of the answer is here.

        Totals are the last of it; but if all was sent, HTTP's own end comes at once.
        """
        return self._response.complete or (self._summed_up and not self._sent)

    def feed(self, data: bytes) -> Iterator[FromBatch]:
        """Take what was received, give the entries that are whole now."""
        self._response.feed(data)
        if self._response.status == 200:
            yield from map(self._entry, self._splitter.feed(self._response.take()))

    def _entry(self, piece: bytes) -> FromBatch:
        wire = msgspec.msgpack if self._packed else msgspec.json
        plain = wire.decode(piece)
        if "items" in plain:
            self._summed_up = True
            return msgspec.convert(plain, Totals)
        if "error" in plain:
            return msgspec.convert(plain, ErrorEntry)
        return msgspec.convert(plain, Entry)

    def check(self) -> None:
        """Raise what the server refused the whole batch with, once it is complete."""
        if self._response.status != 200:
            raise error_of(self._response.status, self._response.take())


def chunk_of(data: bytes | bytearray) -> bytes:
    """Write one of HTTP's chunks; `data` must not be empty."""
    return b"%x\r\n" % len(data) + data + b"\r\n"


def read_answer(status: int, body: bytes) -> Answer:
    """Read what `/v1/predict` answered, or raise the error that its code names."""
    if status != 200:
        raise error_of(status, body)
    try:
        return _decode_answer(body)
    except msgspec.DecodeError as error:
        raise NoAnswer(f"what came is no answer of polydom's: {error}") from error


def error_of(status: int, body: bytes) -> PolydomError:
    """Make the error that a response tells of, of the class that the server had."""
    try:
        failure = _decode_failure(body)
    except msgspec.DecodeError:
        failure = Failure(f"the server answered with status {status}", "no_answer")
    kind = _ERRORS.get(failure.code, NoAnswer)
    error = kind.__new__(kind)  # some want facts that are not on the wire
    error.args = (failure.error,)
    return error


_decode_answer = msgspec.json.Decoder(Answer).decode
_decode_failure = msgspec.json.Decoder(Failure).decode
