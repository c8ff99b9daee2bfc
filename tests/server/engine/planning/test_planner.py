"""The planner spends what is left, and says why it buys no better."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import NothingFits
from polydom.features.items import text_item
from polydom.indexer import Index
from polydom.server.engine.budget import Deadline, MoneyBudget
from polydom.server.engine.executions.execution import execute
from polydom.server.engine.planning.index_terms import least_cost
from polydom.server.engine.planning.plan import make_plans
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import FetchOutcome, Request
from polydom.server.errors import TooLittleLeft
from polydom.server.schema.wire import Fetched
from tests.support.clock import Clock
from tests.support.indexes.served import ACCURACIES, HAM, MODEL_S, SPAM, make_pair_index
from tests.support.planners import (
    AS_PROMISED,
    IDLE,
    INDEX,
    TEXT_100,
    ask,
    extractor_of,
    slow_planner,
    with_margins,
)


@pytest.mark.parametrize(
    ("budget_ms", "row", "reason"),
    [
        (0.0, 0, "infeasible"),
        (1.19, 0, "infeasible"),
        (1.21, 1, "budget"),
        (5.21, 2, "budget"),
        (9.21, 3, None),
        (1000.0, 3, None),
    ],
)
def test_planner_buys_the_most_accurate_set_and_says_why_not_a_better(
    budget_ms: float, row: int, reason: str | None
) -> None:
    clock = Clock()
    outcome = ask(slow_planner(clock, AS_PROMISED), Deadline(50.0, budget_ms / 1e3))
    assert (outcome.row, outcome.reason) == (row, reason)
    assert clock.now_s - 50.0 == pytest.approx(sum(AS_PROMISED[:row]))


def test_planner_answers_as_the_model_itself_would() -> None:
    planner = Planner(INDEX, extractor_of(INDEX))
    for text, label in ((HAM, "ham"), (SPAM, "spam")):
        outcome = execute(planner, Request(text_item(text), MoneyBudget(1.0)))
        assert outcome.label == label
        assert outcome.scores is not None
        assert outcome.scores[label] == max(outcome.scores.values()) > 0.5
        assert sum(outcome.scores.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("waits_since_s", "reason"),
    [(50.0, "waited"), (50.004, "waited"), (50.0045, "budget"), (math.inf, "budget")],
)
def test_planner_plans_for_what_waiting_has_left(
    waits_since_s: float, reason: str
) -> None:
    """Only who waited for others says so, and only where that left too little."""
    planner = slow_planner(Clock(50.006), IDLE)
    outcome = ask(planner, Deadline(50.0, 9.5e-3), waits_since_s=waits_since_s)
    assert (outcome.row, outcome.reason) == (1, reason)
    assert outcome.predicted == pytest.approx(1.2e-3)


def test_planner_keeps_the_reserve_out_of_the_plan() -> None:
    planner = slow_planner(Clock(), IDLE)
    outcome = ask(planner, Deadline(50.0, 9.5e-3, reserve_s=1e-3))
    assert (outcome.row, outcome.reason) == (2, "budget")


def test_planner_answers_with_the_prior_at_once_when_too_late() -> None:
    clock = Clock(60.0)
    for since_s, reason in ((50.0, "waited"), (math.inf, "infeasible")):
        planner = slow_planner(clock, AS_PROMISED)
        outcome = ask(planner, Deadline(50.0, 10e-3), waits_since_s=since_s)
        assert (outcome.row, outcome.reason, clock.now_s) == (0, reason, 60.0)


@pytest.mark.parametrize(
    ("amount_ms", "reserve_ms", "min_quality", "reason"),
    [
        (1.3, 0.0, 0.0, "waited"),
        (1.3, 0.2, 0.0, "infeasible"),
        (1.1, 0.0, 0.0, "infeasible"),
        (5.3, 0.0, 0.75, "waited"),
        (5.1, 0.0, 0.75, "infeasible"),
        (5.3, 0.2, 0.75, "infeasible"),
    ],
)
@pytest.mark.parametrize(("on_infeasible", "late"), [("prior", 0), ("cheapest", 1)])
def test_planner_tells_waiting_from_a_budget_that_never_sufficed(
    amount_ms: float,
    reserve_ms: float,
    min_quality: float,
    reason: str,
    on_infeasible: Any,
    late: bool,
) -> None:
    planner = slow_planner(Clock(50.005), AS_PROMISED)
    budget = Deadline(50.0, amount_ms / 1e3, reserve_ms / 1e3)
    terms = {"on_infeasible": on_infeasible, "min_quality": min_quality}
    outcome = ask(planner, budget, waits_since_s=50.0, **terms)
    bought = 2 if min_quality else 1
    assert (outcome.row, outcome.reason) == (bought if late else 0, reason)


@pytest.mark.parametrize(
    ("on_infeasible", "min_quality", "row"),
    [
        ("prior", 0.75, 0),
        ("cheapest", 0.75, 2),
        ("cheapest", 0.0, 1),
        ("cheapest", 1, 3),
    ],
)
def test_planner_answers_what_was_asked_for_when_nothing_fits(
    on_infeasible: str, min_quality: float, row: int
) -> None:
    planner = slow_planner(Clock(), AS_PROMISED)
    terms = {"on_infeasible": on_infeasible, "min_quality": min_quality}
    outcome = ask(planner, Deadline(50.0, 1e-3), **terms)
    assert (outcome.row, outcome.reason) == (row, "infeasible")


def test_planner_raises_before_any_work_when_asked_to() -> None:
    clock = Clock()
    planner = slow_planner(clock, AS_PROMISED)
    terms = {"on_infeasible": "error", "min_quality": 0.75}
    with pytest.raises(
        NothingFits,
        match=r"^1,000 us of 1,000 us are left, below .* 5,200 us for an",
    ) as caught:
        ask(planner, Deadline(50.0, 1e-3), **terms)
    assert caught.value.cheapest_s == pytest.approx(5.2e-3)
    assert clock.now_s == 50.0


def test_planner_says_if_no_budget_buys_the_quality_asked_for() -> None:
    planner = slow_planner(Clock(), AS_PROMISED)
    best = planner.qualities[planner.top(1.0)[0]]
    terms = {"on_infeasible": "error", "min_quality": 0.995}
    with pytest.raises(NothingFits, match=rf"^min_quality is 0.995; .* of {best:g}$"):
        ask(planner, Deadline(50.0, 1.0), **terms)


def test_planner_says_which_fetches_came_too_late_for_any_answer() -> None:
    planner = slow_planner(Clock(), AS_PROMISED)
    states = {"orders": Fetched("late"), "employer": Fetched("came", 1.5)}
    fetches = FetchOutcome(states, 0.9, 0.0, 0.9, spared=False, possible=0.9)
    with pytest.raises(NothingFits, match=r"within the budget: orders \(late\)$"):
        ask(planner, Deadline(50.0, 1e-5), on_infeasible="error", fetches=fetches)


def test_planner_takes_a_min_quality_that_fits_as_a_bound_only() -> None:
    planner = slow_planner(Clock(), IDLE)
    outcome = ask(planner, Deadline(50.0, 5.5e-3), min_quality=0.8)
    assert (outcome.row, outcome.reason) == (2, "budget")


@given(budgets=st.tuples(st.floats(0, 0.02), st.floats(0, 0.02)))
def test_planner_never_answers_less_accurately_for_a_larger_budget(
    budgets: tuple[float, float],
) -> None:
    planner = slow_planner(Clock(), IDLE)
    small, large = (ask(planner, Deadline(50.0, b)).row for b in sorted(budgets))
    assert ACCURACIES[small] <= ACCURACIES[large]


@given(
    budget_s=st.floats(0, 0.02),
    reserves_s=st.tuples(st.floats(0, 2e-3), st.floats(0, 2e-3)),
    passed_s=st.tuples(st.floats(0, 0.01), st.floats(0, 0.01)),
    terms=st.fixed_dictionaries(
        {
            "on_infeasible": st.sampled_from(["prior", "cheapest"]),
            "min_quality": st.sampled_from([0.0, 0.6, 0.75, 1.0]),
            "waits_since_s": st.sampled_from([50.0, math.inf]),
        }
    ),
    slow_plans=st.integers(0, 9),
)
def test_a_choice_that_holds_is_what_would_be_chosen_later(
    budget_s: float,
    reserves_s: tuple[float, float],
    passed_s: tuple[float, float],
    terms: Any,
    slow_plans: int,
) -> None:
    planner, start_s = slow_planner(Clock(), IDLE), 50.0
    for _ in range(slow_plans):
        planner.drift.add(True, start_s)
    early, late = (
        Request(TEXT_100, Deadline(start_s, budget_s, kept_s), **terms)
        for kept_s in reserves_s
    )
    choice = planner.choose(early, start_s + passed_s[0])
    late_s = start_s + sum(passed_s)
    if planner.holds(choice, late, late_s):
        again = planner.choose(late, late_s)
        assert (again.plan, again.cost, again.reason) == (
            choice.plan,
            choice.cost,
            choice.reason,
        )


def test_a_choice_holds_until_it_no_longer_fits() -> None:
    planner = slow_planner(Clock(), IDLE)
    request = Request(TEXT_100, Deadline(50.0, 7e-3))
    choice = planner.choose(request, 50.0)
    assert choice.cost == pytest.approx(5.2e-3)
    more = Request(TEXT_100, Deadline(50.0, 8e-3))
    assert planner.holds(choice, request, 50.0017)
    assert not planner.holds(choice, request, 50.0019)
    assert not planner.holds(choice, more, 50.0005)
    planner.drift.add(True, 50.0)
    assert not planner.holds(choice, request, 50.0)


def test_checks_of_exits_count_in_what_lies_ahead() -> None:
    plain, exits = make_plans(INDEX)[3], make_plans(with_margins(0.0))[3]
    for k, (before, after) in enumerate(zip(plain.ahead, exits.ahead, strict=True)):
        assert before is not None
        assert after is not None
        better = next(
            j for j in range(k + 1, 4) if plain.answers[j] != plain.answers[k]
        )
        checks = sum(1 <= j < 3 for j in range(k + 1, better))
        assert after[0] == pytest.approx(before[0] + checks * MODEL_S)


@pytest.mark.parametrize(("sentences", "row"), [(1, 3), (21, 2)])
def test_planner_plans_by_both_numbers_of_a_size(sentences: int, row: int) -> None:
    # 100 words cost 0.2, 1.2, 5.2 and 9.2 ms, and 0.5 ms more for each sentence
    index, clock = make_pair_index(), Clock()
    planner = Planner(index, extractor_of(index), now=clock)
    item = text_item("a " * 99 + "." * (sentences - 1), pair=True)
    assert item.size == (100, sentences)
    request = Request(item, Deadline(50.0, 9.8e-3))
    outcome = execute(planner, request)
    assert outcome.row == row
    assert outcome.predicted == index.cost_s(row, item.size)
    assert planner.choose(request, 50.0, waiting=9).plan.row <= row
    hopeless = Request(item, Deadline(50.0, 1e-4), on_infeasible="error")
    with pytest.raises(TooLittleLeft, match=f"item of size 100 x {sentences}"):
        execute(planner, hopeless)


@given(
    index=st.sampled_from([INDEX, with_margins(0.0)]),
    budget_s=st.floats(0, 2e-3),
    terms=st.fixed_dictionaries(
        {},
        optional={
            "on_infeasible": st.sampled_from(["prior", "cheapest"]),
            "min_quality": st.sampled_from([0.0, 0.6, 1.0]),
            "exact": st.booleans(),
            "waits_since_s": st.just(49.9995),
        },
    ),
)
def test_a_budget_below_all_costs_chooses_as_a_search_does(
    index: Index, budget_s: float, terms: Any
) -> None:
    planner = Planner(index, extractor_of(index), now=Clock())
    request = Request(TEXT_100, Deadline(49.9995, budget_s), **terms)
    found = planner.choose(request, 50.0)
    planner.least = -math.inf
    assert found == planner.choose(request, 50.0)


@pytest.mark.parametrize(
    ("coefficients", "qualities", "least"),
    [
        ([[1.0, 0.0], [3.0, 1.0], [2.0, 5.0]], [0.5, 0.7, 0.6], 2.0),
        ([[1.0, 0.0], [3.0, -0.1], [2.0, 5.0]], [0.5, 0.7, 0.6], 0.0),
        ([[1.0, 0.0], [3.0, 1.0], [2.0, 5.0]], [0.7, 0.7, 0.6], -math.inf),
        ([[1.0, 0.0]], [0.5], -math.inf),
    ],
    ids=["growing", "falling", "the prior is the best", "the prior alone"],
)
def test_the_least_cost_holds_for_any_size(
    coefficients: Any, qualities: Any, least: float
) -> None:
    index = Index.from_candidates(coefficients, qualities, (1, 10))
    assert least_cost(index, 0) == least
    for size in (1e-9, 1.0, 10.0):
        for row in range(1, len(qualities)):
            assert index.cost_s(row, size) >= least
