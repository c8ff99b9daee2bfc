"""Fetches over HTTP: keys are sent as JSON, and answered by JSON.

    POST {"keys": [[17], [18]], "left_ms": 12.0}
    200  {"values": [{"risk": 0.3}, null]}

Values that no record may hold, such as lists, fail for their key alone.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from ..errors import FetchFailed
from ..wording import describe_decode_error
from .fetch import Columns, Fetch, Key
from .posts import Posts
from .terms import Terms


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

    def connect(key: Columns, columns: Columns) -> Fetch:
        terms.check_key(name, key)
        posts = Posts(name, "http", terms.http, terms.headers, terms)
        ask = _Http(posts, columns).ask
        return terms.made(name, key, columns, ask, posts.session.close, connect)

    return connect(tuple(terms.key), ())


class _Http:
    """The calls of one fetch."""

    def __init__(self, posts: Posts, columns: Columns) -> None:
        self.posts = posts
        self.columns = columns

    async def ask(self, keys: Sequence[Key], left_s: float) -> list[Any]:
        """Return what the service answers for each key."""
        request = msgspec.json.encode(_Request(keys, left_s * 1e3))
        values = self._values(await self.posts.send(request))
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
                f"{self._source} answered with another body than "
                f'{{"values": [...]}}: {describe_decode_error(error, _Answer, body)}'
            ) from error

    def _read_values(self, text: msgspec.Raw) -> _Values | FetchFailed:
        try:
            return _decode_values(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return FetchFailed(
                f"{self._source} answered for a key with something else than an object "
                f"of plain values: {describe_decode_error(error)}"
            )

    @property
    def _source(self) -> str:
        return f"fetch {self.posts.name!r}: {self.posts.place}"
