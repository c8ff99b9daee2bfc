"""Measuring: what is timed, in which order, and that nothing disturbs it."""

import gc
import itertools
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from polydom.features.costs import stopwatch
from polydom.features.costs.curve import CostCurve
from polydom.features.costs.measure import Timings, measure, shuffled
from polydom.features.costs.stopwatch import Stopwatch
from polydom.features.errors import BadFeature, BadInput
from polydom.features.extract import Extractor
from polydom.features.feature import Feature, feature, step
from polydom.features.items import record_item, text_item
from polydom.features.tables.column_features import Columns, columns
from tests.support.clock import Clock

CLOCK = Clock(0.0)
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


def threads() -> dict[str, int]:
    """How many each library that is loaded may use, by its file."""
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}


def test_measure_uses_one_thread_and_no_garbage_collector() -> None:
    seen = []

    @feature(kind="text")
    def look(text: str) -> list[int]:
        seen.append((max(threads().values()), gc.isenabled()))
        return [1]

    with threadpool_limits(2):
        before = threads()
        assert set(before.values()) == {2}
        measure(Extractor([look], [1]), ITEMS, repeats=1)
        assert threads().items() >= before.items()
    assert set(seen) == {(1, False)}
    assert gc.isenabled()


def test_measure_restores_the_collector_when_a_feature_fails() -> None:
    failing = feature(lambda text: [1 / 0], kind="text", name="failing")
    with pytest.raises(BadFeature, match="'failing' raised ZeroDivisionError"):
        measure(Extractor([failing], [1]), ITEMS)
    assert gc.isenabled()


def test_a_feature_that_may_fail_has_no_time_where_it_failed() -> None:
    @step(kind="text")
    def halves(text: str) -> str:
        if len(text) == 3:
            raise LookupError(text)
        return text

    shaky = feature(len, kind="text", name="size", fails="without")
    shaky = replace(shaky, needs=(halves,), function=lambda text: [len(text)])
    both = Extractor([shaky, length], [1, 1])
    timings = measure(both, ITEMS, repeats=2, now=CLOCK)
    failed = timings.sizes == 3
    assert failed.sum() == 2
    assert (np.isnan(timings.feature_s[:, 0]) == failed).all()
    assert (np.isnan(timings.step_s[:, 0]) == failed).all()
    assert not np.isnan(timings.feature_s[:, 1]).any()


def test_measure_times_with_a_real_clock() -> None:
    timings = measure(EXTRACTOR, ITEMS, repeats=1)
    for seconds in (timings.feature_s, timings.step_s):
        # rounds after the first may have measured others, where these were in doubt
        assert np.all(seconds[: len(ITEMS)] > 0)
        assert np.all((seconds > 0) | np.isnan(seconds))
        for rows in np.split(np.isnan(seconds), len(seconds) // len(ITEMS)):
            assert np.all(rows == rows[0])  # in a round of all items or of none


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


class Simulated:
    """A feature whose calls take drawn seconds, some of them disturbed.

    `own` is the share of calls that take 50 times as long by themselves; `disturbed`
    are numbers of calls that another program makes 100 times as long, once.
    """

    def __init__(self, seed: int, own: float = 0.0, disturbed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.now_s, self.calls = 0.0, 0
        count = len(MANY) * 5
        self.disturbed = set(len(MANY) + self.random.choice(count, disturbed, False))
        self.own = own

    def __call__(self, text: str) -> list[int]:
        usual_s = 5e-6 + 1e-8 * len(text)
        factor = 1 + self.random.gamma(1, 0.1)
        if self.random.random() < self.own:
            factor = 50
        if self.calls in self.disturbed:
            factor = 100
        self.calls += 1
        self.now_s += factor * usual_s
        return [1]

    def measured(self) -> Timings:
        one = feature(self, kind="text", name="simulated")
        extractor = Extractor([one], [1])
        return measure(extractor, MANY, repeats=5, seed=1, now=lambda: self.now_s)

    def curve(self) -> CostCurve:
        timings = self.measured()
        return CostCurve.fit(
            timings.sizes, timings.feature_s[:, 0], items=timings.items
        )


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call is interrupted, whatever else this machine does."""
    monkeypatch.setattr(stopwatch, "switches", lambda: (0, 0))


MANY = [text_item("a" * size) for size in range(50, 1250, 25)]


@pytest.mark.usefixtures("alone")
def test_measure_is_not_moved_far_by_disturbed_times_however_few_it_asks_for() -> None:
    for seed in range(8):
        clean = Simulated(seed).curve()
        disturbed = Simulated(seed, disturbed=1 + seed % 5).curve()
        for size in (50, 600, 1225):
            assert 0.5 < disturbed(size) / clean(size) < 2
        assert disturbed.degree >= 1


@pytest.mark.usefixtures("alone")
def test_measure_takes_more_times_only_while_their_tail_is_in_doubt() -> None:
    assert len(Simulated(0).measured().items) == 5 * 48
    assert len(Simulated(0, disturbed=1).measured().items) == 10 * 48
    assert len(Simulated(0, disturbed=3).measured().items) == 20 * 48
    assert len(Simulated(0, own=0.3).measured().items) <= 30 * 48


@pytest.mark.usefixtures("alone")
def test_measure_covers_what_a_feature_does_take_now_and_then() -> None:
    covered = []
    for seed in range(6):
        curve = Simulated(seed, own=0.03).curve()
        fresh = Simulated(100 + seed, own=0.03).measured()
        covered.append(curve.within(fresh.sizes, fresh.feature_s[:, 0]))
    assert np.mean(covered) >= 0.985


@pytest.mark.usefixtures("alone")
def test_measure_measures_what_is_in_doubt_alone() -> None:
    steady = Simulated(0)
    strange = Simulated(1, disturbed=1)
    strange_s, steady_s = strange, steady
    extractor = Extractor(
        [
            feature(strange, kind="text", name="strange"),
            feature(steady, kind="text", name="steady"),
            bought,
        ],
        [1, 1, 1],
    )
    timings = measure(
        extractor,
        MANY,
        repeats=5,
        now=lambda: strange_s.now_s + steady_s.now_s,
    )
    assert len(timings.items) == 480
    assert np.isnan(timings.feature_s).sum(axis=0).tolist() == [0, 240, 0]
    assert (timings.feature_s[:, 2] == 0.125).all()
    assert steady.calls == 48 * 6


@pytest.mark.usefixtures("alone")
def test_measure_puts_quieter_rounds_in_the_place_of_disturbed_ones() -> None:
    """While another program runs, every call takes twice as long as it runs itself."""
    lost_s = 0.0
    own = Simulated(0)

    def busy(text: str) -> list[int]:
        nonlocal lost_s
        before = own.now_s
        own(text)
        if own.calls <= 48 * 3:
            lost_s += own.now_s - before
        return [1]

    extractor = Extractor([feature(busy, kind="text", name="busy")], [1])
    watch = Stopwatch(lambda: own.now_s + lost_s, lambda: own.now_s, tries=1)
    timings = measure(extractor, MANY, repeats=2, stopwatch=watch)
    assert own.calls == 48 * (1 + 2 + 2)
    assert len(timings.items) == 2 * 48
    usual_s = 5e-6 + 1e-8 * timings.sizes
    assert np.median(timings.feature_s[:, 0] / usual_s) < 1.5
    assert watch.load.lost == pytest.approx(0)


@pytest.mark.usefixtures("alone")
def test_measure_gives_up_on_a_machine_that_stays_busy_and_says_so() -> None:
    own = Simulated(0)
    extractor = Extractor([feature(own, kind="text", name="busy")], [1])
    watch = Stopwatch(lambda: 2 * own.now_s, lambda: own.now_s, tries=1)
    told: list[tuple[int, int]] = []
    timings = measure(
        extractor,
        MANY,
        repeats=2,
        stopwatch=watch,
        progress=lambda done, total: told.append((done, total)),
    )
    assert len(timings.items) == 2 * 48
    assert own.calls == 48 * (1 + 2 + 4)
    assert watch.load.lost == pytest.approx(0.5)
    assert told[-1] == (6 * 48, 6 * 48)


@pytest.mark.usefixtures("alone")
def test_measure_computes_the_steps_that_a_doubtful_one_needs() -> None:
    slow = iter([1.0] * 7 + [500.0] + [1.0] * 1000)

    @step(needs=[tokens])
    def upper(tokens: str) -> str:
        CLOCK.now_s += next(slow)
        return tokens

    @feature(needs=[upper])
    def letters(upper: str) -> list[int]:
        CLOCK.now_s += 1.0
        return [1]

    timings = measure(Extractor([letters], [1]), ITEMS * 2, repeats=3, now=CLOCK)
    assert np.nanmax(timings.step_s) == 500
    assert np.isnan(timings.step_s[18:, 0]).all()
    assert not np.isnan(timings.step_s[:, 1]).any()
    assert len(timings.items) > 18


class SlowColumns(Columns):
    """Columns that take a second to read."""

    def __call__(self, record):  # type: ignore[no-untyped-def]
        CLOCK.now_s += 1.0
        return super().__call__(record)


def slow(name: str) -> Feature:
    return replace(columns(name, [name]), function=SlowColumns((name,), {}))


def test_records_of_columns_alone_are_read_before_anything_is_timed() -> None:
    items = [record_item({"a": 1.0, "b": 2.0}), record_item({"a": 3.0, "b": None})]
    records = Extractor([slow("a"), slow("b")], [1, 1])
    assert records.whole
    found = measure(records, items, repeats=2, now=CLOCK)
    assert found.feature_s.tolist() == [[0.0, 0.0]] * 4
    own = feature(lambda record: [record["a"]], kind="record", name="own")
    mixed = Extractor([slow("a"), own], [1, 1])
    assert not mixed.whole
    found = measure(mixed, items, repeats=2, now=CLOCK)
    assert found.feature_s.tolist() == [[1.0, 0.0]] * 4
