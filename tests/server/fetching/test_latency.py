"""Arrival times are learned: chances agree with a slow twin, and waits end in time."""

import math
from bisect import bisect_left
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.indexer.index.kernels.expected_quality import LEAST_GAIN
from polydom.server.fetching.latency import (
    BOUNDS_S,
    DRAWS_WEIGHT,
    HALF_LIFE,
    Latency,
)

# Seconds from below the smallest bin to beyond the largest one, and failures.
TIMES = st.one_of(
    st.floats(-6, 2).map(lambda log: 10**log),
    st.sampled_from([0.0, 1e-5, BOUNDS_S[7], BOUNDS_S[-1], 1e9, inf]),
)
DRAWS = st.lists(TIMES, max_size=30)
UNTIL = st.floats(-6, 1.5).map(lambda log: 10**log)


class Twin:
    """Keeps all observations, and adds up their weights at each question."""

    def __init__(self, draws: list[float], added: list[float]) -> None:
        each = min(1.0, DRAWS_WEIGHT / max(len(draws), 1))
        ages = [len(added)] * len(draws) + list(range(len(added)))[::-1]
        weights = [each] * len(draws) + [1.0] * len(added)
        self.seen: list[tuple[float, float]] = [
            (took_s, weight * 0.5 ** (age / HALF_LIFE))
            for took_s, weight, age in zip(draws + added, weights, ages, strict=True)
        ]
        came = [bisect_left(BOUNDS_S, took_s) for took_s in draws]
        last = max((place for place in came if place < len(BOUNDS_S)), default=None)
        later = BOUNDS_S[last + 1 :] if last is not None else []
        faded = each * 0.5 ** (len(added) / HALF_LIFE)
        self.seen += [(bound_s, faded / len(later)) for bound_s in later]

    def share(self, time_s: float) -> float:
        """F, where each observation lies anywhere in its bin."""
        total = sum(weight for _, weight in self.seen)
        return (
            math.fsum(w * self.part(took_s, time_s) for took_s, w in self.seen) / total
        )

    @staticmethod
    def part(took_s: float, time_s: float) -> float:
        if took_s > BOUNDS_S[-1]:
            return 0.0
        place = bisect_left(BOUNDS_S, took_s)
        low_s = BOUNDS_S[place - 1] if place else 0.0
        return min(max((time_s - low_s) / (BOUNDS_S[place] - low_s), 0.0), 1.0)


def filled(draws: list[float], added: list[float]) -> Latency:
    latency = Latency(np.array(draws, float))
    for took_s in added:
        latency.add(took_s)
    return latency


@given(draws=DRAWS, added=DRAWS, elapsed_s=UNTIL, until_s=UNTIL)
def test_chances_are_those_of_the_weighted_observations(
    draws: list[float], added: list[float], elapsed_s: float, until_s: float
) -> None:
    chance = filled(draws, added).chance(elapsed_s, until_s)
    if not draws + added or until_s <= elapsed_s:
        assert chance == 0
        return
    twin = Twin(draws, added)
    left = 1 - twin.share(elapsed_s)
    if left < 1e-9:
        assert chance == 0 or left > 0
    else:
        expected = (twin.share(until_s) - twin.share(elapsed_s)) / left
        assert chance == pytest.approx(expected, abs=1e-12 / left)


@given(draws=DRAWS, added=DRAWS, times=st.lists(UNTIL, min_size=3, max_size=3))
def test_chances_are_shares_that_grow_with_the_time_left(
    draws: list[float], added: list[float], times: list[float]
) -> None:
    latency = filled(draws, added)
    elapsed_s, until_s, later_s = sorted(times)
    chance = latency.chance(elapsed_s, until_s)
    assert 0 <= chance <= latency.chance(elapsed_s, later_s) + 1e-9
    assert latency.chance(elapsed_s, later_s) <= 1 + 1e-9


@given(draws=DRAWS, added=DRAWS, times=st.lists(UNTIL, min_size=3, max_size=3))
def test_chances_by_a_given_time_fall_while_a_request_waits(
    draws: list[float], added: list[float], times: list[float]
) -> None:
    latency = filled(draws, added)
    elapsed_s, later_s, until_s = sorted(times)
    chance = latency.chance(elapsed_s, until_s)
    assert latency.chance(later_s, until_s) <= chance + 1e-9


@given(
    draws=DRAWS,
    added=DRAWS,
    until_s=UNTIL,
    gain=st.floats(1e-4, 1.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_waiting_ends_at_the_last_time_at_which_it_pays(
    draws: list[float], added: list[float], until_s: float, gain: float, seed: int
) -> None:
    latency = filled(draws, added)
    last_s = latency.last_useful_s(until_s, gain)
    assert 0 <= last_s <= until_s
    if 1e-9 < last_s < until_s * (1 - 1e-9):
        # just before the end where F reaches 1, rounding may decide
        before = latency.chance(last_s * (1 - 1e-6), until_s) * gain
        assert before >= LEAST_GAIN * (1 - 1e-3)
    later = np.random.default_rng(seed).uniform(last_s * (1 + 1e-6), until_s, 20)
    for time_s in later[later > last_s * (1 + 1e-6)]:
        gained = latency.chance(float(time_s), until_s) * gain
        assert gained < LEAST_GAIN * (1 + 1e-6)


def test_without_observations_nothing_is_waited_for() -> None:
    latency = filled([], [])
    assert latency.chance(0.0, 1.0) == 0
    assert latency.last_useful_s(1.0, 1.0) == 0


def test_a_fetch_that_always_failed_is_not_waited_for() -> None:
    latency = filled([inf] * 5, [inf] * 5)
    assert latency.chance(0.0, 10.0) == 0
    assert latency.last_useful_s(10.0, 1.0) == 0


def test_failures_lower_the_chance() -> None:
    latency = filled([0.01] * 300 + [inf] * 100, [])
    assert latency.chance(0.0, 0.1) == pytest.approx(0.75, abs=0.003)
    assert 0 < latency.chance(0.02, 0.1) < 0.01


def test_times_beyond_the_largest_bin_count_as_never() -> None:
    latency = filled([11.0], [0.01])
    assert latency.chance(0.0, 1e6) == pytest.approx(0.5, abs=1e-3)
    assert latency.chance(0.0, inf) == pytest.approx(0.5, abs=1e-3)


def test_nothing_comes_by_time_zero() -> None:
    latency = filled([0.0, 0.01], [])
    assert latency.chance(0.0, 0.0) == 0
    assert latency.last_useful_s(0.0, 1.0) == 0


def test_a_wait_ends_where_all_calls_have_come() -> None:
    last_s = filled([], [0.01] * 20).last_useful_s(5.0, 0.5)
    assert 0.01 <= last_s <= 0.011


def test_a_call_may_take_longer_than_all_times_of_the_build() -> None:
    latency = filled([0.01] * 20, [])
    assert latency.chance(0.0, 0.02) == pytest.approx(20 / 21, abs=0.01)
    assert 0.2 < latency.chance(0.02, 0.1) < 0.3
    assert latency.last_useful_s(5.0, 0.5) > 4.9
    for number in range(10 * HALF_LIFE):
        latency.add(0.01 if number % 100 else inf)
    assert latency.last_useful_s(5.0, 0.5) == pytest.approx(0.01, rel=0.1)


def test_a_gain_too_small_to_tell_is_not_waited_for() -> None:
    assert filled([0.01] * 20, []).last_useful_s(5.0, LEAST_GAIN) == 0


def test_the_latest_calls_count_more_than_the_draws() -> None:
    latency = filled([0.005] * 5000, [0.5] * 200)
    # 5,000 draws weigh as much as 200 calls
    assert latency.chance(0.0, 0.1) == pytest.approx(0.5, abs=0.05)
    for _ in range(10 * HALF_LIFE):
        latency.add(0.005)
    assert latency.chance(0.0, 0.1) > 0.999


def test_old_observations_fade_however_many_calls_there_were() -> None:
    latency = filled([0.005], [])
    latency.add(inf)
    for _ in range(400 * HALF_LIFE):  # weights would overflow without care
        latency.add(0.02)
    assert latency.chance(0.0, 0.03) == pytest.approx(1)
    for _ in range(HALF_LIFE):
        latency.add(inf)
    assert latency.chance(0.0, 0.03) == pytest.approx(0.5, abs=1e-3)
