"""Any-time plans x early exits: who goes on while time is left also stops when sure."""

import math
from dataclasses import replace

import pytest

from polydom.features.items import text_item
from polydom.server.engine.budget import Deadline
from polydom.server.engine.executions.anytime_execution import AnytimeExecution
from polydom.server.engine.executions.execution import begin
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Outcome, Request
from tests.support.clock import Clock
from tests.support.planners import slow_planner, typical_index

TEXT = text_item("x" * 100)  # its sets cost 0.2, 1.2, 5.2 and 9.2 ms
FAST = (0.5e-3, 1e-3, 1e-3)
BUDGET_S = 8e-3  # the last set does not surely fit


def planner_with(margin: float, clock: Clock) -> Planner:
    index = typical_index((0.5, 0.25, 0.25, 0.5))
    package = index.package
    assert package is not None
    never = tuple((math.inf,) * (len(order) + 1) for order in package.orders[:-1])
    last = (math.inf, margin, math.inf, math.inf)
    return slow_planner(
        clock, FAST, replace(index, package=replace(package, margins=(*never, last)))
    )


def ask(planner: Planner, clock: Clock, share: float = 0.0) -> tuple[Outcome, float]:
    planner.audit.share = share
    began_s = clock.now_s
    execution = begin(planner, Request(TEXT, Deadline(began_s, BUDGET_S)))
    assert isinstance(execution, AnytimeExecution)
    outcome = execution.run()
    planner.audit.answered(outcome)
    return outcome, clock.now_s - began_s


def test_a_plan_that_is_aimed_at_answers_at_a_checkpoint_that_is_sure() -> None:
    clock = Clock()
    outcome, took_s = ask(planner_with(0.0, clock), clock)
    assert (outcome.row, outcome.reason) == (1, "sure")
    assert outcome.quality == 0.95  # of the plan that it stands for
    assert took_s == pytest.approx(FAST[0])
    assert outcome.charged < 9.2e-3


def test_where_no_checkpoint_is_sure_it_goes_on_as_without_exits() -> None:
    clock = Clock()
    outcome, took_s = ask(planner_with(1.0, clock), clock)
    assert (outcome.row, outcome.reason) == (3, None)
    assert took_s == pytest.approx(sum(FAST))


def test_a_drawn_exit_is_computed_on_while_time_is_left() -> None:
    clock = Clock()
    planner = planner_with(0.0, clock)
    outcome, took_s = ask(planner, clock, share=1.0)
    assert outcome.row == 3
    assert outcome.audit is not None
    assert took_s == pytest.approx(sum(FAST))
    assert (planner.audit.exits, planner.audit.audited) == (1, {outcome.label: 1})
    passed = planner_with(1.0, clock)
    outcome, _ = ask(passed, clock, share=1.0)
    assert (passed.audit.exits, passed.audit.drawn) == (0, {outcome.label: 1})
