"""Numbers that float32 cannot tell apart are stored so that it can."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.errors import BadFeature, BadItem
from polydom.features.items import record_item
from polydom.features.tables.column_features import Columns, columns
from polydom.features.tables.column_kinds import ColumnTerms, read_column
from polydom.features.tables.exact_numbers import (
    FLOAT32_MAX,
    Learned,
    Shift,
    learn_numbers,
    learn_shift,
)
from polydom.features.tables.records import Column, Records
from tests.support.oracles.tables import moved_slowly

RNG = np.random.default_rng(0)
STEPS = RNG.integers(0, 100_000, 1000)
inside = st.floats(-FLOAT32_MAX, FLOAT32_MAX)
shifts = st.builds(
    Shift, inside | st.integers(-(2**60), 2**60).map(float), st.sampled_from([1.0, 8.0])
)


@pytest.mark.parametrize(
    "values",
    [
        1.7e9 + STEPS / 1000,
        1.7e12 + STEPS,
        np.append(1.7e12 + STEPS, [-1, math.nan, math.inf]),
        1_700_000_000_000_000_000 + STEPS * 10_000_000,
        np.array([16_777_216, 16_777_217]),
        np.array([2**31 - 1, 2**31 - 2, 0]),
        151.2 + STEPS % 100 / 1e5,
        np.array([1e-50, 2e-50, 3e-50]),
        np.array([FLOAT32_MAX, -FLOAT32_MAX, 1e30, 1e30 + 1e15]),
        np.arange(2.0**18) + 2**40,
    ],
)
def test_numbers_near_each_other_stay_apart(values: NDArray[Any]) -> None:
    shift, lost, _ = learn_shift(values)
    assert shift is not None
    assert not lost
    different = np.unique(values[np.abs(values) <= FLOAT32_MAX].astype(np.float64))
    stored = shift.moved(different).astype(np.float32)
    assert (np.diff(stored) > 0).all()
    assert np.isfinite(stored).all()


@pytest.mark.parametrize(
    "values",
    [
        RNG.normal(size=100_000),
        RNG.uniform(size=5000),
        STEPS,
        STEPS.astype(np.int16),
        np.array([2**24, 2**25, 2**40]),
        np.array([0.1, 1e300, math.nan]),
        np.empty(0),
        np.array([math.nan]),
        np.array([True, False]),
    ],
)
def test_other_numbers_are_stored_as_they_are(values: NDArray[Any]) -> None:
    assert learn_shift(values)[:2] == (None, 0)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_numbers_that_trees_take_for_one_are_stored_larger(kind: type) -> None:
    values: NDArray[Any] = np.append(STEPS / 1e12, math.nan).astype(kind)
    shift, lost, _ = learn_shift(values)
    assert shift is not None
    assert not lost
    stored = np.unique(shift.moved(values[:-1].astype(np.float64)).astype(np.float32))
    assert len(stored) == len(np.unique(values[:-1]))
    assert stored.max() - stored.min() > 0.5


def test_what_no_offset_saves_is_told() -> None:
    far = np.concatenate([1.7e12 + STEPS, 1.2e12 + STEPS])
    shift, lost, different = learn_shift(far)
    assert shift is not None
    stored = shift.moved(np.unique(far)).astype(np.float32)
    assert lost == different - len(np.unique(stored)) > 900


@given(shifts, st.lists(inside | st.integers(-(2**60), 2**60), min_size=1))
def test_a_number_is_moved_as_fractions_are(shift: Shift, numbers: list[float]) -> None:
    at_once = shift.moved(np.array(numbers, np.float64))
    for number, moved in zip(numbers, at_once.tolist(), strict=True):
        assert shift.get(number, math.nan) == moved
        assert moved == moved_slowly(number, Fraction(shift.offset), shift.scale)


def test_what_cannot_be_moved_is_refused_as_ever() -> None:
    shift = Shift(1e9)
    made = columns("when", ["at"], shifts={"at": shift, "other": shift})
    assert made({"at": 1_000_000_007}).tolist() == [7.0]
    assert made({"at": True}).tolist() == [np.float32(1 - 1e9)]
    assert np.isnan([made({}), made({"at": None}), made({"at": math.nan})]).all()
    for wrong in ("1", 1e39, math.inf):
        with pytest.raises(BadItem, match="column 'at' holds"):
            Columns(("at",), {}, shifts={"at": shift}).check({"at": wrong})


@pytest.mark.parametrize(
    "wrong", [Shift(math.nan), Shift(1e39), Shift(0, 0.0), Shift(0, math.inf)]
)
def test_a_shift_out_of_range_is_refused(wrong: Shift) -> None:
    with pytest.raises(BadFeature, match="column 'at' is stored less"):
        columns("when", ["at"], shifts={"at": wrong})
    many = Shift(0, 1, tuple(map(float, range(101))))
    with pytest.raises(BadFeature, match=r"101 numbers of column 'at' stand for noth"):
        columns("when", ["at"], shifts={"at": many})


def test_records_of_both_kinds_give_the_same() -> None:
    at = np.array([1_700_000_000_001, 1_700_000_000_002, 1_700_000_000_003])
    words = Column(pa.array(["x", "x", "x"]).dictionary_encode(), "word")
    numbers = Column(pa.array(at), "number")
    table = Records({"at": numbers, "word": words}, np.array([2, 0, 1]))
    alone = [record_item({"at": int(one), "word": "x"}) for one in at[table.rows]]
    expected = {"at": Learned(Shift(1_700_000_000_002.0), 0, 3)}
    assert learn_numbers(table, ["at", "word", "no"]) == expected
    assert learn_numbers(alone, ["at", "word", "no"]) == expected


def test_numbers_that_stand_for_nothing_are_nan_wherever_they_come_from() -> None:
    cells = pa.array([-1.0, 5.0, 1e9])
    terms = ColumnTerms(typed=True, missing=("-1", "inf"))
    records = Records({"x": read_column("x", cells, terms)}, np.arange(3))
    shift = learn_numbers(records, ["x"])["x"].shift
    assert shift is not None
    made = columns("x", ["x"], shifts={"x": shift})
    for value in (-1, -1.0, math.inf, None):
        assert np.isnan(made({"x": value})).all()
    assert made({"x": 5})[0] == shift.get(5, 0)
    found = np.empty((3, 1), np.float32)
    made.function.read(records, found)  # type: ignore[attr-defined]
    assert np.isnan(found[:, 0]).tolist() == [True, False, False]
    assert np.isnan(shift.moved(np.array([-1.0, 5.0]))).tolist() == [True, False]
