import numpy as np
import pytest
from hypothesis import given

from polydom.features.errors import BadInput
from polydom.features.polynomials import cost_at
from polydom.indexer.candidates import prune, prune_pairs

from . import oracles
from .curves import RECTANGLE, SIZES, Candidates, candidates, pair_candidates


@given(drawn=candidates())
def test_prune_keeps_what_comparing_all_pairs_keeps(drawn: Candidates) -> None:
    coefficients, accuracies = drawn
    kept = prune(coefficients, accuracies, SIZES).tolist()
    assert kept == oracles.prune(coefficients.tolist(), accuracies.tolist(), SIZES)


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
