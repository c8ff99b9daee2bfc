import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.selection.daub import daub, line_bound, monotone, slope
from polydom.models.selection.daub_seconds import cost_at, daub_by_seconds
from polydom.models.selection.race import Allocation, Race, TrainingOutcome
from tests.support.examples import few
from tests.support.oracles.learner_races import (
    cost_by_steps,
    daub_allocations,
    daub_rule_by_rule,
)

Curve = Callable[[int], float]

N = 4096
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


@pytest.mark.parametrize("strategy", [daub, daub_by_seconds])
def test_daub_needs_to_know_how_many_examples_there_are(
    strategy: Callable[[Race], str],
) -> None:
    with pytest.raises(BadInput, match="no limit"):
        strategy(race([power_law(0.9, 0.4, 0.5)], limit=None))


@pytest.mark.parametrize("strategy", [partial(daub, granularity=16), daub_by_seconds])
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


@pytest.mark.parametrize("strategy", [partial(daub, granularity=16), daub_by_seconds])
def test_daub_says_why_when_every_learner_fails(
    strategy: Callable[[Race], str],
) -> None:
    with pytest.raises(BadInput, match="every learner failed; '0' with: score nan"):
        strategy(race([lambda n: math.nan, lambda n: math.inf]))


@given(
    curves=st.lists(power_laws, min_size=1, max_size=8),
    power=st.floats(0, 2),
    delta=st.floats(0, 0.1),
)
def test_daub_by_seconds_is_within_delta_of_the_best_on_power_law_curves(
    curves: list[Curve], power: float, delta: float
) -> None:
    contest = race(curves, cost=lambda n: n**power)
    # Left to themselves: no learner is judged by what its peers gained.
    chosen = daub_by_seconds(contest, worth=0, delta=delta, peer_factor=math.inf)
    best = max(curve(N) for curve in curves)
    assert contest.had(chosen) == N
    assert curves[int(chosen)](N) >= best - delta - 1e-9


@given(curves=st.lists(power_laws, min_size=1, max_size=8), power=st.floats(0, 2))
def test_daub_by_seconds_gives_no_more_than_training_everything_thrice(
    curves: list[Curve], power: float
) -> None:
    contest = race(curves, cost=lambda n: n**power)
    daub_by_seconds(contest, delta=0.0)
    assert contest.seconds <= 3 * len(curves) * N**power


def test_daub_by_seconds_skips_the_rungs_of_a_learner_whose_cost_is_flat() -> None:
    contest = race([power_law(0.9, 0.4, 0.5)], cost=lambda n: 0.25)
    daub_by_seconds(contest, worth=0.0)
    assert [line.amount for line in contest.log] == [50, 200, N]


def test_daub_by_seconds_finishes_a_leader_without_rivals_at_once() -> None:
    contest = race([power_law(0.9, 0.4, 0.5), power_law(0.6, 0.1, 0.9)])
    daub_by_seconds(contest)
    assert [line.amount for line in contest.curves["0"]] == [50, N]


@settings(max_examples=few(30))
@given(
    delta=st.floats(0, 0.02),
    worth=st.floats(0, 0.2),
    growth=st.floats(1.5, 12),
    peer_factor=st.floats(0.5, 2),
    look_share=st.floats(0, 0.2),
    seed=st.integers(0, 2**32),
    learners=st.integers(1, 16),
)
def test_daub_by_seconds_agrees_with_its_rules(
    delta: float,
    worth: float,
    growth: float,
    peer_factor: float,
    look_share: float,
    seed: int,
    learners: int,
) -> None:
    # Curves that rise early, late or not at all, with costs of any shape.
    limit = 2000
    draw = np.random.default_rng(seed)
    start, end = 0.5 + 0.1 * draw.random(learners), 0.5 + 0.5 * draw.random(learners)
    middle, steepness = (
        draw.integers(40, limit, learners),
        4 * draw.random(learners) + 0.5,
    )
    base, power = draw.random(learners), 2 * draw.random(learners)

    def score(i: int, n: int) -> float:
        risen = 1 / (1 + (middle[i] / n) ** steepness[i])
        return float(start[i] + (end[i] - start[i]) * risen)

    def seconds(i: int, n: int) -> float:
        return float(0.01 + base[i] * (n / limit) ** power[i])

    def arm(i: int) -> Callable[[int], TrainingOutcome]:
        return lambda n: TrainingOutcome(score(i, n), fit_s=seconds(i, n))

    arms = {str(i): arm(i) for i in range(learners)}
    contest = Race(arms, limit=limit, chance=0.5)
    chosen = daub_by_seconds(
        contest,
        worth=worth,
        delta=delta,
        growth=growth,
        peer_factor=peer_factor,
        look_share=look_share,
    )
    expected, log = daub_rule_by_rule(
        score, seconds, learners, limit, worth, delta, growth, peer_factor, look_share
    )
    assert [(int(line.learner), line.amount) for line in contest.log] == log
    assert int(chosen) == expected


@given(
    wakes=st.integers(60, 2000),
    others=st.lists(power_laws, min_size=0, max_size=5),
    limit=st.sampled_from([2000, 2001, N]),
)
def test_daub_by_seconds_waits_for_a_curve_that_rises_late(
    wakes: int, others: list[Curve], limit: int
) -> None:
    def late(n: int) -> float:
        return 0.5 if n < wakes else 1.0

    def blind(n: int) -> float:
        return 0.5

    curves = [blind, blind, *others, late]
    arms = {
        str(i): (lambda n, curve=curve: TrainingOutcome(curve(n), fit_s=1e-3 * n))
        for i, curve in enumerate(curves)
    }
    chosen = daub_by_seconds(Race(arms, limit=limit, chance=0.5))
    # the race ends where `late`, whose score at N may be anywhere from .5 to 1, is
    # expected to win less than `worth`: (1 - best)^2 / (2 * .5)
    assert curves[int(chosen)](limit) >= 1 - math.sqrt(0.03)
    asleep = Race(arms, limit=limit, chance=0.5)
    assert daub_by_seconds(asleep, look_share=0.0) == chosen


def test_daub_by_seconds_looks_at_what_is_cheap_whatever_its_bound_says() -> None:
    def late(n: int) -> float:  # flat, then suddenly right, as on parities
        return 0.5 if n < 3000 else 1.0

    dear, cheap = power_law(0.8, 0.4, 0.5), late

    def contest() -> Race:
        arms = {
            "dear": lambda n: TrainingOutcome(dear(n), fit_s=float(n)),
            "cheap": lambda n: TrainingOutcome(cheap(n), fit_s=1e-3 * n),
        }
        return Race(arms, limit=N)

    assert daub_by_seconds(contest()) == "cheap"  # nobody told it what chance is
    assert daub_by_seconds(contest(), look_share=0.0) == "dear"


def test_daub_by_seconds_drops_what_cannot_win_by_delta() -> None:
    curves = [power_law(0.90, 0.4, 0.5), power_law(0.60, 0.1, 0.5)]
    contest = race(curves)
    assert daub_by_seconds(contest) == "0"
    assert contest.had("1") < N / 4


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"worth": -0.1}, "worth -0.1"),
        ({"worth": math.nan}, "worth nan"),
        ({"look_share": math.nan}, "look_share nan"),
        ({"delta": -0.1}, "delta -0.1"),
        ({"delta": math.nan}, "delta nan"),
        ({"growth": 1.0}, "growth 1.0"),
        ({"peer_factor": 0.0}, "peer_factor 0.0"),
        ({"look_share": -1.0}, "look_share -1.0"),
        ({"granularity": N + 1}, "granularity is 4097"),
    ],
    ids=[
        "negative worth",
        "nan worth",
        "nan look",
        "negative delta",
        "nan delta",
        "no growth",
        "no peers",
        "no look",
        "coarse",
    ],
)
def test_daub_by_seconds_refuses_parameters_out_of_range(
    parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        daub_by_seconds(race([power_law(0.9, 0.4, 0.5)]), **parameters)


@given(
    steps=st.tuples(*[st.integers(1, 1000)] * 4),
    seconds=st.tuples(*[st.floats(1e-3, 10)] * 3),
)
def test_cost_at_agrees_with_adding_up_the_marginal_cost(
    steps: tuple[int, ...], seconds: tuple[float, ...]
) -> None:
    amounts = [sum(steps[: k + 1]) for k in range(4)]
    points = list(zip(amounts, seconds, strict=False))
    curve = [line(n, 0.5, s) for n, s in points]
    expected = cost_by_steps(points, amounts[3])
    assert cost_at(curve, amounts[3]) == pytest.approx(expected, rel=1e-4)


def test_cost_at_is_in_proportion_after_one_training_and_linear_after_two() -> None:
    one, two = line(100, 0.5, 1.0), line(200, 0.6, 1.5)
    assert cost_at([one], 400) == 4.0
    assert cost_at([one, two], 400) == pytest.approx(2.5)
