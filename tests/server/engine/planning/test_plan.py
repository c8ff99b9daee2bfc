"""A plan says at every checkpoint whether going on can still pay."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.costs.polynomials import cost_at
from polydom.server.engine.planning.plan import make_plans
from tests.support.indexes.served import ORDERS, make_index
from tests.support.oracles.anytime import seconds_to_a_better_answer

INDEX = make_index()
PLANS = make_plans(INDEX)


def test_plan_of_the_empty_set_has_nothing_to_compute() -> None:
    assert PLANS[0].features == ()
    assert PLANS[0].answers == (0,)


def test_plan_answers_with_what_is_computed_so_far() -> None:
    assert PLANS[3].features == (0, 1, 2)
    assert PLANS[3].answers == (0, 1, 2, 3)


def test_plan_pays_a_shared_step_only_before_the_first_feature_that_needs_it() -> None:
    first, second, third = PLANS[3].ahead
    assert first == pytest.approx((1e-3 + 1e-4, 0))
    assert second == pytest.approx((2e-3 + 1e-3 + 1e-4, 1e-5))
    assert third == pytest.approx((4e-3 + 1e-4, 0))


def test_plan_goes_on_exactly_at_the_cost_and_not_below() -> None:
    exactly = cost_at(PLANS[3].ahead[1] or (), 100.0)
    assert PLANS[3].worth_going_on(1, 100.0, exactly)
    assert not PLANS[3].worth_going_on(1, 100.0, math.nextafter(exactly, 0))
    assert not PLANS[3].worth_going_on(1, 100.0, math.nan)


def test_plan_looks_past_a_feature_that_alone_improves_nothing() -> None:
    package = INDEX.package
    assert package is not None
    # as if no set {length, marks} had been trained
    untrained = replace(package, fallbacks=((0,), (0, 1), (0, 1, 2), (0, 1, 1, 3)))
    plan = make_plans(replace(INDEX, package=untrained))[3]
    assert plan.ahead[1] == pytest.approx((2e-3 + 1e-3 + 4e-3 + 1e-4, 1e-5))


def test_plan_stops_where_nothing_better_lies_ahead() -> None:
    accuracies = np.array([0.5, 0.7, 0.7, 0.95])
    plan = make_plans(replace(INDEX, qualities=accuracies))[2]
    assert plan.ahead[1] is None
    assert not plan.worth_going_on(1, 100.0, math.inf)


@pytest.mark.parametrize("row", range(4))
def test_plan_knows_what_the_features_before_each_checkpoint_cost(row: int) -> None:
    package, plan = INDEX.package, PLANS[row]
    assert package is not None
    assert len(plan.begun) == len(plan.features) + 1
    for k, begun in enumerate(plan.begun):
        done = sum(1 << feature for feature in plan.features[:k])
        assert begun == tuple(package.costs.of(done))


@given(
    row=st.integers(0, 3),
    k=st.integers(0, 2),
    size=st.floats(1, 1e4),
    left=st.floats(0, 0.2),
)
def test_plan_agrees_with_adding_up_what_each_feature_costs(
    row: int, k: int, size: float, left: float
) -> None:
    if k < len(ORDERS[row]):
        package = INDEX.package
        assert package is not None
        expected = seconds_to_a_better_answer(package, INDEX.qualities, row, k)
        found = PLANS[row].worth_going_on(k, size, left)
        if not math.isclose(expected(size), left):
            assert found == (expected(size) <= left)
