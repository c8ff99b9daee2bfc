"""What one cheap request takes in process, from its bytes to the answer's.

14 numbers, 500 trees, a different row for every call. Times are the thread's own, the
least of many rounds, so that other programs show least.
`whole` is from the body to the answer, which is counted too; `ordinary` is what the
ASGI way calls for the same request, without ASGI. `wire` is all that is called from
reading a request to writing its answer, 32 in a turn of the event loop, with a
transport that sends nothing; `calls` and `modules` are what one of them calls.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import numpy as np
import uvicorn
from uvicorn.lifespan.on import LifespanOn
from uvicorn.server import ServerState

from polydom.indexer import Index
from polydom.models.trees.self_test import TRUST
from polydom.server.app import create_app
from polydom.server.engine.planner import Planner
from polydom.server.engine.request import Caller
from polydom.server.http.protocol import HttpProtocol
from polydom.server.metrics.counts import Metrics, Timed, timed
from polydom.server.runtime.record_decoder import record_of
from polydom.server.runtime.served_model import ServedModel
from polydom.server.runtime.translator import Translator
from polydom.server.runtime.warm_up import WarmUp
from polydom.server.runtime.work_queue import WorkQueue
from polydom.server.schema.wire import Answer, encode
from polydom.server.settings import Settings
from polydom.server.v1.decode import decode_request

from ..report import pin
from . import record_index

ROUNDS = 50
CONNECTIONS = 32
HEADERS = ((b"host", b"127.0.0.1:8000"), (b"content-type", b"application/json"))


def least_us(call: Callable[[Any], Any], arguments: list[Any]) -> float:
    """Microseconds per call in the fastest round."""
    rounds = []
    for _ in range(ROUNDS):
        start_s = time.thread_time()
        for argument in arguments:
            call(argument)
        rounds.append((time.thread_time() - start_s) / len(arguments))
    return min(rounds) * 1e6


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Microseconds of the whole and of its parts."""
    pin()
    record_index.write(folder, given.rows, given.quick)
    index = Index.load(folder / record_index.INDEX)
    assert index.package is not None
    planner = Planner(index, index.package.extractor())
    WarmUp(planner).run()
    translator = Translator(planner, Settings())
    served = ServedModel(translator, WorkQueue(), Metrics())
    served.ready = True
    rows = json.loads((folder / record_index.ROWS).read_text())
    asks = [{"record": record_index.record(row), "budget_ms": 50} for row in rows]
    bodies = [json.dumps(ask).encode() for ask in asks]
    now, caller = time.monotonic, Caller()
    reader, records = translator.record_decoder, served.records
    assert reader is not None

    def ordinary(body: bytes) -> bytes:
        ask = decode_request(HEADERS, b"", body, "record")
        item = translator.item(ask)
        answered = served.answer_at_once(ask, item, now(), caller)
        assert answered is not None
        answer = encode(translator.answer(*answered))
        served.sent(*answered)
        return answer

    written: list[Callable[[], object]] = []

    def one_timed(body: bytes) -> Timed:
        read = reader.read(body)
        assert read is not None
        terms, row, gaps = read
        item = record_of(row, gaps)
        answered = served.answer_at_once(terms, item, now(), caller)
        assert answered is not None
        return timed(*answered, planner.feature_names[1])

    def quick(body: bytes) -> bytes:
        read = reader.read(body)
        assert read is not None
        answer = records.answer(*read, now(), written.append)
        if answer is None:  # the one before was stalled, so this one is timed
            return ordinary(body)
        written.pop()()
        return answer

    def count(answers: list[Timed]) -> None:
        served.all_sent(answers, now())

    model: Any = index.package.models[1]
    packed = model.scorer.packed
    enter, at = packed.enter, packed.at
    singles = list(np.array(rows, np.float32))
    answers = [msgspec.json.decode(quick(body), type=Answer) for body in bodies]
    kernel_us = least_us(lambda row: enter(row, at), singles)
    facts: dict[str, Any] = {
        f"{TRUST.kernels} kernel": kernel_us,
        "model": least_us(model.answer, singles),
        "read": least_us(reader.read, bodies),
        "encode": least_us(encode, answers),
        "counting": least_us(count, [[one_timed(body)] for body in bodies]),
        "whole": least_us(quick, bodies),
        "ordinary": least_us(ordinary, bodies),
    }
    facts["beyond the model"] = facts["whole"] - facts["model"]
    facts["that but counting"] = facts["beyond the model"] - facts["counting"]
    facts |= asyncio.run(drive(folder / record_index.INDEX, bodies))
    return {"in process, us": facts}


class Nowhere(asyncio.Transport):
    """Takes what is written, and keeps the last."""

    last = b""

    def write(self, data: Any) -> None:
        self.last = data

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """Go on: requests come one turn after the other."""

    def resume_reading(self) -> None:
        """Go on."""

    def close(self) -> None:
        """Hold nothing that would have to be closed."""


async def drive(index: Path, bodies: list[bytes]) -> dict[str, float | None]:
    """Microseconds and calls of a request from its bytes to its answer's."""
    config = uvicorn.Config(create_app(index), access_log=False, log_config=None)
    config.load()
    lifespan, state = LifespanOn(config), ServerState()
    await lifespan.startup()
    state.default_headers = [(b"server", b"uvicorn"), (b"date", formatdate().encode())]
    loop, transport = asyncio.get_running_loop(), Nowhere()
    connections = [
        HttpProtocol(config, state, lifespan.state, loop) for _ in range(CONNECTIONS)
    ]
    for connection in connections:
        connection.connection_made(transport)
    requests = [
        b"POST /v1/predict HTTP/1.1\r\nhost: 127.0.0.1:8000\r\ncontent-length: %d\r\n"
        b"content-type: application/json\r\nx-request-id: %d\r\n\r\n%b"
        % (len(body), number, body)
        for number, body in enumerate(bodies)
    ]
    while b" 200 OK" not in transport.last:  # it is not ready
        await asyncio.sleep(0.1)
        connections[0].data_received(requests[0])
    rounds: list[float] = []
    for _ in range(ROUNDS):
        start_s = time.thread_time()
        for first in range(0, len(requests) - CONNECTIONS + 1, CONNECTIONS):
            for connection, request in zip(connections, requests[first:], strict=False):
                connection.data_received(request)
            await asyncio.sleep(0)  # the turn ends
        each_s = (time.thread_time() - start_s) / (first + CONNECTIONS)
        if b" 200 OK" in transport.last:
            rounds.append(each_s)
        else:  # the machine stalled: what was queued then is not of this way
            await asyncio.sleep(0.1)
    modules, calls = called(lambda: connections[0].data_received(requests[0]))
    for connection in connections:
        connection.connection_lost(None)
    while state.tasks:  # what a stalled machine queued
        await asyncio.sleep(0.01)
    await lifespan.shutdown()
    wire_us = min(rounds) * 1e6 if rounds else None
    return {"wire": wire_us, "calls": calls, "modules": modules}


def called(run: Callable[[], object]) -> tuple[int, int]:
    """How many modules' functions something calls, and how often any, C's too."""
    modules, calls = set(), 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")
        if event == "call":
            modules.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return len(modules - {__file__}), calls
