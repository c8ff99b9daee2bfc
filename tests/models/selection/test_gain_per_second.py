"""Races by measured seconds: the rule and its twin, its guards, and its edges."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.models.selection.gain_per_second import (
    FAR,
    GROWTH,
    cost_at,
    expected_gain,
    gain_per_second,
    next_amount,
)
from polydom.models.selection.race import Race, TrainingOutcome
from tests.support.examples import few
from tests.support.oracles import learner_races

Curve = Callable[[int], float]

N = 4096


def race(
    curves: list[Curve],
    cost: Callable[[int], float] = float,
    *,
    limit: int = N,
    families: dict[str, str] | None = None,
) -> Race:
    def arm(curve: Curve) -> Callable[[int], TrainingOutcome]:
        return lambda n: TrainingOutcome(curve(n), fit_s=cost(n))

    arms = {str(i): arm(curve) for i, curve in enumerate(curves)}
    return Race(arms, limit=limit, families=families or {})


def power_law(top: float, gap: float, rate: float) -> Curve:
    return lambda n: top - gap * n**-rate


power_laws = st.builds(
    power_law, st.floats(0.6, 0.95), st.floats(0.1, 0.55), st.floats(0.1, 0.9)
)


@settings(max_examples=few(30))
@given(
    worth=st.floats(0, 0.01),
    spread=st.floats(0.01, 0.3),
    seed=st.integers(0, 2**32),
    learners=st.integers(1, 16),
    limit=st.sampled_from([2, 90, 399, 400, 401, 2000]),
)
def test_gain_per_second_agrees_with_its_rules(
    worth: float, spread: float, seed: int, learners: int, limit: int
) -> None:
    # Curves that rise early, late or not at all, with costs of any shape.
    draw = np.random.default_rng(seed)
    start, end = 0.5 + 0.1 * draw.random(learners), 0.5 + 0.5 * draw.random(learners)
    middle, steepness = (
        draw.integers(1, limit, learners),
        4 * draw.random(learners) + 0.5,
    )
    base, power = draw.random(learners) ** 3, 2 * draw.random(learners)
    families = draw.integers(0, learners, learners).tolist()

    def score(i: int, n: int) -> float:
        risen = 1 / (1 + (middle[i] / n) ** steepness[i])
        return float(start[i] + (end[i] - start[i]) * risen)

    def seconds(i: int, n: int) -> float:
        return float(0.01 + base[i] * (n / limit) ** power[i])

    def arm(i: int) -> Callable[[int], TrainingOutcome]:
        return lambda n: TrainingOutcome(score(i, n), fit_s=seconds(i, n))

    contest = Race(
        {str(i): arm(i) for i in range(learners)},
        limit=limit,
        families={str(i): f"family {families[i]}" for i in range(learners)},
    )
    chosen = gain_per_second(contest, worth=worth, spread=spread)
    expected, log = learner_races.gain_rule_by_rule(
        score, seconds, families, limit, worth, spread
    )
    assert [(int(line.learner), line.amount) for line in contest.log] == log
    assert int(chosen) == expected
    assert contest.had(chosen) == limit


@given(
    log_error=st.floats(-9, 0),
    mean=st.floats(-1, 3),
    deviation=st.floats(0.01, 3),
    least=st.floats(1e-4, 1),
)
def test_expected_gain_agrees_with_adding_up(
    log_error: float, mean: float, deviation: float, least: float
) -> None:
    expected = learner_races.expected_gain(log_error, mean, deviation, least)
    found = expected_gain(log_error, (mean, deviation), least)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-9)
    assert 0 <= found <= least


def test_expected_gain_is_that_of_the_mean_where_there_is_no_doubt() -> None:
    assert expected_gain(math.log(0.2), (math.log(2), 1e-9), 0.3) == pytest.approx(0.2)
    assert expected_gain(math.log(0.9), (math.log(2), 1e-9), 0.3) == 0.0
    assert expected_gain(math.log(0.9), None, 0.3) == math.inf


@given(
    amounts=st.lists(st.integers(1, 5000), min_size=1, max_size=5, unique=True),
    seconds=st.lists(st.floats(1e-6, 100), min_size=5, max_size=5),
    rest=st.integers(1, 10**6),
)
def test_next_amount_never_goes_far_beyond_what_two_points_show(
    amounts: list[int], seconds: list[float], rest: int
) -> None:
    points = list(zip(sorted(amounts), seconds, strict=False))
    n, last_s = points[-1]
    amount = next_amount(points, n + rest)
    assert n < amount <= n + rest
    if len(points) < 3:
        assert amount <= FAR * n
    if 2 * n < amount < n + rest:
        m, s = points[-2] if len(points) > 1 else (0, 0.0)
        assert last_s + (last_s - s) / (n - m) * (amount - n) <= GROWTH * last_s * 1.001


def test_next_amount_takes_a_flat_cost_for_flat_only_after_three_trainings() -> None:
    assert next_amount([(50, 1.0)], 10**6) == 200
    assert next_amount([(50, 1.0), (200, 1.0)], 10**6) == 1600
    assert next_amount([(50, 1.0), (200, 1.0), (1600, 1.0)], 10**6) == 10**6


def test_next_amount_goes_to_the_limit_from_more_than_half_of_it() -> None:
    assert next_amount([(50, 1.0)], 399) == 399
    assert next_amount([(50, 1.0)], 400) == 200
    assert next_amount([(50, 1.0)], 401) == 200  # 401 would be more than 8 times 50


def test_cost_at_reads_between_trainings_and_extrapolates_beyond() -> None:
    assert cost_at([(100, 2.0)], 400) == 4.0
    assert cost_at([(100, 2.0)], 10) == 2.0
    two = [(100, 1.0), (200, 1.5)]
    assert [cost_at(two, n) for n in (50, 150, 200, 400)] == [1.0, 1.25, 1.5, 2.5]
    assert cost_at([(100, 2.0), (200, 1.5)], 400) == 1.5


@given(curves=st.lists(power_laws, min_size=1, max_size=12), power=st.floats(0, 2))
def test_gain_per_second_takes_no_longer_than_four_times_all(
    curves: list[Curve], power: float
) -> None:
    contest = race(curves, cost=lambda n: n**power)
    chosen = gain_per_second(contest)
    assert contest.had(chosen) == N
    assert contest.seconds <= 4 * len(curves) * N**power


@given(wakes=st.integers(60, 1000), others=st.lists(power_laws, max_size=5))
def test_gain_per_second_waits_for_a_cheap_curve_that_rises_late(
    wakes: int, others: list[Curve]
) -> None:
    curves = [lambda n: 0.5, lambda n: 0.5, *others, lambda n: 0.5 + 0.5 * (n >= wakes)]
    arms: dict[str, Callable[[int], TrainingOutcome]] = {
        str(i): lambda n, i=i, curve=curve: TrainingOutcome(  # type: ignore[misc]
            curve(n), fit_s=n * (1e-3 if i == len(curves) - 1 else 1e-2)
        )
        for i, curve in enumerate(curves)
    }
    assert gain_per_second(Race(arms, limit=N)) == str(len(curves) - 1)


def test_gain_per_second_stops_what_is_dear_and_hopeless() -> None:
    cheap, dear = power_law(0.95, 0.3, 0.5), power_law(0.7, 0.3, 0.5)
    costs = [1e-3] * 8 + [1.0]
    arms: dict[str, Callable[[int], TrainingOutcome]] = {
        str(i): lambda n, cost=cost: TrainingOutcome(  # type: ignore[misc]
            (cheap if cost < 1 else dear)(n), fit_s=cost * n
        )
        for i, cost in enumerate(costs)
    }
    contest = Race(arms, limit=N)
    assert gain_per_second(contest) == "0"
    assert contest.had("8") == 50


def test_gain_per_second_lets_variants_wait_for_the_first_of_their_family() -> None:
    good, bad = power_law(0.9, 0.4, 0.5), power_law(0.55, 0.05, 0.5)
    better = power_law(0.92, 0.4, 0.5)
    curves = [bad, bad, good, better, bad, bad, bad]
    families = dict(zip("0123456", "aabbcde", strict=True))
    contest = race(curves, families=families)
    assert gain_per_second(contest) == "3"
    begun = [line.learner for line in contest.log if line.amount == 50]
    assert begun == ["0", "2", "4", "5", "6"]
    assert contest.curves["3"][0].amount == contest.curves["2"][-2].amount


def test_gain_per_second_begins_a_family_anew_whose_first_fails() -> None:
    def fails(n: int) -> float:
        if n > 50:
            raise MemoryError("too many rows")
        return 0.9

    contest = race([fails, power_law(0.9, 0.4, 0.5)], families={"0": "a", "1": "a"})
    assert gain_per_second(contest) == "1"
    assert set(contest.failed) == {"0"}


def test_gain_per_second_counts_only_what_is_added_where_arms_carry_on() -> None:
    contest = race([power_law(0.9 - i / 100, 0.4, 0.5) for i in range(6)], lambda n: 1)
    contest.carries_on = True
    assert gain_per_second(contest) == "0"
    assert contest.had("0") == N


def test_gain_per_second_tells_how_long_it_may_take() -> None:
    left: list[float | None] = []
    contest = race([power_law(0.9 - i / 100, 0.4, 0.5) for i in range(6)])
    contest.progress = lambda race: left.append(race.left_s)
    gain_per_second(contest)
    assert left[:6] == [None] * 6  # they begin
    assert all(one is not None and one >= 0 for one in left[6:])
    assert contest.left_s == 0


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_gain_per_second_takes_next_to_no_examples(limit: int) -> None:
    contest = race([power_law(0.5, 0.4, 0.5), power_law(0.9, 0.4, 0.5)], limit=limit)
    assert gain_per_second(contest) == "1"


def test_gain_per_second_takes_perfect_scores_and_no_seconds() -> None:
    contest = race([lambda n: 1.0] * 3, cost=lambda n: 0.0)
    assert gain_per_second(contest) == "0"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"worth": -0.1}, r"worth -0\.1"),
        ({"worth": math.nan}, "worth nan"),
        ({"spread": 0.0}, r"spread 0\.0"),
        ({"spread": math.inf}, "spread inf"),
        ({"spread": math.nan}, "spread nan"),
    ],
)
def test_gain_per_second_refuses_parameters_out_of_range(
    parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        gain_per_second(race([power_law(0.9, 0.4, 0.5)]), **parameters)
