"""Messages come in few at a time, so that what they hold is bounded."""

import asyncio
import queue
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from starlette.testclient import TestClient

from polydom.server.app import create_app
from polydom.server.errors import Overloaded, ReceiveTimeout
from polydom.server.oip.grpc_calls import Places
from polydom.server.oip.grpc_messages import MESSAGES, SERVICE
from polydom.server.ops.server import free_port
from polydom.server.settings import GrpcAt, Settings
from tests.support.indexes.served import FEATURES_FILE, HAM, save_index
from tests.support.waiting import until_ready, wait_until

MIB = 1 << 20
INFER, STREAM = f"/{SERVICE}/ModelInfer", f"/{SERVICE}/ModelStreamInfer"


def request_of(text: str) -> bytes:
    contents = {"bytes_contents": [text.encode()]}
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "contents": contents}
    request = MESSAGES["ModelInferRequest"](model_name="texts", inputs=[tensor])
    data: bytes = request.SerializeToString()
    return data


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server that lets four messages of 1 MiB come in at once."""
    at = GrpcAt("127.0.0.1", free_port("127.0.0.1", 0))
    app = create_app(
        {"texts": save_index(tmp_path_factory.mktemp("index"))},
        features=[FEATURES_FILE],
        settings=Settings(body_limit=MIB, intake_limit=4 * MIB, budget_s=0.9),
        grpc_at=at,
    )
    with TestClient(app) as http:
        until_ready(http)
        yield app


@pytest.fixture
def channel(app: Any) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{app.state.grpc_at.port}") as channel:
        yield channel


class Caller:
    """A call whose message is still to come, and what became of it."""

    def __init__(self, channel: grpc.Channel, path: str = INFER) -> None:
        self._sent: queue.Queue[bytes | None] = queue.Queue()
        said: queue.Queue[Any] = queue.Queue()
        self.said = said
        call = channel.stream_stream(path)(iter(self._sent.get, None), timeout=120)

        def listen() -> None:
            try:
                for answer in call:
                    said.put(answer)
            except grpc.RpcError as error:
                said.put(error)

        threading.Thread(target=listen, daemon=True).start()

    def send(self, data: bytes | None) -> None:
        self._sent.put(data)

    def hear(self) -> Any:
        return self.said.get(timeout=60)


def refused(answer: Any) -> bool:
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    return isinstance(answer, grpc.RpcError) and answer.code() == code


def test_who_is_slow_gives_way_and_others_are_answered(channel: grpc.Channel) -> None:
    slow = [Caller(channel) for _ in range(8)]
    for _ in range(20):
        assert channel.unary_unary(INFER)(request_of(HAM), timeout=60)
    # two places are left to them, whoever came last or first
    wait_until(lambda: sum(not one.said.empty() for one in slow) == 6)
    left = [one for one in slow if one.said.empty()]
    assert all(refused(one.hear()) for one in slow if one not in left)
    for one in left:
        one.send(request_of(HAM))
        one.send(None)
        assert b"ham" in one.hear()


def test_streams_give_way_to_others_that_come(channel: grpc.Channel) -> None:
    first = Caller(channel, STREAM)
    first.send(request_of(HAM))
    assert b"ham" in first.hear()
    others = [Caller(channel, STREAM) for _ in range(3)]
    for other in others:
        other.send(request_of(HAM))
        assert b"ham" in other.hear()
    # who has waited longest goes, once that is a quarter of a second
    said = None
    while said is None or refused(said):
        late = Caller(channel, STREAM)
        late.send(request_of(HAM))
        said = late.hear()
    assert b"ham" in said
    assert refused(first.hear())
    for one in (*others, late):
        one.send(request_of(HAM))
        assert b"ham" in one.hear()
        one.send(None)


def test_call_without_a_message_is_refused(channel: grpc.Channel) -> None:
    caller = Caller(channel)
    caller.send(None)
    answer = caller.hear()
    assert answer.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "no message" in answer.details()


def test_messages_are_held_within_the_limit(channel: grpc.Channel) -> None:
    large = request_of("see you " * (MIB // 9))
    calls = [channel.unary_unary(INFER).future(large, timeout=60) for _ in range(40)]
    codes = [call.code() for call in calls]
    assert codes.count(grpc.StatusCode.OK) >= 1
    assert set(codes) <= {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert channel.unary_unary(INFER)(large, timeout=60)


def test_nothing_is_held_in_the_end(app: Any, channel: grpc.Channel) -> None:
    for text in (HAM, "a" * (MIB // 2)):
        channel.unary_unary(INFER)(request_of(text), timeout=60)
    with pytest.raises(grpc.RpcError):
        channel.unary_unary(INFER)(b"\x3a\x00" * (MIB // 4), timeout=60)
    wait_until(lambda: app.state.repository.held_bytes.held == 0)


def test_place_is_had_for_a_time() -> None:
    async def waiting() -> None:
        places = Places(1, "requests")
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with places.take():
            with pytest.raises(Overloaded, match="more than 1 requests"), places.take():
                pass
            with pytest.raises(ReceiveTimeout, match=r"within 0\.01 s"):
                await places.wait(never, 0.01)
        never.set_result(None)
        with places.take():
            await places.wait(never, 0.01)

    asyncio.run(waiting())
