"""Time runs out from the first byte; money does not."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.server.engine.budget import Allowance, Deadline
from polydom.server.engine.send_time import CHANCES, RESTING, WINDOW, SendTime
from tests.support.oracles.engine import reserve_after


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


PAUSES = st.sampled_from([0.0, 1e-3, 0.02, 0.2, 0.5, 1.0, 1.5])


@given(
    measured_s=st.lists(st.floats(1e-6, 10), max_size=WINDOW),
    later=st.lists(st.tuples(PAUSES, st.floats(1e-6, 10)), max_size=3 * WINDOW),
    pause_s=PAUSES,
)
def test_reserve_agrees_with_its_slow_twin(
    measured_s: list[float], later: list[tuple[float, float]], pause_s: float
) -> None:
    now_s = 50.0
    reserve = SendTime(measured_s, now_s)
    timed = []
    for before_s, seconds in later:
        now_s += before_s
        reserve.add(seconds, now_s)
        timed.append((now_s, seconds))
    now_s += pause_s
    usual, levels = reserve_after(measured_s, timed, now_s, CHANCES)
    assert reserve.usual == pytest.approx(usual)
    assert reserve.at(now_s) == pytest.approx(levels[0])
    found = reserve.levels(now_s)
    assert [level.chance for level in found] == list(CHANCES)
    assert [level.seconds for level in found] == pytest.approx(levels)


def test_reserve_covers_its_share_of_what_comes_next() -> None:
    draws = np.random.default_rng(7).lognormal(-8, 0.5, 20_000).tolist()
    reserve = SendTime(draws[:WINDOW])
    within = []
    for seconds in draws[WINDOW:]:
        within.append(seconds <= reserve.at(0.0))
        reserve.add(seconds, 0.0)
    # the next of 200 exceeds the third largest of them in 3 of 201 cases
    assert np.mean(within) == pytest.approx(1 - 3 / 201, abs=0.003)


def test_reserve_is_not_moved_by_two_stalls_in_its_window() -> None:
    reserve = SendTime([1e-4] * WINDOW)
    for expected_s in (1e-4, 1e-4, 10.0):
        reserve.add(10.0, 0.0)
        assert reserve.at(0.0) == expected_s


@pytest.mark.parametrize("stalls", [3, 50, 10 * WINDOW])
def test_reserve_has_forgotten_any_burst_after_one_window(stalls: int) -> None:
    reserve = SendTime([1e-4] * WINDOW + [1.0] * stalls)
    assert reserve.at(0.0) == 1.0
    for _ in range(WINDOW):
        reserve.add(1e-4, 0.0)
    assert reserve.at(0.0) == 1e-4


def test_reserve_takes_what_is_usual_from_the_first_where_nothing_is_known() -> None:
    reserve = SendTime(usual=3e-4)
    assert (reserve.usual, reserve.at(0.0)) == (3e-4, RESTING * 3e-4)
    reserve.add(0.2, 1.0)
    assert (reserve.usual, reserve.at(1.0)) == (0.2, RESTING * 0.2)
