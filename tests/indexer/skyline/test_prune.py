import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.costs.polynomials import cost_at
from polydom.features.errors import BadInput
from polydom.indexer.index.size_lookup import SizeLookup
from polydom.indexer.skyline.prune import prune
from polydom.indexer.skyline.size_pairs import prune_pairs
from tests.support.builds.curves import (
    RECTANGLE,
    SIZES,
    Candidates,
    candidates,
    pair_candidates,
)
from tests.support.oracles.skyline import (
    exact_crossings,
    exact_skyline,
    horner,
    prune_by_pairs,
)

BUDGETS = st.sampled_from([1.0, 2.0, 20.0]) | st.floats(1e-3, 100)


@given(drawn=candidates())
def test_prune_keeps_what_comparing_all_pairs_keeps(drawn: Candidates) -> None:
    coefficients, accuracies = drawn
    kept = prune(coefficients, accuracies, SIZES).tolist()
    assert kept == prune_by_pairs(coefficients.tolist(), accuracies.tolist(), SIZES)


def test_prune_keeps_a_candidate_that_two_others_dominate_only_together() -> None:
    costs = np.array([[0.0, 1.0], [2.0, 0.0], [1.5, 0.25]])
    assert prune(costs, np.array([0.9, 0.9, 0.5]), SIZES).tolist() == [0, 1, 2]


def test_prune_drops_what_is_cheaper_only_outside_the_sizes() -> None:
    costs = np.array([[0.0, 1.0], [5.0, 0.0]])
    assert prune(costs, np.array([0.9, 0.5]), SIZES).tolist() == [0]
    assert prune(costs, np.array([0.9, 0.5]), (0.0, 6.0)).tolist() == [0, 1]


def test_prune_keeps_the_first_of_candidates_alike() -> None:
    assert prune(np.ones((3, 2)), np.full(3, 0.5), SIZES).tolist() == [0]


def test_prune_drops_a_dearer_candidate_listed_before_an_equally_accurate_one() -> None:
    costs = np.array([[2.0, 0.0], [1.0, 0.0]])
    assert prune(costs, np.full(2, 0.5), SIZES).tolist() == [1]


def test_prune_decides_a_dip_between_sizes_that_no_sample_shows() -> None:
    # cheaper than the constant 1 only within 1e-7 of size 1.2345
    at, height = 1.2345, 1.0 - 1e-14
    costs = np.array([[1.0, 0.0, 0.0], [at * at + height, -2 * at, 1.0]])
    assert prune(costs, np.array([0.9, 0.5]), SIZES).tolist() == [0, 1]


def test_prune_refuses_candidates_that_cannot_be_indexed() -> None:
    with pytest.raises(BadInput, match="negative cost"):
        prune(np.array([[1.0, -1.0]]), np.array([0.5]), SIZES)


@given(drawn=candidates(), size=st.sampled_from([0.0, 1.0, 1 / 3, 4.0]))
def test_prune_for_one_size_keeps_its_skyline_alone(
    drawn: Candidates, size: float
) -> None:
    coefficients, accuracies = drawn
    kept = prune(coefficients, accuracies, (size, size))
    skyline = exact_skyline(coefficients.tolist(), accuracies.tolist(), size)
    assert kept.tolist() == sorted(skyline)
    lookup = SizeLookup.build(coefficients[kept], accuracies[kept], (size, size))
    assert len(lookup.spans) == len(kept)
    costs = [horner(row, size) for row in coefficients.tolist()]
    for budget in [*costs, *(math.nextafter(c, -1) for c in costs), 0.0, math.inf]:
        row = lookup.best(size, budget)
        fits = [a for a, c in zip(accuracies, costs, strict=True) if c <= budget]
        assert (accuracies[kept[row]] if row >= 0 else -1) == max(fits, default=-1)


@given(drawn=candidates(), low=BUDGETS, high=BUDGETS, share=st.floats(0, 1))
def test_prune_for_budgets_keeps_the_best_of_each_and_nothing_else(
    drawn: Candidates, low: float, high: float, share: float
) -> None:
    coefficients, accuracies = drawn
    low, high = sorted([low, high])
    kept = prune(coefficients, accuracies, SIZES, (low, high))
    needed = set[int]()
    for n in sizes_to_look_at(
        [*coefficients.tolist(), [low, 0, 0, 0], [high, 0, 0, 0]]
    ):
        costs = np.array([horner(row, n) for row in coefficients.tolist()])
        for budget in (low, min(low + share * (high - low), high), high):
            fits = accuracies[costs <= budget * (1 - 1e-11)]
            left = accuracies[kept][costs[kept] <= budget]
            assert left.max(initial=-1) >= fits.max(initial=-1)
        for row in kept:
            better = costs[accuracies > accuracies[row]]
            if costs[row] <= high * (1 + 1e-9) and (better >= low * (1 - 1e-9)).all():
                needed.add(int(row))
    assert needed == set(kept.tolist())


def sizes_to_look_at(curves: list[list[float]]) -> list[float]:
    """Sizes where curves meet, right beside those, and between them."""
    points = sorted({*SIZES, *exact_crossings(curves, SIZES)})
    beside = [math.nextafter(n, side) for n in points for side in (-9, 9)]
    middles = [(a + b) / 2 for a, b in itertools.pairwise(points)]
    sizes = {*points, *beside, *middles}
    # powers of smaller ones underflow
    return sorted(n for n in sizes if n == 0 or 1e-100 < n <= SIZES[1])


def test_prune_for_one_budget_takes_a_size_that_just_fits() -> None:
    costs, accuracies = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.9, 0.5])
    assert prune(costs, accuracies, SIZES, (2.0, 2.0)).tolist() == [0, 1]
    assert prune(costs, accuracies, SIZES, (4.1, 4.1)).tolist() == [0]
    assert prune(costs, accuracies, (2.0, 4.0), (2.0, 2.0)).tolist() == [0, 1]
    assert prune(costs, accuracies, (3.0, 4.0), (2.0, 2.0)).tolist() == [1]


def test_prune_for_budgets_keeps_the_cheaper_of_equals_where_it_is() -> None:
    costs, accuracies = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.9, 0.9])
    assert prune(costs, accuracies, SIZES, (5.0, 6.0)).tolist() == [0, 1]


def test_prune_for_budgets_keeps_fewer() -> None:
    draw = np.random.default_rng(3)
    accuracies = draw.uniform(0, 1, 300)
    costs = draw.uniform(0.5, 1.5, (300, 3)) * accuracies[:, None]
    all_of_them, some, few = (
        len(prune(costs, accuracies, SIZES, budgets))
        for budgets in (None, (3.0, 6.0), (3.0, 3.0))
    )
    assert 0 < few < some < all_of_them / 2


@pytest.mark.parametrize("budgets", [(0.0, 1.0), (2.0, 1.0), (1.0, math.inf)])
def test_prune_refuses_budgets_that_are_no_range(budgets: tuple[float, float]) -> None:
    with pytest.raises(BadInput, match="0 < low <= high is needed"):
        prune(np.ones((1, 1)), np.ones(1), SIZES, budgets)


def test_prune_refuses_budgets_for_sizes_of_two_numbers() -> None:
    with pytest.raises(BadInput, match="for sizes of one number"):
        prune(np.ones((1, 3)), np.ones(1), RECTANGLE, (1.0, 2.0))


@given(drawn=pair_candidates())
def test_prune_pairs_drops_only_whom_one_undercuts_on_a_dense_grid(
    drawn: Candidates,
) -> None:
    coefficients, accuracies = drawn
    kept = prune_pairs(coefficients, accuracies, RECTANGLE)
    grid = [
        (a, b)
        for a in np.linspace(RECTANGLE[0][0], RECTANGLE[1][0], 9).tolist()
        for b in np.linspace(RECTANGLE[0][1], RECTANGLE[1][1], 9).tolist()
    ]
    costs = np.array([[cost_at(row, n) for n in grid] for row in coefficients.tolist()])
    for row in set(range(len(costs))) - set(kept.tolist()):
        no_dearer = (costs[kept] <= costs[row] * (1 + 1e-12)).all(axis=1)
        assert (no_dearer & (accuracies[kept] >= accuracies[row])).any()
    for row in kept:  # and nobody is kept whom one undercuts by far
        cheaper = (costs < 0.5 * costs[row] - 1e-9).all(axis=1)
        assert not (cheaper & (accuracies >= accuracies[row])).any()


def test_prune_pairs_keeps_what_two_others_dominate_only_together() -> None:
    costs = np.array([[0.0, 1, 0], [0, 0, 1], [0, 0.75, 0.75]])
    sizes = ((1.0, 1.0), (9.0, 9.0))
    assert prune_pairs(costs, np.array([0.9, 0.9, 0.5]), sizes).tolist() == [0, 1, 2]


def test_prune_pairs_decides_by_halves_what_corners_alone_do_not() -> None:
    # (a - b)^2 + 1.5 above 2ab needs cells around a = b, where it is close
    costs = np.array([[0.0, 0, 0, 0, 2, 0], [0.01, 0, 0, 1, 0, 1]])
    sizes = ((1.0, 1.0), (9.0, 9.0))
    assert prune_pairs(costs, np.array([0.9, 0.5]), sizes).tolist() == [0]


def test_prune_pairs_keeps_whom_another_touches_along_a_line() -> None:
    # a^2 + b^2 is never below 2ab, which no number of halves around a = b shows
    costs = np.array([[0.0, 0, 0, 0, 2, 0], [0, 0, 0, 1, 0, 1]])
    sizes = ((1.0, 1.0), (9.0, 9.0))
    assert prune_pairs(costs, np.array([0.9, 0.5]), sizes).tolist() == [0, 1]


def test_prune_pairs_keeps_a_candidate_cheaper_in_one_corner_only() -> None:
    costs = np.array([[0.0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0]])
    sizes = ((1.0, 1.0), (9.0, 9.0))
    assert prune_pairs(costs, np.array([0.9, 0.5]), sizes).tolist() == [0, 1]
    larger = ((3.0, 3.0), (9.0, 9.0))
    assert prune_pairs(costs, np.array([0.9, 0.5]), larger).tolist() == [0]


def test_prune_pairs_keeps_the_first_of_candidates_alike() -> None:
    sizes = ((1.0, 1.0), (9.0, 9.0))
    assert prune_pairs(np.ones((3, 3)), np.full(3, 0.5), sizes).tolist() == [0]


def test_prune_pairs_refuses_candidates_that_cannot_be_indexed() -> None:
    with pytest.raises(BadInput, match="negative coefficient"):
        prune_pairs(np.array([[1.0, -1, 0]]), np.array([0.5]), ((1, 1), (2, 2)))
