import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.selection.daub import daub, line_bound, monotone, slope
from polydom.models.selection.knockout import knockout
from polydom.models.selection.race import Allocation, Race, TrainingOutcome
from tests.support.oracles.learner_races import daub_allocations

Curve = Callable[[int], float]

N = 4096
RATIO_SQUARED = 1.5**2  # of the paper's ratio
RATIO, GRANULARITY = 2, 16  # powers of two, so that no rung is rounded


def power_law(top: float, gap: float, rate: float) -> Curve:
    """Well-behaved in the paper's sense: rising, with diminishing returns."""
    return lambda n: top - gap * n**-rate


power_laws = st.builds(
    power_law, st.floats(0.6, 0.95), st.floats(0.1, 0.55), st.floats(0.1, 0.9)
)


def race(
    curves: list[Curve], cost: Callable[[int], float] = float, limit: int | None = N
) -> Race:
    def arm(curve: Curve) -> Callable[[int], TrainingOutcome]:
        return lambda n: TrainingOutcome(curve(n), fit_s=cost(n))

    return Race({str(i): arm(curve) for i, curve in enumerate(curves)}, limit=limit)


def bound_at(curve: Curve, n: int) -> float:
    points = [n // RATIO**2, n // RATIO, n]
    return line_bound([line(p, curve(p)) for p in points], N)


def line(amount: int, score: float, seconds: float = 0.0) -> Allocation:
    return Allocation("", amount, amount, score, seconds=seconds)


def first_ruled_out(curve: Curve, best: float) -> int:
    """The paper's n*: the first rung whose bound is below the best final score."""
    rungs = [GRANULARITY * RATIO**k for k in range(2, 9)]
    return next((n for n in rungs if bound_at(curve, n) < best), N)


def first_nearly_flat(curve: Curve, delta: float) -> int:
    """The paper's n^Delta: the first rung with a slope of at most Delta / N."""
    rungs: list[int] = [GRANULARITY * RATIO**k for k in range(2, 9)]
    for n in rungs:
        points = [n // RATIO**2, n // RATIO, n]
        if slope(points, [curve(p) for p in points]) <= delta / N:
            return n
    return N


def test_monotone_makes_a_falling_pair_meet_in_the_middle() -> None:
    assert monotone([0.5, 0.7, 0.6]) == pytest.approx([0.5, 0.65, 0.65])


def test_line_bound_carries_the_slope_of_three_points_on() -> None:
    curve = [line(1000, 0.60), line(1500, 0.65), line(2000, 0.70)]
    assert line_bound(curve, 4000) == pytest.approx(0.90)


def test_line_bound_is_cut_at_the_training_score_only_when_asked() -> None:
    last = Allocation("", 2000, 2000, 0.70, train_score=0.72)
    curve = [line(1000, 0.60), line(1500, 0.65), last]
    assert line_bound(curve, 4000) == 0.72
    assert line_bound(curve, 4000, training_bound=False) == pytest.approx(0.90)


@given(seed=st.integers(0, 2**32), learners=st.integers(1, 5))
def test_daub_agrees_with_the_listing(seed: int, learners: int) -> None:
    # Drawn at random rather than by hypothesis, which would draw ties.
    tables = np.random.default_rng(seed).random((learners, 9))

    def curve(table: NDArray[np.float64]) -> Curve:
        return lambda n: float(table[int(math.log2(n / GRANULARITY))])

    curves = [curve(table) for table in tables]
    contest = race(curves)
    chosen = daub(contest, granularity=GRANULARITY, ratio=RATIO)
    expected, log = daub_allocations(curves, N, GRANULARITY, RATIO)
    assert [(int(line.learner), line.amount) for line in contest.log] == log
    assert int(chosen) == expected


@given(curves=st.lists(power_laws, min_size=2, max_size=6))
def test_daub_lemma_1_bounds_what_a_suboptimal_learner_gets(
    curves: list[Curve],
) -> None:
    contest = race(curves)
    daub(contest, granularity=GRANULARITY, ratio=RATIO)
    best = max(curve(N) for curve in curves)
    for name, had in contest.curves.items():
        n_star = first_ruled_out(curves[int(name)], best)
        assert sum(line.spent for line in had) <= RATIO**2 / (RATIO - 1) * n_star


@given(
    curves=st.lists(power_laws, min_size=2, max_size=6),
    power=st.floats(1, 3),
    delta=st.floats(0.01, 0.3),
)
def test_daub_theorem_2_bounds_the_cost_of_what_is_worse_by_delta(
    curves: list[Curve], power: float, delta: float
) -> None:
    contest = race(curves, cost=lambda n: n**power)
    daub(contest, granularity=GRANULARITY, ratio=RATIO)
    best = max(curve(N) for curve in curves)
    for name, had in contest.curves.items():
        curve = curves[int(name)]
        if curve(N) < best - delta:
            n_delta = first_nearly_flat(curve, delta)
            spent_s = sum(line.seconds for line in had)
            assert spent_s <= RATIO / (RATIO - 1) * (RATIO * n_delta) ** power


@given(curves=st.lists(power_laws, min_size=1, max_size=6), power=st.floats(1, 3))
def test_daub_theorem_3_bounds_the_cost_of_the_chosen(
    curves: list[Curve], power: float
) -> None:
    contest = race(curves, cost=lambda n: n**power)
    chosen = daub(contest, granularity=GRANULARITY, ratio=RATIO)
    spent_s = sum(line.seconds for line in contest.curves[chosen])
    assert spent_s <= RATIO / (RATIO - 1) * N**power


def test_daub_takes_the_learner_named_first_among_equals() -> None:
    assert daub(race([power_law(0.9, 0.4, 0.5)] * 3), granularity=16) == "0"


@pytest.mark.parametrize("ratio", [1.0, 0.5, math.nan])
def test_daub_refuses_a_ratio_that_does_not_grow(ratio: float) -> None:
    with pytest.raises(BadInput, match="greater than 1"):
        daub(race([power_law(0.9, 0.4, 0.5)]), ratio=ratio)


def test_daub_takes_exactly_b_r_squared_examples_and_refuses_one_less() -> None:
    curve = power_law(0.9, 0.4, 0.5)
    assert daub(race([curve], limit=900), granularity=400, ratio=1.5) == "0"
    with pytest.raises(BadInput, match="at most the 899 examples"):
        daub(race([curve], limit=899), granularity=400, ratio=1.5)


@pytest.mark.parametrize(
    ("limit", "first"), [(1125, 500), (1124, 499), (900, 400), (9, 4), (3, 1), (2, 1)]
)
def test_daub_begins_with_500_or_as_many_as_there_are(limit: int, first: int) -> None:
    contest = race([power_law(0.9, 0.4, 0.5)], limit=limit)
    if limit < RATIO_SQUARED:
        with pytest.raises(BadInput, match="at most the 2 examples"):
            daub(contest)
        return
    daub(contest)
    assert contest.log[0].amount == first


@pytest.mark.parametrize("strategy", [daub, knockout])
def test_daub_needs_to_know_how_many_examples_there_are(
    strategy: Callable[[Race], str],
) -> None:
    with pytest.raises(BadInput, match="no limit"):
        strategy(race([power_law(0.9, 0.4, 0.5)], limit=None))


@pytest.mark.parametrize("strategy", [partial(daub, granularity=16), knockout])
def test_daub_loses_only_the_learner_that_fails(
    strategy: Callable[[Race], str],
) -> None:
    def failing(n: int) -> float:
        if n > 100:
            raise MemoryError("too many rows")
        return 0.99

    contest = race([failing, power_law(0.8, 0.4, 0.5)])
    assert strategy(contest) == "1"
    assert contest.failed["0"].error == "MemoryError: too many rows"


@pytest.mark.parametrize("strategy", [partial(daub, granularity=16), knockout])
def test_daub_says_why_when_every_learner_fails(
    strategy: Callable[[Race], str],
) -> None:
    with pytest.raises(BadInput, match="every learner failed; '0' with: score nan"):
        strategy(race([lambda n: math.nan, lambda n: math.inf]))
