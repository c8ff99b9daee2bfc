"""A long body is held against the model it names, not against the default one."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from polydom.server.app import create_app
from polydom.server.schema.bounds import LARGE
from tests.support.indexes.served import FEATURES_FILE
from tests.support.indexes.three_kinds import save_three
from tests.support.waiting import until_ready

LONG = "x" * (2 * LARGE)
ENCODINGS: dict[str, Callable[[Any], Any]] = {
    "application/json": json.dumps,
    "application/msgpack": msgspec.msgpack.encode,
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    paths: dict[str, Path] = save_three(tmp_path_factory.mktemp("three"))
    served = {name: paths[name] for name in ("records", "texts", "images")}
    app: FastAPI = create_app(served, features=[FEATURES_FILE])
    with TestClient(app) as client:
        until_ready(client)
        yield client


def ask(client: TestClient, kind: str, content: Any, query: str = "") -> Any:
    body: Any = ENCODINGS[kind](content)
    headers = {"content-type": kind}
    reply = client.post(f"/v1/predict{query}", content=body, headers=headers)
    packed = "msgpack" in reply.headers["content-type"]
    return msgspec.msgpack.decode(reply.content) if packed else reply.json()


@pytest.mark.parametrize("kind", ENCODINGS)
@pytest.mark.parametrize("length", [LARGE - 200, LARGE, 2 * LARGE])
def test_a_long_text_is_for_the_model_that_its_body_names(
    client: TestClient, kind: str, length: int
) -> None:
    content = {"text": LONG[:length], "model": "texts", "budget_ms": 900}
    assert "label" in ask(client, kind, content)


@pytest.mark.parametrize("kind", ENCODINGS)
def test_a_long_text_is_refused_by_others(client: TestClient, kind: str) -> None:
    error = "this index classifies one record per request: give 'record'"
    assert ask(client, kind, {"text": LONG})["error"] == error
    named = {"text": LONG, "model": "records"}
    assert ask(client, kind, named)["error"] == error
    unknown = ask(client, kind, {"text": LONG, "model": "novels"})
    assert unknown["code"] == "unknown_model"
    twice = ask(client, kind, {"text": LONG, "model": "texts"}, "?model=texts")
    assert twice["error"] == "model is given twice"


def test_a_long_request_that_says_it_is_a_text_is_no_text(tmp_path: Path) -> None:
    paths = save_three(tmp_path)
    served = {name: paths[name] for name in ("texts", "records")}
    body = json.dumps({"model": "records", "text": LONG})
    with TestClient(create_app(served, features=[FEATURES_FILE])) as client:
        until_ready(client)
        for kind in ("text/plain", "application/octet-stream"):
            headers = {"content-type": kind}
            reply = client.post("/v1/predict", content=body, headers=headers)
            assert (reply.status_code, reply.json()["code"]) == (400, "bad_input")
            assert "application/json" in reply.json()["error"]


def test_a_long_body_that_is_broken_says_so(client: TestClient) -> None:
    reply = client.post(
        "/v1/predict",
        content=b'{"text": "' + LONG.encode(),
        headers={"content-type": "application/json"},
    )
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_input")
