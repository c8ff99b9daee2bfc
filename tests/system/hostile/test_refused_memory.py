"""Nothing of a refused request stays, whichever way it came, also without a collector.

A collector counts objects, not bytes: a cycle that holds megabytes may stay for long.
"""

import base64
import gc
import json
import tracemalloc
from collections.abc import Iterator

import msgpack
import pytest
from starlette.testclient import TestClient

from polydom.server.app import create_app
from tests.support.indexes.served import FEATURES_FILE
from tests.support.indexes.three_kinds import save_three
from tests.support.waiting import until_ready, wait_until

JSON, LINES, PACKED = "application/json", "application/jsonl", "application/msgpack"
SIZE, TIMES = 1 << 20, 8
LONG = "x" * SIZE
DAMAGED = b"\xff\xd8\xff\xe1\xff\xff" + LONG.encode()
RECORD = {"record": {"nobody knows this": LONG}}
TENSOR = {"name": "record", "datatype": "BYTES", "shape": [1]}
BATCH = "/v1/batch?budget_ms=50&model="
IMAGE = {"image_base64": base64.b64encode(DAMAGED).decode()}

REFUSED = {
    "an unknown column": ("/v1/predict?model=records", JSON, json.dumps(RECORD)),
    "packed": ("/v1/predict?model=records", PACKED, msgpack.packb(RECORD)),
    "a damaged image": ("/v1/predict?model=images", "image/jpeg", DAMAGED),
    "a list in a column": (
        "/v1/predict?model=records",
        JSON,
        json.dumps({"record": {"a": LONG, "b": [1]}}),
    ),
    "items in lines": (f"{BATCH}records", LINES, json.dumps(RECORD)),
    "texts in lines": (f"{BATCH}records", LINES, json.dumps({"text": LONG})),
    "packed items": (f"{BATCH}records", PACKED, msgpack.packb(RECORD)),
    "damaged images": (f"{BATCH}images", LINES, json.dumps(IMAGE)),
    "packed images": (
        f"{BATCH}images",
        PACKED,
        msgpack.packb({"image_base64": DAMAGED}),
    ),
    "items in one object": (f"{BATCH}records", JSON, json.dumps({"items": [RECORD]})),
    "a tensor of records": (
        "/v2/models/records/infer",
        JSON,
        json.dumps({"inputs": [TENSOR | {"data": [json.dumps(RECORD["record"])]}]}),
    ),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    paths = save_three(tmp_path_factory.mktemp("three"))
    with TestClient(create_app(paths, features=[FEATURES_FILE])) as client:
        until_ready(client)
        yield client


@pytest.fixture
def traced() -> Iterator[None]:
    """Count what is allocated, and have no cycle collected meanwhile."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_request_is_let_go_of(client: TestClient, name: str) -> None:
    path, kind, given = REFUSED[name]
    body = given.encode() if isinstance(given, str) else given
    held = []
    for _ in range(1 + TIMES):
        reply = client.post(path, content=body, headers={"content-type": kind})
        assert reply.status_code == (200 if "batch" in path else 400)
        assert b'"code":"bad_' in reply.content or b"bad_" in reply.content
        held.append(tracemalloc.get_traced_memory()[0])
    # A reply comes before the server's thread has left the request's last frame.
    wait_until(lambda: tracemalloc.get_traced_memory()[0] - held[0] < 2 * SIZE)
