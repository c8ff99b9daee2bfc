"""Who does not read his answers makes nobody else's poorer."""

import asyncio
import contextlib
import json
import socket
import time
from pathlib import Path
from typing import Any, cast

import pytest

from polydom.server.engine.budget import MoneyBudget
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Caller
from polydom.server.http.flow import ReaderWatch
from polydom.server.http.protocol import HttpProtocol
from polydom.server.http.reply import send_and_count
from polydom.server.oip.grpc_service import SENDING_S, _written_s
from polydom.server.runtime.served_model import ServedModel
from polydom.server.runtime.translator import Translator
from polydom.server.runtime.work_queue import WorkQueue
from polydom.server.settings import Settings
from tests.support.clock import Clock
from tests.support.indexes.served import FEATURES_FILE, HAM, make_index, save_index
from tests.support.planners import extractor_of
from tests.support.processes.servers import ask, serving
from tests.support.waiting import once_of_several

SILENCE_S = 2.0
SLOW = 4
# the prior, which the event loop answers with, and all features
NOTHING, ALL = (json.dumps({"text": HAM, "budget_ms": ms}).encode() for ms in (0, 900))
REQUEST = (
    b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(NOTHING), NOTHING)
)
MANY = 3_000


def fill(connection: socket.socket, port: int) -> None:
    """Ask for more on a connection than buffers can hold, and do not read."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    # else the server's own buffer holds megabytes, since its segments are so long
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
    connection.settimeout(20)
    connection.connect(("127.0.0.1", port))
    connection.sendall(MANY * REQUEST)


def empty(connection: socket.socket) -> None:
    """Read for a moment, so that what waited is sent."""
    connection.settimeout(0.2)
    with contextlib.suppress(TimeoutError):
        for _ in range(50):
            assert connection.recv(1 << 16)


def test_connections_that_do_not_read_leave_the_reserve_as_it_is(
    tmp_path: Path,
) -> None:
    index = save_index(tmp_path)

    def is_small() -> bool:
        with (
            serving(index, "--features", str(FEATURES_FILE)) as (_, port),
            contextlib.ExitStack() as stack,
        ):
            connections = [stack.enter_context(socket.socket()) for _ in range(SLOW)]
            for connection in connections:
                fill(connection, port)
            time.sleep(SILENCE_S)
            for connection in connections:
                empty(connection)
            answers = [
                ask(port, "POST", "/v1/predict", body)[1] for body in (NOTHING, ALL)
            ]
        most_us = SILENCE_S / 4 * 1e6
        return all(cast(float, answer["reserve_us"]) < most_us for answer in answers)

    once_of_several(is_small)


@pytest.mark.parametrize(("prompt", "counted_s"), [(True, 59.0), (False, 50.0)])
def test_an_answer_counts_when_it_was_written_if_that_is_known(
    prompt: bool, counted_s: float
) -> None:
    clock, counted = Clock(), list[float]()

    async def send() -> None:
        await asyncio.sleep(0)
        clock.now_s = 58.0

    def write() -> None:
        clock.now_s = 59.0

    async def main() -> None:
        loop = asyncio.get_running_loop()
        sending = send()
        task = asyncio.ensure_future(
            send_and_count(sending, Caller(prompt=prompt), clock, counted.append)
        )
        await asyncio.sleep(0)
        loop.call_soon(write)
        await task
        await asyncio.sleep(0)

    asyncio.run(main())
    assert counted == [counted_s]


def test_a_caller_is_prompt_until_its_transport_is_full() -> None:
    class Flow:
        def pause_writing(self) -> None:
            paused.append(True)

    class Empty(asyncio.Transport):
        def get_write_buffer_size(self) -> int:
            return 0

    paused = list[bool]()
    protocol: Any = HttpProtocol.__new__(HttpProtocol)
    protocol.caller, protocol.flow = Caller(prompt=True), Flow()
    protocol.transport = Empty()
    loop = asyncio.new_event_loop()
    protocol._reader = ReaderWatch(loop, Empty(), unread_s=60.0)
    protocol.pause_writing()
    loop.close()
    assert (protocol.caller.prompt, paused) == (False, [True])
    assert not Caller().prompt  # of another server nobody knows


def test_what_grpc_waits_for_its_caller_is_cut_off() -> None:
    now_s = time.monotonic()
    assert _written_s(now_s - 60.0) == now_s - 60.0 + SENDING_S
    assert now_s <= _written_s(now_s) <= now_s + SENDING_S


def test_each_kind_of_answer_has_its_own_reserve() -> None:
    """A thousand items take long to encode; a single answer does not wait for that."""
    clock = Clock()
    index = make_index()
    planner = Planner(index, extractor_of(index), now=clock)
    one = ServedModel(Translator(planner, Settings()), WorkQueue())
    many = one.send_times_of("http", 1000)
    for _ in range(50):
        many.thread.add(0.5, clock())
    assert many.thread.at(clock()) == 0.5
    assert one.send_times_of("http", 1023) is many
    others = (
        one.send_times_of("grpc", 1000),
        one.send_times_of("http", 1),
        one.send_times,
    )
    for times in others:
        assert times.thread.at(clock()) < 1e-3
        assert times.loop.at(clock()) < 1e-3
    assert [times.weighs for times in (many, *others)] == [False, False, True, True]
    assert MoneyBudget(1.0).keeping(0.5) == MoneyBudget(1.0)
