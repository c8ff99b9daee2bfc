import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.learners.bandits import (
    exp3,
    lil_ucb,
    lucb,
    successive_elimination,
    successive_rejects,
)
from polydom.features.errors import BadInput
from polydom.models.selection.race import Race
from tests.support.loss_races import converging, race, table_race
from tests.support.oracles.bandits import (
    exp3_on_table,
    lil_ucb_on_table,
    lucb_on_table,
    successive_elimination_on_table,
    successive_rejects_on_table,
)

RIVALS = [successive_rejects, successive_elimination, lucb, lil_ucb, exp3]
rivals = pytest.mark.parametrize("strategy", RIVALS)


def bernoulli_race(means: list[float], budget: int, seed: int) -> Race:
    """Stochastic losses, turned into running means as SH, section 2, does."""
    draws = np.random.default_rng(seed).random((len(means), budget + 1))
    totals: NDArray[np.int64] = np.cumsum(draws < np.array(means)[:, None], axis=1) - (
        draws[:, :1] < np.array(means)[:, None]
    )
    return table_race(totals / np.maximum(np.arange(budget + 1), 1))


@rivals
@pytest.mark.parametrize("seed", range(3))
def test_rivals_find_the_best_of_separated_stochastic_arms(
    strategy: Callable[..., str], seed: int
) -> None:
    contest = bernoulli_race([0.7, 0.2, 0.6, 0.8, 0.9], 4000, seed)
    assert strategy(contest, budget=4000) == "1"


@rivals
@given(count=st.integers(1, 9), spare=st.integers(1, 300))
def test_rivals_never_exceed_their_budget(
    strategy: Callable[..., str], count: int, spare: int
) -> None:
    contest = race([converging(k / count, 1, 0.5) for k in range(count)])
    strategy(contest, budget=count + spare)
    assert contest.spent <= count + spare


@rivals
def test_rivals_refuse_a_budget_below_one_pull_per_arm(
    strategy: Callable[..., str],
) -> None:
    with pytest.raises(BadInput, match="below one pull per arm"):
        strategy(race([converging(k / 5, 1, 0.1) for k in range(5)]), budget=4)


@rivals
def test_rivals_lose_only_the_arm_that_fails(strategy: Callable[..., str]) -> None:
    def fails(pulls: int) -> float:
        if pulls > 3:
            raise ZeroDivisionError("no rows")
        return 0.0

    losses = [converging(0.9, 1, 0.1), fails, converging(0.1, 1, 0.1)]
    contest = race(losses)
    assert strategy(contest, budget=400) == "2"
    assert list(contest.failed) == ["1"]


@rivals
def test_rivals_stop_when_every_arm_is_at_its_limit(
    strategy: Callable[..., str],
) -> None:
    losses = [converging(0.9, 1, 0.1), converging(0.1, 1, 0.1)]
    assert strategy(race(losses, limit=4), budget=10**6) == "1"


@given(count=st.integers(2, 9), spare=st.integers(1, 120), seed=st.integers(0, 999))
def test_rejects_agrees_with_its_phases(count: int, spare: int, seed: int) -> None:
    table = np.random.default_rng(seed).random((count, count + spare + 1))
    contest = table_race(table)
    chosen = successive_rejects(contest, budget=count + spare)
    assert int(chosen) == successive_rejects_on_table(table.tolist(), count + spare)


def test_rejects_observes_a_loss_per_remaining_arm_and_phase() -> None:
    contest = race([converging(k / 8, 1, 0.1) for k in range(8)])
    successive_rejects(contest, budget=2000)
    assert len(contest.log) == 9 * 8 / 2 - 1


@given(count=st.integers(1, 9), spare=st.integers(0, 120), seed=st.integers(0, 999))
def test_elimination_agrees_with_its_rule(count: int, spare: int, seed: int) -> None:
    budget = count + spare
    # Losses that settle, so that arms do get dropped.
    means = np.random.default_rng(seed).random((count, 1)) * 10
    table = means + np.random.default_rng(seed + 1).random((count, budget + 1))
    chosen = successive_elimination(table_race(table), budget=budget)
    assert int(chosen) == successive_elimination_on_table(table.tolist(), budget, 0.05)


def test_elimination_observes_a_loss_per_doubling() -> None:
    contest = race([converging(k / 8, 1, 0.1) for k in range(8)])
    successive_elimination(contest, budget=5000)
    assert len(contest.log) <= 8 * math.log2(2 * 5000)


@given(count=st.integers(2, 6), spare=st.integers(0, 200), seed=st.integers(0, 999))
def test_lucb_agrees_with_its_rule(count: int, spare: int, seed: int) -> None:
    budget = count + spare
    table = np.random.default_rng(seed).random((count, budget + 1)) * 4
    contest = table_race(table)
    chosen = lucb(contest, budget=budget)
    expected, pulls = lucb_on_table(table.tolist(), budget, 0.05)
    assert int(chosen) == expected
    assert [contest.had(str(i)) for i in range(count)] == pulls


@pytest.mark.parametrize("strategy", [lucb, lil_ucb, exp3])
def test_pull_by_pull_rivals_observe_every_loss(strategy: Callable[..., str]) -> None:
    contest = race([converging(0.5, 1, 0.1)] * 6)
    strategy(contest, budget=100)
    assert len(contest.log) == contest.spent == 100


@given(count=st.integers(1, 6), spare=st.integers(0, 200), seed=st.integers(0, 999))
def test_lil_ucb_agrees_with_its_rule(count: int, spare: int, seed: int) -> None:
    budget = count + spare
    table = np.random.default_rng(seed).random((count, budget + 1)) * 4
    contest = table_race(table)
    chosen = lil_ucb(contest, budget=budget)
    expected, pulls = lil_ucb_on_table(table.tolist(), budget)
    assert int(chosen) == expected
    assert [contest.had(str(i)) for i in range(count)] == pulls


@given(count=st.integers(1, 6), spare=st.integers(0, 200), seed=st.integers(0, 999))
def test_exp3_agrees_with_its_rule(count: int, spare: int, seed: int) -> None:
    budget = count + spare
    table = np.random.default_rng(seed).random((count, budget + 1)) * 1.5
    contest = table_race(table)
    chosen = exp3(contest, budget=budget, seed=seed)
    expected, pulls = exp3_on_table(table.tolist(), budget, seed)
    assert int(chosen) == expected
    assert [contest.had(str(i)) for i in range(count)] == pulls


def test_lil_ucb_stops_when_one_arm_has_nine_times_the_pulls_of_the_rest() -> None:
    contest = race([converging(0.0, 1, 0.0), converging(1.0, 1, 0.0)])
    assert lil_ucb(contest, budget=10**5) == "0"
    assert contest.had("0") == 1 + 9 * contest.had("1")


def test_exp3_repeats_itself_for_a_seed_and_pulls_good_arms_more() -> None:
    losses = [converging(0.9, 1, 0.0), converging(0.1, 1, 0.0)]
    first, second = race(losses), race(losses)
    strategy = partial(exp3, budget=2000, seed=7)
    assert strategy(first) == strategy(second) == "1"
    assert first.log == second.log
    assert first.had("1") > 5 * first.had("0")
