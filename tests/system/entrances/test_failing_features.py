"""A feature that fails, at every entrance: the best set without it answers.

Whoever asks sees no more than the reason; the log and the metrics name the feature.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import msgspec
import numpy as np
import pytest
import tritonclient.grpc as triton
from starlette.testclient import TestClient

from polydom.server import Scorer, score_items
from polydom.server.__main__ import main
from polydom.server.app import create_app
from polydom.server.ops.server import free_port
from polydom.server.settings import GrpcAt
from tests.support.indexes import failing_features
from tests.support.indexes.served import save_with
from tests.support.waiting import until_ready

OWN = Path(failing_features.__file__)
FAILS, REFUSED, WELL = "words fail here", "length fails here", "WIN a FREE phone!"
EXPECTED: dict[str, Any] = {
    "features": ["length", "marks"],
    "reason": "feature_failed",
    "expected_accuracy": 0.8,
}
BATCH = "/v1/batch?budget_ms=60000"


class Served(NamedTuple):
    """The index in a folder, and two ways to a server of it."""

    path: Path
    client: TestClient
    grpc: triton.InferenceServerClient


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    index = tmp_path_factory.mktemp("failing") / "tiny.pdx"
    save_with(OWN, index)
    port = free_port("127.0.0.1", 0)
    app = create_app(index, features=[OWN], grpc_at=GrpcAt("127.0.0.1", port))
    with TestClient(app) as client:
        until_ready(client)
        yield Served(index, client, triton.InferenceServerClient(f"127.0.0.1:{port}"))


def failures(client: TestClient) -> dict[str, float]:
    """How often each feature has failed, as the metrics say."""
    begun = "polydom_feature_failures_total{"
    lines = client.get("/metrics").text.splitlines()
    counted = [line for line in lines if line.startswith(begun)]
    return {
        line.split('feature="')[1].split('"')[0]: float(line.split()[-1])
        for line in counted
    }


def by_predict(served: Served, text: str) -> Any:
    body = {"text": text, "budget_ms": 900}
    return served.client.post("/v1/predict", json=body).json()


def by_json_batch(served: Served, text: str) -> Any:
    body = {"items": [{"text": text}], "budget_ms": 60000}
    return served.client.post("/v1/batch", json=body).json()["answers"][0]


def by_packed_batch(served: Served, text: str) -> Any:
    kind = {"content-type": "application/msgpack"}
    packed = msgpack.packb({"text": text})
    unpacker = msgpack.Unpacker()
    unpacker.feed(served.client.post(BATCH, content=packed, headers=kind).content)
    return next(iter(unpacker))


def by_scorer(served: Served, text: str) -> Any:
    (row,) = Scorer(served.path, item_budget_s=60.0, features=[OWN])([text])
    return row | {"features": [*row["features"]]}


def by_score_items(served: Served, text: str) -> Any:
    (row,) = score_items(served.path, [text], 60.0, features=[OWN])
    told = msgspec.structs.asdict(row)
    return told | {"features": [*told["features"]]}


# Rows of scoring say which features answered, and no reason.
ENTRANCES = [by_predict, by_json_batch, by_packed_batch, by_scorer, by_score_items]


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_the_best_set_without_the_feature_answers_everywhere(
    entrance: Any, served: Served
) -> None:
    answer = entrance(served, FAILS)
    known = {name: answer[name] for name in EXPECTED if name in answer}
    assert known == {name: EXPECTED[name] for name in known}
    assert "features" in known
    assert sum(answer["scores"].values()) == pytest.approx(1)
    well = entrance(served, WELL)
    assert [*well["features"]] == ["length", "marks", "words"]
    assert well.get("reason") is None


def test_inference_requests_say_the_reason_too(served: Served) -> None:
    tensor = {"name": "text", "shape": [2], "datatype": "BYTES", "data": [FAILS, WELL]}
    outputs = [{"name": "reason"}, {"name": "label"}]
    body = {"inputs": [tensor], "outputs": outputs}
    answer = served.client.post("/v2/models/tiny/infer", json=body).json()
    data = {output["name"]: output["data"] for output in answer["outputs"]}
    assert data["reason"] == ["feature_failed", ""]
    given = triton.InferInput("text", [1], "BYTES")
    given.set_data_from_numpy(np.array([FAILS.encode()], object))
    wanted = [triton.InferRequestedOutput("reason")]
    reply = served.grpc.infer("tiny", [given], outputs=wanted)
    assert reply.as_numpy("reason").tolist() == [b"feature_failed"]


def test_metrics_and_log_name_the_feature_and_the_caller_sees_no_insides(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    client = served.client
    app: Any = client.app
    model = app.state.repository.get()
    model.planner.failures._failures._logged.clear()
    before = failures(client)
    with caplog.at_level(logging.ERROR, "polydom"):
        answers = [by_predict(served, FAILS) for _ in range(3)]
        reply = client.post("/v1/predict", json={"text": REFUSED, "budget_ms": 900})
    assert {answer["reason"] for answer in answers} == {"feature_failed"}
    assert (reply.status_code, reply.json()["code"]) == (422, "bad_feature")
    assert reply.json()["error"] == "feature 'length' failed for the item"
    after = failures(client)
    assert after["words"] - before.get("words", 0) == 3
    assert after["length"] - before.get("length", 0) == 1
    said = [record.getMessage().split(":")[0] for record in caplog.records]
    assert said == ["feature 'words' failed", "feature 'length' failed"]
    for name in ("words", "length"):
        assert f"LookupError: {name}: /secret/path/of/the/server" in caplog.text


def test_the_command_says_in_words_why_no_better_model_answered(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "one.txt"
    text.write_text(FAILS)
    order = ["predict", str(served.path), str(text), "--features", str(OWN)]
    assert main([*order, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == "feature_failed"
    assert main(order) == 0
    assert "a feature failed" in capsys.readouterr().out
