"""Predictions follow what answering takes, in a share of cases that is asked for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.items import record_item
from polydom.server.engine.budget import Deadline
from polydom.server.engine.executions.execution import execute
from polydom.server.engine.monitoring.answering_time import (
    FIRST_STEP,
    LONGEST_S,
    SHORTEST_S,
    STEP,
    AnsweringTime,
)
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Request
from tests.support.clock import Clock
from tests.support.indexes import records
from tests.support.oracles.engine import answering_after

pytestmark = pytest.mark.jit


@given(
    answers=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=200),
    overhead_s=st.sampled_from([0.0, 1e-8, 3e-6, 1e-3]),
    quantile=st.floats(0.5, 0.999),
)
def test_answering_time_agrees_with_its_slow_twin(
    answers: list[tuple[int, int]], overhead_s: float, quantile: float
) -> None:
    answering = AnsweringTime(overhead_s, quantile)
    for late, timely in answers:
        answering.add(late, late + timely)
    expected_s = answering_after(answers, overhead_s, quantile)
    found_s = overhead_s + answering.more_s
    assert found_s == pytest.approx(expected_s, rel=1e-6, abs=1e-12)


@given(
    times_s=st.lists(st.floats(1e-9, LONGEST_S / 2), min_size=1, max_size=400),
    overhead_s=st.sampled_from([0.0, 3e-6]),
    quantile=st.floats(0.5, 0.99),
)
def test_a_share_of_answers_takes_longer_whatever_the_times_are(
    times_s: list[float], overhead_s: float, quantile: float
) -> None:
    answering, late = AnsweringTime(overhead_s, quantile), 0
    for took_s in times_s:
        exceeded = took_s > overhead_s + answering.more_s
        answering.add(exceeded)
        late += exceeded
    count = len(times_s)
    taught = math.log(LONGEST_S / SHORTEST_S) + FIRST_STEP
    assert late / count <= 1 - quantile + taught / (STEP * count)


def test_the_estimate_is_the_quantile_of_times_that_do_not_change() -> None:
    rng = np.random.default_rng(0)
    times_s = 8e-6 * np.exp(0.3 * rng.standard_normal(6000))
    answering, found = AnsweringTime(2e-6, 0.99), []
    for took_s in times_s.tolist():
        found.append(2e-6 + answering.more_s)
        answering.add(took_s > found[-1])
    settled = np.array(found[1000:])
    covered = np.mean(times_s[1000:] <= settled)
    assert 0.985 <= covered <= 0.995
    assert np.median(settled) == pytest.approx(np.quantile(times_s, 0.99), rel=0.1)


class SlowClock(Clock):
    """A clock that moves by so many seconds whenever somebody looks at it."""

    step_s = 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def test_plans_are_chosen_by_the_time_that_answering_takes() -> None:
    index = records.make_index()
    assert index.package is not None
    clock = SlowClock()
    planner = Planner(index, index.package.extractor(), now=clock)
    item, whole_s = record_item(records.PEOPLE[0]), index.cost_s(2, 1.0)

    def ask(budget_s: float) -> tuple[int, float]:
        outcome = execute(planner, Request(item, Deadline(clock.now_s, budget_s)))
        return outcome.row, outcome.predicted

    row, predicted_s = ask(1.5 * whole_s)
    assert row == 2
    assert predicted_s == pytest.approx(whole_s)
    clock.step_s = whole_s / 2  # twice for each answer: all take longer than predicted
    rows = [ask(1.0) for _ in range(50)]
    assert {row for row, _ in rows} == {2}
    first_s, last_s = rows[0][1], rows[-1][1]
    assert last_s > first_s
    clock.step_s = 0.0
    assert ask(whole_s + planner.answering.more_s + 1e-6)[0] == 2
    assert ask(whole_s)[0] != 2
