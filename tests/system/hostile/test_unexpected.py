"""What nobody expected is answered, counted and logged once, wherever it happens."""

import http.client
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn

from polydom.server.app import create_app
from polydom.server.http.bearer_tokens import Access, Tokens
from polydom.server.http.protocol import HttpProtocol
from tests.support.indexes import records

BODY = json.dumps({"record": records.PEOPLE[0]}).encode()
JSON = {"content-type": "application/json"}
ADMIN = "an-admin-token-of-32-characters0"
OIP = json.dumps(
    {"inputs": [{"name": "age", "shape": [1], "datatype": "FP64", "data": [3]}]}
).encode()
INTERNAL = {
    "error": "the server failed to answer; its log says why",
    "code": "internal",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, int]]:
    """An application and the port of a real server of it, in this process."""
    access = Access(admin=Tokens([ADMIN]))
    app = create_app(records.save_index(tmp_path_factory.mktemp("i")), access=access)
    config = uvicorn.Config(
        app, port=0, http=HttpProtocol, log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not (server.started and app.state.repository.ready):
            assert thread.is_alive()
            time.sleep(0.01)
        yield app, server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("the secret is in /etc/secrets")


def internal(app: Any) -> int:
    """How many such errors were counted, of any model or none."""
    repository = app.state.repository
    counted = [repository.no_model, *map(repository.metrics, repository.names())]
    return sum(metrics.errors["internal"] for metrics in counted)


def answering(app: Any) -> tuple[Any, str]:
    """Break the midst of answering."""
    return app.state.repository.get(), "_at_once"


ROUTES: list[tuple[str, str, bytes, Callable[[Any], tuple[Any, str]]]] = [
    ("POST", "/v1/predict", BODY, answering),
    ("POST", "/v1/predict?model=people", BODY, answering),
    ("POST", "/v2/models/people/infer", OIP, answering),
    ("GET", "/v1/index", b"", lambda app: (app.state.repository, "get")),
    ("GET", "/v1/models", b"", lambda app: (app.state.repository, "facts")),
    ("GET", "/v2/models/people", b"", lambda app: (app.state.repository, "get")),
    (
        "POST",
        "/v1/batch?budget_ms=9",
        b'{"items":[]}',
        lambda app: (app.state.repository, "get"),
    ),
    ("POST", "/v1/admin/reload", b"", lambda app: (app.state.repository, "reload")),
    ("GET", "/metrics", b"", lambda app: (app.state.repository, "names")),
]


@pytest.mark.parametrize(("method", "path", "body", "broken"), ROUTES)
def test_fault_is_answered_counted_and_logged_once(
    server: tuple[Any, int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    method: str,
    path: str,
    body: bytes,
    broken: Callable[[Any], tuple[Any, str]],
) -> None:
    app, port = server
    target, name = broken(app)
    before = internal(app)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = JSON | {"authorization": f"Bearer {ADMIN}"}
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(target, name, fail)
        connection.request(method, path, body or None, headers)
        reply = connection.getresponse()
        said = json.loads(reply.read())
    assert (reply.status, said) == (500, INTERNAL)
    assert internal(app) == before + 1
    logged = [record for record in caplog.records if record.exc_info]
    assert len(logged) == 1
    assert "the secret is in" in str(logged[0].exc_info)
    socket = connection.sock
    connection.request("POST", "/v1/predict", BODY, JSON)
    assert connection.getresponse().read()
    assert connection.sock is socket or path.startswith("/v1/batch")
    connection.close()


def test_fault_of_what_answers_at_once_is_the_routes(
    server: tuple[Any, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    app, port = server
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/v1/predict", BODY, JSON)
    assert json.loads(connection.getresponse().read())["label"] == "stays"
    before = internal(app)
    with monkeypatch.context() as patch:
        patch.setattr(app.state.repository.get(), "_at_once", fail)
        for _ in range(2):
            connection.request("POST", "/v1/predict", BODY, JSON)
            reply = connection.getresponse()
            assert (reply.status, json.loads(reply.read())) == (500, INTERNAL)
    assert internal(app) == before + 2
    connection.request("POST", "/v1/predict", BODY, JSON)
    assert json.loads(connection.getresponse().read())["label"] == "stays"
    connection.close()


def test_fault_within_a_batch_is_its_last_word(
    server: tuple[Any, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    app, port = server
    before = internal(app)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with monkeypatch.context() as patch:
        patch.setattr(app.state.repository.get().translator, "read", fail)
        kind = {"content-type": "application/jsonl"}
        connection.request("POST", "/v1/batch?budget_ms=900", BODY + b"\n", kind)
        lines = connection.getresponse().read().splitlines()
    totals = json.loads(lines[-1])
    assert {"error": totals["error"], "code": totals["code"]} == INTERNAL
    assert internal(app) == before + 1
    connection.close()
