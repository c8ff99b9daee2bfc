"""The command `polydom check-fetches`, on files of fetches and tables."""

import json
from pathlib import Path

import numpy as np
import pytest

from polydom.features.fetches.timing import read_times
from tests.support.postgres_server import serving_postgres
from tests.support.processes.commands import run
from tests.support.redis_server import serving_redis

HTTP = "http = 'http://h/'"
FETCHES = """
import asyncio
from polydom.features import fetch

@fetch(key=["id"], columns=["n", "word", "at", "other"], at_most_ms=20_000)
async def orders(keys, left_s):
    found = []
    for (key,) in keys:
        n = key if key % 2 else key + 0.5
        found.append([n, str(key % 3), f"2026-01-0{key % 3 + 1}T00:00:00", 1])
    return [None if key == 4 else one for (key,), one in zip(keys, found)]

@fetch(key=["id"], columns=["n"], at_most_ms=20_000)
async def failing(keys, left_s):
    raise OSError("no route")

@fetch(key=["id"], columns=["m"], at_most_ms=10)
async def endless(keys, left_s):
    await asyncio.sleep(3600)
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    fetches, table = tmp_path / "fetches.py", tmp_path / "rows.csv"
    fetches.write_text(FETCHES)
    rows = (f"{k},{k},w{k % 3},0{k % 3 + 1}.01.2026" for k in range(10))
    table.write_text("id,n,word,at\n" + "\n".join(rows) + "\n")
    return fetches, table


def test_arrivals_and_skew_are_shown(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "check-fetches", *files, "--fetch", "orders")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert ["orders", "10", "9", "1", "0", "0"] in [line[:6] for line in lines]
    assert ["orders", "n", "50.0%"] in lines
    assert ["orders", "word", "100.0%"] in lines
    assert ["orders", "at", "10.0%"] in lines
    assert "orders, at, such as id=4: '2026-01-02', fetched None" in out
    assert "other" not in out


def test_real_databases_are_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetches, table = tmp_path / "fetches.toml", tmp_path / "rows.csv"
    table.write_text("id,n,late\n17,3,0.5\n18,4,1.5\n19,5,\n20,6,\n")
    with serving_redis() as redis, serving_postgres() as postgres:
        for key, n in ((17, 3), (18, 40), (19, 5)):
            redis.client.hset(f"customer:{key}", mapping={"n": n, "more": "1e999"})
        redis.client.hset("customer:20", mapping={"n": "1e999"})
        postgres.execute(
            "CREATE TABLE history (id int, late float8)",
            "INSERT INTO history VALUES (17, 0.5), (18, 1.5)",
        )
        fetches.write_text(
            f'[orders]\nredis = "{redis.address}"\nhash = "customer:{{id}}"\n'
            f'at_most_ms = 20000\n[history]\npostgres = "{postgres.address}"\n'
            'query = "SELECT id, late FROM history WHERE id = ANY($1)"\n'
            'key = ["id"]\nat_most_ms = 20000\n'
        )
        code, out, err = run(capsys, "check-fetches", fetches, table)
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert ["orders", "4", "3", "0", "1", "0"] in [line[:6] for line in lines]
    assert "column 'n' holds inf; a finite number is needed" in out
    assert ["history", "4", "2", "2", "0", "0"] in [line[:6] for line in lines]
    assert ["orders", "n", "33.3%"] in lines
    assert ["history", "late", "0.0%"] in lines
    assert "orders, n, such as id=18: 4, fetched 40" in out


def test_failures_are_told_and_end_with_1(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "check-fetches", *files, "--keys", "6")
    assert code == 1
    lines = [line.split() for line in out.splitlines()]
    never = ["never"] * 3
    assert ["failing", "6", "0", "0", "6", "0", *never] in lines
    assert ["endless", "6", "0", "0", "0", "6", *never] in lines
    assert "failed: fetch 'failing' raised OSError: no route" in out


def test_a_source_that_has_none_of_the_keys_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetches, table = tmp_path / "fetches.py", tmp_path / "rows.csv"
    table.write_text("id,n\n17,3\n18,4\n")
    fetches.write_text(
        "from polydom.features import fetch\n"
        "@fetch(key=['id'], columns=['n'], at_most_ms=20_000)\n"
        "async def orders(keys, left_s):\n    return [None for key in keys]\n"
    )
    code, out, _ = run(capsys, "check-fetches", fetches, table)
    assert code == 0
    assert "fetch 'orders' found nothing for any key" in " ".join(out.split())
    fetches.write_text(fetches.read_text().replace("None", "{}[0]"))
    _, out, _ = run(capsys, "check-fetches", fetches, table)
    assert "KeyError" in out
    assert "table" not in out  # nothing can be compared


def test_times_are_written(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.csv"
    run(capsys, "check-fetches", *files, "--times", file, "--keys", "7")
    times = read_times(file, ["orders", "failing", "endless"])
    assert np.isfinite(times).tolist() == [[True, False, False]] * 7
    for _ in range(2):  # times may be written anew
        code, _, err = run(capsys, "check-fetches", *files, "--times", file)
        assert (code, err) == (1, "")


def test_fetches_of_several_files_are_asked_together(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, out = tmp_path / "other.py", tmp_path / "out.csv"
    other.write_text(
        "from polydom.features import fetch\n"
        "@fetch(key=['id'], columns=['k'], at_most_ms=20_000)\n"
        "async def more(keys, left_s):\n    return [[1] for key in keys]\n"
    )
    asked = ("check-fetches", files[0], other, files[1], "--times", out)
    code, _, err = run(capsys, *asked, "--fetch", "orders", "--fetch", "more")
    assert (code, err) == (0, "")
    assert np.isfinite(read_times(out, ["orders", "more"])).all()
    code, _, err = run(capsys, *asked, "--fetch", "mor")
    assert f"{files[0]} and {other} have no fetch 'mor'; did you mean 'more'?" in err
    before = other.read_text()
    code, _, err = run(capsys, *asked[:-1], other)
    assert (code, other.read_text()) == (1, before)
    assert "this file is read here" in err


def test_other_files_are_not_replaced_by_times(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before = files[1].read_text()
    code, _, err = run(capsys, "check-fetches", *files, "--times", files[1])
    assert (code, files[1].read_text()) == (1, before)
    assert "this file is read here; name another" in err


def test_facts_are_json(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("check-fetches", *files, "--fetch", "orders", "--keys", 5, "--seed", 1)
    _, out, _ = run(capsys, *asked, "--json")
    (facts,) = json.loads(out)["fetches"]
    assert (facts["fetch"], facts["keys"], facts["failed"]) == ("orders", 5, 0)
    assert [one["column"] for one in facts["columns"]] == ["n", "word", "at"]
    assert len(facts["ms"]) == 3


@pytest.mark.parametrize(
    ("fetches", "table", "message"),
    [
        (
            "[a]\nhttp = 'http://h/'",
            "id\n1\n",
            "does not say which columns are its key",
        ),
        (
            f"[a]\n{HTTP}\nkey = ['ids']",
            "id\n1\n",
            "needs the key column 'ids'; did you mean 'id'?",
        ),
        (
            "[a]\nhttp = 'http://h/'\nkey = ['id']",
            "id\n",
            "has no rows; rows with keys",
        ),
        ("", "id\n1\n", "defines no fetch"),
    ],
)
def test_mistakes_are_told(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    fetches: str,
    table: str,
    message: str,
) -> None:
    files = tmp_path / "fetches.toml", tmp_path / "rows.csv"
    for file, text in zip(files, (fetches, table), strict=True):
        file.write_text(text)
    code, out, err = run(capsys, "check-fetches", *files)
    assert (code, out) == (1, "")
    assert message in err


def test_an_unknown_name_is_told(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "check-fetches", *files, "--fetch", "order")
    assert code == 1
    assert "has no fetch 'order'; did you mean 'orders'?" in err
