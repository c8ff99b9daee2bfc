"""Fetches timed and compared with a table, and files of times."""

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features import fetch
from polydom.features.errors import BadFetch, FetchFailed
from polydom.features.fetches.fetch import Fetch, Key
from polydom.features.fetches.timing import (
    is_times,
    read_times,
    time_fetches,
    write_times,
)
from polydom.features.items import Value

ROWS: list[dict[str, Value]] = [{"id": number, "other": "x"} for number in range(20)]
NEVER = math.inf


def test_rows_are_timed_and_answered() -> None:
    running: list[int] = []
    most: list[int] = []

    @fetch(key=["id"], columns=["n"], at_most_ms=20_000)
    async def quick(keys: Sequence[Key], left_s: float) -> Any:
        return [{"n": key[0]} if key[0] != 3 else None for key in keys]

    @fetch(key=["other", "id"], columns=["m"], at_most_ms=20_000)
    async def slow(keys: Sequence[Key], left_s: float) -> Any:
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(0.02)
        running.pop()
        return [[f"{key[0]}{key[1]}"] for key in keys]

    times, values = time_fetches([quick, slow], ROWS, at_once=5)
    assert times.shape == (20, 2)
    assert (times[:, 1] >= 0.02).all()
    assert np.isfinite(times).all()
    assert max(most) == 5
    assert [one[0] for one in values] == [
        None if n == 3 else {"n": n} for n in range(20)
    ]
    assert [one[1] for one in values] == [{"m": f"x{n}"} for n in range(20)]


def test_failures_and_calls_that_never_end_are_infinite() -> None:
    @fetch(key=["id"], columns=["n"], at_most_ms=20_000)
    async def failing(keys: Sequence[Key], left_s: float) -> Any:
        if keys[0][0] == 1:
            raise OSError("gone")
        return [[math.inf if keys[0][0] == 3 else 1]]

    @fetch(key=["id"], columns=["n"], at_most_ms=20)
    async def endless(keys: Sequence[Key], left_s: float) -> Any:
        await asyncio.Event().wait()

    told: list[tuple[Fetch, FetchFailed]] = []
    times, values = time_fetches(
        [failing, endless], ROWS[:4], failed=lambda *both: told.append(both)
    )
    assert np.isinf(times[:, 1]).all()
    assert np.isinf(times[:, 0]).tolist() == [False, True, False, True]
    assert [one[0] for one in values] == [{"n": 1}, None, {"n": 1}, None]
    assert [one.name for one, _ in told] == ["failing", "failing"]
    said = sorted(str(error) for _, error in told)
    assert "'failing' raised OSError: gone" in said[0]
    assert "column 'n' holds inf; a finite number is needed" in said[1]


def test_calls_that_cancel_themselves_never_come() -> None:
    @fetch(key=["id"], columns=["n"], at_most_ms=20_000)
    async def cancelled(keys: Sequence[Key], left_s: float) -> Any:
        raise asyncio.CancelledError

    times, _ = time_fetches([cancelled], ROWS[:2])
    assert np.isinf(times).all()


def test_connections_are_closed_in_the_same_loop() -> None:
    loops: list[Any] = []

    async def close() -> None:
        loops.append(asyncio.get_running_loop())

    @fetch(key=["id"], columns=["n"], close=close)
    async def one(keys: Sequence[Key], left_s: float) -> Any:
        loops.append(asyncio.get_running_loop())
        return [[1]]

    time_fetches([one], ROWS[:1])
    assert len(loops) == 3  # one call before, which opens connections
    assert len({*map(id, loops)}) == 1


def test_rows_without_the_key_are_refused() -> None:
    @fetch(key=["customer"], columns=["n"])
    async def one(keys: Sequence[Key], left_s: float) -> Any: ...

    with pytest.raises(BadFetch, match="'one' needs the key column 'customer'; there"):
        time_fetches([one], ROWS)


def test_times_are_written_and_read(tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    times = np.array([[0.0015, NEVER], [2.25, 0.0]])
    write_times(file, ["a", "b,c"], times)
    assert file.read_text() == 'a,"b,c"\n1.500,\n2250.000,0.000\n'
    assert is_times(file)
    np.testing.assert_array_equal(read_times(file, ["a", "b,c"]), times)
    np.testing.assert_array_equal(read_times(file, ["b,c"]), times[:, 1:])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column 'orders'; there are none"),
        ("order\n1\n", "has no column 'orders'; did you mean 'order'?"),
        ("orders\n", "has no times; a row for each joint draw is needed"),
        ("orders\n1\nx\n", "line 3 has 'x'; milliseconds are needed, or nothing"),
        ("orders\n-1\n", "line 2 has '-1'; milliseconds are needed"),
        ("orders\nnan\n", "line 2 has 'nan'; milliseconds are needed"),
        ("orders\n" + "1\n" * 100_001, "has more than 100,000 rows of times"),
        (b"\xff\xfe", "no CSV file"),
        ("orders\n" + "1" * 200_000 + "\n", "no CSV file: field larger than"),
    ],
    ids=range(9),
)
def test_other_files_are_refused(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    file = tmp_path / "times.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadFetch, match=r"times\.csv") as raised:
        read_times(file, ["orders"])
    assert message in str(raised.value)
    assert is_times(file) == (text == "order\n1\n")


def test_an_absent_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadFetch, match="No such file or directory; `polydom check-fet"):
        read_times(tmp_path / "nowhere.csv", ["orders"])
