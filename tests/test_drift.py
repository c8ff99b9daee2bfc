"""Predictions follow a machine that slows down, and come back when it recovers."""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput, NothingFits
from polydom.features.items import text_item
from polydom.server.budget import Deadline
from polydom.server.drift import LARGEST, STEP, Drift
from polydom.server.engine import Engine
from polydom.server.errors import TooLittleLeft
from polydom.server.outcome import Outcome
from polydom.server.question import Question

from . import oracles
from .served import FEATURES_FILE, make_index

TEXT_100 = text_item("x" * 100)  # its sets cost 0.2, 1.2, 5.2 and 9.2 ms
INDEX = make_index()


def make_engine() -> Engine:
    assert INDEX.package is not None
    return Engine(INDEX, INDEX.package.extractor([FEATURES_FILE]))


def followed(drift: Drift, ratios: list[float]) -> int:
    """How many of some actual over predicted times exceeded the factor then."""
    exceeded = 0
    for ratio in ratios:
        late = ratio > drift.factor
        drift.add(late)
        exceeded += late
    return exceeded


@given(
    late=st.lists(st.booleans(), max_size=300),
    quantile=st.floats(0.5, 0.999),
    step=st.floats(0.001, 0.5),
    largest=st.floats(1.1, 20),
)
def test_drift_agrees_with_its_slow_twin(
    late: list[bool], quantile: float, step: float, largest: float
) -> None:
    drift = Drift(quantile, step=step, largest=largest)
    for exceeded in late:
        drift.add(exceeded)
    expected = oracles.drift(late, quantile, step, largest)
    assert drift.factor == pytest.approx(expected, rel=1e-9)
    assert 1 <= drift.factor <= largest * (1 + 1e-12)


@given(
    ratios=st.lists(st.floats(0.01, LARGEST / 1.1), min_size=1, max_size=400),
    quantile=st.floats(0.5, 0.99),
)
def test_drift_bounds_the_share_that_exceeds_whatever_the_times_are(
    ratios: list[float], quantile: float
) -> None:
    drift = Drift(quantile)
    share = followed(drift, ratios) / len(ratios)
    assert drift.bound_hits == 0
    room = (math.log(LARGEST) + STEP) / (STEP * len(ratios))
    assert share <= 1 - quantile + room


@pytest.mark.parametrize("slow", [0.5, 1.0, 2.0, 3.0])
def test_drift_settles_where_one_in_a_hundred_exceeds(slow: float) -> None:
    draws = np.random.default_rng(0)
    ratios = (slow * draws.lognormal(-0.6, 0.3, 60_000)).tolist()
    drift = Drift(0.99)
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
    drift = Drift()
    assert followed(drift, [0.99] * 1000) == 0
    assert drift.factor == 1


def test_drift_costs_a_stall_no_more_than_a_step_and_forgets_it() -> None:
    drift = Drift(0.99)
    followed(drift, [1e9])
    assert 1 < drift.factor < 1.051
    followed(drift, [0.7] * 99)
    assert drift.factor == pytest.approx(1, abs=1e-9)


def test_drift_stops_at_its_bound_and_counts_that() -> None:
    drift = Drift()
    followed(drift, [1e9] * 100)
    assert drift.factor == pytest.approx(LARGEST)
    assert drift.bound_hits == 100 - math.floor(math.log(LARGEST) / (STEP * 0.99))


@pytest.mark.parametrize("quantile", [0.0, 1.0, -3.0, float("nan")])
def test_drift_refuses_a_quantile_that_is_none(quantile: float) -> None:
    with pytest.raises(BadInput, match="quantile"):
        Drift(quantile)


def serve(
    engine: Engine, slow: Callable[[int], float], count: int, budget_s: float
) -> list[tuple[int, bool]]:
    """Plans of a machine so much slower at each turn: the row, and whether in time.

    Most plans take three quarters of what the curve says, as with real curves.
    """
    draws = np.random.default_rng(1).uniform(0.6, 0.99, count).tolist()
    answers = []
    for turn in range(count):
        choice = engine.choose(Question(TEXT_100, Deadline(0.0, budget_s)), 0.0)
        row = choice.plan.row
        took_s = INDEX.cost_s(row, 100.0) * draws[turn] * slow(turn)
        engine.follow(outcome(row, choice.cost, took_s))
        answers.append((row, took_s <= budget_s))
    return answers


def test_late_answers_stop_soon_after_a_machine_turns_twice_as_slow() -> None:
    engine = make_engine()
    answers = serve(engine, lambda turn: 1 + (turn >= 100), 400, 12e-3)
    assert answers[:100] == [(3, True)] * 100
    assert not all(fits for _, fits in answers[100:115])
    assert all(fits for _, fits in answers[115:])
    assert {row for row, _ in answers[115:]} == {2}


def test_plans_become_dear_again_when_a_machine_recovers() -> None:
    engine = make_engine()
    serve(engine, lambda turn: 2.0, 200, 12e-3)
    assert serve(engine, lambda turn: 1.0, 1, 12e-3) == [(2, True)]
    answers = serve(engine, lambda turn: 1.0, 1500, 12e-3)
    assert answers[-1] == (3, True)
    assert engine.drift.factor < 1.1


def answer_all(engine: Engine, count: int, budget_s: float, **terms: Any) -> list[int]:
    """Rows of real answers to a text, at once."""
    rows = []
    for _ in range(count):
        budget = Deadline(engine.now(), budget_s)
        question = Question(TEXT_100, budget, **terms)
        try:
            outcome = engine.answer(question)
        except TooLittleLeft as error:
            engine.refused(error)
            raise
        engine.follow(outcome, question)
        rows.append(outcome.row)
    return rows


def test_plans_that_are_held_back_are_tried_again() -> None:
    engine = make_engine()
    engine.drift.add(True)
    while engine.drift.factor < 3:
        engine.drift.add(True)
    # nothing but the prior fits into 2.5 ms at first, and the features are quick
    rows = answer_all(engine, 3000, 2.5e-3)
    assert rows[0] == 0
    assert rows[-1] == 1
    assert engine.drift.factor < 2.5 / 1.2


def test_a_prior_that_a_budget_buys_anyhow_changes_nothing() -> None:
    engine = make_engine()
    engine.drift.add(True)
    before = engine.drift.factor
    assert set(answer_all(engine, 100, 1.0e-3)) == {0}
    assert engine.drift.factor == before


def test_errors_for_too_little_do_not_last_for_ever() -> None:
    engine = make_engine()
    while engine.drift.factor < 3:
        engine.drift.add(True)
    with pytest.raises(NothingFits):
        answer_all(engine, 1, 2.5e-3, on_infeasible="error")
    rows = []
    for _ in range(3000):
        with contextlib.suppress(NothingFits):
            rows += answer_all(engine, 1, 2.5e-3, on_infeasible="error")
        if 1 in rows:  # a stall cuts an answer short
            return
    pytest.fail(f"of 3,000 questions only {rows} were answered")


@pytest.mark.parametrize(
    ("budget_s", "terms"),
    [(1.0e-3, {}), (20e-3, {"min_accuracy": 1.0})],
    ids=["too little anyhow", "not accurate enough"],
)
def test_errors_that_no_drift_caused_change_nothing(
    budget_s: float, terms: dict[str, Any]
) -> None:
    engine = make_engine()
    engine.drift.add(True)
    before = engine.drift.factor
    with pytest.raises(TooLittleLeft):
        answer_all(engine, 1, budget_s, on_infeasible="error", **terms)
    assert engine.drift.factor == before


def test_answers_say_what_a_plan_costs_with_the_drift() -> None:
    engine = make_engine()
    question = Question(TEXT_100, Deadline(0.0, 20e-3))
    before = engine.choose(question, 0.0)
    followed(engine.drift, [1e9] * 10)
    after = engine.choose(question, 0.0)
    assert after.plan.row == before.plan.row
    assert after.cost == pytest.approx(before.cost * engine.drift.factor)


def outcome(
    row: int, charged_s: float, busy_s: float | None, reason: Any = None
) -> Outcome:
    return Outcome("", {}, row, charged_s, 0.0, 9.0, reason, 0.5, charged_s, busy_s)


@pytest.mark.parametrize(
    ("seen", "rises"),
    [
        (outcome(2, 1e-3, 1.01e-3), True),
        (outcome(2, 1e-3, 1e-3), False),
        (outcome(0, 1e-3, 9e-3, "overrun"), True),
        (outcome(0, 1e-3, 9e-3), False),
        (outcome(0, 1e-5, 9e-3), False),
        (outcome(1, 1e-3, None), False),
    ],
    ids=["exceeds", "exactly at", "cut short", "prior", "too cheap", "by another"],
)
def test_engine_learns_from_plans_that_tell_something(
    seen: Outcome, rises: bool
) -> None:
    engine = make_engine()
    engine.follow(seen)
    assert (engine.drift.factor > 1) == rises


def test_a_thread_that_waits_for_a_processor_changes_nothing() -> None:
    """The clock runs on while others compute; that of the thread does not."""
    clock, ticks = iter(range(10**6)), iter(range(10**6))
    index = make_index()
    assert index.package is not None
    extractor = index.package.extractor([FEATURES_FILE])
    for busy_s, rises in ((1e-6, False), (0.05, True)):
        engine = Engine(
            index,
            extractor,
            now=lambda: next(clock) * 0.02,
            busy=lambda each=busy_s: next(ticks) * each,  # type: ignore[misc]
        )
        question = Question(TEXT_100, Deadline(engine.now(), 10.0))
        engine.follow(engine.answer(question), question)
        assert (engine.drift.factor > 1) == rises


def test_what_a_plan_that_was_cut_short_is_charged() -> None:
    """After its first feature: the overhead, length, and the model of length."""
    clock = iter([0.0, 0.0, 1.0, 1.0, 1.0])
    index = make_index()
    assert index.package is not None
    extractor = index.package.extractor([FEATURES_FILE])
    engine = Engine(index, extractor, now=lambda: next(clock), busy=lambda: 0.0)
    seen = engine.answer(Question(TEXT_100, Deadline(0.0, 20e-3)))
    assert (seen.row, seen.reason) == (1, "overrun")
    assert seen.charged == pytest.approx(0.1e-3 + 1e-3 + 0.1e-3)
