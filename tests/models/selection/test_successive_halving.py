import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.models.selection.successive_halving import (
    doubling,
    halvings,
    successive_halving,
    uniform,
)
from tests.support.models.loss_races import converging, race, table_race
from tests.support.oracles.learner_races import successive_halving_on_table


def needed_by_halving(limits: list[float], scale: float) -> float:
    """The z of SH, Theorem 1, for the envelope scale / pulls."""
    first, *others = sorted(limits)
    return (
        2
        * halvings(len(limits))
        * max(
            i * (1 + math.ceil(2 * scale / (limit - first)))
            for i, limit in enumerate(others, start=2)
        )
    )


@given(
    steps=st.lists(st.floats(0.01, 0.3), min_size=1, max_size=12),
    signs=st.lists(st.sampled_from([-1, 1]), min_size=13, max_size=13),
    scale=st.floats(0.01, 1),
    shuffle=st.randoms(use_true_random=False),
)
def test_halving_theorem_1_returns_the_best_arm_above_z(
    steps: list[float], signs: list[int], scale: float, shuffle: object
) -> None:
    limits = [0.1 + sum(steps[:k]) for k in range(len(steps) + 1)]
    shuffle.shuffle(limits)  # type: ignore[attr-defined]
    budget = math.floor(needed_by_halving(limits, scale)) + 1
    losses = [
        converging(limit, sign, scale)
        for limit, sign in zip(limits, signs, strict=False)
    ]
    chosen = successive_halving(race(losses), budget=budget)
    assert limits[int(chosen)] == min(limits)


def test_halving_theorem_3_sequence_misleads_uniform_and_not_halving() -> None:
    count, scale, budget = 64, 1.0, 4000
    limits = [k / count for k in range(1, count + 1)]
    losses = [converging(v, +1 if k == 0 else -1, scale) for k, v in enumerate(limits)]
    assert needed_by_halving(limits, scale) < budget < count * 2 * scale * count
    assert successive_halving(race(losses), budget=budget) == "0"
    assert uniform(race(losses), budget=budget) != "0"
    assert uniform(race(losses), budget=count * (2 * count + 1)) == "0"


@given(count=st.integers(1, 40), spare=st.integers(0, 3000))
def test_halving_never_exceeds_its_budget_nor_2n_plus_1_losses(
    count: int, spare: int
) -> None:
    contest = race([converging(k / count, 1, 1.0) for k in range(count)])
    budget = count * halvings(count) + spare
    successive_halving(contest, budget=budget)
    assert contest.spent <= budget
    assert len(contest.log) <= 2 * count + 1


@given(count=st.integers(1, 20), spare=st.integers(0, 150), seed=st.integers(0, 999))
def test_halving_agrees_with_the_figure(count: int, spare: int, seed: int) -> None:
    budget = count * halvings(count) + spare
    # Whole tenths, so that arms tie; of equals the earlier-ranked goes on.
    table = np.random.default_rng(seed).integers(0, 10, (count, budget + 1)) / 10
    chosen = successive_halving(table_race(table), budget=budget)
    assert int(chosen) == successive_halving_on_table(table.tolist(), budget)


def test_uniform_observes_each_loss_once() -> None:
    contest = race([converging(k / 5, 1, 0.1) for k in range(5)])
    assert uniform(contest, budget=54) == "0"
    assert [line.amount for line in contest.log] == [10] * 5


def test_doubling_spends_at_most_its_budget_and_reuses_progress() -> None:
    contest = race([converging(k / 64, 1 if k == 0 else -1, 1.0) for k in range(64)])
    assert doubling(contest, budget=20_000) == "0"
    assert contest.spent <= 20_000
    alone = race([converging(k / 64, 1 if k == 0 else -1, 1.0) for k in range(64)])
    last = 64 * 6 * 2**5
    successive_halving(alone, budget=last)
    assert contest.spent <= 2 * last


def test_doubling_stops_when_every_arm_is_at_its_limit() -> None:
    contest = race([converging(0.1, 1, 0.1), converging(0.9, 1, 0.1)], limit=3)
    assert doubling(contest, budget=10**9) == "0"
    assert contest.spent <= 6


def test_halving_drops_an_arm_that_fails() -> None:
    def fails(pulls: int) -> float:
        raise ZeroDivisionError("no rows")

    contest = race([fails, converging(0.5, 1, 0.1), converging(0.2, 1, 0.1)])
    assert successive_halving(contest, budget=60) == "2"


@pytest.mark.parametrize("strategy", [successive_halving, doubling])
def test_halving_refuses_a_budget_below_one_pull_per_arm_and_round(
    strategy: Callable[..., str],
) -> None:
    losses = [converging(k / 5, 1, 0.1) for k in range(5)]
    assert strategy(race(losses), budget=15) in "01234"
    with pytest.raises(BadInput, match="14 is below one pull per arm; 15 are"):
        strategy(race(losses), budget=14)


def test_uniform_refuses_a_budget_below_one_pull_per_arm() -> None:
    losses = [converging(k / 5, 1, 0.1) for k in range(5)]
    assert uniform(race(losses), budget=5) in "01234"
    with pytest.raises(BadInput, match="4 is below one pull per arm; 5 are"):
        uniform(race(losses), budget=4)
