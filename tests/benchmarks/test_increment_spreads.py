"""P2-STOP as it is read in the benchmarks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.exits.increment_spreads import (
    SCALES,
    Scale,
    score_increments,
    spreads,
    stops,
    vote_increments,
)
from tests.support.oracles.exit_rules import models_until_calm

pytestmark = pytest.mark.jit  # rivals: what they have of kernels is tested by ours

VOTES = st.lists(st.integers(0, 2), min_size=9, max_size=9)


@given(
    st.lists(VOTES, min_size=1, max_size=4),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([0.0, 0.05, 0.5]),
    st.sampled_from(SCALES),
)
def test_votes_stop_where_the_rule_says_row_by_row(
    drawn: list[list[int]], window: int, spread: float, scale: Scale
) -> None:
    counts = np.cumsum(np.eye(3, dtype=np.int64)[np.array(drawn)], axis=1)
    increments, margins = vote_increments(counts)
    used = stops(spreads(increments, window), margins, scale, spread)
    for votes, count in zip(drawn, used, strict=True):
        shares = [np.zeros(3)]
        for i in range(1, len(votes) + 1):
            shares.append(np.array([votes[:i].count(k) / i for k in range(3)]))
        moves = [float(np.abs(b - a).max()) for a, b in pairwise(shares)]
        best = [sorted(share.tolist()) for share in shares[1:]]
        leads = [share[2] - share[1] for share in best]
        rule = window, spread, scale == "margin"
        assert count == models_until_calm(moves, leads, *rule)


@given(
    st.lists(st.integers(-8, 8), min_size=10, max_size=10),
    st.sampled_from([1, 3]),
    st.sampled_from(SCALES),
)
def test_scores_stop_where_the_rule_says(
    drawn: list[int], window: int, scale: Scale
) -> None:
    scores = np.array(drawn) / 4
    increments, margins = score_increments(scores[None], 0.25)
    used = stops(spreads(increments, window), margins, scale, 0.5)
    reached = [abs(0.25 + sum(scores[: i + 1])) for i in range(len(scores))]
    rule = window, 0.5, scale == "margin"
    assert used == [models_until_calm(np.abs(scores).tolist(), reached, *rule)]


@pytest.mark.parametrize("scale", SCALES)
def test_unanimous_votes_stop_after_two_windows(scale: Scale) -> None:
    counts = np.cumsum(np.eye(2, dtype=np.int64)[np.zeros((1, 20), np.int64)], axis=1)
    increments, margins = vote_increments(counts)
    assert stops(spreads(increments, 4), margins, scale, 0.01).tolist() == [8]
