"""Fetches from Redis: fields of hashes, or strings that hold a JSON object.

The name of each hash or string is made from a template, such as `customer:{id}`, by
the values of the key columns. A value is written as text, so that 17 and "17" make one
name, as they do in Redis. If a template has several
columns, the punctuation between them and `%` are percent-encoded in the values: two
keys never make the same name.

A command is never cancelled: redis-py could give its answer to the next command of the
connection. The sockets have timeouts instead.

A JSON object may hold values that no record may hold, such as lists. Then the fetch
fails for its key alone.

A key may name something that is no hash, or no JSON object. There is nothing for such a
key: it must not make the calls fail in which it travels with the keys of others. Only
while no key was answered yet, it is an error: the template may be wrong.
"""

import re
import string
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from ..errors import BadFetch, FetchFailed
from ..items import Value
from .fetch import Columns, Fetch, Key
from .terms import (
    OpenedByLoop,
    Terms,
    address_in,
    failed,
    import_library,
    place_of,
)

# Texts that are numbers in JSON; of `007` and `1_000` the text itself is the value.
NUMBER = re.compile(rb"-?(0|[1-9]\d{0,17})(\.\d{1,40})?([eE][+-]?\d{1,3})?")
GAPS = (b"", b"nan", b"NaN")


class RedisTerms(Terms, kw_only=True):
    """Terms of a fetch from Redis; either `hash` or `string` is given.

    Attributes
    ----------
    redis
        Address that begins with `redis://`, `rediss://` or `unix://`. It may hold
        environment variables.
    hash
        Name of the hash of a key, with the key columns in braces, as in
        `"customer:{customer_id}"`. The fields of the hash are the columns.
    string
        Instead of `hash`, the name of a string that holds a JSON object. The members of
        the object are the columns.
    """

    redis: str
    hash: str | None = None
    string: str | None = None


class Template:
    """A template of names, such as `customer:{customer_id}`.

    Raises BadFetch if the template cannot tell all keys apart.
    """

    def __init__(self, where: str, text: str) -> None:
        self.texts = [""]  # before, between and after the columns
        self.columns: list[str] = []
        try:
            parts = [*string.Formatter().parse(text)]
        except ValueError as error:
            raise BadFetch(f"{where} is {text!r}: {error}") from None
        for before, column, form, conversion in parts:
            self.texts[-1] += before
            if column is not None:
                if not column or form or conversion:
                    raise BadFetch(
                        f"{where} is {text!r}; the name of a key column, and no more, "
                        "is needed between { and }"
                    )
                self.columns.append(column)
                self.texts.append("")
        if not self.columns:
            raise BadFetch(f"{where} is {text!r}; no key column is named between {{ }}")
        between = self.texts[1:-1]
        marks = {c for one in between for c in one if not c.isalnum() and c != "%"}
        if any(marks.isdisjoint(one) for one in between):
            raise BadFetch(
                f"{where} is {text!r}; a punctuation mark such as : is needed between "
                "two columns, to tell all keys apart"
            )
        # without several columns, nothing is ambiguous
        escaped = marks | {"%"} if between else set()
        self.escapes = str.maketrans(
            {c: "".join(f"%{byte:02X}" for byte in c.encode()) for c in escaped}
        )

    def names_of(self, key: Columns) -> Callable[[Key], bytes | None]:
        """Return a function from the values of the columns `key` to a name.

        The function returns None if a value is missing, as then there is nothing.
        """
        places = [key.index(column) for column in self.columns]
        first, *rest = self.texts

        def name(values: Key) -> bytes | None:
            written = first
            for place, text in zip(places, rest, strict=True):
                value = values[place]
                if value is None:
                    return None
                written += _written(value).translate(self.escapes) + text
            return written.encode("utf-8", "surrogatepass")

        return name


def _written(value: Value) -> str:
    # equal keys must make one name, and True == 1
    return str(int(value)) if isinstance(value, bool) else str(value)


def redis_fetch(name: str, terms: RedisTerms) -> Fetch:
    """Make a fetch from Redis; raise BadFetch if its terms cannot be used."""
    where = f"fetch {name!r}"
    library = import_library(name, "redis.asyncio", "redis")
    address = address_in(f"{where}: redis", terms.redis, ("redis", "rediss", "unix"))
    if (terms.hash is None) == (terms.string is None):
        both = "both hash and string" if terms.hash else "neither hash nor string"
        raise BadFetch(f"{where} has {both}; one of them is needed")
    form = "hash" if terms.hash is not None else "string"
    template = Template(f"{where}: {form}", terms.hash or terms.string or "")

    def connect(key: Columns, columns: Columns) -> Fetch:
        terms.check_key(name, key)
        if {*key} != {*template.columns}:
            raise BadFetch(
                f"{where}: {form} is made of {', '.join(template.columns)}; the key "
                f"is {', '.join(key)}, and each of its columns is needed"
            )
        caller = _Redis(name, library, address, terms, template.names_of(key), columns)
        call = caller.hashes if form == "hash" else caller.strings
        made_of = name, key, columns, call, caller.pool.close, connect
        return terms.made(*made_of, caller.open)

    return connect(tuple(terms.key or dict.fromkeys(template.columns)), ())


class _Redis:
    """The calls of one fetch, with a pool of connections of its own."""

    def __init__(
        self,
        name: str,
        library: Any,
        address: str,
        terms: RedisTerms,
        name_of: Callable[[Key], bytes | None],
        columns: Columns,
    ) -> None:
        self.name = name
        self.place = f"Redis at {place_of(address)}"
        self.at_most_s = terms.at_most_ms / 1e3
        self.name_of = name_of
        self.columns = columns
        self.has_answered = False
        self.errors = (library.RedisError, OSError, TimeoutError)

        def open_pool() -> Any:
            pool = library.BlockingConnectionPool.from_url(
                address,
                max_connections=terms.at_once,
                timeout=self.at_most_s,  # for a free connection
                socket_timeout=self.at_most_s,
                socket_connect_timeout=self.at_most_s,
                decode_responses=False,
                retry=import_library(name, "redis.asyncio.retry", "redis").Retry(
                    import_library(name, "redis.backoff", "redis").NoBackoff(), 0
                ),
            )
            return library.Redis.from_pool(pool)

        self.pool = OpenedByLoop(open_pool, lambda client: client.aclose())

    async def open(self) -> None:
        """Open a connection, if there is none."""
        try:
            await self.pool.pool().ping()
        except self.errors as error:
            raise failed(self.name, self.place, error, self.at_most_s) from error

    async def hashes(self, keys: Sequence[Key], left_s: float) -> list[Any]:
        """Return the wanted fields of each key's hash; all fields if none is said."""
        names = [self.name_of(key) for key in keys]
        try:
            pipeline = self.pool.pool().pipeline(transaction=False)
            for one in names:
                if one is not None and self.columns:
                    pipeline.hmget(one, self.columns)
                elif one is not None:
                    pipeline.hgetall(one)
            brought = iter(await pipeline.execute(raise_on_error=False))
        except self.errors as error:
            raise failed(self.name, self.place, error, self.at_most_s) from error
        return self._read_each(names, brought, self._fields)

    def _fields(self, of: bytes, fields: Any) -> Any:
        if isinstance(fields, Exception):
            raise FetchFailed(f"{self._where(of)}: {fields}")
        if isinstance(fields, dict):
            found = {_text(field): _value(text) for field, text in fields.items()}
            return found or None
        if fields.count(None) == len(fields):
            return None
        return [_value(text) for text in fields]

    async def strings(self, keys: Sequence[Key], left_s: float) -> list[Any]:
        """Return the JSON object in each key's string."""
        names = [self.name_of(key) for key in keys]
        there = [one for one in names if one is not None]
        try:
            texts = iter(await self.pool.pool().mget(there) if there else ())
        except self.errors as error:
            raise failed(self.name, self.place, error, self.at_most_s) from error
        return self._read_each(names, texts, self._object)

    def _object(self, of: bytes, text: bytes | None) -> Any:
        if text is None:
            return None
        try:
            fields = _decode_fields(text)
            if not self.columns:
                return msgspec.json.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FetchFailed(
                f"{self._where(of)} holds no JSON object: {error}"
            ) from error
        try:
            return [
                _decode(fields[column]) if column in fields else None
                for column in self.columns
            ]
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return FetchFailed(
                f"{self._where(of)} holds something else than plain values: {error}"
            )

    def _where(self, of: bytes) -> str:
        return f"fetch {self.name!r}: {self.place}: {_text(of)!r}"

    def _read_each(
        self,
        names: Sequence[bytes | None],
        replies: Iterator[Any],
        read: Callable[[bytes, Any], Any],
    ) -> list[Any]:
        """Read the reply to each name; there is one for each name that is not None."""
        answers, wrong = [], None
        for one in names:
            answer = None
            if one is not None:
                try:
                    answer = read(one, next(replies))
                except FetchFailed as error:
                    wrong = error
            answers.append(answer)
        self.has_answered = self.has_answered or answers.count(None) < len(answers)
        if wrong is not None and not self.has_answered:
            raise wrong
        return answers


_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode = msgspec.json.Decoder(bool | int | float | str | None).decode


def _value(text: bytes | None) -> Value:
    """Return the value that a field's text stands for; Redis has no other types."""
    if text is None or text in GAPS:
        return None
    if NUMBER.fullmatch(text):
        return int(text) if text.lstrip(b"-").isdigit() else float(text)
    return _text(text)


def _text(text: bytes) -> str:
    return text.decode("utf-8", "replace")
