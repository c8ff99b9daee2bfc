"""What is kept of budgets for what follows the plan."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.server.engine.send_time import (
    CHANCES,
    FRESH_S,
    RESTING,
    WINDOW,
    SendTime,
)
from tests.support.oracles.engine import send_times_after

PAUSES = st.sampled_from([0.0, 1e-3, 0.02, 0.2, 0.5, 1.0, 1.5])


@given(
    measured_s=st.lists(st.floats(1e-6, 10), max_size=WINDOW),
    later=st.lists(st.tuples(PAUSES, st.floats(1e-6, 10)), max_size=3 * WINDOW),
    pause_s=PAUSES,
    ask=st.booleans(),
)
def test_send_time_agrees_with_its_slow_twin(
    measured_s: list[float],
    later: list[tuple[float, float]],
    pause_s: float,
    ask: bool,
) -> None:
    now_s = 50.0
    send_time = SendTime(measured_s, now_s)
    timed = []
    for before_s, seconds in later:
        now_s += before_s
        send_time.add(seconds, now_s)
        timed.append((now_s, seconds))
        if ask:
            send_time.at(now_s)
    now_s += max(pause_s, 2 * FRESH_S)
    usual, levels = send_times_after(measured_s, timed, now_s, CHANCES)
    assert send_time.usual == pytest.approx(usual)
    assert send_time.at(now_s) == pytest.approx(levels[0])
    found = send_time.levels(now_s)
    assert [level.chance for level in found] == list(CHANCES)
    assert [level.seconds for level in found] == pytest.approx(levels)


@given(
    st.lists(st.tuples(PAUSES, st.floats(1e-6, 10)), min_size=1, max_size=2 * WINDOW)
)
def test_what_is_kept_is_never_long_behind(timed: list[tuple[float, float]]) -> None:
    send_time, now_s = SendTime([], 50.0), 50.0
    exact: list[tuple[float, float]] = []  # when, and what was right to keep then
    added = []
    for before_s, seconds in timed:
        now_s += before_s
        send_time.add(seconds, now_s)
        added.append((now_s, seconds))
        _, levels = send_times_after([], added, now_s, CHANCES)
        exact.append((now_s, levels[0]))
        latest = [right for when_s, right in exact if when_s >= now_s - FRESH_S]
        kept_s = send_time.at(now_s)
        assert min(latest) * (1 - 1e-9) <= kept_s <= max(latest) * (1 + 1e-9)


def test_send_time_covers_its_share_of_what_comes_next() -> None:
    draws = np.random.default_rng(7).lognormal(-8, 0.5, 20_000).tolist()
    send_time = SendTime(draws[:WINDOW])
    within = []
    for turn, seconds in enumerate(draws[WINDOW:]):
        now_s = turn * 1.2 * FRESH_S
        within.append(seconds <= send_time.at(now_s))
        send_time.add(seconds, now_s)
    # the next of 200 exceeds the third largest of them in 3 of 201 cases
    assert np.mean(within) == pytest.approx(1 - 3 / 201, abs=0.003)


def test_send_time_is_not_moved_by_two_stalls_in_its_window() -> None:
    send_time = SendTime([1e-4] * WINDOW)
    for expected_s in (1e-4, 1e-4, 10.0):
        send_time.add(10.0, 0.0)
        assert send_time.at(0.0) == expected_s


@pytest.mark.parametrize("stalls", [3, 50, 10 * WINDOW])
def test_send_time_has_forgotten_any_burst_after_one_window(stalls: int) -> None:
    send_time = SendTime([1e-4] * WINDOW + [1.0] * stalls)
    assert send_time.at(0.0) == 1.0
    for _ in range(WINDOW):
        send_time.add(1e-4, 0.0)
    assert send_time.at(FRESH_S) == 1.0
    assert send_time.at(2 * FRESH_S) == 1e-4


def test_send_time_takes_what_is_usual_from_the_first_where_nothing_is_known() -> None:
    send_time = SendTime(usual=3e-4)
    assert (send_time.usual, send_time.at(0.0)) == (3e-4, RESTING * 3e-4)
    send_time.add(0.2, 1.0)
    assert (send_time.usual, send_time.at(1.0)) == (0.2, RESTING * 0.2)
