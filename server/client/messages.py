"""The messages that clients send and receive, as bytes; nothing here does I/O.

The clients implement HTTP/1.1 themselves, with the parser that the server uses. A batch
sends and receives at the same time, but most HTTP libraries send the whole request
before they read. Also, a call of `predict` takes 25 us of processor time; with
http.client it takes 60 us, and with urllib3 150 us.
"""

import math
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import httptools
import msgspec

from polydom.features import errors as feature_errors
from polydom.features.errors import BadInput, PolydomError

from .. import errors as server_errors
from ..errors import Failure
from ..schema.rollout import RolloutAsk, RolloutsFacts
from ..schema.streams import JsonLines, MsgpackStream, Stream
from ..schema.wire import MSGPACK, Answer, Entry, ErrorEntry, Totals, encode
from .encode_item import AnyItem, body_of, packer_of

T = TypeVar("T")
FromBatch = Entry | ErrorEntry | Totals

READ_BYTES = 256 << 10
# Bytes of items that a batch collects for one HTTP chunk.
AHEAD_BYTES = 64 << 10
LAST_CHUNK = b"0\r\n\r\n"
# Seconds that a client waits beyond the budget, as the network takes time.
GRACE_S = 5.0
# Seconds between two checks whether the server is ready.
PAUSE_S = 0.05
# Assumed budget of a request without one; no server's default is longer.
DEFAULT_BUDGET_S = 1.0
# Longest wait in seconds for an order about a candidate, whose files may be large.
ROLLOUT_S = 600.0
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
    """The server cannot be reached, or its response is late or incomplete."""

    code = "no_answer"


class Address:
    """A server's address, and the headers of every request to that server.

    `url` is `http://host:port` or `https://host:port`, and may have a path before
    `/v1`. `token` is a bearer token, or None. Raises BadInput for an invalid URL or
    token.
    """

    def __init__(self, url: str, token: str | None) -> None:
        refused = BadInput(f"{url!r} is no address such as http://127.0.0.1:8000")
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:  # an unmatched bracket, or a port out of range
            raise refused from error
        # such characters would break the request line
        broken = not url.isprintable() or " " in url
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
        """Return a request's head; the query has the `terms` that are not None."""
        given = {name: value for name, value in terms.items() if value is not None}
        query = f"?{urlencode(given, quote_via=quote)}" if given else ""
        start = f"{method} {self._path}{path}{query} HTTP/1.1\r\n".encode()
        rest = "".join(f"{header}\r\n" for header in headers)
        return start + self._lines + rest.encode() + b"\r\n"

    def request(
        self, method: str, path: str, terms: Mapping[str, Any], body: bytes, kind: str
    ) -> bytes:
        """Return a complete request with a body of content type `kind`."""
        headers = [f"content-length: {len(body)}"] if method != "GET" else []
        if kind:
            headers.append(f"content-type: {kind}")
        return self.head(method, path, terms, *headers) + body

    def rollout(self, ask: RolloutAsk | None) -> bytes:
        """Return the request with an order about a candidate; None asks for facts."""
        path = "/v1/admin/rollout"
        if ask is None:
            return self.request("GET", path, {}, b"", "")
        return self.request("POST", path, {}, encode(ask), "application/json")

    def predict(
        self,
        item: AnyItem,
        *,
        exact: bool = False,
        explain: bool = False,
        **terms: Any,
    ) -> bytes:
        """Return the request to classify an item; raise the errors of `body_of`."""
        for name in ("budget_ms", "budget"):
            _check_budget(name, terms[name])
        body, kind = body_of(item)
        terms["exact"] = "true" if exact else None
        terms["explain"] = "true" if explain else None
        return self.request("POST", "/v1/predict", terms, body, kind)


def wait_s(budget_ms: float | None, grace_s: float) -> float:
    """Return the seconds that a client waits for an answer: budget plus grace time.

    Without a budget, `DEFAULT_BUDGET_S` is assumed.
    """
    return (DEFAULT_BUDGET_S if budget_ms is None else budget_ms / 1e3) + grace_s


def _check_budget(name: str, amount: float | None) -> None:
    if amount is not None and not 0 <= amount < math.inf:
        raise BadInput(f"{name} is {amount!r}; it must be a finite number, 0 or more")


class HttpResponse:
    """An HTTP response, parsed while its bytes arrive.

    `status` is 0 until it is known. `touched` is True after the first byte has arrived.
    `lasting` is True if the connection stays open for the next request.
    """

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self.status = 0
        self.touched = self.complete = self.lasting = False

    def feed(self, data: bytes) -> None:
        """Parse received bytes; raise NoAnswer if they are empty or not HTTP."""
        if not data:
            raise NoAnswer("the connection was closed before the answer was there")
        self.touched = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise NoAnswer(f"what came is no HTTP: {error}") from error

    def take(self) -> bytes:
        """Return the bytes of the body that have arrived since the last call."""
        body = b"".join(self._body)
        self._body.clear()
        return body

    def on_body(self, body: bytes) -> None:
        """Store a part of the body; the parser calls this method."""
        self._body.append(body)

    def on_headers_complete(self) -> None:
        """Store the status; the parser calls this method after the headers."""
        status = self._parser.get_status_code()
        if status >= 200:  # skip informational responses such as "100 Continue"
            self.status = status

    def on_message_complete(self) -> None:
        """Record that the response is complete; the parser calls this method."""
        if self.status:
            self.complete = True
            self.lasting = self._parser.should_keep_alive()


class BatchStream:
    """The request of a batch, encoded in chunks, and the entries of its response.

    Items are encoded and collected until they have `ahead` bytes, which are sent as one
    chunk.
    """

    def __init__(
        self,
        address: Address,
        ahead: int,
        *,
        total_budget_ms: float | None,
        total_budget: float | None,
        exact: bool,
        **terms: Any,
    ) -> None:
        if total_budget_ms is None and total_budget is None:
            raise BadInput("say with total_budget_ms what all items may take together")
        _check_budget("total_budget_ms", total_budget_ms)
        _check_budget("total_budget", total_budget)
        self._address = address
        self._terms = {
            "budget_ms": total_budget_ms,
            "budget": total_budget,
            **terms,
            "exact": "true" if exact else None,
        }
        self._ahead = ahead
        self._gathered = bytearray()
        self._response = HttpResponse()
        self._begun = self._sent = self._summed_up = False

    def add(self, item: AnyItem) -> bytes:
        """Add an item, and return the bytes to send now, which may be empty.

        Raise the same errors as `body_of`.
        """
        head = self._begin(item)
        self._gathered += self._pack(item)
        return head if len(self._gathered) < self._ahead else head + self._take()

    def end(self) -> bytes:
        """Return the last bytes of the request, after all items are added."""
        self._sent = True
        return self._begin("") + self._take() + LAST_CHUNK

    def _begin(self, first: AnyItem) -> bytes:
        """Return the request's head at the first call, later b"".

        The `first` item decides the content type.
        """
        if self._begun:
            return b""
        self._begun = True
        kind, self._pack = packer_of(first)
        self._packed = kind in MSGPACK
        splitter = MsgpackStream if self._packed else JsonLines
        self._splitter: Stream = splitter(ENTRY_LIMIT)
        headers = (f"content-type: {kind}", "transfer-encoding: chunked")
        return self._address.head("POST", "/v1/batch", self._terms, *headers)

    def _take(self) -> bytes:
        chunk = chunk_of(self._gathered) if self._gathered else b""
        self._gathered.clear()
        return chunk

    @property
    def complete(self) -> bool:
        """True after the whole response has arrived.

        HTTP ends a response only after the whole request was sent. So if the server
        stops reading early, the response is complete after the entry `Totals`.
        """
        return self._response.complete or (self._summed_up and not self._sent)

    def feed(self, data: bytes) -> Iterator[FromBatch]:
        """Parse received bytes, and yield the entries that are now complete."""
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
        """Raise the server's error if the server refused the whole batch."""
        if self._response.status != 200:
            raise error_of(self._response.status, self._response.take())


def chunk_of(data: bytes | bytearray) -> bytes:
    """Return `data` as one chunk of HTTP's chunked encoding.

    `data` must not be empty, because an empty chunk would end the request.
    """
    return b"%x\r\n" % len(data) + data + b"\r\n"


def read_answer(status: int, body: bytes) -> Answer:
    """Return the answer in a response of `/v1/predict`, or raise the server's error."""
    return _read(status, body, _decode_answer)


def read_rollouts(status: int, body: bytes) -> RolloutsFacts:
    """Return the facts in a response of the route, or raise the server's error."""
    return _read(status, body, _decode_rollouts)


def _read(status: int, body: bytes, decode: Callable[[bytes], T]) -> T:
    if status != 200:
        raise error_of(status, body)
    try:
        return decode(body)
    except msgspec.DecodeError as error:
        raise NoAnswer(f"what came is no answer of polydom's: {error}") from error


def error_of(status: int, body: bytes) -> PolydomError:
    """Return a response's error as an exception, of the class raised by the server."""
    try:
        failure = _decode_failure(body)
    except msgspec.DecodeError:
        failure = Failure(f"the server answered with status {status}", "no_answer")
    kind = _ERRORS.get(failure.code, NoAnswer)
    # some constructors need facts that the response does not have
    error = kind.__new__(kind)
    error.args = (failure.error,)
    return error


def no_answer(error: OSError | NoAnswer, timeout_s: float) -> NoAnswer:
    """Return the exception for a connection that failed or took too long."""
    if isinstance(error, TimeoutError):
        return NoAnswer(f"no answer came within {timeout_s:g} s")
    return broken(error) if isinstance(error, OSError) else error


def silent(silence_s: float) -> NoAnswer:
    """Return the exception for a server that was inactive for `silence_s` seconds."""
    return NoAnswer(f"nothing came from the server for {silence_s:g} s")


def broken(error: OSError) -> NoAnswer:
    """Return the exception for a connection that broke."""
    return NoAnswer(f"the connection broke: {error}")


_decode_rollouts = msgspec.json.Decoder(RolloutsFacts).decode
_decode_answer = msgspec.json.Decoder(Answer).decode
_decode_failure = msgspec.json.Decoder(Failure).decode
