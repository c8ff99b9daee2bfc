import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.indexer.fixed import FixedBudgetLookup, FixedSizeLookup
from polydom.indexer.lookup import Lookup

from . import oracles
from .curves import SIZES, Candidates, candidates

BUDGETS = st.sampled_from([0.0, 1.0, 2.0, 20.0]) | st.floats(0, 100)


@given(drawn=candidates(), size=st.sampled_from([0.0, 1.0, 1 / 3, 4.0]))
def test_fixed_size_lookup_answers_as_the_general_one(
    drawn: Candidates, size: float
) -> None:
    coefficients, accuracies = drawn
    lookup = FixedSizeLookup.build(coefficients, accuracies, size)
    costs = [oracles.horner(row, size) for row in coefficients.tolist()]
    for budget in [*costs, *(math.nextafter(c, -1) for c in costs), 0.0, math.inf]:
        row = lookup.best(size, budget)
        fits = [a for a, c in zip(accuracies, costs, strict=True) if c <= budget]
        assert row < 0 or costs[row] <= budget
        assert (accuracies[row] if row >= 0 else -1) == max(fits, default=-1)


@given(drawn=candidates(), budget=BUDGETS)
def test_fixed_budget_lookup_holds_it_and_misses_nothing_that_fits(
    drawn: Candidates, budget: float
) -> None:
    coefficients, accuracies = drawn
    lookup = FixedBudgetLookup.build(coefficients, accuracies, SIZES, budget)
    points = sorted({*SIZES, *lookup.starts})
    beside = [math.nextafter(n, side) for n in points for side in (-9, 9)]
    middles = [(a + b) / 2 for a, b in itertools.pairwise(points)]
    for n in {*points, *beside, *middles}:
        if not SIZES[0] <= n <= SIZES[1] or 0 < n < 1e-100:  # powers of n underflow
            continue
        costs = np.array([oracles.horner(row, n) for row in coefficients.tolist()])
        row = lookup.best(n, budget)
        assert row < 0 or costs[row] <= budget
        fits = accuracies[costs <= budget * (1 - 1e-11)]
        best = accuracies[row] if row >= 0 else -1.0
        assert best >= fits.max(initial=-1.0)


def test_fixed_budget_lookup_takes_a_size_that_just_fits() -> None:
    costs, accuracies = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.9, 0.5])
    lookup = FixedBudgetLookup.build(costs, accuracies, SIZES, 2.0)
    assert [lookup.best(n, 2.0) for n in (1.0, 2.0, math.nextafter(2, 3), 4.0)] == [
        0,
        0,
        1,
        1,
    ]


def test_fixed_budget_lookup_says_where_nothing_fits() -> None:
    lookup = FixedBudgetLookup.build(np.array([[0.0, 1.0]]), np.ones(1), SIZES, 2.0)
    assert (lookup.best(2.0, 2.0), lookup.best(3.0, 2.0)) == (0, -1)


def test_fixed_lookups_are_smaller_than_the_general_one() -> None:
    draw = np.random.default_rng(3)
    accuracies = draw.uniform(0, 1, 300)
    costs = draw.uniform(0.5, 1.5, (300, 3)) * accuracies[:, None]
    general = Lookup.build(costs, accuracies, SIZES)
    assert len(FixedSizeLookup.build(costs, accuracies, 2.0).rows) < len(general.stays)
    fixed = FixedBudgetLookup.build(costs, accuracies, SIZES, 3.0)
    assert len(fixed.rows) < len(general.stays)


def test_fixed_lookups_refuse_what_they_were_not_built_for() -> None:
    costs, accuracies = np.ones((1, 1)), np.ones(1)
    with pytest.raises(BadInput, match=r"size is 2\.0; this look-up is for 1\.0 only"):
        FixedSizeLookup.build(costs, accuracies, 1.0).best(2.0, 1.0)
    lookup = FixedBudgetLookup.build(costs, accuracies, SIZES, 1.0)
    with pytest.raises(BadInput, match=r"budget_s is 2\.0; this look-up is for 1\.0"):
        lookup.best(1.0, 2.0)


@pytest.mark.parametrize("budget", [-1.0, math.nan, math.inf])
def test_fixed_budget_lookup_refuses_a_budget_out_of_range(budget: float) -> None:
    with pytest.raises(BadInput, match="must be finite, 0 or more"):
        FixedBudgetLookup.build(np.ones((1, 1)), np.ones(1), SIZES, budget)
