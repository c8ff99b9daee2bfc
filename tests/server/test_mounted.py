"""Every route answers under a path of another application as it does alone."""

import asyncio
import contextlib
import http.client
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import msgpack
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from polydom.server.app import create_app
from polydom.server.http.bearer_tokens import Access, Tokens
from polydom.server.http.protocol import HttpProtocol
from tests.support.indexes import records

USER, ADMIN = "a-token-of-some-user-of-models", "an-admin-token-of-32-characters0"
PATIENCE_S = 60
JSON = {"content-type": "application/json"}
PERSON = json.dumps({"record": records.PEOPLE[0]}).encode()
INFER = json.dumps(
    {"inputs": [{"name": "age", "shape": [1], "datatype": "FP64", "data": [3]}]}
).encode()
# Paths that ask for no token.
OPEN = ("/", "/livez", "/readyz", "/docs", "/v2/health/live", "/v2/health/ready")
# Method, path, body, content type.
ROUTES: list[tuple[str, str, bytes, str]] = [
    ("GET", "/livez", b"", ""),
    ("GET", "/readyz", b"", ""),
    ("GET", "/", b"", ""),
    ("GET", "/docs", b"", ""),
    ("GET", "/openapi.json", b"", ""),
    ("GET", "/metrics", b"", ""),
    ("GET", "/v1/index", b"", ""),
    ("GET", "/v1/index?model=none", b"", ""),
    ("GET", "/v1/models", b"", ""),
    ("POST", "/v1/predict", PERSON, "application/json"),
    ("POST", "/v1/predict?model=people", PERSON, "application/json"),
    (
        "POST",
        "/v1/predict",
        msgpack.packb({"record": {"age": 3}}),
        "application/msgpack",
    ),
    ("POST", "/v1/predict", b"{", "application/json"),
    ("GET", "/v1/predict", b"", ""),
    ("POST", "/v1/batch?budget_ms=900", PERSON + b"\n", "application/jsonl"),
    ("POST", "/v1/admin/reload", b"", ""),
    ("GET", "/v2", b"", ""),
    ("GET", "/v2/", b"", ""),
    ("GET", "/v2/health/live", b"", ""),
    ("GET", "/v2/health/ready", b"", ""),
    ("GET", "/v2/models/people", b"", ""),
    ("GET", "/v2/models/people/ready", b"", ""),
    ("GET", "/v2/models/people/config", b"", ""),
    ("GET", "/v2/models/people/stats", b"", ""),
    ("GET", "/v2/models/stats", b"", ""),
    ("POST", "/v2/models/people/infer", INFER, "application/json"),
    ("POST", "/v2/repository/index", b"{}", "application/json"),
    ("POST", "/v2/repository/models/people/load", b"", ""),
    ("GET", "/v2x", b"", ""),
    ("GET", "/v1/nothing", b"", ""),
    ("GET", "/", b"", ""),
]


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return records.save_index(tmp_path_factory.mktemp("people"))


def make(path: Path, *, tokens: bool) -> FastAPI:
    access = Access(Tokens([USER]) if tokens else None, Tokens([ADMIN]))
    return create_app(path, access=access)


def mounted(inner: FastAPI, kind: type[Starlette], path: str) -> Starlette:
    """An application with another one below a path, whose lifespan it runs."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with inner.router.lifespan_context(inner):
            yield

    outer = kind(lifespan=lifespan)
    outer.mount(path, inner)
    return outer


@contextmanager
def asking(app: Any, probe: str) -> Iterator[TestClient]:
    with TestClient(app, follow_redirects=False) as client:
        until_s = time.monotonic() + PATIENCE_S
        while (reply := client.get(probe)).status_code != 200:
            assert reply.status_code == 503
            assert time.monotonic() < until_s
            time.sleep(0.01)
        yield client


def answers(client: TestClient, prefix: str, token: str) -> list[Any]:
    """Status, kind and masked body of every route."""
    said = []
    for method, path, body, kind in ROUTES:
        given = {"content-type": kind} if kind else {}
        if token:
            admin = "/admin/" in path or path.endswith("/load")
            given["authorization"] = f"Bearer {ADMIN if admin else token}"
        reply = client.request(method, prefix + path, content=body, headers=given)
        said.append(
            (
                method,
                path,
                reply.status_code,
                reply.headers["content-type"],
                mask(reply),
            )
        )
    return said


def mask(reply: Any) -> Any:
    """What two applications say alike: all but times, counts and where they are.

    Of answers to items only their fields: a busy machine has other reasons.
    """
    if "msgpack" in reply.headers["content-type"]:
        return sorted(msgpack.unpackb(reply.content))
    if '"label":' in reply.text and '"openapi"' not in reply.text:
        return [sorted(json.loads(line)) for line in reply.text.splitlines()]
    text = re.sub(r',?"servers":\[.*?\]', "", reply.text)
    return re.sub(r"\b\d+(\.\d+)?(e[+-]?\d+)?\b", "0", text)


@pytest.mark.parametrize("tokens", [[""], ["a-token-that-nobody-knows", USER]])
def test_every_route_answers_alike_below_a_path(
    people: Path, tokens: list[str]
) -> None:
    with asking(make(people, tokens=any(tokens)), "/readyz") as client:
        alone = [answers(client, "", token) for token in tokens]
    for kind, path in ((Starlette, "/ml"), (FastAPI, "/a/b")):
        inner = make(people, tokens=any(tokens))
        with asking(mounted(inner, kind, path), f"{path}/readyz") as client:
            below = [answers(client, path, token) for token in tokens]
            assert client.get("/v1/predict").status_code == 404
            assert client.get("/livez").status_code == 404
        for one, other in zip(chain(*alone), chain(*below), strict=True):
            if one[1] == "/metrics" and one[2] == 200:
                assert other[:4] == one[:4]
            else:
                assert other == one
    if any(tokens):
        refused, let_in = map(statuses_of, alone)
        asked = {where for (_, where), status in refused.items() if status == 401}
        assert not asked & set(OPEN)
        assert {"/v2", "/metrics", "/openapi.json", "/v1/predict"} <= asked
        assert let_in["POST", "/v1/admin/reload"] == 200
        assert let_in["POST", "/v2/repository/models/people/load"] == 200


def statuses_of(said: list[Any]) -> dict[tuple[str, str], int]:
    """The status of each method and path."""
    return {(method, path): status for method, path, status, *_ in said}


def test_document_says_where_it_is_mounted(people: Path) -> None:
    inner = make(people, tokens=False)
    with asking(mounted(inner, FastAPI, "/ml"), "/ml/readyz") as client:
        document = client.get("/ml/openapi.json").json()
        assert document["servers"] == [{"url": "/ml"}]
        assert "/v1/predict" in document["paths"]
    outer = Starlette(routes=[Mount("/a", Starlette(routes=[Mount("/b", inner)]))])
    client = TestClient(outer)
    document = client.get("/a/b/openapi.json").json()
    assert document["servers"] == [{"url": "/a/b"}]


def test_who_runs_no_lifespan_is_told(people: Path) -> None:
    outer = FastAPI()
    outer.mount("/ml", make(people, tokens=False))
    with TestClient(outer) as client:
        assert client.get("/ml/livez").status_code == 200
        for method, path, body in (
            ("GET", "/readyz", b""),
            ("POST", "/v1/predict", PERSON),
            ("POST", "/v1/batch?budget_ms=9", b'{"items": []}'),
            ("POST", "/v2/models/people/infer", INFER),
        ):
            reply = client.request(method, "/ml" + path, content=body, headers=JSON)
            assert reply.status_code == 503
            assert reply.json()["code"] == "not_ready"
            assert "never started: where it is mounted" in reply.json()["error"]


async def mine(_: Request) -> PlainTextResponse:
    return PlainTextResponse("mine")


def test_what_answers_at_once_does_so_for_no_other_application(people: Path) -> None:
    """Not even where the outer one hands on the state that is meant for servers."""
    inner = make(people, tokens=False)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[Any]:
        async with inner.router.lifespan_context(inner) as state:
            yield state

    outer = Starlette(
        routes=[Route("/v1/predict", mine, methods=["POST"]), Mount("/ml", inner)],
        lifespan=lifespan,
    )
    said = asyncio.run(serve(outer, inner, ["/v1/predict"] * 3 + ["/ml/v1/predict"]))
    assert [text == "mine" for text in said] == [True] * 3 + [False]
    assert json.loads(said[3])["label"] == "stays"


def test_root_path_of_the_server_is_left_out(people: Path) -> None:
    app = make(people, tokens=False)
    said = asyncio.run(
        serve(app, app, ["/v1/predict", "/v2/models/people/infer"], root_path="/ml")
    )
    assert json.loads(said[0])["label"] == "stays"
    assert json.loads(said[1])["code"] == "bad_input"


async def serve(
    app: Any, inner: FastAPI, paths: list[str], root_path: str = ""
) -> list[str]:
    """Ask a real server for some paths on one connection; what it says."""
    config = uvicorn.Config(
        app,
        port=0,
        http=HttpProtocol,
        log_config=None,
        access_log=False,
        root_path=root_path,
    )
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    async with asyncio.timeout(PATIENCE_S):
        while not (server.started and inner.state.repository.ready):
            await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]

    def ask() -> list[str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        said = []
        for path in paths:
            connection.request("POST", path, PERSON, JSON)
            said.append(connection.getresponse().read().decode())
        connection.close()
        return said

    said = await asyncio.to_thread(ask)
    server.should_exit = True
    await serving
    return said
