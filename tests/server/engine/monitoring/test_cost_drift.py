"""Predictions follow a machine that slows down, and come back when it recovers."""

import contextlib
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput, NothingFits
from polydom.server.engine.budget import Deadline
from polydom.server.engine.executions.execution import execute
from polydom.server.engine.monitoring.cost_drift import (
    FORGET_S,
    HOLD_S,
    LARGEST,
    LEAST_S,
    STEP,
    CostDrift,
)
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Request
from tests.support.clock import Clock
from tests.support.indexes.served import FEATURES_FILE, make_index
from tests.support.oracles.engine import drift_after
from tests.support.planners import AS_PROMISED, TEXT_100, slow_planner, timed_index

INDEX = make_index()


def make_planner() -> Planner:
    assert INDEX.package is not None
    return Planner(INDEX, INDEX.package.extractor([FEATURES_FILE]))


def followed(drift: CostDrift, ratios: list[float], pause_s: float = 0.0) -> int:
    """How many of some actual over predicted times exceeded the factor then."""
    exceeded = 0
    for turn, ratio in enumerate(ratios):
        late = ratio > drift.at(turn * pause_s)
        drift.add(late, turn * pause_s)
        exceeded += late
    return exceeded


PAUSES = st.sampled_from([0.0, 1e-3, 0.1, 0.4, 0.6, 0.75, 0.9, 1.0, 3.0])


@given(
    plans=st.lists(st.tuples(st.booleans(), PAUSES), max_size=300),
    pause_s=PAUSES,
    quantile=st.floats(0.5, 0.999),
    step=st.floats(0.001, 0.5),
    largest=st.floats(1.1, 20),
)
def test_drift_agrees_with_its_slow_twin(
    plans: list[tuple[bool, float]],
    pause_s: float,
    quantile: float,
    step: float,
    largest: float,
) -> None:
    drift, now_s = CostDrift(quantile, step=step, largest=largest), 0.0
    timed = []
    for exceeded, before_s in plans:
        now_s += before_s
        drift.add(exceeded, now_s)
        timed.append((exceeded, now_s))
    now_s += pause_s
    expected = drift_after(timed, now_s, quantile, step, largest)
    assert drift.at(now_s) == pytest.approx(expected, rel=1e-9)
    assert 1 <= drift.at(now_s) <= drift.factor <= largest * (1 + 1e-12)
    assert drift.plans == len(plans)


@given(
    ratios=st.lists(st.floats(0.01, LARGEST / 1.1), min_size=1, max_size=400),
    quantile=st.floats(0.5, 0.99),
    pause_s=st.sampled_from([0.0, 1e-3, 0.04, 0.2, 0.6, 2.0]),
)
def test_drift_bounds_the_share_that_exceeds_whatever_the_times_are(
    ratios: list[float], quantile: float, pause_s: float
) -> None:
    drift, count = CostDrift(quantile), len(ratios)
    share = followed(drift, ratios, pause_s) / count
    assert drift.bound_hits == 0
    taught = math.log(LARGEST) * (1 + (count - 1) * pause_s / HOLD_S)
    assert share <= 1 - quantile + (taught + STEP) / (STEP * count)


@pytest.mark.parametrize("each_s", [1e-3, 0.04, 1.0])
def test_drift_is_forgotten_after_a_second_of_quiet(each_s: float) -> None:
    """Whether plans come meanwhile or not."""
    drift = CostDrift()
    while drift.factor < 3.9:
        drift.add(True, 6.0)
    assert drift.at(6.0 + HOLD_S) == drift.factor
    for k in range(round(1.0 / each_s) - 1):
        drift.add(False, 6.0 + (k + 1) * each_s)
    assert drift.at(6.0 + FORGET_S) == 1


def test_drift_that_lasts_is_remembered_at_the_first_plan_that_shows_it() -> None:
    drift = CostDrift()
    while drift.factor < 2:
        drift.add(True, 0.0)
    before = drift.factor
    assert drift.at(10.0) == 1
    drift.add(True, 10.0)
    assert drift.at(10.0) > before
    # but not once plans in time have shown that it was over
    for _ in range(40):
        drift.add(False, 20.0)
    drift.add(True, 20.0)
    assert drift.at(20.0) < 1.1


@pytest.mark.parametrize(("rate", "most"), [(25, 0.09), (200, 0.025), (2000, 0.012)])
def test_drift_keeps_to_a_slowness_that_lasts(rate: int, most: float) -> None:
    """Each second of silence is tried out: so many more are late, and no more."""
    draws = np.random.default_rng(0)
    ratios = (2 * draws.lognormal(-0.6, 0.3, 40_000)).tolist()
    assert followed(CostDrift(), ratios, 1 / rate) / len(ratios) < most


@pytest.mark.parametrize("slow", [0.5, 1.0, 2.0, 3.0])
def test_drift_settles_where_one_in_a_hundred_exceeds(slow: float) -> None:
    draws = np.random.default_rng(0)
    ratios = (slow * draws.lognormal(-0.6, 0.3, 60_000)).tolist()
    drift = CostDrift(0.99)
    followed(drift, ratios[:20_000])
    share = followed(drift, ratios[20_000:]) / 40_000
    true = slow * math.exp(-0.6 + 0.3 * 2.326)
    if true < 0.8:  # the curves are above the quantile and stay there
        assert share < 0.01
        assert drift.factor < 1.2
    else:
        assert share == pytest.approx(0.01, abs=0.001)
        assert drift.factor == pytest.approx(true, rel=0.3)


def test_drift_stays_at_1_while_the_curves_hold() -> None:
    drift = CostDrift()
    assert followed(drift, [0.99] * 1000) == 0
    assert drift.factor == 1


def test_drift_costs_a_stall_no_more_than_a_step_and_forgets_it() -> None:
    drift = CostDrift(0.99)
    followed(drift, [1e9])
    assert 1 < drift.factor < 1.051
    followed(drift, [0.7] * 99)
    assert drift.factor == pytest.approx(1, abs=1e-9)


def test_drift_stops_at_its_bound_and_counts_that() -> None:
    drift = CostDrift()
    followed(drift, [1e9] * 100)
    assert drift.factor == pytest.approx(LARGEST)
    assert drift.bound_hits == 100 - math.floor(math.log(LARGEST) / (STEP * 0.99))


@pytest.mark.parametrize("quantile", [0.0, 1.0, -3.0, float("nan")])
def test_drift_refuses_a_quantile_that_is_none(quantile: float) -> None:
    with pytest.raises(BadInput, match="quantile"):
        CostDrift(quantile)


def serve(
    planner: Planner,
    slow: Callable[[int], float],
    count: int,
    budget_s: float,
    began_s: float = 0.0,
) -> list[tuple[int, bool]]:
    """Plans of a machine so much slower at each turn: the row, and whether in time.

    Most plans take three quarters of what the curve says, as with real curves. There
    are 40 a second.
    """
    draws = np.random.default_rng(1).uniform(0.6, 0.99, count).tolist()
    answers = []
    for turn in range(count):
        now_s = began_s + turn / 40
        planner.now = lambda at_s=now_s: at_s  # type: ignore[misc]
        choice = planner.choose(Request(TEXT_100, Deadline(now_s, budget_s)), now_s)
        row = choice.plan.row
        took_s = INDEX.cost_s(row, 100.0) * draws[turn] * slow(turn)
        planner.learn(choice.cost, took_s)
        answers.append((row, took_s <= budget_s))
    return answers


def test_late_answers_stop_soon_after_a_machine_turns_twice_as_slow() -> None:
    """But for one now and then, which finds out whether it still is."""
    planner = make_planner()
    answers = serve(planner, lambda turn: 1 + (turn >= 100), 400, 12e-3)
    assert answers[:100] == [(3, True)] * 100
    assert not all(fits for _, fits in answers[100:115])
    late = [not fits for _, fits in answers[115:]]
    assert sum(late) <= 285 / 40 / HOLD_S
    assert not any(one and other for one, other in itertools.pairwise(late))
    assert {row for row, fits in answers[115:] if fits} == {2}


def test_plans_become_dear_again_when_a_machine_recovers() -> None:
    planner = make_planner()
    serve(planner, lambda turn: 2.0, 200, 12e-3)
    assert planner.drift.factor > 1.5
    # a second of plans, or of nothing
    for began_s, count in ((5.0, 41), (6.0, 1)):
        answers = serve(planner, lambda turn: 1.0, count, 12e-3, began_s)
        assert answers[-1] == (3, True)


def drifted(now_s: Callable[[], float]) -> Planner:
    """An engine that everything took three times as long for at 50 s."""
    planner = make_planner()
    planner.now = planner.busy = now_s
    while planner.drift.factor < 3:
        planner.drift.add(True, 50.0)
    return planner


@pytest.mark.parametrize(("now_s", "row"), [(50.0 + HOLD_S, 0), (50.0 + FORGET_S, 1)])
def test_plans_that_are_held_back_are_tried_again(now_s: float, row: int) -> None:
    """Nothing but the prior fits into 2.5 ms at first, and tells of nothing."""
    planner = drifted(lambda: now_s)
    before = planner.drift.plans
    request = Request(TEXT_100, Deadline(now_s, 2.5e-3))
    assert execute(planner, request).row == row
    assert planner.drift.plans == before + row


def test_errors_for_too_little_do_not_last_for_ever() -> None:
    for silence_s, refused in ((HOLD_S, True), (FORGET_S, False)):
        now_s = 50.0 + silence_s
        planner = drifted(lambda at_s=now_s: at_s)  # type: ignore[misc]
        budget = Deadline(now_s, 2.5e-3)
        request = Request(TEXT_100, budget, on_infeasible="error")
        with pytest.raises(NothingFits) if refused else contextlib.nullcontext():
            assert execute(planner, request).row == 1


def test_answers_say_what_a_plan_costs_with_the_drift() -> None:
    planner = make_planner()
    request = Request(TEXT_100, Deadline(0.0, 20e-3))
    before = planner.choose(request, 0.0)
    followed(planner.drift, [1e9] * 10)
    after = planner.choose(request, 0.0)
    assert after.plan.row == before.plan.row
    assert after.drift == planner.drift.factor > 1
    assert after.cost == pytest.approx(before.cost * after.drift)


@pytest.mark.parametrize(
    ("charged_s", "busy_s", "rises", "tells"),
    [
        (1e-3, 1.01e-3, True, True),
        (1e-3, 1e-3, False, True),
        (LEAST_S / 2, LEAST_S, False, False),
        (LEAST_S / 2, 1e-2, True, True),
    ],
    ids=["exceeds", "exactly at", "too cheap", "not as cheap as it said"],
)
def test_planner_learns_from_plans_that_tell_something(
    charged_s: float, busy_s: float, rises: bool, tells: bool
) -> None:
    planner = make_planner()
    planner.learn(charged_s, busy_s)
    assert (planner.drift.factor > 1) == planner.suspects == rises
    assert planner.drift.plans == tells


@pytest.mark.parametrize(
    ("busy_s", "waiting_s", "rises", "plans"),
    [
        (1e-4, 11.9e-3, False, 0),
        (12e-3, 11.9e-3, False, 0),
        (12.1e-3, 11.9e-3, True, 1),
        (9e-3, 4e-3, True, 1),
        (7e-3, 4e-3, False, 1),
    ],
    ids=[
        "waits",
        "in time",
        "computes instead",
        "computes for long",
        "computes in time",
    ],
)
def test_planner_learns_only_from_what_a_plan_computes(
    busy_s: float, waiting_s: float, rises: bool, plans: int
) -> None:
    planner = make_planner()
    planner.learn(12e-3, busy_s, waiting_s)
    assert (planner.drift.factor > 1) == rises
    assert planner.drift.plans == plans


@pytest.mark.parametrize(("share", "plans"), [(0.0, 1), (0.1, 1), (0.98, 0)])
def test_a_plan_that_waited_does_not_show_a_fast_machine(
    share: float, plans: int
) -> None:
    clock = Clock()
    names = ["length", "marks", "words", "lowered"]
    curves = [
        {"name": name, "coefficients": [1.0], "covered": 1.0, "waits": share}
        for name in names
    ]
    planner = slow_planner(clock, AS_PROMISED, timed_index(curves=curves))
    planner.busy = Clock()
    assert execute(planner, Request(TEXT_100, Deadline(clock(), 20e-3))).row == 3
    assert planner.drift.plans == plans


def test_a_plan_too_cheap_to_be_timed_is_timed_once_one_takes_long() -> None:
    """Its clock is read anyway, but shows what others do too; the next is judged."""
    index, clock = make_index(scale=0.01), Clock()
    planner = slow_planner(clock, (12e-3, 0.0, 0.0), index)
    for judged in (0, 0, 1):
        assert planner.drift.plans == judged
        execute(planner, Request(TEXT_100, Deadline(clock(), 20e-6)))
        assert planner.suspects
    assert planner.drift.factor > 1


def test_a_thread_that_waits_for_a_processor_changes_nothing() -> None:
    """The clock runs on while others compute; that of the thread does not."""
    clock, ticks = iter(range(10**6)), iter(range(10**6))
    index = make_index()
    assert index.package is not None
    extractor = index.package.extractor([FEATURES_FILE])
    for busy_s, rises in ((1e-6, False), (0.05, True)):
        planner = Planner(
            index,
            extractor,
            now=lambda: next(clock) * 0.02,
            busy=lambda each=busy_s: next(ticks) * each,  # type: ignore[misc]
        )
        execute(planner, Request(TEXT_100, Deadline(planner.now(), 10.0)))
        assert (planner.drift.factor > 1) == rises


def test_what_a_plan_that_was_cut_short_is_charged() -> None:
    """After its first feature: the overhead, length, and the model of length."""
    clock = iter([0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    index = make_index()
    assert index.package is not None
    extractor = index.package.extractor([FEATURES_FILE])
    planner = Planner(index, extractor, now=lambda: next(clock), busy=lambda: 0.0)
    seen = execute(planner, Request(TEXT_100, Deadline(0.0, 20e-3)))
    assert (seen.row, seen.reason) == (1, "overrun")
    assert seen.charged == pytest.approx(0.1e-3 + 1e-3 + 0.1e-3)
