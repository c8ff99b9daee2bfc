"""Times fetches: how long after sending their answers come, all for one row at once."""

import asyncio
import csv
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import BadFetch, FetchFailed
from ..wording import hint
from .answers import Brought, Values
from .fetch import Fetch, Key

T = TypeVar("T")
Times = NDArray[np.float64]
Tell = Callable[[Fetch, FetchFailed], object]

ITEM = ""  # name of the text or image in a row
MOST_ROWS = 100_000  # of a file of times


def time_fetches(
    fetches: Sequence[Fetch],
    rows: Sequence[Mapping[str, Any]],
    at_once: int = 8,
    *,
    failed: Tell | None = None,
) -> tuple[Times, list[list[Values | None]]]:
    """Ask fetches for the keys of rows; return how long each took, and what it brought.

    All fetches are asked for one row at the same moment, so that the times of a row
    are joint draws; `at_once` rows are asked for at the same time. The first `at_once`
    rows are asked for once more before, because the first calls open connections. This
    function runs an event loop of its own, and closes the connections at its end.

    Parameters
    ----------
    fetches
        U fetches that know their key and columns: see `Fetch.bound_to`.
    rows
        M records with the key columns of all fetches, such as rows of a table. Those of
        fetches of texts or images have the item under `ITEM`.
    failed
        Called with each fetch that failed for a row, and the error that says why. An
        answer that cannot be used is a failure; a fetch that is given up as too late is
        none.

    Returns
    -------
    tuple
        Seconds from sending to the answer, (M, U): row by row, fetch by fetch. A fetch
        that failed, or took longer than its `at_most_s`, has infinity. And for each row
        what each fetch brought: None if there is nothing or it has not come.

    Raises
    ------
    BadFetch
        If a fetch has no key, or a row lacks a column of it.
    """
    keys = [[_key_of(fetch, row) for fetch in fetches] for row in rows]
    return asyncio.run(_time_all(fetches, keys, at_once, failed))


def _key_of(fetch: Fetch, row: Mapping[str, Any]) -> Key:
    if fetch.kind != "record":
        return (row[ITEM],)
    if not fetch.key:
        raise BadFetch(f"fetch {fetch.name!r} does not know the columns of its key")
    for column in fetch.key:
        if column not in row:
            raise BadFetch(
                f"fetch {fetch.name!r} needs the key column {column!r}; "
                f"{hint(column, [*row])}"
            )
    return tuple(row[column] for column in fetch.key)


async def _time_all(
    fetches: Sequence[Fetch],
    keys: Sequence[Sequence[Key]],
    at_once: int,
    failed: Tell | None,
) -> tuple[Times, list[list[Values | None]]]:
    times = np.full((len(keys), len(fetches)), math.inf)
    values: list[list[Values | None]] = [[None] * len(fetches) for _ in keys]
    left_behind: set[asyncio.Task[list[Brought]]] = set()

    async def ask(fetch: Fetch, key: Key, place: tuple[int, int] | None) -> None:
        sent_s = time.monotonic()
        call = asyncio.ensure_future(fetch.bring([key], fetch.at_most_s))
        await asyncio.wait([call], timeout=fetch.at_most_s)
        took_s = time.monotonic() - sent_s
        if not call.done():
            # cancelled only before its connection is closed, which may be in the
            # middle of an answer
            left_behind.add(call)
            call.add_done_callback(_forget_error)
        elif call.cancelled():  # by itself: it counts as one that never came
            pass
        else:
            brought = call.exception() or call.result()[0]
            if place and not isinstance(brought, BaseException):
                times[place] = took_s
                values[place[0]][place[1]] = brought
            elif place and failed and isinstance(brought, FetchFailed):
                failed(fetch, brought)

    async def ask_rows(rows: Iterator[int], kept: bool) -> None:
        for row in rows:
            await asyncio.gather(
                *(
                    ask(fetch, keys[row][k], (row, k) if kept else None)
                    for k, fetch in enumerate(fetches)
                )
            )

    try:
        for rows, kept in (
            (range(len(keys))[:at_once], False),
            (range(len(keys)), True),
        ):
            shared = iter(rows)
            await asyncio.gather(*(ask_rows(shared, kept) for _ in range(at_once)))
    finally:
        for call in left_behind:
            call.cancel()
        for fetch in fetches:
            if fetch.close is not None:
                await fetch.close()
    return times, values


def _forget_error(call: "asyncio.Task[list[Brought]]") -> None:
    """Take the error of a call that nobody waits for, which asyncio would log."""
    if not call.cancelled():
        call.exception()


def outside_loops(work: Callable[[], T]) -> T:
    """Call a function that runs an event loop; in a thread if one runs here already.

    In a notebook, every cell runs in a loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def write_times(path: Path, names: Sequence[str], times: Times) -> None:
    """Write arrival times in seconds (M, U) to a CSV file, in milliseconds.

    A column for each fetch; the cell of a fetch that never came is empty.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(names)
        for row in times.tolist():
            rows.writerow("" if s == math.inf else f"{s * 1e3:.3f}" for s in row)


def is_times(path: Path) -> bool:
    """Return True if a file has times in all its columns, as `write_times` writes."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            names = next(csv.reader(file), [])
        return len(read_times(path, names)) > 0
    except (BadFetch, OSError, UnicodeDecodeError, csv.Error):
        return False


def read_times(path: Path, names: Sequence[str]) -> Times:
    """Read arrival times in milliseconds from a CSV file; return seconds, (M, U).

    `names` are the U fetches, each of which must be a column; other columns are left
    out. An empty cell means that the fetch never came, and becomes infinity. Raises
    BadFetch if the file cannot be read or a cell is no time.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file)
            head = next(rows, [])
            places = [_place_of(path, name, head) for name in names]
            found = []
            for row in rows:
                if row:
                    where = f"{path}, line {rows.line_num}"
                    found.append([_seconds(where, row, place) for place in places])
                if len(found) > MOST_ROWS:
                    raise BadFetch(f"{path} has more than {MOST_ROWS:,} rows of times")
    except OSError as error:
        raise BadFetch(
            f"{path}: {error.strerror}; `polydom check-fetches --times` writes such a "
            "file"
        ) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadFetch(f"{path}: no CSV file: {error}") from error
    if not found:
        raise BadFetch(f"{path} has no times; a row for each joint draw is needed")
    return np.array(found)


def _place_of(path: Path, name: str, head: Sequence[str]) -> int:
    if name not in head:
        raise BadFetch(f"{path} has no column {name!r}; {hint(name, list(head))}")
    return head.index(name)


def _seconds(where: str, row: Sequence[str], place: int) -> float:
    text = row[place].strip() if place < len(row) else ""
    if not text:
        return math.inf
    try:
        seconds = float(text) / 1e3
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise BadFetch(
            f"{where} has {text[:20]!r}; milliseconds are needed, or nothing where the "
            "fetch never came"
        )
    return seconds
