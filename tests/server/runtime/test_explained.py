"""An answer tells what became of each feature, if the request asks for it."""

import json
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
from starlette.testclient import TestClient

from polydom.server.app import create_app
from tests.support.indexes import fetched
from tests.support.indexes.fetch_calls import (
    BROUGHT,
    GIVEN,
    NEVER_S,
    SETTINGS,
    save_fetches,
)
from tests.support.waiting import until_ready

EMPLOYER, ORDERS = {"fetch": "employer"}, {"fetch": "orders"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("explained")
    file, path = save_fetches(folder), fetched.save_index(folder)
    with TestClient(create_app(path, fetches=[file], settings=SETTINGS)) as client:
        until_ready(client)
        yield client


TIMES = ("planned_us", "took_us", "left_us")


def untimed(told: Any) -> Any:
    """The features without their times."""
    return [
        {name: value for name, value in one.items() if name not in TIMES}
        for one in told
        if "part" not in one
    ]


def explained(client: TestClient, more: dict[str, Any], **terms: Any) -> Any:
    body = {"record": GIVEN | more, "explain": True, "budget_ms": 20_000, **terms}
    reply = client.post("/v1/predict", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()["explained"]


def states(told: Any) -> dict[str, str]:
    return {one["name"]: one["state"] for one in untimed(told)}


def test_a_whole_record_is_explained(client: TestClient) -> None:
    told = explained(client, BROUGHT)
    assert untimed(told) == [
        {"name": "person", "state": "answered"},
        {"name": "work", "state": "answered", **EMPLOYER},
        {"name": "history", "state": "answered", **ORDERS},
    ]
    *features, model = told
    assert all(set(TIMES) <= one.keys() for one in told)
    # a record's columns are read when it is decoded
    assert {one["took_us"] for one in features} == {0}
    assert model["took_us"] > 0
    assert (model["name"], model["part"]) == ("model", "model")
    lefts = [one["left_us"] for one in told]
    assert lefts == sorted(lefts, reverse=True)
    assert 0 < lefts[-1] <= lefts[0] < 20_000_000
    assert all(one["planned_us"] >= 0 for one in told)


def test_nobody_is_told_who_does_not_ask(client: TestClient) -> None:
    for terms in ({}, {"explain": False}, {"explain": None}):
        body = {"record": GIVEN | BROUGHT, "budget_ms": 20_000, **terms}
        assert "explained" not in client.post("/v1/predict", json=body).json()


def test_features_tell_the_state_of_their_fetches(client: TestClient) -> None:
    told = explained(client, {"customer_id": "0.0 raises"})
    assert states(told) == {"person": "answered", "work": "failed", "history": "failed"}
    told = explained(client, {"customer_id": "0.0"}, fetch="never")
    assert untimed(told)[1:] == [
        {"name": "work", "state": "not_sent", **EMPLOYER},
        {"name": "history", "state": "not_sent", **ORDERS},
    ]
    fetches = [one for one in told if one.get("part") == "fetch"]
    assert fetches == [
        {"name": name, "state": "not_sent", "part": "fetch"}
        for name in ("employer", "orders")
    ]
    late = {"customer_id": f"{NEVER_S}"}
    # a busy machine may wake a request too late for anything but the prior
    _, work, history = untimed(explained(client, late, fetch="all", budget_ms=300))
    assert (work["state"], history["state"]) == ("late", "late")


def test_a_missing_column_is_told_apart(client: TestClient) -> None:
    told = explained(client, BROUGHT | {"job": None})
    assert states(told) == {
        "person": "answered",
        "work": "missing",
        "history": "answered",
    }


def test_a_budget_that_is_too_small_plans_nothing(client: TestClient) -> None:
    told = explained(client, BROUGHT, budget_ms=0.0)
    assert {*states(told).values()} == {"not_planned"}


def test_every_encoding_explains(client: TestClient) -> None:
    record = GIVEN | BROUGHT
    asked = client.post(
        "/v1/predict?explain=true&budget_ms=20000", json={"record": record}
    )
    assert states(asked.json()["explained"])["work"] == "answered"
    packed = client.post(
        "/v1/predict",
        content=msgpack.packb({"record": record, "explain": True}),
        headers={"content-type": "application/msgpack"},
    )
    assert len(untimed(msgpack.unpackb(packed.content)["explained"])) == 3
    tensor = {"name": "record", "datatype": "BYTES", "shape": [1]}
    body = {
        "inputs": [tensor | {"data": [json.dumps(record)]}],
        "parameters": {"explain": True, "budget_ms": 20_000},
    }
    reply = client.post("/v2/models/fetched/infer", json=body)
    told = reply.json()["parameters"]
    assert told["explained"] == "person=answered,work=answered,history=answered"
    for name in TIMES:
        parts = [one.partition("=")[0] for one in told[name].split(",")]
        assert parts == ["person", "work", "history", "model"]


def test_fetches_tell_how_long_they_were_waited_for(client: TestClient) -> None:
    told = explained(client, {"customer_id": "0.01"}, fetch="all", budget_ms=900)
    fetches = {one["name"]: one for one in told if one.get("part") == "fetch"}
    assert fetches.keys() == {"employer", "orders"}
    for fetch in fetches.values():
        assert fetch["state"] in ("came", "kept", "late")  # of a busy machine
        assert fetch["took_us"] >= (10_000 if fetch["state"] == "came" else 0)
        assert 0 <= fetch["planned_us"] <= fetch["left_us"] <= 900_000
