"""What a plan took is learned from, though its answer was given before it ended."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polydom.features.errors import BadFeature
from polydom.features.extract import Extractor
from polydom.features.items import text_item
from polydom.server.batch.batch_budget import BatchBudget
from polydom.server.engine.budget import Deadline, MoneyBudget
from polydom.server.engine.executions.base_execution import Execution
from polydom.server.engine.executions.execution import begin, execute
from polydom.server.engine.request import Request
from polydom.server.errors import Abandoned
from tests.support.clock import Clock
from tests.support.indexes.served import HAM, SLOW_FILE, WIDTHS, save_slow_index
from tests.support.planners import TEXT_100, slow_planner
from tests.support.processes.servers import ask, serving


@pytest.mark.parametrize("path", ["/v1/predict", "/v2/models/slow/infer"])
def test_a_server_learns_from_plans_that_end_after_their_answers(
    tmp_path: Path, path: str
) -> None:
    """A feature that says 1 ms and takes 12, under a budget of 10."""
    inputs = [{"name": "text", "shape": [1], "datatype": "BYTES", "data": [HAM]}]
    body: dict[str, Any] = {"text": HAM, "budget_ms": 10}
    if path.startswith("/v2"):
        body = {"inputs": inputs, "parameters": {"budget_ms": 10.0}}
    encoded = json.dumps(body).encode()
    with serving(save_slow_index(tmp_path), "--features", str(SLOW_FILE)) as (_, port):
        for _ in range(400):
            assert ask(port, "POST", path, encoded)[0] == 200
            _, facts = ask(port, "GET", "/v1/index")
            if facts["drift"] > 2.5:  # type: ignore[operator]
                return
    pytest.fail(f"after 400 answers that were late the drift is {facts['drift']}")


def test_a_plan_that_is_abandoned_tells_what_it_took() -> None:
    clock = Clock()
    planner = slow_planner(clock, (12e-3, 0.0, 0.0))
    request = Request(TEXT_100, Deadline(50.0, 20e-3))
    execution = begin(planner, request)
    first = planner.extractor.features[0]
    stop = replace(first, function=lambda *x: _then(first.function(*x), execution))
    others = planner.extractor.features[1:]
    planner.extractor = Extractor([stop, *others], WIDTHS)
    with pytest.raises(Abandoned):
        execution.run()
    assert planner.drift.at(clock()) > 1
    assert planner.drift.plans == 1


def _then(values: Any, execution: Execution) -> Any:
    execution.stopped = True
    return values


@pytest.mark.parametrize(("took_s", "rises"), [(30e-3, True), (1e-3, False)])
def test_a_feature_that_fails_tells_only_that_it_took_too_long(
    took_s: float, rises: bool
) -> None:
    clock = Clock()
    planner = slow_planner(clock, (0.0, 0.0, took_s))
    request = Request(text_item("\x00" + "x" * 99), Deadline(50.0, 1.0))
    with pytest.raises(BadFeature):
        execute(planner, request)
    assert (planner.drift.at(clock()) > 1) == rises
    assert planner.drift.plans == rises


def test_an_answer_given_meanwhile_is_no_second_plan() -> None:
    """The event loop concludes; the thread goes on, and what it took counts once."""
    clock = Clock()
    planner = slow_planner(clock, (1e-3, 12e-3, 0.0))
    execution = begin(planner, Request(TEXT_100, MoneyBudget(5.3e-3)))
    execution.conclude()
    assert planner.drift.plans == 0
    execution.run()
    assert planner.drift.plans == 1


@pytest.mark.parametrize("correct", [True, False])
def test_batches_are_learned_from_too(correct: bool) -> None:
    clock = Clock()
    planner = slow_planner(clock, (12e-3,) * 3)
    planner.corrects = correct
    budget = BatchBudget(planner, 100.0, count=8)
    list(budget.answers([(number, TEXT_100) for number in range(8)]))
    assert (planner.drift.at(clock()) > 1) == correct


def test_a_batch_spends_no_more_because_single_plans_were_slow() -> None:
    """Its timing is of the curves, whatever the correction is meanwhile."""
    found = []
    for late in (0, 20):
        clock = Clock()
        planner = slow_planner(clock, (1e-3, 4e-3, 4e-3))
        planner.corrects = False
        for _ in range(late):
            planner.drift.add(True, clock())
        budget = BatchBudget(planner, 0.6, count=200)
        for start in range(0, 200, 10):
            list(budget.answers([(start + k, TEXT_100) for k in range(10)]))
        found.append((budget.totals().expected_accuracy, budget.spent))
        assert budget.totals().budget_met
    assert found[0] == pytest.approx(found[1])
