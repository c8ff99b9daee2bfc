"""Open Inference requests for several records wait once for all their fetches."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from starlette.testclient import TestClient

from polydom.server.app import create_app
from polydom.server.ops.server import free_port
from polydom.server.settings import GrpcAt
from tests.support.indexes import fetched
from tests.support.indexes.fetch_calls import (
    GIVEN,
    NEVER_S,
    SETTINGS,
    calls_of,
    save_fetches,
)
from tests.support.waiting import once_of_several, until_ready

WHOLE = "person,work,history"
OUTPUTS = ("features", "reason")


class Served:
    """A server of the index, over HTTP and gRPC, and the file of its fetches."""

    def __init__(self, client: TestClient, grpc_port: int, file: Path) -> None:
        self.client, self.grpc_port, self.file = client, grpc_port, file


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("fetches")
    file, at = save_fetches(folder), GrpcAt("127.0.0.1", free_port("127.0.0.1", 0))
    index = {"orders": fetched.save_index(folder)}
    app = create_app(index, fetches=[file], settings=SETTINGS, grpc_at=at)
    with TestClient(app) as client:
        until_ready(client)
        yield Served(client, at.port, file)


def columns_of(keys: list[str]) -> dict[str, tuple[str, list[Any]]]:
    numbers = {name: ("FP64", [value] * len(keys)) for name, value in GIVEN.items()}
    return {**numbers, "customer_id": ("BYTES", keys)}


def ask(served: Served, keys: list[str], **parameters: Any) -> dict[str, Any]:
    """The outputs and parameters of the answers to records with these keys."""
    calls_of(served.file)
    inputs = [
        {"name": name, "datatype": datatype, "shape": [len(keys)], "data": data}
        for name, (datatype, data) in columns_of(keys).items()
    ]
    body = {
        "inputs": inputs,
        "outputs": [{"name": name} for name in OUTPUTS],
        "parameters": parameters,
    }
    reply = served.client.post("/v2/models/orders/infer", content=json.dumps(body))
    assert reply.status_code == 200, reply.text
    answer = reply.json()
    outputs = {one["name"]: one["data"] for one in answer["outputs"]}
    told: dict[str, Any] = answer["parameters"]
    return {**outputs, **told}


def test_keys_of_all_records_go_in_one_call(served: Served) -> None:
    keys = [f"0.1 {number}" for number in range(20)]
    began_s = time.monotonic()
    told = ask(served, keys, budget_ms=30_000, fetch="all")
    assert time.monotonic() - began_s < 20 * 0.1
    assert told["features"] == [WHOLE] * 20
    calls = Counter(calls_of(served.file))
    assert calls == {"employer 20": 1, "orders 1": 20}
    assert told["fetched"] == "employer=came:20,orders=came:20"
    assert told["price"] == pytest.approx(20 * 0.002)
    assert told["fetch_us"] >= 0.09e6
    assert told["budget_met"] is True


def test_keys_of_all_records_go_in_one_call_over_grpc(served: Served) -> None:
    calls_of(served.file)
    inputs = []
    for name, (datatype, values) in columns_of(["0.05 a", "0.05 b", "0.0 c"]).items():
        given = triton.InferInput(name, [3], datatype)
        dtype = object if datatype == "BYTES" else float
        given.set_data_from_numpy(np.array(values, dtype))
        inputs.append(given)
    with triton.InferenceServerClient(f"127.0.0.1:{served.grpc_port}") as client:
        reply = client.infer(
            "orders",
            inputs,
            outputs=[triton.InferRequestedOutput("features")],
            parameters={"budget_ms": 30_000, "fetch": "all"},
        )
    assert [*reply.as_numpy("features")] == [WHOLE.encode()] * 3
    assert "employer 3" in calls_of(served.file)


def test_records_are_answered_by_what_came_for_each(served: Served) -> None:
    keys = ["0.0 in time", f"{NEVER_S} late", "0.0 raises"]

    def is_so() -> bool:
        told = ask(served, keys, budget_ms=1_000, fetch="all")
        assert told["reason"][1:] == ["late_fetch", "late_fetch"]
        assert "orders=came:1,orders=late:1,orders=failed:1" in told["fetched"]
        history = ["history" in features for features in told["features"]]
        # a busy machine may wake a request too late for anything but the prior
        return bool(told["budget_met"]) and history == [True, False, False]

    once_of_several(is_so)


def test_a_price_is_that_of_all_records(served: Served) -> None:
    told = ask(served, ["0.0", "0.0 b", "0.0 c"], budget_ms=30_000, max_price=0.004)
    assert told["price"] == pytest.approx(0.004)
    assert "orders=came:2,orders=not_sent:1" in told["fetched"]


def test_a_single_record_says_what_became_of_its_fetches(served: Served) -> None:
    told = ask(served, ["0.0 single"], budget_ms=30_000)
    assert told["fetched"] == "employer=came,orders=came"
    assert (told["price"], told["features"]) == (0.002, WHOLE)
