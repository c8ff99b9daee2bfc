"""The population stability index, as by its definition, and what chance makes of it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from polydom.server.engine.monitoring.stability import (
    SMOOTHING,
    chance_level,
    chi_squared_95,
    stability_index,
)

COUNTS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=6
)


def by_definition(pairs: list[tuple[int, int]]) -> float:
    """Add up the index bin by bin."""
    used = [pair for pair in pairs if pair != (0, 0)]
    built = sum(one + SMOOTHING for one, _ in used)
    present = sum(one + SMOOTHING for _, one in used)
    index = 0.0
    for one, other in used:
        q, p = (one + SMOOTHING) / built, (other + SMOOTHING) / present
        index += (p - q) * math.log(p / q)
    return index


def arrays(*columns: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    made = np.zeros((2, len(columns), 6))
    for k, pairs in enumerate(columns):
        made[:, k, : len(pairs)] = np.array(pairs, float).T
    return made[0], made[1]


@given(first=COUNTS, second=COUNTS)
def test_the_index_is_that_of_the_definition(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    found = stability_index(*arrays(first, second))
    assert found.tolist() == pytest.approx([*map(by_definition, (first, second))])
    assert (found >= 0).all()


def test_quantiles_are_those_of_chi_squared() -> None:
    degrees = np.arange(1.0, 22.0)
    exact = chi2.ppf(0.95, degrees)
    assert chi_squared_95(degrees) == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize("count", [100, 1000])
@pytest.mark.parametrize("bins", [2, 10])
def test_the_level_is_exceeded_by_chance_in_a_twentieth(count: int, bins: int) -> None:
    draw = np.random.default_rng(bins)
    shares = draw.dirichlet(np.full(bins, 5.0))
    times = 2000
    expected = draw.multinomial(5000, shares, times).astype(float)
    counts = draw.multinomial(count, shares, times).astype(float)
    above = stability_index(expected, counts) > chance_level(expected, counts)
    # five standard deviations of the mean are 0.025, and the level is approximate
    assert 0.015 < above.mean() < 0.085


def test_few_items_and_few_bins_have_levels() -> None:
    expected, counts = arrays([(9, 0), (9, 0)], [(9, 3)], [(0, 0)])
    level = chance_level(expected, counts)
    assert level[0] == np.inf  # no item came
    assert level[1:].tolist() == [0.0, 0.0]  # one bin cannot differ
    assert stability_index(expected, counts)[1:].tolist() == [0.0, 0.0]
