"""gRPC's own probes are answered as `grpc_health_probe` and Kubernetes ask."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from starlette.testclient import TestClient

from polydom.server.app import create_app
from polydom.server.http.bearer_tokens import Access, Tokens
from polydom.server.oip.grpc_health import HEALTH, WATCHES
from polydom.server.oip.grpc_messages import MESSAGES, SERVICE
from polydom.server.ops.server import free_port
from polydom.server.settings import GrpcAt
from tests.support.indexes.served import FEATURES_FILE, save_index
from tests.support.waiting import until_ready

SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING


@pytest.fixture
def app(tmp_path: Path) -> Any:
    at = GrpcAt("127.0.0.1", free_port("127.0.0.1", 0))
    tokens = Tokens(["a-token-of-a-user-that-no-probe-has"])
    return create_app(
        {"texts": save_index(tmp_path)},
        features=[FEATURES_FILE],
        access=Access(tokens=tokens),
        grpc_at=at,
    )


@pytest.fixture
def channel(app: Any) -> Iterator[grpc.Channel]:
    with (
        TestClient(app) as http,
        grpc.insecure_channel(f"127.0.0.1:{app.state.grpc_at.port}") as channel,
    ):
        until_ready(http)
        yield channel


def check(channel: grpc.Channel, service: str) -> Any:
    return HealthStub(channel).Check(HealthCheckRequest(service=service), timeout=20)


@pytest.mark.parametrize("service", ["", SERVICE])
def test_probes_need_no_token(channel: grpc.Channel, service: str) -> None:
    assert check(channel, service).status == SERVING


def test_other_services_are_not_found(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError, match="no service 'mails'; there is") as raised:
        check(channel, "mails")
    assert raised.value.code() == grpc.StatusCode.NOT_FOUND
    (first, *_) = next_of(channel, "mails", 1)
    assert first == HealthCheckResponse.SERVICE_UNKNOWN


def next_of(channel: grpc.Channel, service: str, count: int) -> list[int]:
    said = HealthStub(channel).Watch(HealthCheckRequest(service=service), timeout=60)
    found = [next(said).status for _ in range(count)]
    said.cancel()
    return found


def test_server_that_leaves_does_not_serve(app: Any, channel: grpc.Channel) -> None:
    watched = HealthStub(channel).Watch(HealthCheckRequest(), timeout=60)
    assert next(watched).status == SERVING
    app.state.repository.leaving = True
    assert next(watched).status == NOT_SERVING
    assert check(channel, "").status == NOT_SERVING
    app.state.repository.leaving = False
    assert next(watched).status == SERVING
    watched.cancel()


def test_every_service_is_listed(channel: grpc.Channel) -> None:
    listed = channel.unary_unary(
        f"/{HEALTH}/List", None, MESSAGES["HealthListResponse"].FromString
    )(b"", timeout=20)
    assert {name: said.status for name, said in listed.statuses.items()} == {
        "": SERVING,
        SERVICE: SERVING,
    }


def test_few_may_watch(channel: grpc.Channel) -> None:
    stub, asked = HealthStub(channel), HealthCheckRequest()
    watching = []
    for _ in range(WATCHES):  # one by one: few calls at once may be still to come
        watching.append(stub.Watch(asked, timeout=120))
        assert next(watching[-1]).status == SERVING
    with pytest.raises(grpc.RpcError, match="callers watch already") as raised:
        next(stub.Watch(asked, timeout=120))
    assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    for watch in watching:
        watch.cancel()


def test_watches_end_when_the_server_stops(app: Any) -> None:
    ended = threading.Event()
    with grpc.insecure_channel(f"127.0.0.1:{app.state.grpc_at.port}") as channel:
        with TestClient(app) as http:
            until_ready(http)
            watched = HealthStub(channel).Watch(HealthCheckRequest(), timeout=60)
            watched.add_done_callback(lambda _: ended.set())
            assert next(watched).status == SERVING
        # the server was not waiting for it until its patience ended
        assert ended.wait(20)


def test_what_is_asked_is_short(channel: grpc.Channel) -> None:
    ask = channel.unary_unary(f"/{HEALTH}/Check")
    with pytest.raises(grpc.RpcError, match="at most 16,384") as raised:
        ask(b"\x78\x01" * 20_000, timeout=20)
    assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    with pytest.raises(grpc.RpcError, match="no message") as raised:
        ask(b"\xff", timeout=20)
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
