"""Compares what fetches bring with a table: how often, how late, how different.

A model learns from the table, and a server asks the fetches. If the two differ, the
quality in service is not that of the build.
"""

import math
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..errors import BadFetch, BadInput, FetchFailed
from ..items import Value
from ..readers.table_file import open_table
from ..tables.column_kinds import ColumnTerms, read_column
from ..tables.dates import micros_of
from ..tables.records import Column, trim
from .answers import Values, check_values
from .fetch import Fetch, Key
from .timing import Times, time_fetches

QUANTILES = (0.5, 0.9, 0.99)
# Numbers are alike if a model cannot tell them apart: it has float32.
ALIKE = 1e-6

Row = Mapping[str, Value]


class ColumnSkew(msgspec.Struct):
    """How often a fetched column differs from the table's column of the same name."""

    column: str
    rows: int  # Rows for which the fetch came
    differ: int  # Rows among them whose fetched value is another
    example: str = ""  # The key of the first such row, and both values


class FetchCheck(msgspec.Struct):
    """What a fetch did for the keys of a table's rows."""

    fetch: str
    keys: int
    came: int  # Keys with values
    empty: int  # Keys for which the fetch came, and said that there is nothing
    failed: int
    late: int  # Keys for which nothing had come after `at_most_ms`
    # Quantiles 50, 90 and 99 % of the milliseconds from sending to arrival; None where
    # the fetch never came
    ms: list[float | None]
    columns: list[ColumnSkew]
    error: str = ""  # Why it failed for the first time


def read_rows(
    path: Path, count: int, seed: int, separator: str | None, encoding: str | None
) -> tuple[list[Row], frozenset[str]]:
    """Draw rows of a table, at most `count`; return them, and the columns of dates.

    Columns that hold no values of records, such as lists, are left out.
    """
    table = open_table(path, separator, encoding)
    raw = table.read(table.names)
    terms = ColumnTerms(
        commas=table.commas, points_group=table.points_group, typed=table.typed
    )
    columns: dict[str, Column] = {}
    for name, cells in raw.columns.items():
        with suppress(BadInput):
            columns[name] = read_column(name, cells, terms)
    rows = len(next(iter(columns.values()), ()))
    if not rows:
        raise BadInput(f"{path} has no rows; rows with keys are needed")
    draw = np.random.default_rng(seed).permutation(rows)[:count]
    values = [column.values(draw) for column in columns.values()]
    dates = frozenset(name for name, one in columns.items() if one.kind == "date")
    drawn = zip(*values, strict=True)
    return [dict(zip(columns, row, strict=True)) for row in drawn], dates


def check_fetches(
    fetches: Sequence[Fetch], rows: Sequence[Row], dates: frozenset[str] = frozenset()
) -> tuple[list[FetchCheck], Times]:
    """Ask fetches for the keys of rows; return a report on each, and all times.

    `dates` are columns whose texts are dates, and are compared as such. For the times,
    (M, U) seconds, see `time_fetches`. Raises BadFetch if a fetch does not know its
    key, or the rows lack a column of it.
    """
    for fetch in fetches:
        if fetch.kind != "record":
            raise BadFetch(
                f"fetch {fetch.name!r} brings vectors of {fetch.kind}s, which no table "
                "has; `polydom evaluate --fetches` says how good answers are with them"
            )
        if not fetch.key:
            raise BadFetch(
                f"fetch {fetch.name!r} does not say which columns are its key; add a "
                'line such as key = ["customer_id"] to its table'
            )
    failures: dict[str, list[FetchFailed]] = {fetch.name: [] for fetch in fetches}
    asked = [one if one.columns else _of_table(one, rows[0]) for one in fetches]
    times, values = time_fetches(
        asked, rows, failed=lambda fetch, error: failures[fetch.name].append(error)
    )
    checks = []
    for place, fetch in enumerate(fetches):
        failed = failures[fetch.name]
        own = [one[place] for one in values]
        came = np.isfinite(times[:, place])
        empty = sum(there and one is None for one, there in zip(own, came, strict=True))
        quantiles = np.quantile(times[:, place], QUANTILES, method="higher") * 1e3
        checks.append(
            FetchCheck(
                fetch.name,
                len(rows),
                int(came.sum()) - empty,
                empty,
                len(failed),
                int((~came).sum()) - len(failed),
                [None if math.isinf(ms) else ms for ms in quantiles.tolist()],
                _skews(fetch, rows, own, came.tolist(), dates),
                str(failed[0]) if failed else "",
            )
        )
    return checks, times


def _of_table(fetch: Fetch, columns: Container[str]) -> Fetch:
    """Return a fetch of any columns that fails for unusable values of `columns` only.

    An index does not ask for the other columns, so they are left out.
    """

    def read(answer: Any) -> Any:
        if not isinstance(answer, Mapping):
            return answer
        values = {name: value for name, value in answer.items() if name in columns}
        try:
            check_values(fetch.name, values)
        except FetchFailed as error:
            return error
        return values

    async def call(keys: Sequence[Key], left_s: float) -> list[Any]:
        return [read(answer) for answer in await fetch.call(keys, left_s)]

    return replace(fetch, call=call)


def _skews(
    fetch: Fetch,
    rows: Sequence[Row],
    values: Sequence[Values | None],
    came: Sequence[bool],
    dates: frozenset[str],
) -> list[ColumnSkew]:
    brought = dict.fromkeys(fetch.columns)
    for one in values:
        brought |= dict.fromkeys(one or ())
    skews = []
    for column in brought:
        if column not in rows[0]:
            continue
        skew = ColumnSkew(column, sum(came), 0)
        for row, one, there in zip(rows, values, came, strict=True):
            known, found = row[column], (one or {}).get(column)
            if there and not _alike(known, found, column in dates):
                skew.differ += 1
                key = ", ".join(f"{name}={row[name]!r}" for name in fetch.key)
                skew.example = skew.example or f"{key}: {known!r}, fetched {found!r}"
        skews.append(skew)
    return skews


def _alike(known: Value, found: Value, is_date: bool) -> bool:
    """Return True if a model is told the same by both values."""
    if known is None or found is None:
        return known is found
    if isinstance(known, int | float) and isinstance(found, int | float):
        return math.isclose(known, found, rel_tol=ALIKE)
    if is_date:
        with suppress(ValueError):
            return micros_of(str(known)) == micros_of(str(found))
    # a number may stand for a word, but no text for a number
    return isinstance(known, str) and trim(known) == trim(_word(found))


def _word(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)
