"""Scores of how stable a leading class is: LazyRF as it is read in the benchmarks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.exits.vote_stability import (
    beta_binomial,
    schwing,
    stability_scores,
    stop_at,
)
from tests.support.oracles.vote_tests import chance_leader_stays, chance_over_half

pytestmark = pytest.mark.jit  # rivals: what they have of kernels is tested by ours

voters = pytest.mark.parametrize("count", [1, 2, 5, 8])


@voters
@pytest.mark.parametrize("alpha", [0.01, 0.11, 0.4])
def test_stops_are_where_exact_chances_are_sure(count: int, alpha: float) -> None:
    half, stays = schwing(count, alpha), beta_binomial(count, alpha)
    for i in range(count):
        for j in range(i + 1):
            chance = chance_over_half(i, j)
            sure = chance < alpha or chance > 1 - alpha
            settled = 2 * max(j, i - j) > count
            assert half[i, j] == (sure or settled), (i, j)
            chance = chance_leader_stays(count, i, j)
            assert stays[i, j] == (chance < alpha or chance > 1 - alpha), (i, j)
    assert (half[count] == 1).all()
    assert (stays[count] == 1).all()


@given(st.lists(st.integers(0, 2), min_size=1, max_size=8))
def test_scores_are_exact_chances(votes: list[int]) -> None:
    counts = np.cumsum(np.eye(3, dtype=np.int64)[votes], axis=0)
    scores = stability_scores(counts[None])
    for i in range(1, len(votes) + 1):
        so_far = sorted(votes[:i].count(k) for k in range(3))
        first, second = so_far[-1], so_far[-2]
        expected = {
            "over half": chance_over_half(i, first),
            "leader stays": chance_leader_stays(len(votes), i, first),
            "first against second": chance_over_half(first + second, first),
        }
        for name, chance in expected.items():
            assert scores[name][0, i - 1] == pytest.approx(float(chance)), name


def test_a_row_stops_at_its_first_score_that_is_enough_or_at_the_last() -> None:
    scores = np.array([[0.5, 0.9, 0.95], [0.9, 0.1, 0.1], [0.1, 0.2, 0.3]])
    assert stop_at(scores, 0.9).tolist() == [1, 0, 2]
