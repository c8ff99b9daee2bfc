import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.costs.polynomials import (
    cost_at,
    costs_at,
    count_terms,
    degree_of,
    exponents,
    monomials,
)
from tests.support.oracles.costs import exact_pair_cost

SIDES = st.floats(1e-3, 1e5)
TEN = st.lists(st.floats(0, 9), min_size=10, max_size=10)


def test_degrees_and_terms_belong_together() -> None:
    assert [count_terms(d, 1) for d in range(4)] == [1, 2, 3, 4]
    assert [count_terms(d, 2) for d in range(4)] == [1, 3, 6, 10]
    assert [degree_of(t, 1) for t in range(1, 5)] == [0, 1, 2, 3]
    assert [degree_of(t, 2) for t in (0, 1, 2, 3, 4, 5, 6, 7, 10)] == [
        *(-1, 0, -1, 1, -1, -1, 2, -1, 3)
    ]


def test_terms_come_by_degree_so_that_lower_ones_are_the_beginning() -> None:
    pairs = exponents(2).tolist()
    assert pairs == [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    assert exponents(3).tolist()[:6] == pairs


def test_monomials_are_the_powers_and_their_products() -> None:
    assert monomials([2.0, 3.0], 3).tolist() == [[1, 2, 4], [1, 3, 9]]
    assert monomials([(2.0, 3.0)], 6).tolist() == [[1, 2, 3, 4, 6, 9]]


def test_cost_of_one_number_is_its_polynomial() -> None:
    assert cost_at([1.0, 2.0, 3.0], 10.0) == 321.0


@given(coefficients=TEN, a=SIDES, b=SIDES)
def test_cost_of_two_numbers_is_the_sum_of_its_terms(
    coefficients: list[float], a: float, b: float
) -> None:
    exact = exact_pair_cost(coefficients, a, b)
    assert abs(Fraction(cost_at(coefficients, (a, b))) - exact) <= exact * 1e-14
    many = costs_at(np.array([coefficients, coefficients]), (a, b))
    assert many == pytest.approx(float(exact))


@given(coefficients=TEN, a=SIDES, b=SIDES)
def test_cost_never_falls_as_a_size_grows_in_spite_of_rounding(
    coefficients: list[float], a: float, b: float
) -> None:
    cost = cost_at(coefficients, (a, b))
    assert cost_at(coefficients, (math.nextafter(a, math.inf), b)) >= cost
    assert cost_at(coefficients, (a, math.nextafter(b, math.inf))) >= cost
