"""Timing samples: each call as it is, round after round, and stored in an index."""

from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadIndexFile
from polydom.features.extract import Extractor
from polydom.features.feature import feature, step
from polydom.features.items import text_item
from polydom.indexer.index.machine_times import (
    LEAST_ROUNDS,
    ROUNDS,
    MachineTimes,
    compared_models,
    finish,
    medians_of,
    time_features,
    time_models,
)
from polydom.models.scoring.prior import Prior
from tests.support.clock import Clock

CLOCK = Clock(0.0)


def work(seconds: float) -> None:
    CLOCK.now_s += seconds


@step(kind="text")
def tokens(text: str) -> str:
    work(0.25 * len(text))
    return text


@feature(needs=[tokens])
def words(tokens: str) -> list[int]:
    work(2.0 * len(tokens))
    return [1]


@feature(kind="text", declared={"s": 0.125})
def bought(text: str) -> list[int]:
    work(99.0)
    return [1]


@feature(kind="text")
def length(text: str) -> list[int]:
    work(4.0)
    return [1]


EXTRACTOR = Extractor([words, bought, length], [1, 1, 1])
ITEMS = [text_item("a"), text_item("bcd")]
NAN = float("nan")


def test_features_and_steps_are_timed_alone_round_after_round() -> None:
    parts = finish(time_features(EXTRACTOR, ITEMS, now=CLOCK))
    assert parts.shape == (ROUNDS, 2, 1 + 1 + 3)
    expected = [[0.0, 0.25, 2.0, NAN, 4.0], [0.0, 0.75, 6.0, NAN, 4.0]]
    np.testing.assert_array_equal(parts, [expected] * ROUNDS)


@pytest.mark.parametrize(
    ("limit_s", "rounds"), [(0.0, LEAST_ROUNDS), (3 * 17.0 - 1, 3), (1e9, ROUNDS)]
)
def test_no_round_begins_after_the_limit_but_for_the_least(
    limit_s: float, rounds: int
) -> None:
    timed = finish(time_features(EXTRACTOR, ITEMS, now=CLOCK, limit_s=limit_s))
    assert len(timed) == rounds


def test_timing_pauses_after_each_call_that_takes_long() -> None:
    pauses = len(list(time_features(EXTRACTOR, ITEMS, now=CLOCK, limit_s=0)))
    assert pauses == LEAST_ROUNDS * len(ITEMS) * 3  # the overhead takes no time here


def test_models_are_timed_on_every_row() -> None:
    class Slow(Prior):
        def answer(self, row: Any) -> tuple[int, list[float]]:
            work(float(row[0]))
            return 0, [1.0]

    prior, slow = Prior.fit(np.array([0, 1])), Slow.fit(np.array([0, 1]))
    rows = [np.array([seconds], np.float32) for seconds in (1.0, 2.0, 4.0)]
    seconds = finish(time_models([prior, slow], rows, now=CLOCK))
    np.testing.assert_array_equal(seconds, [[[0, 1], [0, 2], [0, 4]]] * ROUNDS)


def test_real_times_are_above_zero() -> None:
    parts = finish(time_features(EXTRACTOR, ITEMS, limit_s=0))
    assert (parts[:, :, [0, 1, 2, 4]] > 0).all()
    prior = Prior.fit(np.array([0, 1]))
    assert (finish(time_models([prior], [np.zeros(3, np.float32)])) > 0).all()


@pytest.mark.parametrize("rows", [1, 2, 16, 17, 1000])
def test_compared_models_are_spread_over_all_and_few(rows: int) -> None:
    chosen = compared_models(rows)
    assert len(set(chosen)) == len(chosen) == min(rows, 16)
    assert (chosen[0], chosen[-1]) == (0, rows - 1)


def make_times() -> MachineTimes:
    parts = np.array([[[1.0, 2, 3, NAN], [5, 6, 7, NAN]]] * 3)
    parts[1] *= 10  # the median does not see it
    return medians_of(parts, np.array([[[8.0], [9.0]]] * 3), steps=1)


SHAPE: dict[str, Any] = {
    "samples": 2,
    "steps": 1,
    "declared": [False, True],
    "rows": 1,
}


def test_machine_times_are_the_medians_and_survive_a_header() -> None:
    found = MachineTimes.read(make_times().facts(), **SHAPE)
    np.testing.assert_array_equal(found.overhead_s, [1, 5])
    np.testing.assert_array_equal(found.step_s, [[2], [6]])
    np.testing.assert_array_equal(found.feature_s, [[3, NAN], [7, NAN]])
    np.testing.assert_array_equal(found.model_s, [[8], [9]])


@pytest.mark.parametrize(
    "damage",
    [
        {"overhead": [1.0]},
        {"overhead": [1.0, 0.0]},
        {"overhead": [1.0, NAN]},
        {"overhead": [1.0, float("inf")]},
        {"overhead": "abc"},
        {"overhead": {}},
        {"step": [[2.0], [-6.0]]},
        {"feature": [[3.0], [7.0]]},
        {"feature": [[NAN, 1.0], [7.0, 1.0]]},
        {"model": [[None], [1.0]]},
        {"more": 1},
    ],
    ids=str,
)
def test_machine_times_refuse_what_is_none(damage: dict[str, Any]) -> None:
    with pytest.raises(BadIndexFile, match="sample time"):
        MachineTimes.read(make_times().facts() | damage, **SHAPE)


@pytest.mark.parametrize("facts", [None, [], {}, 3, {"overhead": [1.0, 5.0]}])
def test_machine_times_refuse_another_form(facts: Any) -> None:
    with pytest.raises(BadIndexFile, match="no sample times"):
        MachineTimes.read(facts, **SHAPE)
