"""Plans for many items under one budget, against trying everything."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.server.batch.knapsack import (
    Hull,
    Hulls,
    Shape,
    Steps,
    Threshold,
    find_threshold,
    make_hull,
    share_of,
    solve,
)
from tests.support.indexes.served import make_index
from tests.support.oracles.batch import (
    concave_hull,
    knapsack,
    plans_at,
    price_by_trying,
    relaxed_knapsack,
)

Points = list[tuple[int, int]]
# whole numbers, so that sums are exact and ties are common
points = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1)
lists_of_points = st.lists(points, min_size=1, max_size=5)


def hull_of(plans: Points) -> Hull:
    costs, accuracies = np.array(plans, float).T.copy()
    return make_hull(np.arange(len(plans)), costs, accuracies)


CHEAP_AND_DEAR = hull_of([(1, 5), (3, 7), (4, 11)])


def test_menu_keeps_the_concave_hull() -> None:
    assert CHEAP_AND_DEAR.rows.tolist() == [0, 2]
    steep = hull_of([(9, 9), (1, 1), (2, 5), (3, 7), (2, 4), (9, 2)])
    assert steep.costs.tolist() == [1, 2, 3, 9]
    assert steep.rows.tolist() == [1, 2, 3, 0]


@given(points)
def test_menu_agrees_with_trying_every_line(plans: Points) -> None:
    hull = hull_of(plans)
    found = list(zip(hull.costs.tolist(), hull.qualities.tolist(), strict=True))
    assert found == concave_hull(plans)
    assert [plans[row] for row in hull.rows] == found


def test_menu_of_nothing_is_refused() -> None:
    nothing = np.zeros(0)
    with pytest.raises(BadInput, match="without any plan"):
        make_hull(np.zeros(0, np.int64), nothing, nothing)


@given(lists_of_points, st.integers(0, 60))
def test_solve_is_within_one_step_of_the_optimum(
    plans: list[Points], budget: int
) -> None:
    hulls = [hull_of(of_one) for of_one in plans]
    best = knapsack(plans, budget)
    found = solve(hulls, budget)
    chosen = list(zip(hulls, found.places, strict=True))
    assert found.cost == sum(hull.costs[place] for hull, place in chosen)
    accuracy = sum(hull.qualities[place] for hull, place in chosen)
    if best == -np.inf:
        assert not found.places.any()
        assert found.cost > budget
        return
    largest = max(np.diff(hull.qualities).max(initial=0) for hull in hulls)
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
    dear, cheap = hull_of([(0, 0), (10, 12)]), hull_of([(0, 0), (4, 2)])
    assert solve([dear, cheap, cheap], 9).places.tolist() == [0, 1, 1]


def test_solve_of_nobody_costs_nothing() -> None:
    assert solve([], 5).cost == 0


def test_share_is_the_part_of_the_steps_worth_the_price() -> None:
    low, high = hull_of([(1, 1), (3, 2)]), hull_of([(1, 1), (2, 9)])
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
    hulls = [hull_of(of_one) for of_one in plans]
    whole = sum(float(hull.costs[-1]) for hull in hulls)
    base = sum(float(hull.costs[0]) for hull in hulls)
    shares = 0.0
    for i, hull in enumerate(hulls):
        others = hulls[:i] + hulls[i + 1 :]
        if others:
            shares += share_of([hull], others, len(others), budget)
    if len(hulls) > 1:
        assert shares == pytest.approx(min(max(budget, base), whole))


def test_menus_are_the_hulls_of_the_skyline_at_a_size() -> None:
    index = make_index()
    hulls = Hulls(index, index.coefficients)
    hull = hulls.of(Shape(100))
    assert hull is hulls.of(Shape(100))
    # 0.8 for 5.2 ms lies below the line from 0.7 for 1.2 ms to 0.95 for 9.2 ms
    assert hull.rows.tolist() == [0, 1, 3]
    assert hull.costs == pytest.approx([0.0002, 0.0012, 0.0092])


def find(given_plans: list[Points], budget: float) -> tuple[Threshold, Steps]:
    steps = Steps([hull_of(own) for own in given_plans])
    left = budget - steps.base_costs.sum()
    return find_threshold(steps.slopes, steps.costs, left), steps


@given(lists_of_points, st.integers(0, 60))
def test_threshold_is_the_slope_at_which_trying_all_exceeds_the_budget(
    given_plans: list[Points], budget: int
) -> None:
    # of equally cheap ones the better is the one that counts
    hulls = [[p for p in own if p >= (min(own)[0], 0)] for own in given_plans]
    hulls = [
        [p for p in own if p[1] == max(v for u, v in own if u == p[0])] for own in hulls
    ]
    found, _ = find(hulls, budget)
    slope, share = price_by_trying(hulls, budget)
    if slope is None:
        assert found == (math.inf, 0)
        return
    assert found.slope == pytest.approx(float(slope), rel=1e-12)
    assert found.share == pytest.approx(float(share), abs=1e-9)


@given(lists_of_points, st.integers(0, 60))
def test_steps_above_the_threshold_are_the_relaxed_optimum(
    given_plans: list[Points], budget: int
) -> None:
    threshold, steps = find(given_plans, budget)
    taken = threshold.taken(steps.slopes)
    base = sum(max(v for u, v in own if u == min(own)[0]) for own in given_plans)
    quality = base + taken @ (steps.slopes * steps.costs)
    least = steps.base_costs.sum()
    most = least + steps.costs.sum()
    assert least + taken @ steps.costs == pytest.approx(min(max(budget, least), most))
    bound = relaxed_knapsack(given_plans, budget)
    assert quality == pytest.approx(bound)
    hulls = [hull_of(own) for own in given_plans]
    whole = solve(hulls, budget)
    chosen = zip(hulls, whole.places, strict=True)
    if whole.cost <= budget:
        assert sum(hull.qualities[place] for hull, place in chosen) <= bound + 1e-9


@given(points, st.fractions(Fraction(1, 12), 12, max_denominator=12))
def test_each_item_gets_its_best_plan_less_price_times_cost(
    own: Points, slope: Fraction
) -> None:
    hull = hull_of(own)
    least, most = plans_at(own, slope)
    for share, wanted in ((0.0, least), (1.0, most)):
        place = int(Threshold(float(slope), share).taken(hull.slopes).sum())
        assert (hull.costs[place], hull.qualities[place]) == wanted


def test_slopes_that_rounding_tells_apart_are_the_same() -> None:
    slopes = np.array([0.3, 0.1 + 0.2, 0.2])  # the second is 0.30000000000000004
    threshold = find_threshold(slopes, np.ones(3), left=1.0)
    assert threshold.share == 0.5
    assert threshold.taken(slopes).tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize(
    ("left", "wanted"),
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
def test_threshold_at_the_edges(left: float, wanted: tuple[float, float]) -> None:
    assert find_threshold(np.array([2.0, 3.0]), np.array([4.0, 2.0]), left) == wanted
    assert find_threshold(np.zeros(0), np.zeros(0), left) in ((0, 1), (math.inf, 0))
