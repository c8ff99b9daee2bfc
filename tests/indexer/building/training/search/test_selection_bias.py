"""Accuracies of the best of many sets, corrected for their luck."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.indexer.building.training.search.selection_bias import (
    DRAWS,
    expected_qualities,
)
from tests.support.oracles.building import luck_of_the_best


def decisions(
    sets: int, items: int, spread: float, seed: int
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Sets that find the same items hard, and how often each is right in truth."""
    rng = np.random.default_rng(seed)
    truth = np.clip(0.8 + spread * rng.normal(size=sets), 0.01, 0.99)
    common = rng.random(items) < 0.7  # items that all sets treat alike
    draws = np.where(common, rng.random(items), rng.random((sets, items)))
    return draws < truth[:, None], truth


@pytest.mark.parametrize(
    ("sets", "items", "spread"),
    [(50, 500, 0.0), (300, 1250, 0.02), (30, 300, 0.1), (1, 300, 0)],
)
def test_expected_accuracy_of_the_best_is_what_fresh_items_show(
    sets: int, items: int, spread: float
) -> None:
    errors, looks = [], []
    for seed in range(60):
        right, truth = decisions(sets, items, spread, seed)
        best = right.mean(axis=1).argmax()
        (expected,) = expected_qualities(
            right,
            np.zeros(sets),
            np.array([best]),
            np.arange(items),
            np.ones(items),
            seed,
        )
        errors.append(expected - truth[best])
        looks.append(right[best].mean() - truth[best])
    doubt = np.std(looks) / np.sqrt(len(looks))
    assert abs(np.mean(errors)) < 0.005 + 2 * doubt
    assert abs(np.mean(errors)) <= abs(np.mean(looks)) + 1e-12


def test_a_set_without_rivals_is_taken_at_its_word() -> None:
    right = np.array([[True, True, False, True], [False, True, True, True]])
    found = expected_qualities(
        right, np.array([1.0, 2.0]), np.array([0]), np.arange(4), np.ones(4), 0
    )
    assert found == [0.75]


def test_perfect_sets_stay_perfect() -> None:
    right = np.ones((5, 40), bool)
    chosen = np.arange(5)
    found = expected_qualities(
        right, np.arange(5.0), chosen, np.arange(40), np.ones(40), 0
    )
    assert found.tolist() == [1.0] * 5


@given(seed=st.integers(0, 99), kept=st.sets(st.integers(0, 19), min_size=1))
def test_order_of_accuracies_stays(seed: int, kept: set[int]) -> None:
    right, _ = decisions(20, 60, 0.05, seed)
    chosen = np.array(sorted(kept))
    costs = np.random.default_rng(seed).random(20)
    found = expected_qualities(right, costs, chosen, np.arange(60), np.ones(60), seed)
    observed = right[chosen].mean(axis=1)
    assert (found <= observed + 1e-12).all()
    assert (found >= 0).all()
    for i in range(len(chosen)):
        for j in range(len(chosen)):
            if observed[i] <= observed[j]:
                assert found[i] <= found[j]


@pytest.mark.parametrize("weighed", [False, True])
def test_luck_is_what_counting_item_by_item_shows(weighed: bool) -> None:
    right, _ = decisions(6, 36, 0.02, 5)
    rng = np.random.default_rng(1)
    costs, groups = rng.random(6), np.repeat(np.arange(12), 3)
    weights = rng.integers(1, 4, 36).astype(float) if weighed else np.ones(36)
    cheapest_first = np.argsort(costs)
    luck = luck_of_the_best(
        right[cheapest_first], groups.tolist(), weights.tolist(), DRAWS, 3
    )
    # each alone: what caps it is not asked
    found = [
        expected_qualities(right, costs, np.array([s]), groups, weights, 3)[0]
        for s in cheapest_first
    ]
    observed = np.average(right, axis=1, weights=weights)[cheapest_first]
    assert observed - found == pytest.approx(luck, abs=1e-9)
