"""How fast a machine is: times of samples, and the factors between two machines."""

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.features.errors import BadIndexFile
from polydom.features.extract import Extractor
from polydom.features.feature import Feature, feature, step
from polydom.features.items import text_item
from polydom.indexer.index.machine_speed import (
    CONFIDENCE,
    FASTEST,
    LEAST_ROUNDS,
    ROUNDS,
    SLOWEST,
    MachineFactors,
    MachineTimes,
    compare,
    compared_models,
    finish,
    medians_of,
    rescale_costs,
    time_features,
    time_models,
    upper_median,
)
from polydom.models.scoring.prior import Prior
from tests.support.clock import Clock
from tests.support.oracles.machine import upper_median_by_counting

Floats = NDArray[np.float64]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.floats(0.5, 0.999))
def test_upper_median_agrees_with_counting_heads(
    values: list[float], confidence: float
) -> None:
    found = upper_median(np.array(values), confidence)
    assert found == upper_median_by_counting(values, confidence)
    assert found >= np.median(values) or len(values) % 2 == 0


@pytest.mark.parametrize("count", [1, 2, 4])
def test_upper_median_of_few_is_the_largest(count: int) -> None:
    assert upper_median(np.arange(float(count))) == count - 1


@pytest.mark.parametrize("count", [5, 12, 18, 54])
@pytest.mark.parametrize("shape", ["normal", "lognormal", "two-sided"])
def test_upper_median_is_seldom_below_the_true_median(count: int, shape: str) -> None:
    draws = np.random.default_rng(3).normal(size=(4_000, count))
    if shape == "lognormal":
        draws = np.exp(2 * draws)
    if shape == "two-sided":
        draws = np.sign(draws) + draws / 100
    true = {"normal": 0.0, "lognormal": 1.0, "two-sided": 0.0}[shape]
    below = np.mean([upper_median(row) < true for row in draws])
    assert below <= 1 - CONFIDENCE + 0.012  # three standard errors


RNG = np.random.default_rng(5)


def drawn(rounds: int, scale: Floats | float, noise: float = 0.1) -> Floats:
    """Times of 6 samples, of the overhead, 1 step and 2 features."""
    base = 1e-4 * np.arange(1, 7)[:, np.newaxis] * np.array([0.1, 1, 2, 3])
    times: Floats = base * scale * np.exp(noise * RNG.normal(size=(rounds, 6, 4)))
    return times


MODELS = np.full((9, 6, 3), 1e-5)


@pytest.mark.parametrize("true", [0.5, 0.9, 1.0, 1.1, 2.0, 5.0])
def test_compare_finds_each_parts_factor_from_above(true: float) -> None:
    scale = np.array([1.0, true, 1.0, true])
    build = medians_of(drawn(9, 1.0), MODELS, steps=1)
    factors = compare(build, drawn(4, scale), 3 * MODELS[:4])
    found = [factors.overhead, *factors.steps, *factors.features]
    assert np.all(found >= 0.97 * scale)
    assert np.all(found <= 1.15 * scale)
    assert factors.models == pytest.approx(3)


def test_compare_is_never_optimistic_because_of_noise() -> None:
    build = medians_of(drawn(9, 1.0, noise=0.02), MODELS, steps=1)
    found = np.array(
        [compare(build, drawn(2, 1.0, noise=0.5), MODELS).features for _ in range(500)]
    )
    assert np.mean(found < 0.99) <= 0.05
    assert np.median(found) > 1


def test_compare_lowers_a_cost_only_where_most_calls_are_faster() -> None:
    build = medians_of(drawn(9, 1.0, noise=0.0), MODELS, steps=1)
    here = drawn(2, 1.0, noise=0.0)
    here[0] *= 0.25  # one of two rounds
    factors = compare(build, here, MODELS)
    assert factors.features == pytest.approx([1, 1])
    assert compare(build, 0.25 * drawn(2, 1.0, 0.0), MODELS).features == pytest.approx(
        [0.25, 0.25]
    )


def test_compare_leaves_alone_the_time_that_a_feature_waits() -> None:
    build = medians_of(drawn(9, 1.0, noise=0.0), MODELS, steps=1)
    here, waits = 3 * drawn(2, 1.0, noise=0.0), np.array([1.0, 0.0, 0.5])
    factors = compare(build, here, MODELS, waits)
    assert factors.features == pytest.approx([1.0, 3.0])
    assert factors.steps == pytest.approx([2.0])


@pytest.mark.parametrize(("true", "bound"), [(100.0, SLOWEST), (0.001, FASTEST)])
def test_compare_keeps_to_its_bounds(true: float, bound: float) -> None:
    build = medians_of(drawn(9, 1.0), MODELS, steps=1)
    factors = compare(build, drawn(2, true), true * MODELS)
    assert factors.features.tolist() == [bound, bound]
    assert factors.models == factors.overhead == bound


def test_compare_leaves_declared_seconds_alone() -> None:
    here, there = drawn(4, 1.0), drawn(9, 1.0)
    here[:, :, 3] = there[:, :, 3] = np.nan
    factors = compare(medians_of(there, MODELS, steps=1), 2 * here, MODELS)
    assert factors.features[0] > 1.8
    assert factors.features[1] == 1


def test_costs_are_rescaled_where_they_were_measured() -> None:
    costs = CostTable([[5.0, 1.0], [3.0, 0.0]], [[2.0, 4.0]], [(0,), ()], [1.0, 0.0])
    factors = MachineFactors(3.0, np.array([0.5]), np.array([2.0, 10.0]), 7.0)
    found = rescale_costs(costs, factors, np.array([4.0, 3.0]))
    np.testing.assert_array_equal(found.feature_coefficients, [[6, 2], [3, 0]])
    np.testing.assert_array_equal(found.step_coefficients, [[1, 2]])
    np.testing.assert_array_equal(found.overhead, [3, 0])
    assert found.needs == costs.needs


def test_costs_stay_sound_where_more_is_declared_than_there_is() -> None:
    costs = CostTable([[5.0]], [[1.0]], [()], [1.0])
    factors = MachineFactors(1.0, np.ones(1), np.full(1, 2.0), 1.0)
    assert rescale_costs(costs, factors, np.array([9.0])).of(1) == [6]


def spinning(name: str, seconds: float) -> Feature:
    """A feature that keeps the processor for so long."""

    def spin(text: str) -> list[int]:
        end_s = time.thread_time() + seconds
        while time.thread_time() < end_s:
            pass
        return [1]

    return feature(spin, kind="text", name=name)


def test_compare_sees_real_work_become_dearer_and_cheaper() -> None:
    items = [text_item("a"), text_item("bc")]

    def timed(seconds: tuple[float, float]) -> Floats:
        features = [spinning(f"f{i}", s) for i, s in enumerate(seconds)]
        return finish(time_features(Extractor(features, [1, 1]), items, limit_s=0.1))

    build = medians_of(timed((1e-3, 1e-3)), MODELS[:, :2], steps=0)
    slower, faster = compare(build, timed((4e-3, 0.1e-3)), MODELS[:, :2]).features
    # the machine may be busy, but not by so much in most calls
    assert slower > 1.5
    assert faster < slower / 4


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


def test_a_call_that_waits_uses_up_the_limit_and_is_followed_by_a_pause() -> None:
    @feature(kind="text")
    def asleep(text: str) -> list[int]:
        time.sleep(2e-3)
        return [1]

    extractor = Extractor([asleep], [1])
    work = time_features(extractor, ITEMS, limit_s=3e-3)
    assert len(list(work)) >= LEAST_ROUNDS * len(ITEMS)
    parts = finish(time_features(extractor, ITEMS, limit_s=3e-3))
    assert len(parts) == LEAST_ROUNDS
    assert not np.isnan(parts).any()


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
    "features": 2,
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
        {"feature": [[0.0, 1.0], [7.0, 1.0]]},
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
