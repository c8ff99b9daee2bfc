"""Measuring: what is timed, in which order, and that nothing disturbs it."""

import gc
import itertools

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from polydom.features.errors import BadFeature, BadInput
from polydom.features.extract import Extractor
from polydom.features.items import text_item
from polydom.features.measure import Timings, measure, shuffled
from polydom.features.registry import feature, step


class Clock:
    """A clock that moves only when the functions below work."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


CLOCK = Clock()
CALLS: list[tuple[str, str]] = []  # the functions below and their inputs, as they run


def work(name: str, text: str, seconds: float) -> None:
    CALLS.append((name, text))
    CLOCK.now_s += seconds


@step(kind="text")
def tokens(text: str) -> str:
    work("tokens", text, 0.25 * len(text))
    return text


@step(needs=[tokens])
def lower(tokens: str) -> str:
    work("lower", tokens, 1.0)
    return tokens


@feature(needs=[lower])
def words(lower: str) -> list[int]:
    work("words", lower, 2.0 * len(lower))
    return [1]


@feature(kind="text")
def length(text: str) -> list[int]:
    work("length", text, 4.0)
    return [1]


@feature(kind="text", declared={"s": 0.125, "usd": 2.0})
def bought(text: str) -> list[int]:
    work("bought", text, 99.0)
    return [1]


EXTRACTOR = Extractor([words, length, bought], [1, 1, 1])
ITEMS = [text_item("a"), text_item("bcd"), text_item("efghi")]


def run(repeats: int = 2, seed: int = 0) -> Timings:
    CALLS.clear()
    return measure(EXTRACTOR, ITEMS, repeats=repeats, seed=seed, now=CLOCK)


def test_measure_times_each_feature_without_its_steps() -> None:
    timings = run()
    assert timings.feature_s[:, 0].tolist() == (2 * timings.sizes).tolist()
    assert timings.feature_s[:, 1].tolist() == [4.0] * 6


def test_measure_times_each_step_alone() -> None:
    timings = run()
    assert EXTRACTOR.steps == (tokens, lower)
    assert timings.step_s[:, 0].tolist() == (0.25 * timings.sizes).tolist()
    assert timings.step_s[:, 1].tolist() == [1.0] * 6


def test_measure_takes_declared_seconds_instead_of_measuring() -> None:
    timings = run()
    assert timings.feature_s[:, 2].tolist() == [0.125] * 6
    warm = len(ITEMS) * len(EXTRACTOR.steps + EXTRACTOR.features)
    assert not any(name == "bought" for name, _ in CALLS[warm:])


def test_measure_works_on_every_item_as_often_as_asked() -> None:
    assert sorted(run(repeats=3).sizes) == [1.0] * 3 + [3.0] * 3 + [5.0] * 3


def test_measure_runs_everything_once_before_it_times_anything() -> None:
    run()
    for item in ITEMS:
        assert ("words", item.payload) in CALLS[: len(ITEMS) * 5]
        assert ("bought", item.payload) in CALLS[: len(ITEMS) * 5]


def test_measure_shuffles_items_and_repeats() -> None:
    orders = {tuple(run(repeats=4, seed=seed).sizes) for seed in range(5)}
    assert len(orders) == 5


def test_measure_repeats_the_same_order_for_a_seed() -> None:
    # A call that the system interrupted is made again, which this leaves out.
    orders = []
    for _ in range(2):
        run(seed=7)
        orders.append([call for call, _ in itertools.groupby(CALLS)])
    assert orders[0] == orders[1]


def test_measure_says_how_far_it_is() -> None:
    told: list[tuple[int, int]] = []
    measure(
        EXTRACTOR,
        ITEMS,
        repeats=2,
        now=CLOCK,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(done, 6) for done in range(1, 7)]


def test_measure_uses_one_thread_and_no_garbage_collector() -> None:
    seen = []

    @feature(kind="text")
    def look(text: str) -> list[int]:
        pools = [pool["num_threads"] for pool in threadpool_info()]
        seen.append((max(pools), gc.isenabled()))
        return [1]

    before = [pool["num_threads"] for pool in threadpool_info()]
    measure(Extractor([look], [1]), ITEMS, repeats=1)
    assert set(seen) == {(1, False)}
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_measure_restores_the_collector_when_a_feature_fails() -> None:
    failing = feature(lambda text: [1 / 0], kind="text", name="failing")
    with pytest.raises(BadFeature, match="'failing' raised ZeroDivisionError"):
        measure(Extractor([failing], [1]), ITEMS)
    assert gc.isenabled()


def test_measure_times_with_a_real_clock() -> None:
    timings = measure(EXTRACTOR, ITEMS, repeats=1)
    assert np.all(timings.feature_s > 0)
    assert np.all(timings.step_s > 0)


@pytest.mark.parametrize(("items", "repeats"), [([], 1), (ITEMS, 0)])
def test_measure_refuses_to_measure_nothing(items: list, repeats: int) -> None:  # type: ignore[type-arg]
    with pytest.raises(BadInput, match="at least one of each is needed"):
        measure(EXTRACTOR, items, repeats=repeats)


def test_shuffled_puts_needs_first_and_reaches_every_order() -> None:
    random = np.random.default_rng(0)
    orders = {tuple(shuffled(EXTRACTOR, random)) for _ in range(300)}
    # tokens, lower, words in this order; length and bought anywhere: 5! / 3!
    assert len(orders) == 20
    for order in orders:
        assert order.index(0) < order.index(1) < order.index(2)
