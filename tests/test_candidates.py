import numpy as np
import pytest
from hypothesis import given

from polydom.features.errors import BadInput
from polydom.indexer.candidates import prune

from . import oracles
from .curves import SIZES, Candidates, candidates


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
