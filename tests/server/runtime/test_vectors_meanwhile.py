"""Features are computed while a text waits for its vector, and what that counts as."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from polydom.features.items import text_item
from polydom.server.app import create_app
from polydom.server.engine.budget import MoneyBudget
from polydom.server.engine.executions.execution import begin
from polydom.server.engine.loading import load_planner
from polydom.server.engine.request import Request
from polydom.server.settings import Settings
from tests.support.indexes.vectors import FILE, make_index, save_index
from tests.support.waiting import until_ready

SURE = "win a free phone!! $$ 77 " * 4  # by its length alone
NEVER = "30"  # seconds that no test waits for


@contextmanager
def serve(index: Path, audit: float) -> Iterator[TestClient]:
    settings = Settings(max_budget_s=60.0, rescale=False, audit=audit)
    app = create_app(index, features=[FILE], fetches=[FILE], settings=settings)
    with TestClient(app) as client:
        until_ready(client)
        yield client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    index = save_index(tmp_path_factory.mktemp("vectors"), exits=True)
    with serve(index, audit=1.0) as client:
        yield client


def ask(client: TestClient, text: str, **terms: Any) -> Any:
    body = {"text": text, "budget_ms": 20_000, "fetch": "all", **terms}
    reply = client.post("/v1/predict", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def audited(client: TestClient) -> dict[str, float]:
    """Numbers of early exits and of audits until now."""
    counts = {"exits": 0.0, "audited": 0.0}
    for line in client.get("/metrics").text.splitlines():
        for name in counts:
            whole = "exits" if name == "exits" else f"exits_{name}"
            if line.startswith(f"polydom_{whole}_total{{"):
                counts[name] += float(line.split()[-1])
    return counts


def test_an_early_answer_counts_only_if_no_vector_takes_its_place(
    client: TestClient,
) -> None:
    before = audited(client)
    came = ask(client, f"0.05 {SURE}")
    assert came["fetched"]["meaning"]["state"] == "came"
    assert "early" not in came
    assert "meaning" in came["features"]
    assert audited(client) == before
    late = ask(client, f"{NEVER} {SURE}", budget_ms=1_000)
    assert late["fetched"]["meaning"]["state"] == "late"
    after = audited(client)
    assert (after["exits"], after["audited"]) == (
        before["exits"] + 1,
        before["audited"] + 1,
    )


@pytest.mark.parametrize("seconds", ["0.0", "0.1", NEVER])
def test_a_feature_that_fails_meanwhile_is_left_out(
    client: TestClient, seconds: str
) -> None:
    text = f"{seconds} slow marks fail"
    answer = ask(client, text, budget_ms=3_000, exact=True)
    came = seconds != NEVER
    assert answer["fetched"]["meaning"]["state"] == ("came" if came else "late")
    assert ("meaning" in answer["features"]) == came
    assert "marks" not in answer["features"]


@pytest.mark.parametrize("seconds", ["0.0", "0.05"])
def test_a_feature_of_the_vector_that_fails_is_left_out(
    client: TestClient, seconds: str
) -> None:
    for text, named in (("hey!!", True), ("hey!!!!!!", False)):
        answer = ask(client, f"{seconds} {text}", exact=True)
        assert answer["fetched"]["meaning"]["state"] == "came"
        assert ("loudness" in answer["features"]) == named
        assert "meaning" in answer["features"]
        assert answer["reason"] == (None if named else "feature_failed")


@pytest.mark.parametrize("audit", [0.0, 1.0])
def test_no_vector_is_bought_for_a_text_that_is_sure_early(
    tmp_path: Path, audit: float
) -> None:
    index = save_index(tmp_path, exits=True, price=True)
    with serve(index, audit) as client:
        sure = ask(client, f"0.0 {SURE}", fetch="as_planned", budget_ms=2_000)
        unsure = ask(client, "0.0 win? 5 $", fetch="as_planned", budget_ms=2_000)
    assert bool(sure.get("early")) == (audit == 0.0)
    assert sure["fetched"]["meaning"]["state"] == "not_sent"
    assert unsure["fetched"]["meaning"]["state"] == "came", unsure


def test_a_pause_reaches_what_goes_on_without_a_feature_that_failed() -> None:
    planner = load_planner(make_index(), [FILE])
    item = text_item("0 slow marks fail")
    execution = begin(planner, Request(item, MoneyBudget(1.0), explain=True))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(execution.run)
        time.sleep(0.1)  # "words" takes 0.2 seconds, and then "digits" would
        execution.pause()
        computed = running.result(timeout=30).computed
    assert not computed >> 3 & 1
