"""Features are computed while a record waits for its other columns."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from polydom.indexer.building.build import build
from polydom.indexer.building.project import Project
from polydom.server.app import create_app
from polydom.server.settings import Settings

FETCHES = """
import asyncio
from polydom.features import fetch

@fetch(key=["id"], columns=["n"], batch=1, at_most_ms=60_000)
async def orders(keys, left_s):
    await asyncio.sleep(float(str(keys[0][0]).partition(" ")[0]))
    return [[3]]

@fetch(key=["id"], columns=["remark"], batch=1, at_most_ms=60_000)
async def remarks(keys, left_s):
    if "fails" in keys[0][0]:
        raise ValueError("no remarks today")
    return [["late and open " * 3]]
"""
WORDS = [
    *("the", "parcel", "came", "late", "and", "was", "open"),
    *("so", "the", "customer", "is", "angry"),
]
NOTE = "the customer is angry " * 4


def draw_table(count: int = 400) -> str:
    """Lines of a table whose label depends on both texts and the number."""
    rng = np.random.default_rng(0)
    lines = ["id,note,remark,n,label"]
    for number in range(count):
        note = " ".join(rng.choice(WORDS, rng.integers(6, 30)))
        remark = " ".join(rng.choice(WORDS, rng.integers(6, 30)))
        n = int(rng.integers(0, 6))
        label = len(note) / 20 + len(remark) / 40 + n > 9.5
        lines.append(f"{number},{note},{remark},{n},{label}")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("meanwhile")
    (folder / "t.csv").write_text(draw_table())
    (folder / "times.csv").write_text(
        "orders,remarks\n" + "\n".join(f"{5 + k},{3 + k}" for k in range(60))
    )
    (folder / "fetches.py").write_text(FETCHES)
    times = {"key": ["id"], "times": "times.csv"}
    content: dict[str, Any] = {
        "data": {"table": "t.csv"},
        "learner": {"name": "tree", "max_depth": 4},
        "search": {"budget_s": 6.0},
        "exits": "off",
        "workers": 1,
        "fetches": {
            "orders": {**times, "columns": ["n"]},
            "remarks": {**times, "columns": ["remark"]},
        },
    }
    build(Project.from_mapping(content, folder=folder), output=folder / "m.pdx")
    app = create_app(
        folder / "m.pdx",
        fetches=[folder / "fetches.py"],
        settings=Settings(max_budget_s=60.0),
    )
    with TestClient(app) as client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.01)
        yield client


def ask(client: TestClient, record: dict[str, Any], **terms: Any) -> Any:
    body = {"record": record, "budget_ms": 20_000, **terms}
    reply = client.post("/v1/predict", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def states(answer: Any) -> dict[str, str]:
    return {name: one["state"] for name, one in answer["fetched"].items()}


def test_the_answer_is_that_of_a_record_with_all_columns(client: TestClient) -> None:
    whole = ask(client, {"note": NOTE, "remark": "late and open " * 3, "n": 3})
    found = ask(client, {"note": NOTE, "id": "0.02"}, fetch="all")
    assert states(found) == {"orders": "came", "remarks": "came"}
    assert found["scores"] == whole["scores"]
    assert {*found["features"]} == {*whole["features"]}
    assert any("remark" in name for name in found["features"])
    assert found["fetch_us"] >= 19e3
    # the work before the wait counts, but not the wait
    slow = ask(client, {"note": NOTE, "id": "2.0"}, fetch="all")
    assert slow["queue_us"] >= 0
    assert slow["actual_us"] < 1e6


def test_what_does_not_come_is_left_out(client: TestClient) -> None:
    found = ask(client, {"note": NOTE, "id": "0.01 fails"}, fetch="all")
    assert states(found) == {"orders": "came", "remarks": "failed"}
    assert found["features"]
    assert not any("remark" in name for name in found["features"])
    known = ask(client, {"note": NOTE, "n": 3})
    assert found["scores"] == known["scores"]


def test_what_was_computed_answers_if_nothing_comes(client: TestClient) -> None:
    # a busy machine may wake a request too late
    answers = [
        ask(client, {"note": NOTE, "id": "30 fails"}, fetch="all", budget_ms=400)
        for _ in range(5)
    ]
    for answer in answers:
        assert states(answer)["orders"] == "late"
        assert answer["reserve_us"] < 3e5  # waiting is no sending
    named = [{*answer["features"]} for answer in answers]
    assert any(own and all("note" in name for name in own) for own in named)


def test_a_record_without_its_own_text_uses_what_came(client: TestClient) -> None:
    found = ask(client, {"id": "0.01"}, fetch="all")
    assert not any("note" in name for name in found["features"])
    assert any("remark" in name or name == "orders" for name in found["features"])


def test_a_late_fetch_is_told_if_nothing_else_may_answer(client: TestClient) -> None:
    terms = {"budget_ms": 400, "fetch": "all", "on_infeasible": "error"}
    reply = client.post("/v1/predict", json={"record": {"id": "30 fails"}, **terms})
    assert (reply.status_code, reply.json().get("code")) == (504, "nothing_fits"), (
        reply.text
    )
