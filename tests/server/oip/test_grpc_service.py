"""The protocol over gRPC answers Triton's own client, and whoever writes raw bytes."""

import os
import queue
import re
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from starlette.testclient import TestClient
from tritonclient.utils import InferenceServerException

from polydom.features.errors import BadInput
from polydom.server.__main__ import main
from polydom.server.app import create_app
from polydom.server.http.bearer_tokens import Access
from polydom.server.oip.grpc_messages import MESSAGES, METHODS, SERVICE
from polydom.server.ops.server import free_port
from polydom.server.settings import GrpcAt
from tests.support.indexes import numbers
from tests.support.indexes.served import FEATURES_FILE, HAM, SPAM, save_index
from tests.support.indexes.three_kinds import picture, save_three
from tests.support.processes.forked_process import ForkedProcess
from tests.support.processes.servers import complaints, serving
from tests.support.waiting import until_ready, wait_until

OWN = f"--features={FEATURES_FILE}"
ADMIN = "an-admin-token-of-32-characters0"
USER = "a-token-of-some-user-of-models"


@contextmanager
def answering(*arguments: str) -> Iterator[tuple[ForkedProcess, str]]:
    """A server process, and the address of its gRPC."""
    first, *others = arguments
    with serving(first, *others, OWN, "--grpc-port=0") as (process, _):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving gRPC at 127.0.0.1:"), line
        yield process, line.split()[-1]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("indexes")
    paths = save_three(folder) | {"numbers": numbers.save_index(folder)}
    models = [f"{name}={path}" for name, path in paths.items()]
    with answering(*models, "--budget-ms=900") as (_, address):
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Any]:
    with triton.InferenceServerClient(address) as client:
        yield client


def filled(name: str, datatype: str, array: Any) -> Any:
    given = triton.InferInput(name, list(array.shape), datatype)
    given.set_data_from_numpy(array)
    return given


def texts(*sent: str) -> list[Any]:
    return [filled("text", "BYTES", np.array([text.encode() for text in sent], object))]


def test_numbers_come_as_values_and_intervals(client: Any) -> None:
    reply = client.infer("numbers", texts(HAM, SPAM))
    values, intervals = reply.as_numpy("value"), reply.as_numpy("interval")
    assert (values.shape, intervals.shape) == ((2,), (2, 2))
    assert intervals - values[:, None] == pytest.approx(
        np.tile(numbers.INTERVALS[3], (2, 1))
    )
    metadata = client.get_model_metadata("numbers", as_json=True)
    assert [one["name"] for one in metadata["outputs"]][:2] == ["value", "interval"]


def test_triton_learns_what_is_served(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("texts")
    assert client.get_server_metadata().name == "polydom"
    metadata = client.get_model_metadata("records")
    assert [(t.name, t.datatype, list(t.shape)) for t in metadata.inputs] == [
        ("age", "FP64", [-1]),
        ("job", "BYTES", [-1]),
        ("income", "FP64", [-1]),
    ]
    assert client.is_model_ready("records", metadata.versions[0])
    config = client.get_model_config("texts", as_json=True)["config"]
    assert config["input"] == [
        {"name": "text", "data_type": "TYPE_STRING", "dims": ["-1"]}
    ]
    index = client.get_model_repository_index().models
    assert [(model.name, model.state) for model in index] == [
        ("texts", "READY"),
        ("records", "READY"),
        ("images", "READY"),
        ("numbers", "READY"),
    ]


def test_triton_classifies_texts_inside_its_timeout(client: Any) -> None:
    reply = client.infer("texts", texts(SPAM, HAM), timeout=800_000, request_id="7")
    response = reply.get_response()
    assert response.id == "7"
    assert response.parameters["budget_us"].double_param == 8e5
    assert response.parameters["budget_met"].bool_param is True
    assert reply.as_numpy("label").tolist() == [b"spam", b"ham"]
    assert reply.as_numpy("scores").shape == (2, 2)


def test_triton_classifies_images_and_records(client: Any) -> None:
    pictures = np.array([picture(30), picture(200)], object)
    reply = client.infer("images", [filled("image", "BYTES", pictures)])
    assert reply.as_numpy("label").tolist() == [b"dark", b"bright"]
    wanted = [triton.InferRequestedOutput("scores", class_count=1)]
    ages = [filled("age", "UINT8", np.array([20, 50], np.uint8))]
    reply = client.infer("records", ages, outputs=wanted)
    best = reply.as_numpy("scores").ravel().tolist()
    assert [entry.split(b":")[2] for entry in best] == [b"no", b"yes"]


def test_deadline_of_the_call_is_the_budget(client: Any) -> None:
    reply = client.infer("texts", texts(SPAM), client_timeout=0.5)
    budget_us = reply.get_response().parameters["budget_us"].double_param
    # gRPC hands the time left over in rounded milliseconds: 490 and one or so more.
    assert 0 < budget_us < 495_000
    reply = client.infer("texts", texts(SPAM), client_timeout=60)
    assert reply.get_response().parameters["budget_us"].double_param == 1e6
    reply = client.infer("texts", texts(SPAM), client_timeout=60, timeout=300_000)
    assert reply.get_response().parameters["budget_us"].double_param == 3e5


@pytest.mark.parametrize(
    ("model", "asked", "status", "message"),
    [
        ("novels", {}, "NOT_FOUND", "no model is called 'novels'"),
        ("texts", {"model_version": "1"}, "NOT_FOUND", "has no version '1'"),
        ("texts", {"sequence_id": 7}, "INVALID_ARGUMENT", "sequence_"),
        ("texts", {"parameters": {"budget": 1.0}}, "INVALID_ARGUMENT", "'budget_ms'"),
        (
            "texts",
            {"timeout": 1, "parameters": {"on_infeasible": "error"}},
            "DEADLINE_EXCEEDED",
            "are left, below the cheapest model's",
        ),
        ("records", {}, "INVALID_ARGUMENT", "the index knows no column 'text'"),
    ],
)
def test_triton_is_told_what_is_wrong(
    client: Any, model: str, asked: dict[str, Any], status: str, message: str
) -> None:
    with pytest.raises(InferenceServerException, match=message) as raised:
        client.infer(model, texts(SPAM), **asked)
    assert raised.value.status() == f"StatusCode.{status}"


def test_requests_over_the_limit_are_refused(client: Any) -> None:
    with pytest.raises(InferenceServerException) as raised:
        client.infer("texts", texts("a" * (9 << 20)))
    assert raised.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
    assert client.is_server_live()


def test_triton_reads_statistics(client: Any) -> None:
    def counted() -> Any:
        (said,) = client.get_inference_statistics("texts").model_stats
        return said.inference_stats

    before = counted()
    client.infer("texts", texts(SPAM, HAM))
    with pytest.raises(InferenceServerException):
        client.infer("texts", [])
    after = counted()
    assert after.success.count == before.success.count + 2
    assert after.compute_infer.ns > before.compute_infer.ns
    assert after.fail.count == before.fail.count + 1


def test_stream_answers_each_request_and_survives_errors(client: Any) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for number, model in enumerate(("texts", "novels", "texts")):
        client.async_stream_infer(model, texts(SPAM), request_id=str(number))
    said = [answers.get(timeout=20) for _ in range(3)]
    client.stop_stream()
    for number in (0, 2):
        result, error = said[number]
        assert error is None
        assert result.get_response().id == str(number)
        assert result.as_numpy("label").tolist() == [b"spam"]
    assert "no model is called 'novels'" in str(said[1][1])


def test_callers_who_leave_leave_the_server_well(client: Any, address: str) -> None:
    done: queue.Queue[Any] = queue.Queue()
    for _ in range(20):
        call = client.async_infer(
            "texts", texts(SPAM), lambda result, error: done.put(error)
        )
        call.cancel()
    for _ in range(20):
        error = done.get(timeout=20)
        assert error is None or "cancel" in str(error).lower()
    with triton.InferenceServerClient(address) as other:
        other.start_stream(lambda result, error: None)
        other.async_stream_infer("texts", texts(SPAM))
        other.stop_stream(cancel_requests=True)
    assert client.infer("texts", texts(SPAM)).as_numpy("label").tolist() == [b"spam"]


def test_bytes_that_are_no_message_are_an_invalid_argument(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        for name in METHODS:
            if name in ("ServerLive", "ServerReady", "ServerMetadata"):
                continue
            path = f"/{SERVICE}/{name}"
            if name in ("RepositoryModelLoad", "RepositoryModelUnload"):
                # nobody may, so that nobody's bytes are looked at
                with pytest.raises(grpc.RpcError, match="lets nobody"):
                    channel.unary_unary(path)(b"\xff", timeout=20)
                continue
            if name == "ModelStreamInfer":
                (answer,) = channel.stream_stream(path)(iter([b"\xff"]), timeout=20)
                assert b"no message" in answer
                continue
            with pytest.raises(grpc.RpcError, match="no message of its type") as raised:
                channel.unary_unary(path)(b"\xff", timeout=20)
            assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary(f"/{SERVICE}/Nothing")(b"", timeout=20)
        assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_tokens_are_asked_for_and_admins_load(tmp_path: Path) -> None:
    for name, token in (("users", USER), ("admins", ADMIN)):
        (tmp_path / name).write_text(token)
    user, admin = ({"authorization": f"Bearer {token}"} for token in (USER, ADMIN))
    tokens = [f"--token-file={tmp_path / 'users'}"]
    tokens.append(f"--admin-token-file={tmp_path / 'admins'}")
    path = save_index(tmp_path)
    with (
        answering(f"texts={path}", "--budget-ms=900", *tokens) as (_, address),
        triton.InferenceServerClient(address) as client,
    ):
        assert client.is_server_live()
        assert client.is_server_ready()
        with pytest.raises(
            InferenceServerException, match="a token is needed"
        ) as raised:
            client.infer("texts", texts(SPAM))
        assert raised.value.status() == "StatusCode.UNAUTHENTICATED"
        client.infer("texts", texts(SPAM), headers=user)
        for headers in ({}, user):
            with pytest.raises(InferenceServerException, match="a token is needed"):
                client.unload_model("texts", headers=headers)
        client.unload_model("texts", headers=admin)
        assert not client.is_model_ready("texts", headers=user)
        with pytest.raises(InferenceServerException, match="not loaded") as raised:
            client.infer("texts", texts(SPAM), headers=user)
        assert raised.value.status() == "StatusCode.UNAVAILABLE"
        with pytest.raises(InferenceServerException, match="operator's own file"):
            client.load_model("texts", headers=admin, config="{}")
        client.load_model("texts", headers=admin)
        client.infer("texts", texts(SPAM), headers=user)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_workers_share_the_port_and_follow_a_load(tmp_path: Path) -> None:
    (tmp_path / "admins").write_text(ADMIN)
    admin = {"authorization": f"Bearer {ADMIN}"}
    options = ("--workers=2", f"--admin-token-file={tmp_path / 'admins'}")
    path = f"texts={save_index(tmp_path)}"
    with answering(path, "--budget-ms=900", *options) as (_, address):
        for _ in range(8):  # each a connection of its own, to either worker
            channel = [("grpc.use_local_subchannel_pool", 1)]
            with triton.InferenceServerClient(address, channel_args=channel) as client:
                reply = client.infer("texts", texts(SPAM))
                assert reply.as_numpy("label").tolist() == [b"spam"]
                client.load_model("texts", headers=admin)
                with pytest.raises(InferenceServerException, match="several workers"):
                    client.unload_model("texts", headers=admin)


def test_repository_is_not_changed_by_everybody(client: Any) -> None:
    with pytest.raises(InferenceServerException, match="lets nobody") as raised:
        client.unload_model("texts")
    assert raised.value.status() == "StatusCode.PERMISSION_DENIED"


def test_server_ends_what_is_under_way_and_stops(tmp_path: Path) -> None:
    with (
        answering(str(save_index(tmp_path)), "--budget-ms=900") as (process, address),
        triton.InferenceServerClient(address) as client,
    ):
        client.infer("tiny", texts(SPAM))
        process.terminate()
        _, err = process.communicate(timeout=20)
        assert (process.returncode, complaints(err)) == (0, "")


def test_requests_above_what_may_wait_are_shed(tmp_path: Path) -> None:
    at = GrpcAt("127.0.0.1", free_port("127.0.0.1", 0))
    app = create_app(
        {"texts": save_index(tmp_path)}, features=[FEATURES_FILE], grpc_at=at
    )
    with (
        TestClient(app) as http,
        triton.InferenceServerClient(f"127.0.0.1:{at.port}") as client,
    ):
        until_ready(http)
        waiting = app.state.repository.settings.queue_limit
        app.state.repository.queue.waiting += waiting
        with pytest.raises(InferenceServerException, match="wait already") as raised:
            client.infer("texts", texts(SPAM), timeout=900_000)
        app.state.repository.queue.waiting -= waiting
        assert raised.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
        client.infer("texts", texts(SPAM), timeout=900_000)


def test_service_speaks_tls_where_it_has_a_certificate(pem: Path) -> None:
    certificate, key = pem / "certificate", pem / "key"
    at = GrpcAt("127.0.0.1", free_port("127.0.0.1", 0), certificate, key)
    address = f"127.0.0.1:{at.port}"
    app = create_app({"texts": save_index(pem)}, features=[FEATURES_FILE], grpc_at=at)
    with (
        TestClient(app),
        triton.InferenceServerClient(
            address, ssl=True, root_certificates=str(certificate)
        ) as client,
        triton.InferenceServerClient(address) as plain,
    ):
        assert client.is_server_live()
        with pytest.raises(InferenceServerException):
            plain.is_server_live(client_timeout=5)


def test_certificate_that_is_none_is_refused(tmp_path: Path) -> None:
    at = GrpcAt("127.0.0.1", 0, tmp_path / "certificate", tmp_path / "key")
    app = create_app(save_index(tmp_path), features=[FEATURES_FILE], grpc_at=at)
    with pytest.raises(BadInput, match="cannot listen for gRPC"), TestClient(app):
        pass


def test_port_that_is_taken_is_refused(tmp_path: Path, address: str) -> None:
    port = address.split(":")[1]
    arguments = ["serve", str(save_index(tmp_path)), OWN, "--port=0"]
    assert main([*arguments, f"--grpc-port={port}"]) == 1


def test_service_needs_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polydom.server.app.find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"pip install 'polydom\[grpc\]'"):
        create_app(
            save_index(tmp_path), access=Access(), grpc_at=GrpcAt("127.0.0.1", 0)
        )


def test_thousands_of_calls_at_once_are_answered_or_told_why(
    client: Any, address: str
) -> None:
    with grpc.insecure_channel(address) as channel:
        ask = channel.unary_unary(f"/{SERVICE}/ModelReady")
        calls = [ask.future(b"\x0a\x05texts", timeout=120) for _ in range(2500)]
        codes = {call.code() for call in calls}
    assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert client.is_server_live()


def test_server_stops_beside_streams_that_wait(tmp_path: Path) -> None:
    with (
        answering(str(save_index(tmp_path)), "--budget-ms=900") as (process, address),
        triton.InferenceServerClient(address) as client,
    ):
        answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("tiny", texts(SPAM))
        assert answers.get(timeout=20)[1] is None
        process.terminate()
        # it waits for 30 s for what is under way: a stream that waits is not
        _, err = process.communicate(timeout=25)
        assert (process.returncode, complaints(err)) == (0, "")
        assert "about to stop" in str(answers.get(timeout=20)[1])


@pytest.mark.skipif(sys.platform != "linux", reason="memory is told of by Linux")
def test_memory_comes_back_after_many_long_messages(tmp_path: Path) -> None:
    long = "see you at seven " * 440_000
    with answering(f"texts={save_index(tmp_path)}", "--budget-ms=900") as (
        process,
        address,
    ):
        at = Path(f"/proc/{process.pid}")

        def held_mb() -> float:
            return int((at / "statm").read_text().split()[1]) * 4096 / 1e6

        options = [("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(address, options) as channel:
            ask = channel.unary_unary(f"/{SERVICE}/ModelInfer")
            ask(raw_request(HAM), timeout=60)
            before_mb = held_mb()
            (at / "clear_refs").write_text("5")  # the peak is of what follows
            for body in (raw_request(long), b"\x3a\x00" * 3_700_000):
                calls = [ask.future(body, timeout=120) for _ in range(60)]
                assert grpc.StatusCode.CANCELLED not in {call.code() for call in calls}
            status = (at / "status").read_text()
            (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
            # 256 MiB of messages are on their way in, and as many are held
            assert int(peak) / 1e3 < before_mb + 2 * 268 + 200
            # 25 to 55 MB stay in use after 120 such messages, and no more after 480
            wait_until(lambda: held_mb() < before_mb + 130)


def raw_request(text: str) -> bytes:
    raw = struct.pack("<I", len(text)) + text.encode()
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1]}
    request = MESSAGES["ModelInferRequest"](
        model_name="texts", inputs=[tensor], raw_input_contents=[raw]
    )
    data: bytes = request.SerializeToString()
    return data


def test_compressed_messages_are_unpacked_up_to_the_limit(address: str) -> None:
    options = [("grpc.max_send_message_length", -1)]
    gzip = grpc.Compression.Gzip
    with grpc.insecure_channel(address, options) as channel:
        ask = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        assert ask(raw_request("a" * 100_000), timeout=60, compression=gzip)
        with pytest.raises(grpc.RpcError) as raised:
            ask(raw_request("a" * (64 << 20)), timeout=60, compression=gzip)
        assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
