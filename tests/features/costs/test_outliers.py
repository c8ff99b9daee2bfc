"""Times far above all others: told apart, left above a curve, or what it goes through.

Simulations draw what a call takes, and disturb some calls as other programs do.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.costs.curve import CostCurve
from polydom.features.costs.outliers import (
    chance_of_more,
    outliers_belong,
    outliers_in_doubt,
    outliers_of,
    quantile_of_others,
    steady_quantile,
)
from polydom.features.errors import BadInput
from tests.support.oracles.costs import outliers

Floats = NDArray[np.float64]

ITEMS = np.repeat(np.arange(48), 5)
SIZES = np.geomspace(1e4, 5e5, 48)[ITEMS]


def usual(sizes: Floats) -> Floats:
    return 5e-6 + 2e-11 * sizes


def times(random: np.random.Generator, sizes: Floats = SIZES) -> Floats:
    return usual(sizes) * (1 + random.gamma(1, 0.1, len(sizes)))


def ratio(curve: CostCurve, other: CostCurve) -> float:
    """By how much the curves differ at most, either way."""
    ratios = [curve(size) / other(size) for size in (1e4, 1e5, 5e5)]
    return max(*ratios, *(1 / r for r in ratios))


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 9), st.integers(0, 4)),
        min_size=1,
        max_size=40,
    ),
    st.sampled_from([0.5, 0.9, 0.99]),
    st.booleans(),
)
def test_outliers_agree_with_looking_at_every_time(
    drawn: list[tuple[int, int, int]], quantile: float, named: bool
) -> None:
    seconds, usually, items = np.array(drawn).T
    found = outliers_of(
        seconds.astype(float), usually.astype(float), quantile, items if named else None
    )
    slow = outliers(
        seconds.tolist(), usually.tolist(), quantile, items.tolist() if named else None
    )
    assert found.tolist() == slow


@given(st.integers(0, 30), st.integers(1, 30), st.sampled_from([0.01, 0.1, 0.5]))
def test_chance_of_more_is_the_binomials(count: int, more: int, share: float) -> None:
    total = count + more
    exact = sum(
        math.comb(total, k) * share**k * (1 - share) ** (total - k)
        for k in range(count, total + 1)
    )
    assert chance_of_more(count, total, share) == pytest.approx(exact, abs=1e-12)


def test_few_outliers_are_in_doubt_until_there_are_many_times() -> None:
    assert not outliers_in_doubt(0, 240, 0.99)
    assert outliers_in_doubt(1, 240, 0.99)
    assert outliers_in_doubt(3, 240, 0.99)
    assert not outliers_in_doubt(1, 480, 0.99)
    assert not outliers_in_doubt(3, 1200, 0.99)
    assert outliers_in_doubt(12, 1200, 0.99)
    assert not outliers_in_doubt(60, 1200, 0.99)  # its own: five in a hundred


def test_outliers_belong_where_the_quantile_of_all_times_is_among_them() -> None:
    assert not outliers_belong(3, 240, 0.99)
    assert outliers_belong(6, 240, 0.99)
    assert quantile_of_others(200, 0, 0.9) == 0.9
    assert quantile_of_others(100, 1, 0.95) == pytest.approx(95 / 99)
    assert quantile_of_others(100, 3, 0.99) == pytest.approx(96.5 / 97)


@pytest.mark.parametrize("disturbed", [1, 2, 3])
def test_a_few_disturbed_times_do_not_move_a_curve_far(disturbed: int) -> None:
    random = np.random.default_rng(disturbed)
    for _ in range(10):
        seconds = times(random)
        clean = CostCurve.fit(SIZES, seconds, items=ITEMS)
        at = random.choice(len(seconds), disturbed, replace=False)
        seconds[at] *= random.uniform(20, 200, disturbed)
        curve = CostCurve.fit(SIZES, seconds, items=ITEMS)
        assert ratio(curve, clean) < 2
        assert curve.degree >= 1


def test_a_disturbed_largest_item_bends_no_curve() -> None:
    seconds = times(np.random.default_rng(0))
    clean = CostCurve.fit(SIZES, seconds, items=ITEMS)
    seconds[-1] *= 50
    assert ratio(CostCurve.fit(SIZES, seconds, items=ITEMS), clean) < 1.5


def test_what_an_item_takes_every_time_is_covered() -> None:
    """One item in 48 is ten times as dear, which is two in a hundred times."""
    seconds = times(np.random.default_rng(0))
    seconds[ITEMS == 30] *= 10
    curve = CostCurve.fit(SIZES, seconds, items=ITEMS)
    assert curve.within(SIZES[ITEMS == 30], seconds[ITEMS == 30]) >= 0.5
    without = CostCurve.fit(SIZES, seconds)  # by size alone it looks disturbed
    assert without.within(SIZES, seconds) >= 0.95


HEAVY: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "log-normal": lambda random, count: random.lognormal(0, 1, count),
    "Pareto": lambda random, count: 1 + random.pareto(1.5, count),
    "two in a hundred slow": lambda random, count: np.where(
        random.random(count) < 0.02, 50.0, 1 + random.gamma(1, 0.1, count)
    ),
}


@pytest.mark.parametrize("share", [0.9, 0.99])
@pytest.mark.parametrize("name", HEAVY)
def test_heavy_tails_that_nobody_disturbed_are_covered(name: str, share: float) -> None:
    random = np.random.default_rng(0)
    items = np.repeat(np.arange(48), 25)  # as many as `measure` takes where in doubt
    sizes = np.geomspace(1e4, 5e5, 48)[items]
    covered = []
    for _ in range(6):
        seconds = usual(sizes) * HEAVY[name](random, len(sizes))
        curve = CostCurve.fit(sizes, seconds, quantile=share, items=items)
        more = np.tile(sizes, 10)
        fresh = usual(more) * HEAVY[name](random, len(more))
        covered.append(curve.within(more, fresh))
    assert np.mean(covered) >= share - 3 * (share * (1 - share) / 6 / len(sizes)) ** 0.5


def test_steady_quantile_is_the_quantile_unless_a_few_are_far_off() -> None:
    random = np.random.default_rng(0)
    seconds = 1e-6 * (1 + random.gamma(1, 0.1, 200))
    assert steady_quantile(seconds, 0.99) == np.quantile(seconds, 0.99)
    disturbed = seconds.copy()
    disturbed[:2] = 1e-3
    assert np.quantile(disturbed, 0.99) > 1e-5
    assert steady_quantile(disturbed, 0.99) <= seconds.max()
    disturbed[:20] = 1e-3  # one in ten is what it takes
    assert steady_quantile(disturbed, 0.99) == 1e-3
    assert steady_quantile(np.zeros(5), 0.99) == 0
    assert steady_quantile(np.array([2.0]), 0.99) == 2


def test_fit_refuses_items_that_are_not_one_for_each_time() -> None:
    with pytest.raises(BadInput, match=r"items of shape \(1,\) came for 2 times"):
        CostCurve.fit([1.0, 2.0], [1.0, 2.0], items=[0])
