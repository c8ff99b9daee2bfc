"""Fetches over HTTP: keys are sent as JSON, and answered by JSON.

    POST {"keys": [[17], [18]], "left_ms": 12.0}
    200  {"values": [{"risk": 0.3}, null]}

Values that no record may hold, such as lists, fail for their key alone.

A redirect is not followed, so that no other host gets the keys or the headers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from ..errors import BadFetch, FetchFailed
from ..wording import describe_decode_error
from .fetch import Columns, Fetch, Key
from .terms import (
    OpenedByLoop,
    Terms,
    address_in,
    failed,
    filled_in,
    import_library,
    place_of,
)

LONGEST_BODY = 8 << 20  # bytes of an answer
PIECE = 64 << 10  # bytes that are read at a time
SHOWN = 200  # characters of an answer that is an error


class HttpTerms(Terms, kw_only=True):
    """Terms of a fetch over HTTP.

    Attributes
    ----------
    http
        Address that begins with `http://` or `https://`. It may hold environment
        variables.
    headers
        Headers of each request. Values may hold environment variables.
    """

    http: str
    headers: dict[str, str] = msgspec.field(default_factory=dict)


class _Request(msgspec.Struct):
    keys: Sequence[Key]
    left_ms: float


_Values: TypeAlias = dict[str, bool | int | float | str | None] | None


class _Answer(msgspec.Struct):
    values: list[_Values]


class _AnyAnswer(msgspec.Struct):
    values: list[msgspec.Raw]


_decode = msgspec.json.Decoder(_Answer).decode
_decode_any = msgspec.json.Decoder(_AnyAnswer).decode
_decode_values: Callable[[bytes], _Values] = msgspec.json.Decoder(_Values).decode


def http_fetch(name: str, terms: HttpTerms) -> Fetch:
    """Make a fetch over HTTP; raise BadFetch if its terms cannot be used."""
    where = f"fetch {name!r}"
    library = import_library(name, "aiohttp", "http")
    address = address_in(f"{where}: http", terms.http, ("http", "https"))
    headers = {
        header: _header(f"{where}: the header {header!r}", header, value)
        for header, value in terms.headers.items()
    }

    def connect(key: Columns, columns: Columns) -> Fetch:
        terms.check_key(name, key)
        caller = _Http(name, library, address, headers, terms, columns)
        return terms.made(
            name, key, columns, caller.post, caller.session.close, connect
        )

    return connect(tuple(terms.key), ())


def _header(where: str, name: str, value: str) -> str:
    text = filled_in(where, value)
    if not name.isascii() or not (name + text).isprintable():
        raise BadFetch(f"{where} has characters that a header must not have")
    return text


class _Http:
    """The calls of one fetch, with connections of its own."""

    def __init__(
        self,
        name: str,
        library: Any,
        address: str,
        headers: Mapping[str, str],
        terms: HttpTerms,
        columns: Columns,
    ) -> None:
        self.name = name
        self.place = place_of(address)
        self.address = address
        self.at_most_s = terms.at_most_ms / 1e3
        self.columns = columns
        self.errors = (library.ClientError, OSError, TimeoutError)

        def open_session() -> Any:
            return library.ClientSession(
                connector=library.TCPConnector(limit=terms.at_once),
                cookie_jar=library.DummyCookieJar(),
                timeout=library.ClientTimeout(total=self.at_most_s),
                headers={
                    "Content-Type": "application/json",
                    # a small compressed body could become a very large one
                    "Accept-Encoding": "identity",
                    **headers,
                },
                auto_decompress=False,
            )

        self.session = OpenedByLoop(open_session, lambda session: session.close())

    async def post(self, keys: Sequence[Key], left_s: float) -> list[Any]:
        """Return what the service answers for each key."""
        body = msgspec.json.encode(_Request(keys, left_s * 1e3))
        try:
            async with self.session.pool().post(
                self.address, data=body, allow_redirects=False
            ) as response:
                status, answer = response.status, await self._read(response)
        except self.errors as error:
            raise failed(self.name, self.place, error, self.at_most_s) from error
        if status != 200:
            said = answer[: 4 * SHOWN].decode("utf-8", "replace")[:SHOWN]
            raise FetchFailed(
                f"fetch {self.name!r}: {self.place} answered with status {status}; 200 "
                f"is needed: {said}"
            )
        values = self._values(answer)
        if not self.columns:
            return [*values]
        return [
            [one.get(column) for column in self.columns]
            if isinstance(one, dict)
            else one
            for one in values
        ]

    def _values(self, body: bytes) -> Sequence[_Values | FetchFailed]:
        """Return what a body has for each key; raise FetchFailed for another body."""
        try:
            return _decode(body).values
        except (msgspec.MsgspecError, UnicodeDecodeError):
            pass  # perhaps only the values of one key are wrong
        try:
            return [self._read_values(one) for one in _decode_any(body).values]
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FetchFailed(
                f"fetch {self.name!r}: {self.place} answered with another body than "
                f'{{"values": [...]}}: {describe_decode_error(error, _Answer, body)}'
            ) from error

    def _read_values(self, text: msgspec.Raw) -> _Values | FetchFailed:
        try:
            return _decode_values(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return FetchFailed(
                f"fetch {self.name!r}: {self.place} answered for a key with something "
                f"else than an object of plain values: {describe_decode_error(error)}"
            )

    async def _read(self, response: Any) -> bytes:
        """Return the body; raise FetchFailed if it is longer than `LONGEST_BODY`."""
        body = bytearray()
        async for piece in response.content.iter_chunked(PIECE):
            body += piece
            if len(body) > LONGEST_BODY:
                raise FetchFailed(
                    f"fetch {self.name!r}: {self.place} answered with more than "
                    f"{LONGEST_BODY >> 20} MiB"
                )
        return bytes(body)
