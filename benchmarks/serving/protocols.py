"""What one way of asking costs beside another: `/v1/predict`, `/v2`, gRPC.

A record of 14 numbers and 500 trees, which take some microseconds, so that nearly all
of it is the way there and back. One client with one connection asks the next as soon
as it has the last; the ways take turns. `us` has the client's own time in it, which for
Triton's clients is most; `server, us` is the server's processor time. Both are of one
item, also where a request has 100.
"""

import argparse
import http.client
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.http

from tests.support.processes.servers import serving

from ..new_process import cpu_s
from .indexes import record_index

ROUNDS, CALLS, ITEMS = 7, 200, 100
BUDGET_US = 1_000_000
Ask = Callable[[], Any]


def ways(
    port: int, grpc_address: str, rows: Any, opened: ExitStack
) -> Iterator[tuple[str, int, Ask]]:
    """Each way's name, items per request, and the call itself."""
    first = record_index.record(rows[0].tolist())
    ask = {"record": first, "budget_ms": BUDGET_US / 1e3}
    yield "/v1/predict, JSON", 1, by_hand(port, "/v1/predict", ask, opened)
    for count in (1, ITEMS):
        matrix = rows[:count]
        given = {"name": "record", "datatype": "FP32", "shape": list(matrix.shape)}
        infer = {
            "parameters": {"timeout": BUDGET_US},
            "inputs": [{**given, "data": matrix.ravel().tolist()}],
        }
        path = "/v2/models/records/infer"
        yield "/v2, JSON", count, by_hand(port, path, infer, opened)
        yield (
            "/v2, tritonclient, binary",
            count,
            triton(tritonclient.http, f"127.0.0.1:{port}", matrix, opened),
        )
        yield (
            "gRPC, tritonclient, raw",
            count,
            triton(tritonclient.grpc, grpc_address, matrix, opened),
        )


def by_hand(port: int, path: str, body: Any, opened: ExitStack) -> Ask:
    """Ask with what Python brings along, on one connection."""
    connection = opened.enter_context(
        closing(http.client.HTTPConnection("127.0.0.1", port))
    )
    data, headers = json.dumps(body).encode(), {"content-type": "application/json"}

    def ask() -> None:
        connection.request("POST", path, data, headers)
        reply = connection.getresponse()
        answer = reply.read()
        assert reply.status == 200, answer

    return ask


def triton(module: Any, address: str, matrix: Any, opened: ExitStack) -> Ask:
    """Ask with one of Triton's clients, as its users do."""
    client = opened.enter_context(closing(module.InferenceServerClient(address)))
    given = module.InferInput("record", list(matrix.shape), "FP32")
    given.set_data_from_numpy(matrix)
    return lambda: client.infer("records", [given], timeout=BUDGET_US)


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Microseconds per item of each way: median and least of the rounds."""
    record_index.write(folder, ITEMS, given.quick)
    rounds, at_once = (1, 10) if given.quick else (ROUNDS, CALLS)
    rows = np.array(json.loads((folder / record_index.ROWS).read_text()), np.float32)
    with (
        serving(folder / record_index.INDEX, "--grpc-port=0") as (process, port),
        ExitStack() as opened,
    ):
        assert process.stdout is not None
        grpc_address = process.stdout.readline().split()[-1]
        found: list[dict[str, Any]] = [
            {"way": way, "items": items, "ask": ask, "wall": [], "cpu": 0.0}
            for way, items, ask in ways(port, grpc_address, rows, opened)
        ]
        for each in found:
            each["ask"]()
        for _ in range(rounds):
            for each in found:
                calls = max(at_once // each["items"], at_once // 10)
                before_s, start_s = cpu_s(process.pid), time.perf_counter()
                for _ in range(calls):
                    each["ask"]()
                done = calls * each["items"]
                each["wall"].append((time.perf_counter() - start_s) / done * 1e6)
                each["cpu"] += (cpu_s(process.pid) - before_s) / done * 1e6 / rounds
    table = [
        {
            "way": each["way"],
            "items": each["items"],
            "us": statistics.median(each["wall"]),
            "least us": min(each["wall"]),
            "server, us": each["cpu"],
        }
        for each in found
    ]
    return {"one item by each protocol": table}
