import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polydom.features.costs.curve import CostCurve
from polydom.features.costs.machine import Machine, Measured
from polydom.features.costs.stopwatch import Load, Stopwatch
from polydom.features.extract import Extractor
from polydom.features.feature import feature, step
from polydom.features.items import make_item, record_item
from polydom.features.loading import load_features
from polydom.features.tables.column_features import columns
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.costs.cost_curves import Curve, Curves
from polydom.indexer.building.costs.measure_costs import Measurer, time_answer
from polydom.indexer.building.costs.measured_items import measuring_items
from polydom.indexer.building.data.dataset import Dataset, make_dataset
from polydom.indexer.progress import Silence
from polydom.models.scoring.prior import Prior
from tests.support.builds.progresses import Stages
from tests.support.indexes.served import FEATURES_FILE, WIDTHS

MEASURED = Measured(Load(0.0, None, 1), ())


def curve(*coefficients: float) -> Curve:
    nothing = np.empty(0)
    return Curve("x", CostCurve(coefficients), nothing, nothing, 0.99)


def test_costs_of_features_and_steps_are_weighed_in_seconds() -> None:
    extractor = Extractor(load_features([], [FEATURES_FILE]), WIDTHS)
    curves = [curve(1, 2), curve(3), curve(5)]
    measured = Curves(curves, [curve(7)], CostCurve([0.5]), MEASURED)
    table = measured.weighed(extractor, {"s": 2.0})
    np.testing.assert_array_equal(table.of(0b000), [1, 0])
    np.testing.assert_array_equal(table.of(0b001), [3, 4])
    np.testing.assert_array_equal(table.of(0b010), [1 + 6 + 14, 0])
    np.testing.assert_array_equal(table.of(0b110), [1 + 6 + 10 + 14, 0])


@pytest.mark.parametrize(
    ("declared", "weights", "expected"),
    [
        ({}, {"s": 1.0}, 3.0),
        ({"s": 0.25}, {"s": 1.0}, 0.25),
        ({"usd": 7.0}, {"s": 1.0, "usd": 2.0}, 17.0),
        ({"usd": 7.0}, {"usd": 2.0}, 14.0),
        ({"s": 0.25, "usd": 7.0}, {"s": 4.0, "usd": 1.0}, 8.0),
    ],
    ids=["measured", "declared s", "both", "money alone", "declared both"],
)
def test_declared_costs_take_the_place_of_measured_seconds_or_add_money(
    declared: dict[str, float], weights: dict[str, float], expected: float
) -> None:
    extractor = Extractor([columns("a", ["a"], declared=declared)], [1])
    measured = Curves([curve(3.0)], [], CostCurve([0.0]), MEASURED)
    table = measured.weighed(extractor, weights)
    np.testing.assert_array_equal(table.of(1), [expected])


def test_facts_keep_all_that_was_measured_but_not_what_was_declared() -> None:
    sizes, seconds = np.array([1.0, 2.0, 2.0]), np.array([0.5, 0.25, 0.75])
    pairs = np.array([[1.0, 3.0], [2.0, 4.0], [2.0, 5.0]])
    measured = [
        Curve("a", CostCurve([1.0]), sizes, seconds, 0.99),
        Curve("b", CostCurve([1.0]), sizes, seconds, 0.99),
        Curve("step", CostCurve([1.0, 0.0, 0.0], 2), pairs, seconds, 0.99),
    ]
    curves = Curves(measured[:2], measured[2:], CostCurve([0.5]), MEASURED)
    extractor = Extractor(
        [columns("a", ["x"], declared={"s": 1.0}), columns("b", ["y"])], [1, 1]
    )
    declared, own, step = curves.facts(extractor)
    assert declared["measured"] is None
    assert own["measured"] == {"sizes": [[1, 2, 2]], "seconds": [0.5, 0.25, 0.75]}
    assert step["measured"]["sizes"] == [[1, 2, 2], [3, 4, 5]]


def test_measuring_items_spread_over_the_sizes() -> None:
    items = [make_item("x" * n) for n in range(100, 0, -1)]
    names = [str(i) for i in range(100)]
    dataset = make_dataset(items, names, ["a", "b"] * 50, names)
    assert [i.size for i in measuring_items(dataset, 4)] == [1, 34, 67, 100]
    assert len(measuring_items(dataset, 1000)) == 100


def test_curve_facts_compare_measured_with_fitted() -> None:
    sizes = np.repeat([10.0, 20.0, 30.0, 40.0, 50.0], 20)
    seconds = sizes * 2 + 1
    facts = Curve("x", CostCurve([1.0, 2.0]), sizes, seconds, 0.99).facts()
    assert facts["covered"] == 1
    sizes_shown = [point[0] for point in facts["points"]]
    assert sizes_shown == [15, 35, 50]
    assert facts["points"][2] == [50, 101, 101, 101]


def test_curve_tells_what_is_typical_as_a_share_of_what_it_says() -> None:
    sizes = np.array([1.0, 1.0, 2.0, 2.0, 3.0])
    fitted = CostCurve([0.0, 2.0])
    assert Curve("x", fitted, sizes, sizes, 0.99).typical == 0.5
    assert Curve("x", fitted, sizes, 5 * sizes, 0.99).typical == 1.0
    assert Curve("x", CostCurve([0.0]), sizes, 0 * sizes, 0.99).typical == 1.0


def test_models_are_timed_as_they_come_and_once(tmp_path: Path) -> None:
    made: list[str] = []

    def make(name: str) -> Prior:
        made.append(name)
        return Prior.fit(np.array([0, 1]))

    @feature(kind="text")
    def length(text: str) -> list[int]:
        return [len(text)]

    extractor = Extractor([length], [1])
    rows = np.zeros((5, 1), np.float32)
    cache = Cache(tmp_path)
    some, all_ = (
        {name: partial(make, name) for name in names} for names in ("ab", "abc")
    )
    for stages in (Stages(), Stages()):
        measurer = Measurer(extractor, 0.5, cache, stages)
        first, _ = measurer.models(some, rows)
        second, measured = measurer.models(all_, rows)
        assert (second[:2] == first).all()
        assert (second > 0).all()
        assert measured.load.processors > 0
        assert measured.machines == (Machine.here(),)
    assert made == ["a", "b", "c"]


def test_models_are_charged_what_the_server_calls() -> None:
    answered: list[float] = []

    class Watched(Prior):
        def answer(self, row: Any) -> tuple[int, list[float]]:
            answered.append(float(row[0]))
            return 0, self.shares.tolist()

        def scores(self, row: Any) -> NDArray[np.float64]:
            raise AssertionError("a server asks for the answer, once")

        def choose(self, row: Any) -> int:
            raise AssertionError("a server asks for the answer, once")

    rows = np.arange(40, dtype=np.float32).reshape(20, 2)
    model = Watched.fit(np.array([0, 1]))
    assert time_answer(model, [*rows], 0.5, Stopwatch()) > 0
    assert set(answered) == set(rows[:, 0].tolist())


def pair_dataset() -> Dataset:
    """Texts of any number of words, and any of sentences."""
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 60, (80, 2))
    items = [make_item("a " * words + "." * ends, pair=True) for words, ends in counts]
    names = [str(i) for i in range(80)]
    return make_dataset(items, names, ["a", "b"] * 40, names)


def test_measuring_items_spread_over_sizes_of_two_numbers() -> None:
    chosen = measuring_items(pair_dataset(), 16)
    sizes = np.array([item.size for item in chosen])
    assert len(np.unique(sizes, axis=0)) == 16
    for low, high in itertools.product((0, 30), (0, 30)):
        inside = (sizes > [low, high]) & (sizes <= [low + 31, high + 31])
        assert inside.all(axis=1).sum() >= 2


def test_curve_facts_of_pairs_are_ordered_by_both_numbers_together() -> None:
    sizes = np.repeat([(1.0, 60.0), (10.0, 10.0), (50.0, 40.0)], 9, axis=0)
    seconds = sizes @ [2.0, 3.0] + 1
    fitted = CostCurve([1.0, 2.0, 3.0], 2)
    facts = Curve("x", fitted, sizes, seconds, 0.99).facts()
    assert facts["covered"] == 1
    assert facts["points"] == [
        [(1.0, 60.0), 183, 183, 183],
        [(10.0, 10.0), 51, 51, 51],
        [(50.0, 40.0), 221, 221, 221],
    ]


def test_overhead_of_pairs_grows_with_what_is_counted(tmp_path: Path) -> None:
    extractor = Extractor(load_features([], [FEATURES_FILE]), WIDTHS)
    items = [make_item("a " * 40_000 * k, pair=True) for k in range(1, 9)]
    measurer = Measurer(extractor, 0.5, Cache(tmp_path), Silence())
    curves = measurer.curves(items, 1, 0, name="times/x")
    stages = Stages()
    measurer = Measurer(extractor, 0.5, Cache(tmp_path), stages)
    again = measurer.curves(items, 1, 0, name="times/x")
    assert stages.done == {"measuring costs": 0}
    assert again.overhead.coefficients.tolist() == curves.overhead.coefficients.tolist()
    overhead = curves.overhead
    assert overhead.at((320_001.0, 1.0)) > 2 * overhead.at((40_001.0, 1.0))
    table = curves.weighed(extractor, {"s": 2.0})
    own = overhead.coefficients
    assert table.overhead[: len(own)].tolist() == (2 * own).tolist()


def spin(seconds: float) -> None:
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


@feature(kind="record")
def computes(record: Any) -> list[float]:
    spin(2e-3)
    return [1.0]


@feature(kind="record")
def history(record: Any) -> list[float]:
    time.sleep(4e-3)
    return [1.0]


@step(kind="record")
def looked_up(record: Any) -> float:
    time.sleep(4e-3)
    return 1.0


@feature(needs=[looked_up])
def of_looked_up(value: float) -> list[float]:
    return [value]


WAITING = [computes, history, of_looked_up]


@contextmanager
def busy_machine(processes: int) -> Iterator[None]:
    """Other programs that never rest take the processors."""
    with ExitStack() as stack:
        for _ in range(processes):
            rival = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(rival.wait)
            stack.callback(rival.kill)
        yield


@pytest.mark.skipif(sys.platform != "linux", reason="counted by Linux alone")
@pytest.mark.parametrize("rivals", [0, 3])
def test_a_feature_or_step_that_waits_is_named_and_none_that_computes(
    rivals: int, tmp_path: Path
) -> None:
    items = [record_item({"a": float(k)}) for k in range(4)]
    measurer = Measurer(Extractor(WAITING, [1, 1, 1]), 0.9, Cache(tmp_path), Silence())
    with busy_machine(rivals):
        curves = measurer.curves(items, 3, 0, name="times")
    again = measurer.curves(items, 3, 0, name="times")
    for found in (curves, again):
        feature_, step_ = found.warnings("record")
        assert feature_.startswith("feature 'history' waits: ")
        assert step_.startswith("step 'looked_up' waits: ")
        assert "requests a second with it. Columns that must be fetched" in step_
        shares = [one["waits"] for one in found.facts(measurer.extractor)]
        assert shares[0] < 0.1
        assert min(shares[1], shares[3]) > 0.8
    assert "[fetches]" not in curves.warnings("text")[0]


def test_a_warning_says_how_many_requests_a_second_a_wait_leaves() -> None:
    times = np.full(5, 12.5e-3)
    waits = Curve("history", CostCurve([0.02]), np.ones(5), times, 0.99, waits=0.96)
    short = Curve("short", CostCurve([1e-4]), np.ones(5), times / 100, 0.99, waits=0.9)
    curves = Curves([waits, short], [curve(1.0)], CostCurve([0.0]), MEASURED)
    (warning,) = curves.warnings("image")
    assert warning == (
        "feature 'history' waits: 12 of the 12.5 ms that it takes. While it waits, it "
        "holds the server's computing thread, so one process answers at most 80 "
        "requests a second with it"
    )
