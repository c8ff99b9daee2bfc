"""Prices, against trying all slopes exactly."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.server.batch.knapsack import Menu, Steps, make_menu, solve
from polydom.server.batch.price import Price, price_of
from tests.support.oracles.batch import plans_at, price_by_trying, relaxed_knapsack

Points = list[tuple[int, int]]
# whole numbers, so that ties are common; the prior is there for nothing
plans = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1)
lists_of_plans = st.lists(plans, min_size=1, max_size=5)


def menu_of(own: Points) -> Menu:
    return make_menu(np.arange(len(own)), *np.array(own, float).T.copy())


def find(given_plans: list[Points], budget: float) -> tuple[Price, Steps]:
    steps = Steps([menu_of(own) for own in given_plans])
    left = budget - steps.base_costs.sum()
    return price_of(steps.slopes, steps.costs, left), steps


@given(lists_of_plans, st.integers(0, 60))
def test_price_is_the_slope_at_which_trying_all_exceeds_the_budget(
    given_plans: list[Points], budget: int
) -> None:
    # of equally cheap ones the better is the one that counts
    menus = [[p for p in own if p >= (min(own)[0], 0)] for own in given_plans]
    menus = [
        [p for p in own if p[1] == max(v for u, v in own if u == p[0])] for own in menus
    ]
    found, _ = find(menus, budget)
    slope, share = price_by_trying(menus, budget)
    if slope is None:
        assert found == (math.inf, 0)
        return
    assert found.slope == pytest.approx(float(slope), rel=1e-12)
    assert found.share == pytest.approx(float(share), abs=1e-9)


@given(lists_of_plans, st.integers(0, 60))
def test_what_a_price_buys_is_the_relaxed_optimum(
    given_plans: list[Points], budget: int
) -> None:
    price, steps = find(given_plans, budget)
    taken = price.taken(steps.slopes)
    base = sum(max(v for u, v in own if u == min(own)[0]) for own in given_plans)
    quality = base + taken @ (steps.slopes * steps.costs)
    least = steps.base_costs.sum()
    most = least + steps.costs.sum()
    assert least + taken @ steps.costs == pytest.approx(min(max(budget, least), most))
    bound = relaxed_knapsack(given_plans, budget)
    assert quality == pytest.approx(bound)
    menus = [menu_of(own) for own in given_plans]
    whole = solve(menus, budget)
    chosen = zip(menus, whole.places, strict=True)
    if whole.cost <= budget:
        assert sum(menu.qualities[place] for menu, place in chosen) <= bound + 1e-9


@given(plans, st.fractions(Fraction(1, 12), 12, max_denominator=12))
def test_each_item_gets_its_best_plan_less_price_times_cost(
    own: Points, slope: Fraction
) -> None:
    menu = menu_of(own)
    least, most = plans_at(own, slope)
    for share, wanted in ((0.0, least), (1.0, most)):
        place = int(Price(float(slope), share).taken(menu.slopes).sum())
        assert (menu.costs[place], menu.qualities[place]) == wanted


def test_slopes_that_rounding_tells_apart_are_the_same() -> None:
    slopes = np.array([0.3, 0.1 + 0.2, 0.2])  # the second is 0.30000000000000004
    price = price_of(slopes, np.ones(3), left=1.0)
    assert price.share == 0.5
    assert price.taken(slopes).tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize(
    ("left", "price"),
    [
        (-1.0, (math.inf, 0.0)),
        (0.0, (math.inf, 0.0)),
        (1.0, (3.0, 0.5)),
        (2.0, (2.0, 0.0)),
        (3.0, (2.0, 0.25)),
        (6.0, (0.0, 1.0)),
        (math.inf, (0.0, 1.0)),
    ],
)
def test_price_at_the_edges(left: float, price: tuple[float, float]) -> None:
    assert price_of(np.array([2.0, 3.0]), np.array([4.0, 2.0]), left) == price
    assert price_of(np.zeros(0), np.zeros(0), left) in ((0, 1), (math.inf, 0))
