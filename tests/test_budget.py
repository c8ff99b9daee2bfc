"""Time runs out from the first byte; money does not."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.server.budget import Allowance, Deadline
from polydom.server.reserve import QUANTILE, WINDOW, Reserve


def test_deadline_counts_from_the_first_byte_and_keeps_its_reserve() -> None:
    deadline = Deadline(arrived_s=100.0, amount=0.005, reserve_s=0.001)
    assert deadline.due_s == 100.005
    assert deadline.whole == pytest.approx(0.004)
    assert deadline.left(100.0) == pytest.approx(0.004)
    assert deadline.left(100.003) == pytest.approx(0.001)
    assert deadline.left(100.006) < 0


@given(st.floats(0, 1e6))
def test_allowance_is_the_same_at_any_time(now_s: float) -> None:
    allowance = Allowance(22.78)
    assert allowance.left(now_s) == allowance.whole == allowance.amount == 22.78
    assert allowance.due_s == math.inf


@given(st.lists(st.floats(0, 10), min_size=1, max_size=3 * WINDOW))
def test_reserve_is_the_quantile_of_the_latest(measured_s: list[float]) -> None:
    reserve = Reserve(measured_s[:1])
    for seconds in measured_s[1:]:
        reserve.add(seconds)
    latest = measured_s[-WINDOW:]
    assert reserve.seconds == np.quantile(latest, QUANTILE, method="inverted_cdf")


def test_reserve_covers_its_share_of_what_comes_next() -> None:
    draws = np.random.default_rng(7).lognormal(-8, 0.5, 20_000).tolist()
    reserve = Reserve(draws[:WINDOW])
    within = []
    for seconds in draws[WINDOW:]:
        within.append(seconds <= reserve.seconds)
        reserve.add(seconds)
    # the next of 200 exceeds the third largest of them in 3 of 201 cases
    assert np.mean(within) == pytest.approx(1 - 3 / 201, abs=0.003)


def test_reserve_is_not_moved_by_two_stalls_in_its_window() -> None:
    reserve = Reserve([1e-4] * WINDOW)
    for expected_s in (1e-4, 1e-4, 10.0):
        reserve.add(10.0)
        assert reserve.seconds == expected_s


@pytest.mark.parametrize("stalls", [3, 50, 10 * WINDOW])
def test_reserve_has_forgotten_any_burst_after_one_window(stalls: int) -> None:
    reserve = Reserve([1e-4] * WINDOW + [1.0] * stalls)
    assert reserve.seconds == 1.0
    for _ in range(WINDOW):
        reserve.add(1e-4)
    assert reserve.seconds == 1e-4
