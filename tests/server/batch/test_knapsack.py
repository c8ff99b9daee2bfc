"""Plans for many items under one budget, against trying everything."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.server.batch.knapsack import (
    Menu,
    Menus,
    Shape,
    make_menu,
    share_of,
    solve,
)
from tests.support.oracles.batch import concave_hull, knapsack, relaxed_knapsack
from tests.support.served import make_index

Points = list[tuple[int, int]]
# whole numbers, so that sums are exact and ties are common
points = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1)
lists_of_points = st.lists(points, min_size=1, max_size=5)


def menu_of(plans: Points) -> Menu:
    costs, accuracies = np.array(plans, float).T.copy()
    return make_menu(np.arange(len(plans)), costs, accuracies)


CHEAP_AND_DEAR = menu_of([(1, 5), (3, 7), (4, 11)])


def test_menu_keeps_the_concave_hull() -> None:
    assert CHEAP_AND_DEAR.rows.tolist() == [0, 2]
    steep = menu_of([(9, 9), (1, 1), (2, 5), (3, 7), (2, 4), (9, 2)])
    assert steep.costs.tolist() == [1, 2, 3, 9]
    assert steep.rows.tolist() == [1, 2, 3, 0]


@given(points)
def test_menu_agrees_with_trying_every_line(plans: Points) -> None:
    menu = menu_of(plans)
    found = list(zip(menu.costs.tolist(), menu.qualities.tolist(), strict=True))
    assert found == concave_hull(plans)
    assert [plans[row] for row in menu.rows] == found


def test_menu_of_nothing_is_refused() -> None:
    nothing = np.zeros(0)
    with pytest.raises(BadInput, match="without any plan"):
        make_menu(np.zeros(0, np.int64), nothing, nothing)


@given(lists_of_points, st.integers(0, 60))
def test_solve_is_within_one_step_of_the_optimum(
    plans: list[Points], budget: int
) -> None:
    menus = [menu_of(of_one) for of_one in plans]
    best = knapsack(plans, budget)
    found = solve(menus, budget)
    chosen = list(zip(menus, found.places, strict=True))
    assert found.cost == sum(menu.costs[place] for menu, place in chosen)
    accuracy = sum(menu.qualities[place] for menu, place in chosen)
    if best == -np.inf:
        assert not found.places.any()
        assert found.cost > budget
        return
    largest = max(np.diff(menu.qualities).max(initial=0) for menu in menus)
    assert found.cost <= budget
    bound = relaxed_knapsack(plans, budget)
    assert accuracy <= best <= bound + 1e-9
    assert bound - accuracy <= largest + 1e-9


@pytest.mark.parametrize(
    ("budget", "places"), [(1.9, [0, 0]), (2, [0, 0]), (5, [1, 0]), (8, [1, 1])]
)
def test_solve_takes_a_step_exactly_at_its_cost(
    budget: float, places: list[int]
) -> None:
    assert solve([CHEAP_AND_DEAR] * 2, budget).places.tolist() == places


def test_solve_spends_on_later_steps_what_the_first_that_does_not_fit_leaves() -> None:
    dear, cheap = menu_of([(0, 0), (10, 12)]), menu_of([(0, 0), (4, 2)])
    assert solve([dear, cheap, cheap], 9).places.tolist() == [0, 1, 1]


def test_solve_of_nobody_costs_nothing() -> None:
    assert solve([], 5).cost == 0


def test_share_is_the_part_of_the_steps_worth_the_price() -> None:
    low, high = menu_of([(1, 1), (3, 2)]), menu_of([(1, 1), (2, 9)])
    # after the cheapest plans 9 are left: 4 for all steps of highs, 5 for 6 of lows
    assert share_of([high, high, low], [high, low], 4, 16) == 3 + 2 + 2 * 5 / 6
    assert share_of([high], [high], 3, 6) == 1 + 0.5
    assert share_of([high], [high], 3, 2) == 1
    assert share_of([high], [high], 3, 99) == 2
    assert share_of([high], [high], 0, 99) == 99


@given(lists_of_points, st.integers(0, 60))
def test_shares_of_all_items_add_up_to_what_the_optimum_spends(
    plans: list[Points], budget: int
) -> None:
    menus = [menu_of(of_one) for of_one in plans]
    whole = sum(float(menu.costs[-1]) for menu in menus)
    base = sum(float(menu.costs[0]) for menu in menus)
    shares = 0.0
    for i, menu in enumerate(menus):
        others = menus[:i] + menus[i + 1 :]
        if others:
            shares += share_of([menu], others, len(others), budget)
    if len(menus) > 1:
        assert shares == pytest.approx(min(max(budget, base), whole))


def test_menus_are_the_hulls_of_the_skyline_at_a_size() -> None:
    index = make_index()
    menus = Menus(index, index.coefficients)
    menu = menus.of(Shape(100))
    assert menu is menus.of(Shape(100))
    # 0.8 for 5.2 ms lies below the line from 0.7 for 1.2 ms to 0.95 for 9.2 ms
    assert menu.rows.tolist() == [0, 1, 3]
    assert menu.costs == pytest.approx([0.0002, 0.0012, 0.0092])
