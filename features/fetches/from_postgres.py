"""Fetches from PostgreSQL: a query that gets an array of values for each key column.

The query is the operator's, and keys are its parameters: no part of a key is ever a
part of the query. Rows are matched to keys by the key columns, which the query returns
beside the wanted columns.

A key that its column cannot hold, such as a text where numbers are, has no row. It must
not make the calls fail in which it travels with the keys of others, so that nobody can
make a fetch look as if its database were down. Only while no key was answered yet, it
is an error: the query may be wrong. If the query returns several rows for a key, the
fetch fails for that key alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from ..errors import BadFetch, FetchFailed
from ..items import VALUE_TYPES, plain_value
from ..wording import hint
from .fetch import Columns, Fetch, Key
from .terms import (
    OpenedByLoop,
    Terms,
    address_in,
    failed,
    import_library,
    place_of,
)


class PostgresTerms(Terms, kw_only=True):
    """Terms of a fetch from PostgreSQL.

    Attributes
    ----------
    postgres
        Address that begins with `postgresql://` or `postgres://`. It may hold
        environment variables.
    query
        Query with the parameters `$1`, `$2` and so on, an array of values for each key
        column, in the order of the key. It returns the key columns and the columns of
        the fetch, at most one row for each key.
    """

    postgres: str
    query: str


def postgres_fetch(name: str, terms: PostgresTerms) -> Fetch:
    """Make a fetch from PostgreSQL; raise BadFetch if its terms cannot be used."""
    where = f"fetch {name!r}"
    library = import_library(name, "asyncpg", "postgres")
    schemes = ("postgresql", "postgres")
    address = address_in(f"{where}: postgres", terms.postgres, schemes)
    if "$1" not in terms.query:
        raise BadFetch(
            f"{where}: query has no parameter $1, which stands for the values of the "
            "key, as in WHERE id = ANY($1)"
        )

    def connect(key: Columns, columns: Columns) -> Fetch:
        terms.check_key(name, key)
        caller = _Postgres(name, library, address, terms, key, columns)
        made_of = name, key, columns, caller.rows, caller.pool.close, connect
        return terms.made(*made_of, caller.open)

    return connect(tuple(terms.key), ())


class _Postgres:
    """The calls of one fetch, with a pool of connections of its own."""

    def __init__(
        self,
        name: str,
        library: Any,
        address: str,
        terms: PostgresTerms,
        key: Columns,
        columns: Columns,
    ) -> None:
        self.name = name
        self.place = f"PostgreSQL at {place_of(address)}"
        self.query = terms.query
        self.at_most_s = terms.at_most_ms / 1e3
        self.key = key
        self.columns = columns
        self.is_checked = False
        self.has_answered = False
        self.unfit = (library.DataError, UnicodeEncodeError, OverflowError)
        self.errors = (
            library.PostgresError,
            library.InterfaceError,
            OSError,
            TimeoutError,
        )

        class Connection(library.Connection):  # type: ignore[misc]
            """A connection that changes no settings, so that none must be reset.

            Resetting them would take a round trip after each query.
            """

            def get_reset_query(self) -> str:
                return ""

        def open_pool() -> Any:
            return library.create_pool(
                address,
                min_size=0,
                max_size=terms.at_once,
                timeout=self.at_most_s,  # to connect
                command_timeout=self.at_most_s,
                connection_class=Connection,
            )

        self.pool = OpenedByLoop(open_pool, _close)

    async def open(self) -> None:
        """Open a connection, if there is none."""
        try:
            pool = await self.pool.pool()
            async with pool.acquire(timeout=self.at_most_s):
                pass
        except self.errors as error:
            raise failed(self.name, self.place, error, self.at_most_s) from error

    async def rows(self, keys: Sequence[Key], left_s: float) -> list[Any]:
        """Return the row of each key, without the key columns."""
        if not self.key:
            raise FetchFailed(f"fetch {self.name!r} does not know its key columns")
        try:
            # asks nothing: the pool connects when a connection is needed
            pool = await self.pool.pool()
            async with pool.acquire(timeout=self.at_most_s) as connection:
                if not self.is_checked:
                    self._check(await connection.prepare(self.query))
                unfit: list[Exception] = []
                answers = await self._ask(connection, keys, unfit)
                if unfit and not self.has_answered:
                    raise unfit[0]
        except (*self.errors, *self.unfit) as error:
            raise failed(self.name, self.place, error, self.at_most_s) from error
        return answers

    async def _ask(
        self, connection: Any, keys: Sequence[Key], unfit: list[Exception]
    ) -> list[Any]:
        """Return the row of each key; None for a key that its column cannot hold.

        The error of such a key is appended to `unfit`.
        """
        arrays = [list(values) for values in zip(*keys, strict=True)]
        try:
            rows = await connection.fetch(self.query, *arrays)
        except self.unfit as error:
            if len(keys) == 1:
                unfit.append(error)
                return [None]
            half = len(keys) // 2
            first = await self._ask(connection, keys[:half], unfit)
            return first + await self._ask(connection, keys[half:], unfit)
        self.has_answered = True
        return self._by_key(keys, rows)

    def _check(self, statement: Any) -> None:
        """Raise FetchFailed if the query has not the parameters and columns needed."""
        query = f"fetch {self.name!r}: query"
        count = len(statement.get_parameters())
        if count != len(self.key):
            raise FetchFailed(
                f"{query} has {count} parameters; one for each key column is needed: "
                f"{', '.join(self.key)}"
            )
        returned = [column.name for column in statement.get_attributes()]
        for column in (*self.key, *self.columns):
            if column not in returned:
                why = ", by which rows are matched to keys" * (column in self.key)
                raise FetchFailed(
                    f"{query} does not return {column!r}{why}; {hint(column, returned)}"
                )
        self.is_checked = True

    def _by_key(
        self, keys: Sequence[Key], rows: Sequence[Mapping[str, Any]]
    ) -> list[Any]:
        found: dict[Key, Any] = {}
        for row in rows:
            key = tuple(_comparable(row[column]) for column in self.key)
            if key in found:
                found[key] = FetchFailed(
                    f"fetch {self.name!r}: query returned several rows for the key "
                    f"{_shown(key)}; at most one is needed"
                )
                continue
            found[key] = (
                [row[column] for column in self.columns]
                if self.columns
                else {c: v for c, v in row.items() if c not in self.key}
            )
        answers = [found.get(key) for key in keys]
        # a query of several keys may also return combinations that nobody asked for
        if found and len(self.key) == 1 and found.keys().isdisjoint(keys):
            # the sentence may be logged, so it must not say the key
            first = next(iter(found))[0], keys[0][0]
            held, asked = (type(value).__name__ for value in first)
            raise FetchFailed(
                f"fetch {self.name!r}: query returned rows, but none of a key that was "
                f"asked for; {self.key[0]!r} holds {held}, and {asked} was asked for"
            )
        return answers


async def _close(pool: Any) -> None:
    pool.terminate()  # `close` would wait for calls that are left behind


def _comparable(value: Any) -> Any:
    """Return a key's value as a record has it."""
    if isinstance(value, UUID):  # asyncpg takes texts for UUIDs, and returns UUIDs
        return str(value)
    return value if type(value) in VALUE_TYPES else plain_value(value)


def _shown(key: Key) -> str:
    return ", ".join(map(repr, key))
