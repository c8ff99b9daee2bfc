"""What one cheap request takes in process, from its body's bytes to the answer's.

The index of bench_server: 14 numbers, 500 trees, a different row for every call. Times
are the thread's own, the least of many rounds, so that other programs show least.
`ordinary` is what the ASGI way calls for the same request, without ASGI. Sending,
counting and HTTP are not in either.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from polydom.indexer import Index
from polydom.models.trees.self_test import TRUST
from polydom.server.engine.planner import Planner
from polydom.server.engine.request import Caller
from polydom.server.runtime.metrics import Metrics
from polydom.server.runtime.served_model import ServedModel
from polydom.server.runtime.translator import Translator
from polydom.server.runtime.warm_up import WarmUp
from polydom.server.runtime.work_queue import WorkQueue
from polydom.server.schema.predict import encode
from polydom.server.settings import Settings
from polydom.server.v1.decode import decode_request

from ..report import pin
from . import record_index

ROUNDS = 50
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


def measure(folder: Path) -> dict[str, float]:
    """Microseconds of the whole and of its parts."""
    pin()
    record_index.write(folder)
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
    reader = translator.record_decoder
    assert reader is not None

    def quick(body: bytes) -> bytes:
        read = reader.read(body)
        assert read is not None
        answered = served.answer_at_once(read, now(), caller)
        assert answered is not None
        return encode(translator.answer(*answered))

    def ordinary(body: bytes) -> bytes:
        ask = decode_request(HEADERS, b"", body, "record")
        answered = served.answer_at_once(ask, now(), caller)
        assert answered is not None
        return encode(translator.answer(*answered))

    model: Any = index.package.models[1]
    packed = model.scorer.packed
    enter, at = packed.enter, packed.at
    singles = list(np.array(rows, np.float32))
    outcomes = []
    for body in bodies:
        read = reader.read(body)
        assert read is not None
        answered = served.answer_at_once(read, now(), caller)
        assert answered is not None
        outcomes.append(answered)
    kernel_us = least_us(lambda row: enter(row, at), singles)
    facts = {
        f"{TRUST.kernels} kernel": kernel_us,
        "model": least_us(model.answer, singles),
        "read": least_us(reader.read, bodies),
        "encode": least_us(encode, [translator.answer(*one) for one in outcomes]),
        "whole": least_us(quick, bodies),
        "ordinary": least_us(ordinary, bodies),
        "counting": least_us(lambda one: served.sent(*one), outcomes),
    }
    facts["whole beyond the kernel"] = facts["whole"] - kernel_us
    return facts
