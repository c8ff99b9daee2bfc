"""A model that is unloaded takes none of the others along, whoever names them how."""

import http.client
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.support.indexes.served import FEATURES_FILE, SPAM, save
from tests.support.processes.servers import STOP_S, ask, serving

ADMIN = "an-admin-token-for-tests"
BATCH = {"items": [{"text": SPAM}], "budget_ms": 900}
INFER = {
    "inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [SPAM]}]
}


class Served(NamedTuple):
    """Ports of a server whose default model, "first", is unloaded."""

    http: int
    grpc: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("two")
    (folder / "admin").write_text(ADMIN)
    paths = [save(folder / "first.pdx"), save(folder / "second.pdx", 0.9)]
    options = [f"--features={FEATURES_FILE}", f"--admin-token-file={folder}/admin"]
    more = ["--grpc-port=0", "--budget-ms=900"]
    with serving(paths[0], str(paths[1]), *options, *more) as (process, port):
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        path = "/v2/repository/models/first/unload"
        assert ask(port, "POST", path, authorization=f"Bearer {ADMIN}")[0] == 200
        yield Served(port, address)


def predict(
    model: dict[str, str], query: str, *, kind: str = "application/json"
) -> tuple[str, bytes, str]:
    """Path, body and content type of a request about one text."""
    if kind == "application/json":
        body = json.dumps({"text": SPAM, **model}).encode()
    elif kind == "application/msgpack":
        body = msgspec.msgpack.encode({"text": SPAM, **model})
    else:
        body = SPAM.encode()
    return f"/v1/predict{query}", body, kind


def batch(model: dict[str, str], query: str) -> tuple[str, bytes, str]:
    """The same of a batch of one."""
    return f"/v1/batch{query}", json.dumps({**BATCH, **model}).encode(), ""


NAMED, ASKED = {"model": "second"}, "?model=second"
ANSWERED = {
    "predict, JSON body": predict(NAMED, ""),
    "predict, JSON by query": predict({}, ASKED),
    "predict, msgpack body": predict(NAMED, "", kind="application/msgpack"),
    "predict, msgpack by query": predict({}, ASKED, kind="application/msgpack"),
    "predict, text by query": predict({}, ASKED, kind="text/plain"),
    "predict, bytes by query": predict({}, ASKED, kind="application/octet-stream"),
    "batch, JSON body": batch(NAMED, ""),
    "batch, JSON by query": batch({}, ASKED),
    "v2": ("/v2/models/second/infer", json.dumps(INFER).encode(), ""),
    "index": ("/v1/index?model=second", b"", ""),
    "metadata": ("/v2/models/second", b"", ""),
}
REFUSED = {
    "predict, JSON body": predict({"model": "first"}, ""),
    "predict, no name": predict({}, ""),
    "predict, by query": predict({}, "?model=first"),
    "predict, msgpack": predict({}, "", kind="application/msgpack"),
    "predict, text": predict({}, "", kind="text/plain"),
    "predict, bytes": predict({}, "", kind="application/octet-stream"),
    "batch, body": batch({"model": "first"}, ""),
    "batch, no name": batch({}, ""),
    "v2": ("/v2/models/first/infer", json.dumps(INFER).encode(), ""),
    "index": ("/v1/index", b"", ""),
    "metadata": ("/v2/models/first", b"", ""),
}


def status_of(served: Served, request: tuple[str, bytes, str]) -> tuple[int, Any]:
    """Status and body; what is asked in msgpack is answered so, if it is."""
    path, body, kind = request
    connection = http.client.HTTPConnection("127.0.0.1", served.http, timeout=STOP_S)
    try:
        method = "POST" if body else "GET"
        connection.request(method, path, body or None, {"content-type": kind})
        reply = connection.getresponse()
        packed = "msgpack" in str(reply.headers["content-type"])
        decode = msgspec.msgpack.decode if packed else msgspec.json.decode
        return reply.status, decode(reply.read())
    finally:
        connection.close()


@pytest.mark.parametrize("how", ANSWERED)
def test_a_model_that_is_loaded_answers_where_the_default_is_not(
    served: Served, how: str
) -> None:
    status, answer = status_of(served, ANSWERED[how])
    assert status == 200, answer


@pytest.mark.parametrize("how", REFUSED)
def test_a_model_that_is_unloaded_says_so(served: Served, how: str) -> None:
    status, answer = status_of(served, REFUSED[how])
    assert (status, answer.get("code", "not_ready")) == (503, "not_ready")
    assert "'first' is not loaded" in str(answer)


def test_models_are_named_over_grpc_too(served: Served) -> None:
    given = triton.InferInput("text", [1], "BYTES")
    given.set_data_from_numpy(np.array([SPAM.encode()], object))
    with triton.InferenceServerClient(served.grpc) as client:
        assert client.infer("second", [given]).as_numpy("label")[0] == b"spam"
        with pytest.raises(InferenceServerException, match="'first' is not loaded"):
            client.infer("first", [given])
        assert client.is_model_ready("second")
        assert not client.is_model_ready("first")


def test_a_name_that_nobody_has_stays_unknown(served: Served) -> None:
    for request in (
        predict({"model": "third"}, ""),
        predict({}, "?model=third"),
        batch({"model": "third"}, ""),
    ):
        assert status_of(served, request)[0] == 404
