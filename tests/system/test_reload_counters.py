"""No count falls, and none is lost, whatever becomes of the index that answers."""

import asyncio
import gc
import itertools
import signal
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from prometheus_client import parser
from starlette.testclient import TestClient

from polydom.features.errors import FeatureFailed
from polydom.features.items import Gaps
from polydom.server.app import create_app
from polydom.server.engine.monitoring.cost_drift import CostDrift
from polydom.server.engine.monitoring.exit_audit import ExitAudit
from polydom.server.engine.monitoring.feature_failures import FeatureFailures
from polydom.server.engine.monitoring.traffic_counts import TrafficCounts
from polydom.server.engine.request import Caller
from polydom.server.metrics.counts import PlannerCounts
from polydom.server.metrics.prometheus import render
from polydom.server.runtime.repository import Repository
from polydom.server.schema.wire import PredictRequest
from tests.support.indexes.repositories import run, started
from tests.support.indexes.served import FEATURES_FILE, HAM, save
from tests.support.processes.servers import ask, serving
from tests.support.waiting import until_ready, wait_until

Key = tuple[str, frozenset[tuple[str, str]]]
# What may fall: these are no counts.
GAUGES = ("waiting", "ready", "index_info", "rescale_factor", "cost_factor", "alarm")


def counts_in(text: str) -> dict[Key, float]:
    """Every sample that counts something."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith((*GAUGES, "_created"))
    }


def counts_of(repository: Repository) -> dict[Key, float]:
    return counts_in(render(repository).decode())


def fell(before: dict[Key, float], after: dict[Key, float]) -> list[Key]:
    """Counts that are lower than they were, or not there any more."""
    return [key for key, value in before.items() if after.get(key, -1) < value]


async def use(repository: Repository) -> None:
    """Have everything counted that a planner counts."""
    served = repository.get()
    for _ in range(3):
        await served.answer(
            PredictRequest(text="hi", budget_ms=900), served.now(), Caller()
        )
    planner = served.planner
    for _ in range(100):
        planner.drift.add(True, served.now())
    planner.audit.add()
    for changed in (False, True):
        planner.audit.add()
        planner.audit.check("spam", changed)


def test_no_count_falls_when_an_index_is_replaced_or_unloaded(tmp_path: Path) -> None:
    path = save(tmp_path / "a.pdx")

    async def main() -> None:
        async with started(path) as repository:
            await use(repository)
            seen = [counts_of(repository)]
            name = frozenset({("model", "a")})
            assert seen[0]["polydom_cost_factor_bound_hits_total", name] > 0
            assert seen[0]["polydom_exits_total", name] == 3
            for accuracy in (0.9, 0.8):
                save(path, accuracy)
                await repository.reload()
                seen.append(counts_of(repository))
                await use(repository)
                seen.append(counts_of(repository))
            await repository.unload("a")
            seen.append(counts_of(repository))
            await repository.load("a")
            gc.collect()
            await use(repository)
            seen.append(counts_of(repository))
            for before, after in itertools.pairwise(seen):
                assert fell(before, after) == []
            assert seen[-1]["polydom_exits_total", name] == 12
            spam = name | {("class", "spam")}
            assert seen[-1]["polydom_exits_drawn_total", spam] == 8
            assert seen[-1]["polydom_exits_audited_total", spam] == 8
            assert seen[-1]["polydom_exits_changed_total", spam] == 4
            assert seen[-1]["polydom_request_seconds_count", name] == 0

    run(main())


def test_no_count_of_a_real_server_falls_at_a_reload(tmp_path: Path) -> None:
    path = save(tmp_path / "tiny.pdx")

    def scrape(port: int) -> dict[Key, float]:
        url = f"http://127.0.0.1:{port}/metrics"
        with urllib.request.urlopen(url, timeout=20) as reply:
            return counts_in(reply.read().decode())

    with serving(path, f"--features={FEATURES_FILE}") as (process, port):
        before: dict[Key, float] = {}
        for number in range(1, 4):
            query = "/v1/predict?budget_ms=900"
            assert ask(port, "POST", query, HAM.encode(), content_type="text/plain")
            after = scrape(port)
            assert fell(before, after) == []
            before = after
            save(path, 0.9 - number / 100)
            process.send_signal(signal.SIGHUP)
            key = (
                "polydom_reloads_total",
                frozenset({("model", "tiny"), ("result", "ok")}),
            )
            wait_until(lambda n=number, k=key: scrape(port)[k] == n, process)  # type: ignore[misc]
            assert fell(before, scrape(port)) == []


class Planner:
    """What counts, and can be forgotten."""

    def __init__(self, count: int) -> None:
        self.drift = CostDrift(0.99)
        self.drift.bound_hits = count
        self.audit = ExitAudit({"ham": 0.5, "spam": 0.5})
        self.failures = FeatureFailures(lambda: 0.0)
        for _ in range(count):
            self.audit.add()
            self.audit.check("spam", True)
            self.failures.add("words", FeatureFailed("no words", 0))


def test_counts_of_planners_outlive_them_and_nothing_else_does() -> None:
    counts = PlannerCounts()
    assert not counts.totals()
    first, second = Planner(1), Planner(10)
    for planner in (first, second):
        traffic = TrafficCounts(["ham"], ["age"], named=lambda _: ["age"])
        traffic.lacks(Gaps(empty=1))
        counts.add(planner, traffic)  # type: ignore[arg-type]
    first.drift.bound_hits = 5  # an answer that was still under way
    expected = Counter(
        {
            ("bound_hits", ""): 15,
            ("exits", ""): 11,
            ("used", ""): 0,
            ("left", ""): 0,
            ("failures", "words"): 11,
            ("labels", "ham"): 0,
            ("missing", "age"): 2,
            ("outside", ""): 0,
        }
    )
    for name in ("drawn", "audited", "changed"):
        expected.update({(name, "ham"): 0, (name, "spam"): 11})
    assert dict(counts.totals()) == expected
    del first, planner
    gc.collect()
    for _ in range(2):
        assert dict(counts.totals()) == expected
    assert len(counts._known) == 1
    second.audit.exits = 20
    assert counts.totals()["exits", ""] == 21


def test_answers_of_batches_are_counted_by_the_event_loop_alone(
    tmp_path: Path,
) -> None:
    """The computing thread never touches what the event loop writes and shows."""
    path = save(tmp_path / "a.pdx")

    class Loud(Counter[Any]):
        def __setitem__(self, key: Any, value: int) -> None:
            asyncio.get_running_loop()  # raises in any other thread
            super().__setitem__(key, value)

    app = create_app(path, features=[FEATURES_FILE])
    with TestClient(app) as client:
        until_ready(client)
        metrics = app.state.repository.metrics("a")
        metrics.answers = Loud()
        items = [{"text": HAM}] * 200
        reply = client.post("/v1/batch", json={"items": items, "budget_ms": 9000})
        assert reply.json()["totals"]["items"] == 200
        assert sum(metrics.answers.values()) == 200
        client.post("/v1/predict", json={"text": HAM, "budget_ms": 900})
        assert sum(metrics.answers.values()) == 201
