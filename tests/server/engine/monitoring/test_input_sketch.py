"""A sketch counts items as one by one, and tells which columns have moved."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.features.extract import Extractor
from polydom.features.feature import feature
from polydom.features.tables.column_features import columns
from polydom.features.tables.exact_numbers import Shift as Moved
from polydom.indexer.building.describe_inputs import shares_of
from polydom.indexer.index.input_reference import BuiltInputs, ColumnShares, Shares
from polydom.server.engine.monitoring.input_sketch import (
    ALL,
    AT_ONCE,
    COMPLETE,
    LEAST,
    InputSketch,
    Shift,
)
from polydom.server.engine.monitoring.stability import chance_level, stability_index
from tests.support.examples import few

LABELS = ("ham", "spam")
JOBS = ("clerk", "nurse", "pilot")
PERSON = columns("person", ["age", "height"], shifts={"height": Moved(100.0, 2.0)})
WORK = columns("work", ["job"], vocabularies={"job": list(JOBS)})
EXTRACTOR = Extractor([PERSON, WORK], [2, 1], None)
PLACES = [("person", 0), ("person", 1), ("work", 0)]


def inputs_of(rows: np.ndarray, labels: list[float], **more: Any) -> BuiltInputs:
    """The distributions of some rows of a build."""
    told = []
    for k, (name, column) in enumerate(PLACES):
        own = shares_of(rows[:, k].astype(float))
        told.append(
            ColumnShares(own.shares, own.edges, own.values, feature=name, column=column)
        )
    answers = shares_of(np.array(labels, float), bins=0)
    return BuiltInputs(len(rows), told, [], answers, **more)


def bin_of(shares: Shares, value: float) -> int:
    """Find the bin of a value one by one."""
    if math.isnan(value):
        return 0
    if shares.edges:
        return 1 + sum(value > edge for edge in shares.edges)
    known = shares.values
    return 1 + known.index(value) if value in known else len(known) + 1


def draw_rows(draw: np.random.Generator, count: int) -> np.ndarray:
    rows = np.column_stack(
        [
            draw.normal(40, 10, count),
            draw.integers(0, 3, count) * 2.0,
            draw.integers(0, 3, count),
        ]
    ).astype(np.float32)
    rows[draw.random((count, 3)) < 0.1] = np.nan
    return rows


NUMBERS = st.sampled_from([0.0, 1.0, 2.0, 39.5, 40.0, -1e30, 1e12, math.nan])
ITEMS = st.lists(
    st.tuples(
        st.tuples(NUMBERS, NUMBERS, NUMBERS),
        st.sampled_from([ALL, 0b11, 0b01, 0b10, 0]),
        st.sampled_from(LABELS),
    ),
    max_size=3 * AT_ONCE,
)


@settings(max_examples=few(60), deadline=None)
@given(seed=st.integers(0, 5), items=ITEMS)
def test_items_are_counted_as_one_by_one(seed: int, items: Any) -> None:
    draw = np.random.default_rng(seed)
    built = inputs_of(draw_rows(draw, 200), [0.0, 1.0, 1.0])
    sketch = InputSketch(built, EXTRACTOR, LABELS)
    counted = [Counter[int]() for _ in PLACES]
    answered = Counter[str]()
    for numbers, computed, label in items:
        row = np.array(numbers, np.float32)
        sketch.add(row, computed, 1.0, label, 0.0)
        answered[label] += 1
        for k, (name, _) in enumerate(PLACES):
            if computed == ALL or computed >> (name == "work") & 1:
                counted[k][bin_of(built.columns[k], float(row[k]))] += 1
    assert sketch.sampled(0.0) == len(items)
    found = {one.name: one for one in sketch.shifts(0.0)}
    assert found.keys() == {"age", "height", "job"}
    for own, name, told in zip(counted, found, built.columns, strict=True):
        shift = found[("age", "height", "job")[built.columns.index(told)]]
        bins = len(told.shares)
        expected = np.array([[share * 200 for share in told.shares]])
        counts = np.array([[own[k] for k in range(bins)]], float)
        assert shift.items == own.total(), name
        assert shift.built == told.shares
        if not own:
            assert shift.psi is None
            continue
        assert shift.now == pytest.approx((counts[0] / own.total()).tolist())
        level = chance_level(expected, counts)[0]
        assert shift.chance == pytest.approx(level)
        if own.total() < max(LEAST, COMPLETE * len(items)):
            assert shift.psi is None
        else:
            index = stability_index(expected, counts)[0]
            assert shift.psi == pytest.approx(max(index - level, 0.0))
    shares = [answered[label] / max(len(items), 1) for label in LABELS]
    assert sketch.answers(0.0).now == pytest.approx([0.0, *shares, 0.0])


def psi_of(sketch: InputSketch) -> dict[str, float | None]:
    return {one.name: one.psi for one in sketch.shifts(0.0)}


def fed(rows: np.ndarray, **options: Any) -> InputSketch:
    """A sketch of a build of 5,000 drawn items that was fed with rows."""
    built = inputs_of(draw_rows(np.random.default_rng(1), 5000), [0.0, 1.0, 1.0])
    sketch = InputSketch(built, EXTRACTOR, LABELS, **options)
    for row in rows:
        sketch.add(row, ALL, 1.0, "ham", 0.0)
    return sketch


@pytest.mark.parametrize("count", [LEAST, 300, 3000])
def test_items_like_the_builds_raise_no_alarm(count: int) -> None:
    # 0.1 above the level has a probability of a thousandth with the fewest items
    for seed in range(20):
        rows = draw_rows(np.random.default_rng(100 + seed), count)
        found = psi_of(fed(rows))
        assert all(one is not None and one < 0.15 for one in found.values())


MOVED: dict[str, Any] = {
    "far": lambda rows: rows.__setitem__((slice(None), 0), 1e12),
    "a little": lambda rows: rows.__setitem__((slice(None), 0), rows[:, 0] + 15),
    "missing": lambda rows: rows.__setitem__((slice(None), 0), np.nan),
    "constant": lambda rows: rows.__setitem__((slice(None), 0), 40.0),
    "more missing": lambda rows: rows.__setitem__((slice(0, None, 2), 0), np.nan),
}


@pytest.mark.parametrize("how", MOVED)
def test_a_column_that_moved_is_told_and_no_other(how: str) -> None:
    rows = draw_rows(np.random.default_rng(7), 400)
    MOVED[how](rows)
    found = psi_of(fed(rows))
    assert found.pop("age") > 0.25  # type: ignore[operator]
    assert all(one < 0.1 for one in found.values())  # type: ignore[operator]


def test_unknown_words_and_other_values_are_told() -> None:
    rows = draw_rows(np.random.default_rng(7), 400)
    rows[:, 2] = np.nan  # unknown words become this
    rows[:, 1] = 3.0  # never among 0, 2 and 4
    found = fed(rows).shifts(0.0)
    assert {one.name for one in found[:2]} == {"job", "height"}
    assert min(one.psi for one in found[:2] if one.psi is not None) > 1
    by_name = {one.name: one for one in found}
    assert by_name["job"].words == JOBS
    assert by_name["height"].values == [100.0, 101.0, 102.0]  # as in the table
    assert by_name["height"].now[-1] == 1.0


def test_few_items_are_not_enough_for_an_alarm() -> None:
    rows = draw_rows(np.random.default_rng(7), LEAST - 1)
    assert set(psi_of(fed(rows)).values()) == {None}
    empty = fed(rows[:0])
    assert set(psi_of(empty).values()) == {None}
    assert empty.sampled(0.0) == 0


def test_a_constant_column_moves_if_it_has_another_value() -> None:
    rows = np.full((100, 3), 2.0, np.float32)
    built = inputs_of(rows, [0.0] * 100)
    for value, moved in ((2.0, False), (2.5, True), (math.nan, True)):
        sketch = InputSketch(built, EXTRACTOR, LABELS)
        for row in rows:
            sketch.add(np.full_like(row, value), ALL, 1.0, "ham", 0.0)
        assert {one > 1 for one in psi_of(sketch).values()} == {moved}  # type: ignore[operator]


def test_the_window_forgets_old_items() -> None:
    sketch = fed(np.empty((0, 3)), half_s=10.0, half_items=AT_ONCE)
    rows = draw_rows(np.random.default_rng(3), AT_ONCE)
    sizes = []
    for number in range(6):
        for row in rows:
            sketch.add(row, ALL, 1.0, "ham", 6.0 * number)
        sizes.append(sketch.sampled(6.0 * number) // AT_ONCE)
    # a half ends after ten seconds and more: with the third, the fifth and so on
    assert sizes == [1, 2, 3, 4, 3, 4]


def test_numbers_that_nobody_computed_are_never_read() -> None:
    """Rows are not cleared between items: any bits may be left in them."""
    left = np.full(EXTRACTOR.width, 0x7FA00000, np.uint32).view(np.float32)
    sketch = fed(np.empty((0, EXTRACTOR.width), np.float32))
    for _ in range(LEAST):
        sketch.add(left, 0, 1.0, "ham", 0.0)
    with np.errstate(all="raise"):
        assert psi_of(sketch)


def test_one_item_at_most_is_due_in_a_while() -> None:
    sketch = fed(np.empty((0, 3)))
    assert sketch.next_s == -math.inf
    sketch.add(np.zeros(3, np.float32), ALL, 1.0, "ham", 5.0)
    assert 5.0 < sketch.next_s < 5.01


def test_sizes_and_numbers_answered_are_counted() -> None:
    length = feature(len, kind="text", name="length")
    extractor = Extractor([length], [1], None)
    sizes = shares_of(np.arange(100.0))
    built = BuiltInputs(100, [], [sizes], shares_of(np.linspace(0, 1, 100)))
    sketch = InputSketch(built, extractor, ())
    for k in range(200):
        sketch.add(np.zeros(1, np.float32), 0, 1e6, k / 200, 0.0)
    (found,) = sketch.shifts(0.0)
    assert found.name == "characters"
    assert found.psi is not None
    assert found.psi > 1
    answers = sketch.answers(0.0)
    assert answers.now == pytest.approx(answers.built, abs=0.02)
    assert answers.words is None
    # sizes of two numbers are not compared with sizes of one
    assert InputSketch(built, extractor, (), pair=True).shifts(0.0) == []
    assert isinstance(found, Shift)
