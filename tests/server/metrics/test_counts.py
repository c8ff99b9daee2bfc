"""The numbers that Prometheus scrapes are those of the requests answered."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import parser
from starlette.testclient import TestClient

from polydom.server.app import create_app
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Caller, Outcome, Request
from polydom.server.engine.send_time import SendTime, SendTimes
from polydom.server.metrics.counts import AT_ONCE, BOUNDS, SECONDS, Histogram
from polydom.server.runtime.served_model import ServedModel
from polydom.server.runtime.translator import Translator
from polydom.server.runtime.work_queue import WorkQueue
from polydom.server.schema.wire import PredictRequest
from polydom.server.settings import Settings
from tests.support.clock import Clock
from tests.support.indexes.served import FEATURES_FILE, HAM, make_index, save_index
from tests.support.planners import extractor_of
from tests.support.waiting import until_ready

Key = tuple[str, frozenset[tuple[str, str]]]
Samples = dict[Key, float]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    app = create_app(save_index(tmp_path), features=[FEATURES_FILE])
    with TestClient(app) as client:
        until_ready(client)
        yield client


def scrape(client: TestClient) -> Samples:
    """Every sample by its name and labels, as Prometheus's own parser reads it."""
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(reply.text)
        for sample in family.samples
    }


def of_tiny(**labels: str) -> frozenset[tuple[str, str]]:
    """Labels of the only model's samples."""
    return frozenset({"model": "tiny", **labels}.items())


def answers(
    features: str, reason: str, met: str
) -> tuple[str, frozenset[tuple[str, str]]]:
    labels = {"features": features, "reason": reason, "budget_met": met}
    return "polydom_answers_total", of_tiny(**labels)


def test_metrics_count_answers_by_set_reason_and_budget(client: TestClient) -> None:
    for budget_ms in (0, 900, 900):
        client.post("/v1/predict", json={"text": HAM, "budget_ms": budget_ms})
    samples = scrape(client)
    assert samples[answers("", "infeasible", "false")] == 1
    assert samples[answers("length marks words", "", "true")] == 2
    for name in ("request", "queue", "plan", "encode"):
        assert samples[f"polydom_{name}_seconds_count", of_tiny()] == 3
        assert samples[f"polydom_{name}_seconds_sum", of_tiny()] > 0


def test_metrics_count_errors_by_their_code(client: TestClient) -> None:
    client.post("/v1/predict", json={"text": 1})
    client.post("/v1/predict", json={"record": {}})
    samples = scrape(client)
    for code in ("bad_input", "bad_item"):
        assert samples["polydom_errors_total", of_tiny(code=code)] == 1


def test_metrics_say_what_is_served_and_how_many_wait(client: TestClient) -> None:
    samples = scrape(client)
    version = client.get("/v1/index").json()["version"]
    assert samples["polydom_index_info", of_tiny(version=version)] == 1
    assert samples["polydom_ready", of_tiny()] == 1
    assert samples["polydom_waiting", frozenset()] == 0


def test_metrics_count_values_up_to_each_bound(client: TestClient) -> None:
    client.post("/v1/predict", json={"text": HAM, "budget_ms": 900})
    samples = scrape(client)
    name = "polydom_request_seconds_bucket"
    counts = [samples[name, of_tiny(le=str(le))] for le in SECONDS]
    assert counts == sorted(counts)
    assert samples[name, of_tiny(le="+Inf")] == 1


@given(st.lists(st.floats(0, 20), max_size=30))
def test_histogram_counts_each_value_under_the_first_bound_that_holds_it(
    values: list[float],
) -> None:
    histogram = Histogram(SECONDS)
    for part in np.split(np.array(values), [len(values) // 3]):
        histogram.add(part)
    for bound, count in zip(SECONDS, np.cumsum(histogram.counts[:-1]), strict=True):
        assert count == np.sum(np.array(values) <= bound)
    assert sum(histogram.counts) == len(values)
    assert histogram.total == pytest.approx(sum(values))


def test_what_waits_to_be_counted_does_not_grow_with_the_answers() -> None:
    planner = Planner(make_index(), extractor_of(make_index()))
    served = ServedModel(Translator(planner, Settings()), WorkQueue())
    served.ready = True
    answered = asyncio.run(_answer(served, PredictRequest(text=HAM, budget_ms=500.0)))
    for _ in range(3 * AT_ONCE + 1):
        served.sent(*answered)
    metrics = served.metrics
    assert metrics.pending == 1
    counted = {name: metrics.histogram(name) for name in BOUNDS}
    assert {sum(one.counts) for one in counted.values()} == {3 * AT_ONCE + 1}
    assert metrics.pending == 0


@pytest.mark.parametrize(("unit", "met"), [("s", False), ("usd", True)])
def test_metrics_judge_budgets_by_the_write(unit: str, met: bool) -> None:
    """The answer foresees what sending takes; this one took longer."""
    clock, index = Clock(), make_index(unit, scale=0.01)
    planner = Planner(index, extractor_of(index), now=clock)
    served = ServedModel(Translator(planner, Settings()), WorkQueue())
    served.ready = True
    ask = PredictRequest(text=HAM, budget_ms=5.0 if unit == "s" else None)
    ask.budget = None if unit == "s" else 1.0
    answered = asyncio.run(_answer(served, ask))
    answer = served.translator.answer(*answered)
    assert answer.budget_met
    served.sent(*answered, 50.0051)
    assert list(served.metrics.answers) == [(answer.features, "", met)]


@pytest.mark.parametrize(("after_s", "met"), [(4e-3, True), (6e-3, False)])
def test_answers_foresee_what_sending_usually_takes(after_s: float, met: bool) -> None:
    clock, index = Clock(), make_index(scale=0.01)
    planner = Planner(index, extractor_of(index), now=clock)
    served = ServedModel(Translator(planner, Settings()), WorkQueue())
    served.ready = True
    served.send_times = SendTimes(SendTime(usual=after_s), SendTime(usual=after_s))
    answered = asyncio.run(_answer(served, PredictRequest(text=HAM, budget_ms=5.0)))
    assert served.translator.answer(*answered).budget_met == met


async def _answer(served: ServedModel, ask: PredictRequest) -> tuple[Request, Outcome]:
    item = served.translator.item(ask)
    request, outcome = served.begin(ask, item, 50.0, Caller())
    if isinstance(outcome, Outcome):
        return request, outcome
    served.queue.start()  # the computing thread carries out plans that cost money
    answered = await served.answer(ask, 50.0, Caller())
    await asyncio.to_thread(served.queue.stop)
    return answered
