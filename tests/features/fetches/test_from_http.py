"""Fetches over HTTP from a real server: what is sent, and what may be answered."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from polydom.features.errors import BadFetch, FetchFailed
from polydom.features.fetches.posts import LONGEST_BODY
from tests.support.fetch_files import load_one, load_text

SECONDS = 20_000  # ms, so that a busy machine decides no test
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def ask(folder: Path, answer: Answer, *keys: Any, **terms: Any) -> Any:
    """What a fetch brings from a server that answers so."""

    async def use() -> Any:
        application = web.Application()
        application.router.add_post("/scores", answer)
        async with TestServer(application) as server:
            asked = load_one(
                folder,
                **{"http": str(server.make_url("/scores")), "at_most_ms": SECONDS},
                **terms,
            ).bound_to(["id"], ["risk", "word"])
            try:
                return await asked.bring(keys, 0.012)
            finally:
                assert asked.close is not None
                await asked.close()

    return asyncio.run(use())


def saying(
    body: str | bytes, status: int = 200, headers: dict[str, str] | None = None
) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        raw = body if isinstance(body, bytes) else body.encode()
        return web.Response(body=raw, status=status, headers=headers)

    return answer


def test_keys_are_sent_as_json_with_the_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCORE_TOKEN", "t0k/en")
    came: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        came.append((await request.json(), request.headers["authorization"]))
        return web.json_response({"values": [{"risk": 0.3, "more": 1}, None, {}]})

    brought = ask_with_token(tmp_path, answer)
    gaps = {"risk": None, "word": None}
    assert brought == [{"risk": 0.3, "word": None}, None, gaps]
    assert came == [({"keys": [[17], ['a"b'], [None]], "left_ms": 12.0}, "T t0k/en")]


def ask_with_token(folder: Path, answer: Answer) -> Any:
    async def use() -> Any:
        application = web.Application()
        application.router.add_post("/", answer)
        async with TestServer(application) as server:
            asked = load_text(
                folder,
                f'[a]\nhttp = "{server.make_url("/")}"\nat_most_ms = {SECONDS}\n'
                'headers = { authorization = "T $SCORE_TOKEN" }',
            )["a"].bound_to(["id"], ["risk", "word"])
            try:
                return await asked.bring([(17,), ('a"b',), (None,)], 0.012)
            finally:
                assert asked.close is not None
                await asked.close()

    return asyncio.run(use())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (saying("no", 500), "answered with status 500; 200 is needed: no"),
        (saying("", 204), "answered with status 204; 200 is needed"),
        (
            saying("", 307, {"Location": "http://h:1/x"}),
            "with status 307; 200 is",
        ),
        (saying(""), 'another body than {"values": [...]}: '),
        (saying("<html>"), 'another body than {"values": [...]}: '),
        (saying("[]"), "expected object, got array"),
        (saying("{}"), "'values' is missing"),
        (saying('{"values": {}}'), "values: expected array, got object"),
        (saying('{"values": [{"risk": NaN}]}'), "NaN is no JSON"),
        (saying(b"\x1f\x8b" + bytes(9), 200, {"Content-Encoding": "gzip"}), "gzip"),
        (saying('{"values": []}'), "returned 0 answers to 1 keys"),
        (saying('{"values": [null, null]}'), "returned 2 answers to 1 keys"),
        (saying(b" " * (LONGEST_BODY + 1)), "answered with more than 8 MiB"),
    ],
)
def test_other_answers_are_refused(
    tmp_path: Path, answer: Answer, message: str
) -> None:
    with pytest.raises(FetchFailed, match="'orders'") as raised:
        ask(tmp_path, answer, (17,))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (b"7", "something else than an object of plain values: expected object | null"),
        (b'{"risk": [1]}', "got array"),
        (b'{"word": "\xff"}', "it is not UTF-8"),
        (b'{"risk": 1e999}', "out of range"),
        (b'{"word": "%s"}' % (b"x" * 99_999), "text of 99,999 bytes"),
    ],
    ids=range(5),
)
def test_unusable_values_fail_for_their_key_alone(
    tmp_path: Path, values: bytes, message: str
) -> None:
    body = b'{"values": [{"risk": 0.5}, %s, null]}' % values
    first, failure, last = ask(tmp_path, saying(body), (17,), (18,), (19,))
    assert first == {"risk": 0.5, "word": None}
    assert last is None
    assert isinstance(failure, FetchFailed)
    assert message in str(failure)


def test_a_server_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        raise AssertionError("the request was given up")

    async def use() -> None:
        application = web.Application()
        application.router.add_post("/", answer)
        async with TestServer(application) as server:
            address = str(server.make_url("/"))
            asked = load_one(tmp_path, http=address, at_most_ms=300)
            with pytest.raises(FetchFailed, match=r"1:\d+: no answer within 300 ms"):
                await asked.bring([(1,)], 1.0)
            assert asked.close is not None
            await asked.close()

    asyncio.run(use())


def test_a_server_that_starts_later_is_found(tmp_path: Path) -> None:
    async def use() -> None:
        first = TestServer(web.Application())
        await first.start_server()
        port = first.port
        await first.close()
        address = f"http://127.0.0.1:{port}/"
        asked = load_one(tmp_path, http=address, at_most_ms=SECONDS)
        with pytest.raises(FetchFailed, match="Cannot connect to host 127"):
            await asked.bring([(1,)], 1.0)
        application = web.Application()
        application.router.add_post("/", saying(json.dumps({"values": [{"a": 1}]})))
        async with TestServer(application, port=port):
            assert await asked.bring([(1,)], 1.0) == [{"a": 1}]
            assert asked.close is not None
            await asked.close()

    asyncio.run(use())


def test_a_host_that_does_not_exist_is_told(tmp_path: Path) -> None:
    asked = load_one(tmp_path, http="http://nowhere.invalid/x", at_most_ms=SECONDS)

    async def use() -> None:
        try:
            await asked.bring([(1,)], 1.0)
        finally:
            assert asked.close is not None
            await asked.close()

    with pytest.raises(FetchFailed, match=r"nowhere\.invalid: .*annot connect to host"):
        asyncio.run(use())


@pytest.mark.parametrize("header", ["a\\nb", "a\\u0000b"])
def test_headers_stay_on_their_line(tmp_path: Path, header: str) -> None:
    with pytest.raises(BadFetch, match="'x' has characters that a header must not"):
        load_text(tmp_path, f'[a]\nhttp = "http://h/"\nheaders = {{ x = "{header}" }}')
