"""`/v2` answers Triton's own HTTP client, and whoever writes requests by hand."""

import gzip
import http.client
import json
import socket
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from starlette.testclient import TestClient
from tritonclient.utils import InferenceServerException

from polydom.server.app import create_app
from polydom.server.http.bearer_tokens import Access, Tokens
from polydom.server.settings import Settings
from tests.support.indexes.served import FEATURES_FILE, HAM, SPAM, save_index
from tests.support.indexes.three_kinds import picture, save_three
from tests.support.processes.servers import STOP_S, ask, serving
from tests.support.waiting import until_ready

OWN = f"--features={FEATURES_FILE}"
INFER = "/v2/models/texts/infer"
ADMIN = "an-admin-token-of-32-characters!".replace("!", "0")
USER = "a-token-of-some-user-of-models"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    paths = save_three(tmp_path_factory.mktemp("indexes"))
    first, *others = (f"{name}={path}" for name, path in paths.items())
    with serving(first, *others, OWN, "--budget-ms=900") as (_, port):
        yield port


@pytest.fixture
def client(port: int) -> Iterator[Any]:
    with triton.InferenceServerClient(f"127.0.0.1:{port}") as client:
        yield client


def filled(name: str, datatype: str, array: Any, **how: Any) -> Any:
    given = triton.InferInput(name, list(array.shape), datatype)
    given.set_data_from_numpy(array, **how)
    return given


def texts(*sent: str, **how: Any) -> list[Any]:
    elements = np.array([text.encode() for text in sent], object)
    return [filled("text", "BYTES", elements, **how)]


def test_triton_learns_what_is_served(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("texts")
    assert not client.is_model_ready("novels")
    assert not client.is_model_ready("texts", "1")
    assert client.get_server_metadata()["name"] == "polydom"
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    metadata = client.get_model_metadata("texts")
    (version,) = metadata["versions"]
    assert client.is_model_ready("texts", version)
    assert client.get_model_metadata("texts", version) == metadata
    assert metadata["outputs"][1] == {
        "name": "scores",
        "datatype": "FP64",
        "shape": [-1, 2],
    }
    config = client.get_model_config("texts")
    assert (config["max_batch_size"], config["input"]) == (
        0,
        [{"name": "text", "data_type": "TYPE_STRING", "dims": [-1]}],
    )
    index = client.get_model_repository_index()
    assert [(m["name"], m["state"]) for m in index] == [
        ("texts", "READY"),
        ("records", "READY"),
        ("images", "READY"),
    ]


@pytest.mark.parametrize("binary", [True, False])
def test_triton_classifies_texts_inside_its_timeout(client: Any, binary: bool) -> None:
    given = texts(SPAM, binary_data=binary)
    reply = client.infer("texts", given, timeout=800_000, request_id="7")
    facts = reply.get_response()
    assert (facts["id"], facts["parameters"]["budget_us"]) == ("7", 8e5)
    assert facts["parameters"]["features"] == "length,marks,words"
    assert facts["parameters"]["budget_met"] is True
    assert reply.as_numpy("label").tolist() == [b"spam"]
    assert reply.as_numpy("scores").shape == (1, 2)
    assert reply.as_numpy("scores").sum() == pytest.approx(1.0)


def test_triton_classifies_several_items_in_one_budget(client: Any) -> None:
    wanted = [
        triton.InferRequestedOutput("label", binary_data=False),
        triton.InferRequestedOutput("features"),
        triton.InferRequestedOutput("budget_met"),
        triton.InferRequestedOutput("scores", class_count=1),
    ]
    reply = client.infer("texts", texts(SPAM, HAM), outputs=wanted)
    assert reply.as_numpy("label").tolist() == ["spam", "ham"]
    assert reply.as_numpy("features").tolist() == [b"length,marks,words"] * 2
    assert reply.as_numpy("budget_met").tolist() == [True, True]
    best = reply.as_numpy("scores").ravel().tolist()
    assert [entry.split(b":")[1:] for entry in best] == [
        [b"1", b"spam"],
        [b"0", b"ham"],
    ]
    parameters = reply.get_response()["parameters"]
    assert parameters["budget_us"] == 9e5
    assert 0 < parameters["elapsed_us"] < 9e5


def test_triton_classifies_images(client: Any) -> None:
    pictures = np.array([picture(30), picture(200)], object)
    reply = client.infer("images", [filled("image", "BYTES", pictures)])
    assert reply.as_numpy("label").tolist() == [b"dark", b"bright"]


def test_triton_classifies_records(client: Any) -> None:
    ages = np.array([20, 50], np.int64)
    jobs = np.array([b"baker", b"clerk"], object)
    columns = [filled("age", "INT64", ages), filled("job", "BYTES", jobs)]
    reply = client.infer("records", columns)
    assert reply.as_numpy("label").tolist() == [b"no", b"yes"]
    rows = np.array([[20, 0, 1], [50, np.nan, 1]], np.float32)
    reply = client.infer("records", [filled("record", "FP32", rows)])
    assert reply.as_numpy("label").tolist() == [b"no", b"yes"]


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_triton_compresses_what_it_sends(client: Any, algorithm: str) -> None:
    reply = client.infer(
        "texts",
        texts(SPAM),
        request_compression_algorithm=algorithm,
        response_compression_algorithm=algorithm,
    )
    assert reply.as_numpy("label").tolist() == [b"spam"]


@pytest.mark.parametrize(
    ("model", "asked", "status", "message"),
    [
        ("novels", {}, "404", "no model is called 'novels'"),
        ("texts", {"model_version": "1"}, "404", "has no version '1'"),
        ("texts", {"sequence_id": 7}, "400", "'sequence_id' is unknown"),
        ("texts", {"parameters": {"budget": 1.0}}, "400", "give 'budget_ms'"),
        (
            "texts",
            {"timeout": 1, "parameters": {"on_infeasible": "error"}},
            "504",
            "are left, below the cheapest model's",
        ),
        ("records", {}, "400", "the index knows no column 'text'"),
    ],
)
def test_triton_is_told_what_is_wrong(
    client: Any, model: str, asked: dict[str, Any], status: str, message: str
) -> None:
    with pytest.raises(InferenceServerException, match=message) as raised:
        client.infer(model, texts(SPAM), **asked)
    assert raised.value.status() == status


def test_triton_reads_statistics(client: Any) -> None:
    def counted() -> dict[str, Any]:
        (said,) = client.get_inference_statistics("texts")["model_stats"]
        stats: dict[str, Any] = said["inference_stats"]
        return stats

    before = counted()
    client.infer("texts", texts(SPAM, HAM))
    with pytest.raises(InferenceServerException):
        client.infer("texts", [])
    after = counted()
    assert after["success"]["count"] == before["success"]["count"] + 2
    assert after["compute_infer"]["ns"] > before["compute_infer"]["ns"]
    assert after["fail"]["count"] == before["fail"]["count"] + 1
    assert after["fail"]["ns"] > before["fail"]["ns"]
    assert len(client.get_inference_statistics()["model_stats"]) == 3


def test_repository_is_not_changed_by_everybody(client: Any) -> None:
    for change in (client.load_model, client.unload_model):
        with pytest.raises(InferenceServerException, match="lets nobody") as raised:
            change("texts")
        assert raised.value.status() == "403"
    assert client.is_model_ready("texts")


def body_of(**changed: Any) -> bytes:
    given = {"name": "text", "shape": [1], "datatype": "BYTES", "data": [SPAM]}
    return json.dumps({"inputs": [given], **changed}).encode()


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v2/", 200, None),
        ("GET", "/v2/nothing", 404, "not_found"),
        ("GET", "/v2/models", 404, "not_found"),
        ("GET", "/v2/models/texts/nothing", 404, "not_found"),
        ("GET", "/v2/models/novels", 404, "unknown_model"),
        ("GET", "/v2/models/novels/stats", 404, "unknown_model"),
        ("GET", "/v2/models/texts/versions/1/stats", 404, "unknown_model"),
        ("GET", INFER, 405, "method_not_allowed"),
        ("POST", "/v2", 405, "method_not_allowed"),
        ("POST", INFER, 400, "bad_input"),
        ("POST", "/v2/repository/models/texts/load", 403, "not_allowed"),
        ("GET", "/v2x", 404, "not_found"),
    ],
)
def test_paths_and_methods_that_are_none_are_said_to_be(
    port: int, method: str, path: str, status: int, code: str | None
) -> None:
    answered, body = ask(port, method, path)
    assert (answered, body.get("code")) == (status, code)
    assert ("error" in body) == (code is not None)


def test_readiness_has_the_keys_of_specification_and_clients(port: int) -> None:
    assert ask(port, "GET", "/v2/health/ready") == (200, {"live": True, "ready": True})
    assert ask(port, "GET", "/v2/health/live") == (200, {"live": True})


TENSOR = {"name": "text", "shape": [1], "datatype": "BYTES", "data": [SPAM]}
UNSAID = {"content_type": None, "headers": None, "binary_data_size": None}
STRANGE = {"content_type": "str", "headers": {"a": "b"}, "x": [1, {}]}


@pytest.mark.parametrize("padding", [0, 90_000])  # a long body is read in another way
def test_null_is_absent_and_unknown_parameters_are_left_alone(
    port: int, padding: int
) -> None:
    """As clients write it that are made from a schema: every field, null or not."""
    text = SPAM + " " * padding
    nulls: dict[str, Any] = dict.fromkeys(("id", "parameters", "outputs"))
    nulls |= dict.fromkeys(("model_name", "model_version"))
    unsaid = dict.fromkeys(("timeout", "budget_ms", "exact", "binary_data_output"))
    label = {"name": "label", "parameters": {"binary_data": None, **STRANGE}}
    for more, inside in (
        (nulls, None),
        ({"parameters": UNSAID | unsaid}, UNSAID),
        ({"parameters": STRANGE, "outputs": [label]}, STRANGE),
        ({"outputs": [{"name": "label", "parameters": None}]}, {}),
    ):
        given = {**TENSOR, "data": [text], "parameters": inside}
        status, answer = ask(port, "POST", INFER, body_of(inputs=[given], **more))
        assert status == 200, answer
        assert answer["outputs"][0]["name"] == "label"  # type: ignore[index]
    bare = {**TENSOR, "data": None}
    long_id = "a" * (65_500 if padding else 1)
    status, failure = ask(port, "POST", INFER, body_of(inputs=[bare], id=long_id))
    assert (status, failure["error"]) == (400, "input 'text' has no 'data'")


def test_a_mark_before_the_json_is_no_error(port: int) -> None:
    assert ask(port, "POST", INFER, b"\xef\xbb\xbf" + body_of())[0] == 200


@pytest.mark.parametrize("body", [b"null", b'{"ready": null}', b"", b"\xef\xbb\xbf{}"])
def test_repository_is_listed_where_nothing_is_said(port: int, body: bytes) -> None:
    assert ask(port, "POST", "/v2/repository/index", body)[0] == 200


def test_infer_needs_no_content_type_and_takes_any(port: int) -> None:
    for headers in ({}, {"content_type": "text/plain"}):
        status, answer = ask(port, "POST", INFER, body_of(), **headers)
        assert (status, answer["outputs"][0]["data"]) == (200, ["spam"])  # type: ignore[index]


@pytest.mark.parametrize(
    ("body", "headers", "status", "error"),
    [
        (b"", {}, 400, "body: it is empty"),
        (b'{"inputs": [NaN]}', {}, 400, "NaN is no JSON: null is a gap"),
        (b'{"input": []}', {}, 400, "'input' is unknown; did you mean 'inputs'?"),
        (b"[]", {}, 400, "body: expected object, got array"),
        (b"\xff", {}, 400, "body: "),
        (b"{}", {"inference_header_content_length": "x"}, 400, "no number of bytes"),
        (b"{}", {"inference_header_content_length": "9" * 30}, 400, "no number"),
        (b"{}", {"content_encoding": "br"}, 415, "not understood"),
        (gzip.compress(bytes(9 << 20)), {"content_encoding": "gzip"}, 413, "limit"),
        (zlib.compress(b"{}")[:-1], {"content_encoding": "deflate"}, 400, "cut off"),
        (body_of(parameters={"timeout": "5"}), {}, 400, "in microseconds"),
        (body_of(inputs=[]), {}, 400, "one input 'text' of BYTES is needed"),
    ],
)
def test_bodies_that_are_wrong_are_answered_with_why(
    port: int, body: bytes, headers: dict[str, str], status: int, error: str
) -> None:
    answered, failure = ask(port, "POST", INFER, body, **headers)
    assert answered == status
    assert error in str(failure["error"])
    assert "Traceback" not in str(failure)


def test_items_that_are_wrong_fail_alone(port: int) -> None:
    given = {"name": "image", "shape": [1], "datatype": "BYTES", "data": ["AAAA"]}
    body = json.dumps({"inputs": [given]}).encode()
    status, failure = ask(port, "POST", "/v2/models/images/infer", body)
    assert (status, failure["code"]) == (400, "bad_item")
    assert ask(port, "POST", INFER, body_of())[0] == 200


def test_body_of_many_small_pieces_is_read(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=STOP_S)
    pieces = [bytes([byte]) for byte in body_of()]
    connection.request("POST", INFER, iter(pieces), encode_chunked=True)
    assert connection.getresponse().status == 200
    connection.close()


@pytest.mark.parametrize("sent", [b"", body_of()[:30], body_of()[:-1]])
def test_callers_who_leave_halfway_leave_the_server_well(
    port: int, sent: bytes
) -> None:
    head = (
        f"POST {INFER} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body_of())}\r\n\r\n"
    )
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port), STOP_S) as connection:
            connection.sendall(head.encode() + sent)
            # closing with bytes unread resets the connection
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    assert ask(port, "POST", INFER, body_of())[0] == 200


def test_admins_load_and_unload_and_others_do_not(tmp_path: Path) -> None:
    access = Access(Tokens([USER]), Tokens([ADMIN]))
    user, admin = ({"authorization": f"Bearer {token}"} for token in (USER, ADMIN))
    app = create_app(
        {"texts": save_index(tmp_path)}, features=[FEATURES_FILE], access=access
    )
    with TestClient(app) as client:
        until_ready(client, "/v2/health/ready")
        assert client.get("/v2/models/texts", headers=user).status_code == 200
        assert client.get("/v2/models/texts").status_code == 401
        unload = "/v2/repository/models/texts/unload"
        for headers in ({}, user):
            refused = client.post(unload, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (
                401,
                "unauthorized",
            )
            assert refused.headers["www-authenticate"] == 'Bearer realm="polydom"'
        assert client.post(unload, headers=admin).json() == {}
        for path in ("texts", "texts/versions/1"):
            ready = client.get(f"/v2/models/{path}/ready", headers=user)
            assert (ready.status_code, ready.json()["ready"]) == (503, False)
        gone = client.post(INFER, content=body_of(), headers=user)
        assert (gone.status_code, gone.json()["code"]) == (503, "not_ready")
        index = "/v2/repository/index"
        (model,) = client.post(index, headers=user).json()
        assert (model["state"], model["version"]) == ("UNAVAILABLE", "")
        assert client.post(index, json={"ready": True}, headers=user).json() == []
        load = "/v2/repository/models/texts/load"
        config = {"parameters": {"config": "{}"}}
        assert client.post(load, json=config, headers=admin).status_code == 400
        assert client.post(load, headers=admin).json() == {}
        assert client.post(INFER, content=body_of(), headers=user).status_code == 200


def test_requests_above_what_may_wait_are_shed(tmp_path: Path) -> None:
    app = create_app({"texts": save_index(tmp_path)}, features=[FEATURES_FILE])
    with TestClient(app) as client:
        until_ready(client, "/v2/health/ready")
        waiting = app.state.repository.settings.queue_limit
        app.state.repository.queue.waiting += waiting
        shed = client.post(INFER, content=body_of(parameters={"budget_ms": 900}))
        app.state.repository.queue.waiting -= waiting
        assert (shed.status_code, shed.json()["code"]) == (429, "overloaded")
        assert shed.headers["retry-after"] == "1"
        assert client.post(INFER, content=body_of()).status_code == 200


def test_costs_that_are_no_time_are_shared_among_the_items(tmp_path: Path) -> None:
    app = create_app(
        {"texts": save_index(tmp_path, unit="usd")},
        features=[FEATURES_FILE],
        settings=Settings(),
    )
    with TestClient(app) as client:
        until_ready(client, "/v2/health/ready")
        given = {"name": "text", "shape": [2], "datatype": "BYTES", "data": [SPAM, HAM]}
        request = {"inputs": [given], "parameters": {"budget": 0.0025}}
        answer = client.post(INFER, json=request).json()
        assert answer["parameters"]["budget"] == 0.0025
        assert answer["parameters"]["predicted"] == pytest.approx(0.0024)
        assert answer["parameters"]["expected_accuracy"] == 0.7
        assert answer["parameters"]["budget_met"] is True
        del request["parameters"]
        refused = client.post(INFER, json=request)
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_input")
