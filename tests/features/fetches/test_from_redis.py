"""Fetches from a real Redis: hashes and strings, hostile keys, a server that ends."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadFetch, FetchFailed
from polydom.features.fetches.fetch import Key
from polydom.features.fetches.from_redis import Template
from tests.support.fetch_files import bring, load_one
from tests.support.redis_server import RedisServer, serving_redis

SECONDS = 10_000  # ms, so that a busy machine decides no test


def test_fields_of_hashes_are_columns(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    fields = {"n": "3", "mean": "-2.5e1", "zip": "007", "name": "Zoë", "gap": ""}
    redis_server.client.hset("customer:17", mapping=fields)
    redis_server.client.hset("customer:19", mapping={"other": "1"})
    asked = load_one(
        tmp_path,
        redis=redis_server.address,
        hash="customer:{customer_id}",
        at_most_ms=SECONDS,
    )
    columns = ["n", "mean", "zip", "name", "gap", "absent"]
    bound = asked.bound_to(["customer_id"], columns)
    values = (3, -25.0, "007", "Zoë", None, None)
    assert bring(bound, (17,), (18,), (None,), (19,), (17.0,)) == [
        dict(zip(columns, values, strict=True)),
        None,
        None,
        None,
        dict(zip(columns, values, strict=True)),
    ]


def test_all_fields_come_where_no_column_is_said(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    redis_server.client.hset("all:1", mapping={"a": "1", "b": "x"})
    asked = load_one(
        tmp_path, redis=redis_server.address, hash="all:{id}", at_most_ms=SECONDS
    )
    assert asked.key == ("id",)
    assert bring(asked, (1,), (2,)) == [{"a": 1, "b": "x"}, None]


def test_strings_hold_objects(redis_server: RedisServer, tmp_path: Path) -> None:
    redis_server.client.set("s:1", '{"a": 1.5, "b": "007", "c": true, "more": [1, 2]}')
    asked = load_one(
        tmp_path, redis=redis_server.address, string="s:{id}", at_most_ms=SECONDS
    )
    bound = asked.bound_to(["id"], ["a", "b", "c", "d"])
    assert bring(bound, (1,), (2,), (None,)) == [
        {"a": 1.5, "b": "007", "c": True, "d": None},
        None,
        None,
    ]
    assert bring(bound, (None,)) == [None]


def test_parts_that_are_no_values_are_left_out_where_no_column_is_said(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    redis_server.client.set("part:1", '{"a": 1, "b": [1], "c": {}, "d": null}')
    asked = load_one(
        tmp_path, redis=redis_server.address, string="part:{id}", at_most_ms=SECONDS
    )
    assert bring(asked, (1,)) == [{"a": 1, "d": None}]


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": NaN}', b"\xff"])
def test_strings_that_hold_something_else_are_refused(
    redis_server: RedisServer, tmp_path: Path, text: Any
) -> None:
    redis_server.client.set("bad:1", text)
    asked = load_one(
        tmp_path, redis=redis_server.address, string="bad:{id}", at_most_ms=SECONDS
    )
    with pytest.raises(FetchFailed, match="'bad:1' holds no JSON object: "):
        bring(asked.bound_to(["id"], ["a"]), (1,))


@pytest.mark.parametrize("value", [b"[1]", b"{}", b'"\xff"'])
def test_unusable_values_of_strings_fail_for_their_key_alone(
    redis_server: RedisServer, tmp_path: Path, value: bytes
) -> None:
    redis_server.client.set("unusable:1", b'{"a": 5, "b": %s}' % value)
    redis_server.client.set("unusable:2", '{"a": 7}')
    bound = load_one(
        tmp_path, redis=redis_server.address, string="unusable:{id}", at_most_ms=SECONDS
    ).bound_to(["id"], ["a", "b"])
    failure, other, nothing = bring(bound, (1,), (2,), (3,))
    assert (other, nothing) == ({"a": 7, "b": None}, None)
    assert isinstance(failure, FetchFailed)
    assert "'unusable:1' holds something else than plain values: " in str(failure)


def test_unusable_fields_of_hashes_fail_for_their_key_alone(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    redis_server.client.hset("endless:1", mapping={"a": "1e999"})
    redis_server.client.hset("endless:2", mapping={"a": "x" * 99_999})
    redis_server.client.hset("endless:3", mapping={"a": 1})
    bound = load_one(
        tmp_path, redis=redis_server.address, hash="endless:{id}", at_most_ms=SECONDS
    ).bound_to(["id"], ["a"])
    infinite, long, good = bring(bound, (1,), (2,), (3,))
    assert good == {"a": 1}
    assert "column 'a' holds inf" in str(infinite)
    assert "column 'a' holds a text of 99,999 bytes" in str(long)


def test_another_type_is_refused(redis_server: RedisServer, tmp_path: Path) -> None:
    redis_server.client.set("customer:text", "x")
    asked = load_one(
        tmp_path, redis=redis_server.address, hash="customer:{id}", at_most_ms=SECONDS
    )
    with pytest.raises(FetchFailed, match="'customer:text': WRONGTYPE"):
        bring(asked.bound_to(["id"], ["a"]), ("text",))


def test_a_key_of_another_type_has_nothing_beside_others(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    redis_server.client.set("beside:text", "x")
    redis_server.client.hset("beside:1", mapping={"a": 1})
    bound = load_one(
        tmp_path, redis=redis_server.address, hash="beside:{id}", at_most_ms=SECONDS
    ).bound_to(["id"], ["a"])
    assert bring(bound, ("text",), (1,), ("\ud800",)) == [None, {"a": 1}, None]
    assert bring(bound, ("text",)) == [None]


HOSTILE = ('a"b', "a'b", "{id}", "a:b", "a\nb", "a\r\nDEL x", "\0", "%3A", "*", "")


def test_hostile_keys_stay_in_their_place(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    for place, key in enumerate(HOSTILE):
        redis_server.client.hset(f"h:{key}", mapping={"place": place})
    asked = load_one(
        tmp_path, redis=redis_server.address, hash="h:{id}", at_most_ms=SECONDS
    )
    brought = bring(asked.bound_to(["id"], ["place"]), *((key,) for key in HOSTILE))
    assert brought == [{"place": place} for place in range(len(HOSTILE))]


VALUES = st.one_of(
    st.text(alphabet=":%-{}a3A\n", max_size=5), st.integers(-9, 9), st.floats(-2, 2)
)


@given(st.tuples(VALUES, VALUES), st.tuples(VALUES, VALUES))
def test_two_keys_never_make_one_name(
    first: tuple[Any, Any], second: tuple[Any, Any]
) -> None:
    for text in ("x:{a}:{b}", "{a}-:{b}:", "{{{a}}}:3{b}", "{b}%:A{a}"):
        name = Template("hash", text).names_of(("a", "b"))
        if name(first) == name(second):
            assert [*map(str, first)] == [*map(str, second)]


def test_one_column_is_written_as_it_is() -> None:
    name = Template("hash", "a:{id}:z").names_of(("id",))
    keys: list[Key] = [("x:%y",), (17,), ("17",), (True,), (0.5,), (None,)]
    assert [name(key) for key in keys] == [
        b"a:x:%y:z",
        b"a:17:z",
        b"a:17:z",
        b"a:1:z",
        b"a:0.5:z",
        None,
    ]


def test_several_columns_are_kept_apart() -> None:
    name = Template("hash", "{b}:{a}").names_of(("a", "b"))
    assert name(("x:y", "50%")) == b"50%25:x%3Ay"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("customer", "no key column is named between { }"),
        ("customer:{", "is 'customer:{': "),
        ("{}", "the name of a key column, and no more, is needed"),
        ("{a!r}", "the name of a key column, and no more, is needed"),
        ("{a:>9}", "the name of a key column, and no more, is needed"),
        ("{a}{b}", "a punctuation mark such as : is needed between two columns"),
        ("{a}x{b}", "a punctuation mark such as : is needed between two columns"),
        ("{a}%{b}", "a punctuation mark such as : is needed between two columns"),
    ],
)
def test_templates_that_name_no_key_are_refused(
    tmp_path: Path, template: str, message: str
) -> None:
    with pytest.raises(BadFetch) as raised:
        load_one(tmp_path, redis="redis://localhost", hash=template)
    assert "fetch 'orders': hash is" in str(raised.value)
    assert message in str(raised.value)


def test_a_template_names_the_whole_key(tmp_path: Path) -> None:
    asked = load_one(tmp_path, redis="redis://localhost", hash="{a}:{b}")
    with pytest.raises(BadFetch, match="hash is made of a, b; the key is a, and each"):
        asked.bound_to(["a"], ["x"])


def test_a_server_that_ends_and_starts_again_is_found_again(tmp_path: Path) -> None:
    with serving_redis() as server:
        asked = load_one(
            tmp_path, redis=server.address, hash="c:{id}", at_most_ms=SECONDS
        ).bound_to(["id"], ["n"])

        async def use() -> None:
            server.client.hset("c:1", mapping={"n": 1})
            assert await asked.bring([(1,)], 1.0) == [{"n": 1}]
            server.kill()
            for _ in range(3):
                with pytest.raises(FetchFailed, match=r"Redis at 127\.0\.0\.1:\d+: "):
                    await asked.bring([(1,)], 1.0)
            await asyncio.to_thread(server.start)
            server.client.hset("c:1", mapping={"n": 2})
            assert await asked.bring([(1,)], 1.0) == [{"n": 2}]
            assert asked.close is not None
            await asked.close()

        asyncio.run(use())


def test_a_server_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        asked = load_one(tmp_path, redis=address, hash="c:{id}", at_most_ms=50)
        with pytest.raises(FetchFailed, match=r"127\.0\.0\.1:\d+: no answer within 50"):
            bring(asked.bound_to(["id"], ["n"]), (1,))


@pytest.mark.parametrize("form", ["hash", "string"])
def test_a_host_that_does_not_exist_is_told(tmp_path: Path, form: str) -> None:
    terms = {form: "c:{id}", "at_most_ms": SECONDS}
    asked = load_one(tmp_path, redis="redis://nowhere.invalid", **terms)
    with pytest.raises(FetchFailed, match=r"'orders': Redis at nowhere\.invalid: "):
        bring(asked.bound_to(["id"], ["n"]), (1,))


def test_more_calls_than_connections_wait_for_one(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    asked = load_one(
        tmp_path,
        redis=redis_server.address,
        hash="many:{id}",
        at_once=2,
        at_most_ms=SECONDS,
    ).bound_to(["id"], ["n"])
    for key in range(50):
        redis_server.client.hset(f"many:{key}", mapping={"n": key})

    async def use() -> list[Any]:
        brought = await asyncio.gather(
            *(asked.bring([(key,)], 1.0) for key in range(50))
        )
        assert asked.close is not None
        await asked.close()
        return brought

    assert asyncio.run(use()) == [[{"n": key}] for key in range(50)]


def test_a_wrong_password_is_told(redis_server: RedisServer, tmp_path: Path) -> None:
    address = redis_server.address.replace("//", "//nobody:secret@")
    asked = load_one(tmp_path, redis=address, hash="c:{id}", at_most_ms=SECONDS)
    with pytest.raises(FetchFailed, match="username-password") as raised:
        bring(asked.bound_to(["id"], ["n"]), (1,))
    assert "secret" not in str(raised.value)


def test_a_connection_is_opened_ahead(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    asked = load_one(tmp_path, redis=redis_server.address, hash="customer:{id}")
    gone = load_one(tmp_path, redis="redis://127.0.0.1:1/0", hash="customer:{id}")

    async def main() -> None:
        assert asked.open is not None
        assert gone.open is not None
        assert asked.close is not None
        before = len(redis_server.client.client_list())
        await asked.open()
        assert len(redis_server.client.client_list()) == before + 1
        await asked.close()
        with pytest.raises(FetchFailed, match=r"Redis at 127\.0\.0\.1:1: ") as failure:
            await gone.open()
        assert failure.value.place == "Redis at 127.0.0.1:1"

    asyncio.run(main())
