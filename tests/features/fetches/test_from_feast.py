"""Fetches from Feast: a server that speaks as `feast serve` 0.67 was heard to speak."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from polydom.features.errors import BadFetch, FetchFailed
from polydom.features.fetches.fetch import Fetch, Key
from tests.support.fetch_files import load_text

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
TERMS = "at_most_ms = 20_000\nservice = 'fraud_v1'"
ZERO, THEN = "1970-01-01T00:00:00Z", "2026-11-27T02:43:02Z"
ERROR = {
    "module": "feast.errors",
    "class": "FeatureServiceNotFoundException",
    "message": "Feature service nope does not exist in project shop",
}


def use(
    folder: Path,
    answer: Answer,
    *calls: list[Key],
    terms: str = TERMS,
    key: tuple[str, ...] = ("driver_id",),
    columns: tuple[str, ...] = ("trips",),
) -> list[Any]:
    """What each call of a fetch brings from a server that answers so, or its error."""

    async def ask(fetch: Fetch, keys: list[Key]) -> Any:
        try:
            return await fetch.bring(keys, 1.0)
        except FetchFailed as error:
            return str(error)

    async def ask_all() -> list[Any]:
        application = web.Application()
        application.router.add_post("/get-online-features", answer)
        async with TestServer(application) as server:
            text = f'[orders]\nfeast = "{server.make_url("/")}"\n{terms}'
            fetch = load_text(folder, text)["orders"].bound_to(key, columns)
            assert fetch.close is not None
            try:
                return [await ask(fetch, keys) for keys in calls]
            finally:
                await fetch.close()

    return asyncio.run(ask_all())


def saying(body: Any, status: int = 200) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(body=text.encode(), status=status)

    return answer


def features(**named: list[tuple[Any, str]]) -> dict[str, Any]:
    """The body for features, each with a value and a status for each key."""
    results = [
        {
            "values": [value for value, _ in one],
            "statuses": [status for _, status in one],
            "event_timestamps": [THEN if s == "PRESENT" else ZERO for _, s in one],
        }
        for one in named.values()
    ]
    return {"results": results, "metadata": {"feature_names": [*named]}}


def present(*values: Any) -> list[tuple[Any, str]]:
    return [(value, "PRESENT") for value in values]


def driver(request: dict[str, Any]) -> dict[str, Any]:
    """Trips of drivers: Feast makes whole numbers of keys, and fails if it cannot."""
    asked = [int(key) for key in request["entities"]["driver_id"]]
    found = [(3, "PRESENT") if k == 1001 else (None, "NOT_FOUND") for k in asked]
    return features(driver_id=present(*asked), trips=found)


def test_only_what_is_present_is_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEAST_TOKEN", "t0k/en")
    came = []
    body = features(
        driver_id=present(1, 2, 3, 4, 5),
        word=[*present("Öl", None, "NaN", ["a", "b"]), (None, "NOT_FOUND")],
        at=[*present(1795747382, -(2**63)), ("7", "NULL_VALUE"), *present(8), (9, "")],
        rate=[*present(0.5, 2**60), (1.5, "OUTSIDE_MAX_AGE"), *present(2, "NaN")],
        more=present(*[{"a": [1]}] * 5),
    )

    async def answer(request: web.Request) -> web.Response:
        came.append((await request.json(), request.headers["authorization"]))
        return web.json_response(body)

    keys: list[Key] = [(k,) for k in range(1, 6)]
    headers = "headers = { authorization = 'T $FEAST_TOKEN' }"
    columns = ("word", "at", "rate")
    (found,) = use(tmp_path, answer, keys, terms=f"{TERMS}\n{headers}", columns=columns)
    entities = {"driver_id": [1, 2, 3, 4, 5]}
    asked = {"entities": entities, "feature_service": "fraud_v1"}
    assert came == [(asked, "T t0k/en")]
    assert found[0] == {"word": "Öl", "at": 1795747382, "rate": 0.5}
    assert found[1] == {"word": None, "at": None, "rate": 2**60}
    assert found[2] == {"word": None, "at": None, "rate": None}
    assert isinstance(found[3], FetchFailed)
    assert "column 'word' holds a list" in str(found[3])
    assert found[4] == {"word": None, "at": None, "rate": None}


def test_there_is_nothing_for_an_entity_that_is_unknown(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(driver(await request.json()))

    assert use(tmp_path, answer, [(9,), (1001,)], [(9,)], [(None,)]) == [
        [None, {"trips": 3}],
        [None],
        [None],
    ]


def test_features_of_several_views_are_named_by_their_view(tmp_path: Path) -> None:
    came = []

    async def answer(request: web.Request) -> web.Response:
        came.append(await request.json())
        return web.json_response(
            features(
                driver_id=present(1001, 1001),
                shop=present("a", "7"),
                stats__trips=present(3, 3),
                both__trips=[(9, "PRESENT"), (None, "NOT_FOUND")],
            )
        )

    terms = "features = ['stats:trips', 'both:trips']\nfull_feature_names = true"
    (found,) = use(
        tmp_path,
        answer,
        [(1001, "a"), (1001, 7)],
        terms=terms,
        key=("driver_id", "shop"),
        columns=("both__trips", "stats__trips"),
    )
    assert found == [
        {"both__trips": 9, "stats__trips": 3},
        {"both__trips": None, "stats__trips": 3},
    ]
    assert came == [
        {
            "entities": {"driver_id": [1001, 1001], "shop": ["a", 7]},
            "features": ["stats:trips", "both:trips"],
            "full_feature_names": True,
        }
    ]


def test_all_features_are_brought_without_an_index(tmp_path: Path) -> None:
    body = features(driver_id=present(1), trips=present(3), city=present("Graz"))
    (found,) = use(tmp_path, saying(body), [(1,)], columns=())
    assert found == [{"trips": 3, "city": "Graz"}]


def test_keys_that_feast_cannot_convert_do_not_spoil_the_calls_of_others(
    tmp_path: Path,
) -> None:
    asked = []

    async def answer(request: web.Request) -> web.Response:
        content = await request.json()
        asked.append(content["entities"]["driver_id"])
        try:
            return web.json_response(driver(content))
        except ValueError as error:
            return web.json_response(str(error), status=500)

    strange: list[Key] = [("x",), (1001.5,), (10**30,), (True,), ("1_001",)]
    first, second, third, last = use(
        tmp_path, answer, [("x",)], [(1001.5,), (1001,)], [*strange, (1001,)], strange
    )
    assert "with status 500; 200 is needed: invalid literal for int()" in first
    assert second == [None, {"trips": 3}]  # Feast makes 1001 of 1001.5
    assert third == [None] * 5 + [{"trips": 3}]
    assert last == [None] * 5
    assert asked == [["x"], [1001.5, 1001], [1001]]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (saying(json.dumps(json.dumps(ERROR)), 404), "needed: Feature service nope do"),
        (saying({"detail": "Not Found"}, 404), "status 404; 200 is needed: Not Found"),
        (saying({"detail": [{"type": "missing"}]}, 422), '{"detail": [{"type": "mis'),
        (saying("7", 500), "200 is needed: 7"),
        (saying('"Value out of range"', 500), "needed: Value out of range"),
        (saying("<html>"), "answered with another body than Feast's: "),
        (saying({"results": []}), "'metadata' is missing"),
        (saying(features(trips=present(1, 2))), "with a value and a status for each"),
        (saying(features()), "with a value and a status for each feature and key"),
        (
            saying(features(driver_id=present(1), trip=present(3))),
            "has no feature 'tri",
        ),
    ],
)
def test_other_answers_are_told(tmp_path: Path, answer: Answer, message: str) -> None:
    (said,) = use(tmp_path, answer, [(1,)])
    assert said.startswith("fetch 'orders'")
    assert message in said


def test_a_connection_that_feast_closed_is_opened_again(tmp_path: Path) -> None:
    calls = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        if calls == 2:  # as Feast does after an error
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(driver(await request.json()))

    assert use(tmp_path, answer, [(1001,)], [(1001,)]) == [[{"trips": 3}]] * 2
    assert calls == 3


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ("", "'a' has neither service nor features; one of them is needed"),
        ("service = 's'\nfeatures = ['v:f']", "'a' has both service and features; one"),
        ("service = 's'\nheaders = { x = '$NO_SUCH' }", "variable NO_SUCH, which is"),
        ("service = 's'\nfull_names = true", "'full_names' is unknown; "),
    ],
)
def test_terms_that_cannot_be_used_are_told(
    tmp_path: Path, terms: str, message: str
) -> None:
    with pytest.raises(BadFetch) as raised:
        load_text(tmp_path, f"[a]\nfeast = 'http://localhost:6566'\n{terms}")
    assert message in str(raised.value)
