"""What each part of an execution took, for requests that want to know it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from polydom.features.errors import FeatureFailed
from polydom.features.items import record_item, text_item
from polydom.server.engine.budget import Deadline, MoneyBudget
from polydom.server.engine.executions.execution import begin
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Outcome, Request
from tests.support.clock import Clock
from tests.support.indexes import records
from tests.support.planners import (
    AS_PROMISED,
    ask,
    slow_planner,
    with_margins,
)

NAMES = ("length", "marks", "words")


def told(outcome: Outcome) -> list[tuple[str, float, float, float]]:
    return [
        (one.name, one.ended_s - one.began_s, one.planned, one.left)
        for one in outcome.parts
    ]


def test_each_part_tells_its_plan_its_time_and_what_was_left() -> None:
    seconds = (2e-3, 1e-3, 3e-3)
    planner = slow_planner(Clock(), seconds)
    outcome = ask(planner, Deadline(50.0, 0.1, 0.01), timed=True)
    # marks and words share a step of 1 ms, which the first of them runs
    planned = {"length": 1e-3, "marks": 4e-3, "words": 4e-3, "model": 1e-4}
    lefts, left = [], 0.09
    for taken_s in (*seconds, 0.0):
        lefts.append(left)
        left -= taken_s
    names = (*NAMES, "model")
    for one, name, took_s, left in zip(
        told(outcome), names, (*seconds, 0.0), lefts, strict=True
    ):
        assert one == (name, *map(pytest.approx, (took_s, planned[name], left)))
    assert [one.kind for one in outcome.parts] == ["feature"] * 3 + ["model"]


@given(budget_s=st.floats(0, 0.02), pauses=st.tuples(*[st.floats(0, 0.01)] * 3))
def test_parts_lie_in_the_work_one_after_the_other(
    budget_s: float, pauses: tuple[float, float, float]
) -> None:
    planner = slow_planner(Clock(), pauses)
    outcome = ask(planner, Deadline(50.0, budget_s), timed=True)
    assert [one.name for one in outcome.parts[:-1]] == [*NAMES[: outcome.row]]
    times = [time for one in outcome.parts for time in (one.began_s, one.ended_s)]
    assert times == sorted(times)
    assert outcome.started_s <= times[0]
    assert times[-1] == outcome.finished_s
    took_s = sum(one.ended_s - one.began_s for one in outcome.parts)
    assert took_s == pytest.approx(outcome.finished_s - outcome.started_s)


def test_an_early_exit_and_an_overrun_tell_only_what_was_done() -> None:
    sure = slow_planner(Clock(), AS_PROMISED, with_margins(0.0))
    outcome = ask(sure, Deadline(50.0, 1.0), timed=True)
    assert outcome.early
    assert [one.name for one in outcome.parts] == ["length", "model"]
    slow = slow_planner(Clock(), (1e-3, 8e-3, 4e-3))
    outcome = ask(slow, Deadline(50.0, 10e-3), timed=True)
    assert outcome.reason == "overrun"
    assert [one.name for one in outcome.parts] == ["length", "marks", "model"]


def test_nothing_is_noted_for_others() -> None:
    outcome = ask(slow_planner(Clock(), AS_PROMISED), Deadline(50.0, 1.0))
    assert (outcome.parts, outcome.computed) == ((), 0)


def test_a_feature_that_fails_is_noted_too() -> None:
    planner = slow_planner(Clock(), AS_PROMISED)
    text = text_item("a\x00b")
    execution = begin(planner, Request(text, MoneyBudget(1.0), timed=True))
    with pytest.raises(FeatureFailed):
        execution.run()
    assert execution._parts is not None
    assert [(one.name, one.failed) for one in execution._parts][-1] == ("words", True)


def test_columns_that_were_read_take_no_time() -> None:
    index = records.make_index()
    assert index.package is not None
    planner = Planner(index, index.package.extractor(), now=Clock())
    item = planner.extractor.read(record_item(records.PEOPLE[0]))
    request = Request(item, Deadline(50.0, 1.0), timed=True)
    traced = begin(planner, request).run()
    assert [one.name for one in traced.parts] == ["model"]
    outcome = begin(planner, replace(request, explain=True)).run()
    assert [one.name for one in outcome.parts] == ["person", "work", "model"]
    assert {one.ended_s - one.began_s for one in outcome.parts} == {0.0}
