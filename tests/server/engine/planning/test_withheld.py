"""Plans for items of which some features cannot be computed need none of those."""

import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadItem
from polydom.features.items import Gaps, Item
from polydom.indexer.index.index import Index
from polydom.server.batch.batch_budget import BatchBudget
from polydom.server.batch.knapsack import Hulls, Shape
from polydom.server.engine.budget import Deadline
from polydom.server.engine.executions.execution import begin, execute
from polydom.server.engine.planning.index_terms import make_anytime
from polydom.server.engine.request import Request
from polydom.server.errors import TooLittleLeft
from tests.support.clock import Clock
from tests.support.planners import (
    AS_PROMISED,
    FAST,
    IDLE,
    INDEX,
    TEXT_100,
    money_planner,
    slow_planner,
    typical_index,
    typical_planner,
)

# Sets of the index: nothing, length, length and marks, all three.
LENGTH, MARKS, WORDS = 0b001, 0b010, 0b100


def lacking(withheld: int) -> Item:
    """The text, of which some features cannot be computed."""
    return msgspec.structs.replace(TEXT_100, gaps=Gaps((), 1, withheld))


@pytest.mark.parametrize(
    ("withheld", "budget_ms", "row", "reason"),
    [
        (0, 1000.0, 3, None),
        (WORDS, 1000.0, 2, "missing"),
        (WORDS, 9.21, 2, "missing"),
        (WORDS, 9.19, 2, None),
        (WORDS, 5.19, 1, "budget"),
        (MARKS, 1000.0, 1, "missing"),
        (MARKS, 5.21, 1, "missing"),
        (MARKS, 5.19, 1, None),
        (MARKS, 1.19, 0, "infeasible"),
        (MARKS | WORDS, 5.21, 1, "missing"),
        (LENGTH, 1000.0, 0, "missing"),
        (LENGTH, 1.21, 0, "missing"),
        (LENGTH, 1.19, 0, "infeasible"),
        (LENGTH | MARKS | WORDS, 1000.0, 0, "missing"),
        (LENGTH | MARKS | WORDS, 0.0, 0, "infeasible"),
    ],
)
def test_the_best_of_what_can_be_computed_answers_and_says_why_no_better(
    withheld: int, budget_ms: float, row: int, reason: str | None
) -> None:
    planner = slow_planner(Clock(), AS_PROMISED)
    request = Request(lacking(withheld), Deadline(50.0, budget_ms / 1e3))
    outcome = execute(planner, request)
    assert (outcome.row, outcome.reason) == (row, reason)
    assert outcome.quality == planner.qualities[row]


@given(
    st.integers(0, 7),
    st.integers(0, 120).map(lambda tenths: tenths / 1e4),
    st.integers(0, 120).map(lambda tenths: tenths / 1e4),
    st.sampled_from([0.0, 0.6, 0.75, 0.96]),
    st.sampled_from(["prior", "cheapest"]),
)
def test_a_choice_holds_where_it_would_be_chosen_again(
    withheld: int, budget_s: float, later_s: float, min_quality: float, policy: Any
) -> None:
    planner = slow_planner(Clock(), IDLE)
    budget = Deadline(50.0, budget_s)
    request = Request(lacking(withheld), budget, policy, min_quality)
    choice = planner.choose(request, 50.0)
    again = planner.choose(request, 50.0 + later_s)
    if planner.holds(choice, request, 50.0 + later_s):
        assert (again.plan, again.reason) == (choice.plan, choice.reason)


@given(st.integers(0, 7), st.integers(0, 20), st.floats(0, 0.02))
def test_who_is_hurried_by_others_gets_what_can_be_computed(
    withheld: int, waiting: int, budget_s: float
) -> None:
    planner = slow_planner(Clock(), IDLE)
    request = Request(lacking(withheld), Deadline(50.0, budget_s))
    row = planner.choose(request, 50.0, waiting).plan.row
    assert not int(planner.package.masks[row]) & withheld


@pytest.mark.parametrize("withheld", range(8))
@pytest.mark.parametrize("budget_ms", [1.3, 4.5, 5.3, 7.0, 9.3])
def test_any_time_computes_nothing_that_is_withheld(
    withheld: int, budget_ms: float
) -> None:
    """Nor does it answer worse than whoever keeps to the plan."""
    planner = typical_planner(FAST)
    request = Request(lacking(withheld), Deadline(50.0, budget_ms / 1e3))
    planned = planner.choose(request, 50.0).plan.row
    outcome = begin(planner, request).run()
    assert not int(planner.package.masks[outcome.row]) & withheld
    assert planner.qualities[outcome.row] >= planner.qualities[planned]
    best, _ = planner.top_of(request.item)
    if outcome.row == best != 3:
        assert outcome.reason in (None, "missing")


def only(index: Index, rows: list[int]) -> Index:
    """An index of some of the sets; its fallbacks are of no use."""
    package = index.package
    assert package is not None
    package = replace(
        package,
        masks=package.masks[rows],
        orders=tuple(package.orders[row] for row in rows),
        fallbacks=tuple(
            tuple(rows.index(other) for other in package.fallbacks[row]) for row in rows
        ),
        models=tuple(package.models[row] for row in rows),
        model_s=package.model_s[rows],
    )
    curves, qualities = index.coefficients[rows], index.qualities[rows]
    return Index.from_candidates(curves, qualities, index.sizes, package)


@given(
    st.integers(0, 7),
    st.floats(0, 0.012),
    st.sampled_from([0, LENGTH, LENGTH | MARKS]),
)
def test_any_time_aims_as_in_an_index_without_what_is_withheld(
    withheld: int, left_s: float, done: int
) -> None:
    index = typical_index()
    assert index.package is not None
    masks = index.package.masks.tolist()
    rows = [row for row, mask in enumerate(masks) if not mask & withheld]
    rule, alone = make_anytime(index, "s"), make_anytime(only(index, rows), "s")
    assert rule is not None
    assert alone is not None
    at, done = rule.at(100.0), done & ~withheld
    if done not in masks:
        return
    found = rule.target(at, done, left_s, withheld)
    expected = alone.target(at, done, left_s)
    assert found == (rows[expected] if expected >= 0 else -1)


def test_errors_say_whether_the_budget_or_the_item_is_to_blame() -> None:
    planner = slow_planner(Clock(), AS_PROMISED)

    def ask(withheld: int, budget_ms: float, min_quality: float = 0.0) -> None:
        budget = Deadline(50.0, budget_ms / 1e3)
        execute(planner, Request(lacking(withheld), budget, "error", min_quality))

    with pytest.raises(BadItem, match=r"answered: give those of length$"):
        ask(LENGTH, 9.0)
    with pytest.raises(BadItem, match=r"answered: give those of length, marks$"):
        ask(LENGTH | MARKS, 9.0, 0.75)
    with pytest.raises(TooLittleLeft, match="the cheapest model's 1,200 us"):
        ask(LENGTH, 1.0)
    with pytest.raises(TooLittleLeft, match="the cheapest model's 5,200 us"):
        ask(WORDS, 4.0, 0.75)
    ask(WORDS, 9.0, 0.75)


def test_menus_are_of_what_can_be_computed() -> None:
    """What pays only where nothing better can be had is on a hull then."""
    hulls = Hulls(INDEX, INDEX.coefficients)
    assert hulls.of(Shape(100.0)).rows.tolist() == [0, 1, 3]
    assert hulls.of(Shape(100.0, WORDS)).rows.tolist() == [0, 1, 2]
    assert hulls.of(Shape(100.0, LENGTH)).rows.tolist() == [0]


def test_a_total_is_spent_on_what_can_be_computed() -> None:
    planner = money_planner()
    budget = BatchBudget(planner, math.inf)
    items = [lacking(withheld) for withheld in range(8)]
    rows = [one.row for one in budget.plan(items).assignments]
    masks = planner.package.masks.tolist()
    assert not any(masks[row] & k for k, row in enumerate(rows))
    tops = [planner.top_of(item)[0] for item in items]
    assert np.array_equal(rows, tops)
