"""Audits of early exits: what they count, when they sound an alarm, how they go on."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.server.engine.budget import Deadline, MoneyBudget
from polydom.server.engine.monitoring.exit_audit import TIMES, ExitAudit, ShareTest
from polydom.server.engine.planning.index_terms import promised_shares
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Outcome
from tests.support.clock import Clock
from tests.support.models.outcomes import outcome_of
from tests.support.oracles.engine import audit_alarm
from tests.support.planners import INDEX, ask, extractor_of, with_margins

ALL: dict[str | None, float] = {"ham": 0.1, "spam": 0.1}
# Answers: their whole class, and whether they changed; None if they exited nowhere
DRAWN = st.tuples(
    st.sampled_from(["ham", "spam"]), st.sampled_from([None, False, True])
)


@given(
    st.lists(DRAWN, max_size=60),
    st.sampled_from(
        [
            {"ham": 0.0, "spam": 0.3},
            {"ham": 0.005, "spam": 0.005},
            {"ham": 0.9, "spam": 0.005},
            {None: 0.3},
        ]
    ),
)
def test_audit_agrees_with_every_bet_counted_anew(
    answers: list[tuple[str, bool | None]], alphas: dict[str | None, float]
) -> None:
    audit = ExitAudit(alphas, quiet=50.0)
    for label, changed in answers:
        audit.check(label, changed)
    for label in ("ham", "spam"):
        own = [changed for of, changed in answers if of == label]
        early = [changed for changed in own if changed is not None]
        assert audit.drawn[label] == len(own)
        assert (audit.audited[label], audit.changed[label]) == (len(early), sum(early))
    for of, alpha in alphas.items():
        seen = [changed is True for label, changed in answers if of in (None, label)]
        assert audit.alarms[of] == audit_alarm(seen, alpha, TIMES, 50.0)


@pytest.mark.parametrize(
    ("outcome", "exits", "base_models"),
    [
        (outcome_of(12), 1, (12, 288)),
        (outcome_of(0, reason="waited"), 1, (0, 300)),
        (outcome_of(12, reason="overrun"), 1, (12, 288)),
        (outcome_of(300), 0, (300, 0)),
        (outcome_of(300, reason="budget"), 0, (300, 0)),
        (outcome_of(300, reason="sure"), 1, (300, 0)),
        (outcome_of(None, reason="sure"), 1, (0, 0)),
        (outcome_of(None, reason="overrun"), 0, (0, 0)),
        (outcome_of(None), 0, (0, 0)),
    ],
)
def test_an_answer_is_early_for_its_plan_or_for_its_model(
    outcome: Outcome, exits: int, base_models: tuple[int, int]
) -> None:
    audit = ExitAudit(ALL)
    audit.answered(outcome)
    assert (audit.exits, audit.drawn.total()) == (exits, 0)
    assert (audit.used, audit.left) == base_models


@pytest.mark.parametrize("used", [None, 300])
def test_an_audited_answer_counts_once_however_it_was_early(used: int | None) -> None:
    audit = ExitAudit(ALL)
    audit.answered(outcome_of(used, audit=True))
    audit.answered(outcome_of(300, passed=True))
    assert (audit.exits, audit.drawn) == (1, {"ham": 0, "spam": 2})
    assert audit.audited == audit.changed == {"ham": 0, "spam": 1}


def test_exits_that_change_more_than_all_answers_may_keep_the_promise() -> None:
    def first(draws: np.random.Generator, *, whole: bool) -> int:
        """Count the answers to an alarm, one in four an exit, one in five changed."""
        test = ShareTest(0.05, quiet=1000.0)
        for answers in range(3000):
            if draws.random() < 0.25:
                test.add(bool(draws.random() < 0.2))
            elif whole:
                test.add(False)
            if test.alarm:
                return answers
        return 3000

    draws = np.random.default_rng(0)
    assert np.mean([first(draws, whole=True) for _ in range(20)]) >= 1000
    assert np.mean([first(draws, whole=False) for _ in range(20)]) <= 400


def test_a_rare_class_has_an_alarm_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One in a hundred is spam, and loses a fifth: 0.2 % of all answers change."""
    alphas: dict[str | None, float] = {"ham": 0.01, "spam": 0.01}
    together, audit = ExitAudit({None: 0.01}), ExitAudit(alphas)
    for answers in range(20_000):
        for one in (together, audit):
            spam = answers % 100 == 0
            one.check("spam" if spam else "ham", spam and answers % 500 == 0)
    assert together.alarms == {None: False}
    assert audit.alarms == {"ham": False, "spam": True}
    (record,) = caplog.records
    assert "the promised 1 % of the answers 'spam': " in record.getMessage()
    assert vars(record)["event"] == "exits_changed"


def test_no_alarm_without_a_promise() -> None:
    audit = ExitAudit({})
    for _ in range(1000):
        audit.check("spam", True)
    assert (audit.changed, audit.alarms) == ({"spam": 1000}, {})


def test_one_change_breaks_a_promise_of_none() -> None:
    test = ShareTest(0.0)
    assert [test.add(changed) for changed in (False, True, False)] == [0, 1, 0]
    assert test.alarm


@pytest.mark.parametrize("classes", [1, 20])
def test_false_alarms_are_as_rare_as_said_and_true_ones_soon(classes: int) -> None:
    def first(rate: float, draws: np.random.Generator) -> int:
        """Count the answers to an alarm of any class."""
        tests = [ShareTest(0.05, quiet=500.0) for _ in range(classes)]
        places = draws.integers(classes, size=5000).tolist()
        changes = (draws.random(5000) < rate).tolist()
        for answers in range(5000):
            if tests[places[answers]].add(changes[answers]):
                return answers + 1
        return 5000

    draws = np.random.default_rng(0)
    kept = np.mean([first(0.05, draws) for _ in range(40)])
    broken = np.mean([first(0.2, draws) for _ in range(40)])
    assert kept >= 500
    assert broken <= 80 * classes


@pytest.mark.parametrize(("every", "sounds"), [(125, False), (75, True)])
def test_a_third_more_than_promised_is_told_from_a_fifth_less(
    every: int, sounds: bool
) -> None:
    test = ShareTest(0.01)
    for answers in range(60_000):
        test.add(answers % every == 0)
    assert test.alarm is sounds


@pytest.mark.parametrize(("alpha", "share"), [(1.0, 0.1), (-0.1, 0.1), (0.1, 1.1)])
def test_audit_refuses_what_is_no_share(alpha: float, share: float) -> None:
    with pytest.raises(BadInput):
        ExitAudit({"spam": alpha}, share)


def test_due_draws_the_share() -> None:
    numbers = iter([0.09, 0.1, 0.5])
    audit = ExitAudit({}, 0.1, draw=lambda: next(numbers))
    assert [audit.due() for _ in range(3)] == [True, False, False]
    assert not ExitAudit({}, 0.0, draw=lambda: 0.0).due()


def audited_engine() -> Planner:
    index = with_margins(0.0)
    planner = Planner(index, extractor_of(index), now=Clock())
    planner.audit.share = 1.0
    return planner


def test_an_audited_exit_answers_as_the_whole_plan() -> None:
    planner = audited_engine()
    outcome = ask(planner, MoneyBudget(1.0))
    whole = Planner(INDEX, extractor_of(INDEX), now=Clock())
    without = ask(whole, MoneyBudget(1.0))
    assert (outcome.row, outcome.reason) == (3, None)
    assert (outcome.label, outcome.scores) == (without.label, without.scores)
    planner.audit.share = 0.0
    early = ask(planner, MoneyBudget(1.0))
    assert early.reason == "sure"
    assert outcome.audit == (early.label != without.label)
    assert early.audit is None


def test_an_answer_past_all_exits_is_drawn_for_nothing() -> None:
    index = with_margins(1.0)  # no margin is above
    planner = Planner(index, extractor_of(index), now=Clock())
    assert not ask(planner, MoneyBudget(1.0)).passed
    planner.audit.share = 1.0
    outcome = ask(planner, MoneyBudget(1.0))
    assert (outcome.passed, outcome.audit, outcome.reason) == (True, None, None)
    planner.audit.answered(outcome)
    assert (planner.audit.drawn, planner.audit.exits) == ({outcome.label: 1}, 0)
    without = Planner(INDEX, extractor_of(INDEX), now=Clock())
    without.audit.share = 1.0
    assert not ask(without, MoneyBudget(1.0)).passed


def test_a_late_plan_with_a_deadline_is_not_made_later_by_an_audit() -> None:
    terms = {"on_infeasible": "cheapest", "min_quality": 0.9}
    outcome = ask(audited_engine(), Deadline(50.0, 1e-3), **terms)
    assert (outcome.row, outcome.audit) == (1, None)


def test_audits_of_several_threads_are_all_counted() -> None:
    audit = ExitAudit({"spam": 0.5})

    def add() -> None:
        for _ in range(2000):
            audit.add()
            audit.check("spam", False)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (audit.exits, audit.audited) == (8000, {"spam": 8000})


def test_an_audit_that_runs_out_of_time_answers_what_was_sure() -> None:
    index, clock = with_margins(0.0), Clock()
    planner = Planner(index, extractor_of(index), now=clock)

    def stall() -> float:
        clock.now_s = 60.0
        return 0.0

    planner.audit = ExitAudit({}, 1.0, draw=stall)
    outcome = ask(planner, Deadline(50.0, 20e-3))
    assert (outcome.row, outcome.reason, outcome.audit) == (1, "sure", None)
    assert planner.drift.plans == 0


def test_what_an_index_promises_is_in_its_report() -> None:
    assert promised_shares(INDEX) == {}
    assert INDEX.package is not None
    exits = {"alpha": 0.005, "fitted": 9, "calibrated": 9, "plans": []}
    for more, expected in (
        ({}, {None: 0.005}),  # of an older release
        ({"alphas": [0.005, 0.0]}, {"ham": 0.005, "spam": 0.0}),
    ):
        meta = {**INDEX.package.meta, "exits": {**exits, **more}}
        index = replace(INDEX, package=replace(INDEX.package, meta=meta))
        assert promised_shares(index) == expected
