"""Fetches from a real PostgreSQL: hostile keys, bad queries, a server that ends."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from polydom.features.errors import BadFetch, FetchFailed
from polydom.features.fetches.fetch import Fetch, Key
from tests.support.fetch_files import bring, load_one
from tests.support.postgres_server import PostgresServer, serving_postgres

SECONDS = 20_000  # ms, so that a busy machine decides no test
QUERY = "SELECT id, n, mean, name FROM orders WHERE id = ANY($1)"
COLUMNS = ["n", "mean", "name"]


@pytest.fixture(scope="module")
def server(postgres_server: PostgresServer) -> PostgresServer:
    postgres_server.execute(
        "CREATE TABLE orders (id int, n int, mean numeric, name text, at date)",
        "INSERT INTO orders VALUES (17, 3, 2.5, 'Zoë', '2026-01-31')",
        "INSERT INTO orders VALUES (18, NULL, 'NaN', '', NULL)",
        "INSERT INTO orders VALUES (20, 1, 1, 'a', NULL), (20, 2, 2, 'b', NULL)",
        "CREATE TABLE pairs (a int, b text, n int)",
        "INSERT INTO pairs VALUES (1, 'x', 10), (1, 'y', 20), (2, 'x', 30)",
        "CREATE TABLE words (word text, place int)",
        "CREATE TABLE known (id uuid, n int)",
        "INSERT INTO known VALUES ('00000000-0000-0000-0000-000000000007', 7)",
    )
    return postgres_server


def orders(folder: Path, server: PostgresServer, query: str = QUERY) -> Fetch:
    return load_one(folder, postgres=server.address, query=query, at_most_ms=SECONDS)


def test_rows_are_matched_to_keys(server: PostgresServer, tmp_path: Path) -> None:
    bound = orders(tmp_path, server).bound_to(["id"], COLUMNS)
    assert bring(bound, (18,), (17,), (19,), (None,), (17.0,)) == [
        {"n": None, "mean": None, "name": ""},
        {"n": 3, "mean": 2.5, "name": "Zoë"},
        None,
        None,
        {"n": 3, "mean": 2.5, "name": "Zoë"},
    ]


def test_all_columns_come_where_none_is_said(
    server: PostgresServer, tmp_path: Path
) -> None:
    query = "SELECT * FROM orders WHERE id = ANY($1)"
    asked = load_one(
        tmp_path, postgres=server.address, query=query, key=["id"], at_most_ms=SECONDS
    )
    row = {"n": 3, "mean": 2.5, "name": "Zoë", "at": "2026-01-31"}
    assert bring(asked, (17,)) == [row]


def test_the_second_of_several_hosts_is_asked(
    server: PostgresServer, tmp_path: Path
) -> None:
    several = server.address.replace(server.place, f"127.0.0.1:1,{server.place}")
    asked = load_one(tmp_path, postgres=several, query=QUERY, at_most_ms=SECONDS)
    assert bring(asked.bound_to(["id"], ["n"]), (17,)) == [{"n": 3}]


def test_several_key_columns_are_several_arrays(
    server: PostgresServer, tmp_path: Path
) -> None:
    joined = (
        "SELECT a, b, n FROM pairs JOIN unnest($1::int[], $2::text[]) AS k (a, b) "
        "USING (a, b)"
    )
    for query in (joined, "SELECT * FROM pairs WHERE a = ANY($1) AND b = ANY($2)"):
        bound = orders(tmp_path, server, query).bound_to(["a", "b"], ["n"])
        brought = bring(bound, (2, "x"), (1, "y"), (2, "y"))
        assert brought == [{"n": 30}, {"n": 20}, None]
    # rows of combinations that nobody asked for
    assert bring(bound, (2, "y"), (3, "x")) == [None, None]


def test_uuids_are_texts(server: PostgresServer, tmp_path: Path) -> None:
    query = "SELECT id, n FROM known WHERE id = ANY($1)"
    bound = orders(tmp_path, server, query).bound_to(["id"], ["n"])
    assert bring(bound, ("00000000-0000-0000-0000-000000000007",)) == [{"n": 7}]


HOSTILE = ('a"b', "a'b", "'; DROP TABLE words; --", "{a,b}", "a\nb", "a\\b", "NULL", "")


def test_hostile_keys_stay_in_their_place(
    server: PostgresServer, tmp_path: Path
) -> None:
    query = "SELECT word, place FROM words WHERE word = ANY($1)"
    for place, word in enumerate(HOSTILE):
        quoted = word.replace("'", "''")
        server.execute(f"INSERT INTO words VALUES ('{quoted}', {place})")
    bound = orders(tmp_path, server, query).bound_to(["word"], ["place"])
    brought = bring(bound, *((word,) for word in HOSTILE))
    assert brought == [{"place": place} for place in range(len(HOSTILE))]


@pytest.mark.parametrize(
    ("query", "key", "message"),
    [
        ("SELECT n FROM orders WHERE id = ANY($1)", 17, "does not return 'id', by wh"),
        ("SELECT id FROM orders WHERE id = ANY($1)", 17, "does not return 'n'; "),
        ("SELECT id, n FROM orders WHERE id = ANY($1) AND n > $2", 17, "2 parameters;"),
        (QUERY, "x", "DataError: invalid input for query argument $1"),
        ("SELECT id FROM nowhere WHERE id = ANY($1)", 17, '"nowhere" does not exist'),
        ("SELEC $1", 17, "syntax error"),
        ("SELECT 5 AS id, 1 AS n WHERE 17 = ANY($1)", 17, "rows, but none of a key"),
        (
            "SELECT 'x5' AS id, 1 AS n WHERE 17 = ANY($1)",
            17,
            "'id' holds str, and int was asked for",
        ),
    ],
)
def test_unusable_queries_are_refused(
    server: PostgresServer, tmp_path: Path, query: str, key: Any, message: str
) -> None:
    bound = orders(tmp_path, server, query).bound_to(["id"], ["n"])
    with pytest.raises(FetchFailed, match="'orders'") as raised:
        bring(bound, (key,))
    assert message in str(raised.value)


def test_a_key_that_the_column_cannot_hold_has_nothing_beside_others(
    server: PostgresServer, tmp_path: Path
) -> None:
    bound = orders(tmp_path, server).bound_to(["id"], ["n"])
    keys: list[Key] = [("x",), (17,), (2**40,), (17,), (True,), ("\ud800",)]
    row = {"n": 3}
    assert bring(bound, *keys) == [None, row, None, row, None, None]
    assert bring(bound, ("x",)) == [None]


@pytest.mark.parametrize(
    ("query", "key", "message"),
    [
        (QUERY, 20, "returned several rows for the key 20; at most one is needed"),
        (
            "SELECT id, ARRAY[n] AS n FROM orders WHERE id = ANY($1)",
            17,
            "column 'n' holds a list; ",
        ),
        (
            "SELECT id, 'inf'::float AS n FROM orders WHERE id = ANY($1)",
            17,
            "column 'n' holds inf; ",
        ),
    ],
)
def test_unusable_rows_fail_for_their_key(
    server: PostgresServer, tmp_path: Path, query: str, key: int, message: str
) -> None:
    bound = orders(tmp_path, server, query).bound_to(["id"], ["n"])
    failure, nothing = bring(bound, (key,), (99,))
    assert nothing is None
    assert isinstance(failure, FetchFailed)
    assert message in str(failure)


def test_rows_of_a_key_are_several_for_that_key_alone(
    server: PostgresServer, tmp_path: Path
) -> None:
    bound = orders(tmp_path, server).bound_to(["id"], ["n"])
    good, failure = bring(bound, (17,), (20,))
    assert good == {"n": 3}
    assert isinstance(failure, FetchFailed)


def test_a_query_without_parameters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFetch, match=r"query has no parameter \$1, which stands"):
        load_one(tmp_path, postgres="postgresql://localhost", query="SELECT 1")


def test_a_key_that_is_not_said_is_told(server: PostgresServer, tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match="'orders' does not know its key columns"):
        bring(orders(tmp_path, server), (17,))


def test_a_wrong_password_is_told(server: PostgresServer, tmp_path: Path) -> None:
    address = f"postgresql://polydom:guess@{server.place}/postgres"
    asked = load_one(tmp_path, postgres=address, query=QUERY, at_most_ms=SECONDS)
    with pytest.raises(FetchFailed, match="password authentication failed") as raised:
        bring(asked.bound_to(["id"], ["n"]), (17,))
    assert "guess" not in str(raised.value)


def test_a_host_that_does_not_exist_is_told(tmp_path: Path) -> None:
    address = "postgresql://nowhere.invalid/postgres"
    asked = load_one(tmp_path, postgres=address, query=QUERY, at_most_ms=SECONDS)
    with pytest.raises(
        FetchFailed, match=r"'orders': PostgreSQL at nowhere\.invalid: "
    ):
        bring(asked.bound_to(["id"], ["n"]), (17,))


def test_a_slow_query_is_given_up(server: PostgresServer, tmp_path: Path) -> None:
    asked = load_one(
        tmp_path,
        postgres=server.address,
        query="SELECT 17 AS id, 1 AS n FROM pg_sleep(60) WHERE 17 = ANY($1)",
        at_most_ms=500,
    )
    with pytest.raises(FetchFailed, match="no answer within 500 ms"):
        bring(asked.bound_to(["id"], ["n"]), (17,))


def test_a_server_that_ends_and_starts_again_is_found_again(tmp_path: Path) -> None:
    with serving_postgres() as server:
        query = "SELECT id, 7 AS n FROM unnest($1::int[]) AS k (id)"
        bound = orders(tmp_path, server, query).bound_to(["id"], ["n"])

        async def use() -> None:
            assert await bound.bring([(1,)], 1.0) == [{"n": 7}]
            server.stop()
            for _ in range(3):
                with pytest.raises(FetchFailed, match=r"PostgreSQL at 127\.0\.0\.1:"):
                    await bound.bring([(1,)], 1.0)
            await asyncio.to_thread(server.start)
            assert await bound.bring([(1,)], 1.0) == [{"n": 7}]
            assert bound.close is not None
            await bound.close()

        asyncio.run(use())


def test_calls_at_once_share_few_connections(
    server: PostgresServer, tmp_path: Path
) -> None:
    bound = load_one(
        tmp_path, postgres=server.address, query=QUERY, at_once=2, at_most_ms=SECONDS
    ).bound_to(["id"], ["n"])

    async def use() -> list[Any]:
        brought = await asyncio.gather(*(bound.bring([(17,)], 1.0) for _ in range(50)))
        assert bound.close is not None
        await bound.close()
        return brought

    assert asyncio.run(use()) == [[{"n": 3}]] * 50


def test_a_connection_is_opened_ahead(server: PostgresServer, tmp_path: Path) -> None:
    own = f"{server.address}&application_name=ahead"
    if "?" not in server.address:
        own = f"{server.address}?application_name=ahead"
    query = "SELECT id, n FROM orders WHERE id = ANY($1)"
    asked = load_one(tmp_path, postgres=own, query=query, at_most_ms=SECONDS)
    count = (
        "SELECT id, (SELECT count(*) FROM pg_stat_activity "
        "WHERE application_name = 'ahead') AS n FROM orders WHERE id = ANY($1)"
    )
    counting = load_one(tmp_path, postgres=server.address, query=count)

    async def main() -> None:
        assert asked.open is not None
        assert asked.close is not None
        bound = counting.bound_to(["id"], ["n"])
        assert bound.close is not None
        assert await bound.bring([(17,)], 10.0) == [{"n": 0}]
        await asked.open()
        assert await bound.bring([(17,)], 10.0) == [{"n": 1}]
        await asked.close()
        await bound.close()

    asyncio.run(main())
