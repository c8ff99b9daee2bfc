"""Extraction: each step once, each column checked, every error with its place."""

import itertools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.errors import BadFeature, BadInput, BadItem, FeatureFailed
from polydom.features.extract import Extractor
from polydom.features.feature import Feature, Step, feature, step
from polydom.features.items import (
    Item,
    ReadRecord,
    record_item,
    sample_items,
    text_item,
)
from polydom.features.tables.column_features import columns
from tests.support.oracles.extract import feature_value

CALLS: list[str] = []  # names of the functions below, as they run


@step(kind="text")
def lower(text: str) -> str:
    CALLS.append("lower")
    return text.lower()


@step(needs=[lower])
def words(lower: str) -> list[str]:
    CALLS.append("words")
    return lower.split()


@feature(needs=[words])
def count(words: list[str]) -> list[int]:
    return [len(words)]


@feature(needs=[lower, words])
def shape(lower: str, words: list[str]) -> object:
    return np.array([len(lower), len(words), len(lower) - len(words)])


@feature(kind="text")
def length(text: str) -> tuple[int]:
    return (len(text),)


THREE = Extractor([count, shape, length], [1, 3, 1])
ITEM = text_item("One two THREE")


def returning(value: object, name: str = "odd") -> Feature:
    return feature(lambda text: value, kind="text", name=name)


def compute(made: Feature, width: int, item: Item = ITEM) -> list[float]:
    row = Extractor([made], [width]).extract(item, "item 17")
    return [float(value) for value in row]


def test_extractor_gives_each_feature_its_place_in_the_row() -> None:
    assert THREE.width == 5
    assert [THREE.columns(k) for k in range(3)] == [
        slice(0, 1),
        slice(1, 4),
        slice(4, 5),
    ]


def test_extractor_orders_steps_by_their_needs() -> None:
    assert THREE.steps == (lower, words)
    assert THREE.needs == ((0, 1), (0, 1), ())


def test_extractor_lists_the_columns_of_a_set() -> None:
    assert THREE.columns_of(0b101).tolist() == [0, 4]
    assert THREE.columns_of(0b010).tolist() == [1, 2, 3]
    assert THREE.columns_of(0).tolist() == []
    assert THREE.columns_of(0).dtype == np.int32


def test_extract_computes_the_full_row() -> None:
    row = THREE.extract(ITEM)
    assert row.dtype == np.float32
    assert row.tolist() == [3, 13, 3, 10, 13]


def test_compute_runs_a_step_once_however_many_features_need_it() -> None:
    CALLS.clear()
    THREE.extract(ITEM)
    assert CALLS == ["lower", "words"]


def test_compute_runs_only_what_is_needed() -> None:
    CALLS.clear()
    row = np.full(5, -1, np.float32)
    extraction = THREE.begin(ITEM, row)
    extraction.compute(2)
    assert CALLS == []
    assert row.tolist() == [-1, -1, -1, -1, 13]


def test_begin_refuses_an_item_of_another_kind() -> None:
    with pytest.raises(BadItem, match="item 3 is of kind 'record'; 'text' is needed"):
        THREE.begin(record_item({}), np.empty(5, np.float32), "item 3")


@st.composite
def graphs(draw: st.DrawFn) -> list[Feature]:
    """Draw features over a random graph of steps, all of them sums of their inputs."""
    nodes: list[Step] = []

    def draw_needs() -> list[Step]:
        return draw(st.lists(st.sampled_from(nodes), max_size=3)) if nodes else []

    for number in range(draw(st.integers(0, 6))):
        nodes.append(step(totals(number, 1), kind="text", needs=draw_needs()))
    return [
        feature(
            totals(number, draw(st.integers(1, 3))),
            kind="text",
            needs=draw_needs(),
            name=f"feature {number}",
        )
        for number in range(draw(st.integers(1, 5)))
    ]


def totals(number: int, width: int) -> Callable[..., list[float]]:
    """Make a function of any inputs, each a text of a number or numbers."""

    def total(*inputs: str | list[float]) -> list[float]:
        whole = number + sum(float(value[0]) for value in inputs)
        return [whole * k for k in range(1, width + 1)]

    return total


@given(features=graphs(), data=st.data())
def test_compute_agrees_with_running_everything_afresh(
    features: list[Feature], data: st.DataObject
) -> None:
    item = text_item("2")
    extractor = Extractor.probe(features, item)
    row = np.empty(extractor.width, np.float32)
    extraction = extractor.begin(item, row)
    for position in data.draw(st.permutations(range(len(features)))):
        extraction.compute(position)
        expected = feature_value(features[position], "2")
        assert row[extractor.columns(position)].tolist() == expected


@given(features=graphs())
def test_extractor_puts_every_step_after_its_needs(features: list[Feature]) -> None:
    extractor = Extractor(features, [1] * len(features))
    for position, node in enumerate(extractor.steps):
        assert set(node.needs) <= set(extractor.steps[:position])
    for made, needed in zip(features, extractor.needs, strict=True):
        assert set(made.needs) <= {extractor.steps[k] for k in needed}
        for k in needed:
            assert set(extractor.steps[k].needs) <= {extractor.steps[j] for j in needed}


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        (1.0, 2.0),
        np.array([1, 2], np.uint8),
        np.array([1, 2], np.float64),
        np.array([1, 2], ">f4"),
        np.array([1, 9, 2, 9], np.float32)[::2],
        [True, 2],
    ],
    ids=["list", "tuple", "uint8", "float64", "big-endian", "strided", "bool"],
)
def test_compute_takes_any_one_dimensional_numbers(value: object) -> None:
    assert compute(returning(value), 2) == [1, 2]


def test_compute_says_how_many_columns_came() -> None:
    with pytest.raises(
        BadFeature, match="feature 'odd' returned 3 columns for item 17; its width is 2"
    ):
        compute(returning([1, 2, 3]), 2)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            [[1.0, 2.0]],
            r"an array of shape \(1, 2\) for item 17; one dimension",
        ),
        (3.0, r"an array of shape \(\) for item 17; one dimension is needed"),
        (np.ones((2, 1), np.float32), r"an array of shape \(2, 1\) for item 17"),
        (["a", "b"], "raised TypeError for item 17: an array of <U1 came; numbers"),
        ([1j, 2], "raised TypeError for item 17: an array of complex128 came"),
        (None, "raised TypeError for item 17: an array of object came"),
        ([[1, 2], [3]], "raised ValueError for item 17: setting an array element"),
    ],
    ids=["row", "number", "column", "strings", "complex", "nothing", "ragged"],
)
def test_compute_refuses_what_is_no_row_of_numbers(value: object, message: str) -> None:
    with pytest.raises(BadFeature, match=f"feature 'odd' .*{message}"):
        compute(returning(value), 2)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("place", [0, 1, 36])
def test_compute_refuses_a_column_that_is_not_finite(
    bad: float, dtype: type, place: int
) -> None:
    values: NDArray[Any] = np.full(37, 3e38, dtype)
    values[place] = bad
    with pytest.raises(BadFeature, match=f"'odd' is {bad} in column {place} for item"):
        compute(returning(values), 37)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_compute_refuses_what_float32_cannot_hold() -> None:
    with pytest.raises(BadFeature, match="'odd' is inf in column 1 for item 17"):
        compute(returning([1.0, 1e39]), 2)


def test_compute_takes_the_largest_numbers() -> None:
    largest = float(np.finfo(np.float32).max)
    assert compute(returning([largest, -largest]), 2) == [largest, -largest]


def test_compute_names_the_feature_that_raises() -> None:
    failing = feature(lambda text: [text[99]], kind="text", name="last")
    with pytest.raises(
        BadFeature, match="feature 'last' raised IndexError for item 17: string index"
    ) as caught:
        compute(failing, 1)
    assert isinstance(caught.value.__cause__, IndexError)


def test_compute_names_the_feature_that_ends_the_program() -> None:
    failing = feature(lambda text: sys.exit(3), kind="text", name="last")
    with pytest.raises(BadFeature, match="feature 'last' raised SystemExit for item"):
        compute(failing, 1)


def test_compute_names_the_step_that_raises() -> None:
    @step(kind="text")
    def last(text: str) -> str:
        return text[99]

    with pytest.raises(BadFeature, match="step 'last' raised IndexError for item 17"):
        compute(feature(len, needs=[last]), 1)


def test_compute_passes_on_that_an_item_is_bad() -> None:
    @step(kind="text")
    def parsed(text: str) -> object:
        raise BadItem("the text is no JSON")

    with pytest.raises(BadItem, match="the text is no JSON"):
        compute(feature(len, needs=[parsed]), 1)


def test_columns_may_be_missing_but_not_infinite() -> None:
    ages = Extractor([columns("ages", ["age", "limit"])], [2])
    assert np.isnan(ages.extract(record_item({"age": math.nan})).tolist()).all()
    with pytest.raises(BadItem, match="feature 'ages' is inf in column 1 for item 17"):
        ages.extract(record_item({"age": 31, "limit": math.inf}), "item 17")


def test_probe_finds_the_widths() -> None:
    assert Extractor.probe([count, shape, length], ITEM).widths == (1, 3, 1)


def test_probe_refuses_a_feature_without_columns() -> None:
    with pytest.raises(BadFeature, match="'odd' returned no columns for item 0"):
        Extractor.probe([returning([])], ITEM, "item 0")


def test_extractor_refuses_no_features() -> None:
    with pytest.raises(BadFeature, match="there are no features"):
        Extractor([], [])


def test_extractor_refuses_features_of_different_kinds() -> None:
    age = columns("age", ["age"])
    with pytest.raises(BadFeature, match="'length' takes text, 'age' takes record"):
        Extractor([length, age], [1, 1])


def test_extractor_refuses_two_features_of_a_name() -> None:
    with pytest.raises(BadFeature, match="2 features are named 'length'"):
        Extractor([length, returning([1], "length")], [1, 1])


@pytest.mark.parametrize("widths", [[1], [1, 0], [1, 2, 3]])
def test_extractor_refuses_widths_that_are_not_its_features(widths: list[int]) -> None:
    with pytest.raises(BadFeature, match="2 features need as many widths of at"):
        Extractor([length, count], widths)


def test_check_accepts_what_is_the_same_twice() -> None:
    THREE.check(ITEM)
    Extractor([columns("age", ["age"])], [1]).check(record_item({}))


def test_check_finds_a_feature_that_is_not_deterministic() -> None:
    ticks = itertools.count()
    clock = feature(lambda text: [7, next(ticks)], kind="text", name="clock")
    with pytest.raises(
        BadFeature, match="column 1 of feature 'clock' was 0 and then 1 for item 5"
    ):
        Extractor([length, clock], [1, 2]).check(ITEM, "item 5")


def test_check_finds_a_feature_that_changes_what_a_step_made() -> None:
    @feature(needs=[words])
    def emptied(words: list[str]) -> list[int]:
        words.pop()
        return [1]

    with pytest.raises(BadFeature, match="'count' was 3 and then 2 for the item"):
        Extractor([count, emptied], [1, 1]).check(ITEM)


@pytest.mark.parametrize("kind", ["image", "text", "record"])
def test_sample_items_are_of_their_kind(kind: str) -> None:
    items = sample_items(kind)  # type: ignore[arg-type]
    assert all(item.kind == kind for item in items)
    assert bool(items) == (kind != "record")


def test_records_of_columns_alone_are_read_at_once() -> None:
    both = Extractor([columns("x", ["a", "b"]), columns("y", ["c"])], [2, 1])
    item = record_item({"a": 1.0, "b": None, "c": 3.0})
    read = both.read(item)
    assert type(read.payload) is ReadRecord
    np.testing.assert_array_equal(read.payload.row, [1.0, np.nan, 3.0])
    assert both.read(read) is read
    np.testing.assert_array_equal(both.extract(read), both.extract(item))
    with pytest.raises(BadItem, match="'a'"):
        both.read(record_item({"a": "word"}))
    assert THREE.read(ITEM) is ITEM


def failing(name: str, fails: Any = "refuse", **terms: Any) -> Feature:
    def function(*_: object) -> Any:
        raise LookupError(name)

    return feature(function, name=name, fails=fails, **terms)


def test_a_failure_names_the_feature_the_step_and_who_goes_with_it() -> None:
    @step(kind="text")
    def broken(text: str) -> str:
        raise LookupError(text)

    spared, other = (
        feature(lambda _: [1.0], name=n, needs=[broken], fails="without")
        for n in ("spared", "other")
    )
    strict = feature(lambda _: [1.0], name="strict", needs=[broken])
    alone = failing("alone", "without", kind="text")
    extractor = Extractor([spared, strict, other, alone], [1] * 4)
    row = np.zeros(4, np.float32)
    extraction = extractor.begin(ITEM, row, "item 17")
    for position, (which, withheld) in enumerate(
        [(0, 0b101), (0, 0), (0, 0b101), (None, 0b1000)]
    ):
        with pytest.raises(FeatureFailed) as raised:
            extraction.compute(position)
        assert (raised.value.feature, raised.value.step) == (position, which)
        assert extractor.withheld_by(raised.value) == withheld
    assert extraction.attempt(0) is not None
    assert extraction.run_steps() == 0
    assert np.isnan(row).tolist() == [True, False, False, False]
    with pytest.raises(FeatureFailed, match="'broken' raised LookupError for item 17"):
        extraction.attempt(1)


def test_what_is_raised_on_purpose_is_a_failure_too_unless_the_item_is_to_blame() -> (
    None
):
    def refuse(text: str) -> Any:
        raise BadInput("no")

    made = feature(refuse, kind="text")
    with pytest.raises(FeatureFailed, match="raised BadInput for item 17: no"):
        compute(made, 1)


@pytest.mark.parametrize(
    ("values", "gaps", "refused"),
    [
        ([1.0, math.nan], [(1,)], None),
        ([math.nan, 1.0], [(1,)], "nan in column 0"),
        ([math.nan, math.nan], [(0, 1)], None),
        ([math.nan, math.inf], [(0, 1)], "inf in column 1"),
        ([math.nan, math.inf], [(0,)], "inf in column 1"),
        ([math.nan, 1.0], [()], "nan in column 0"),
    ],
)
def test_a_number_may_be_missing_where_the_extractor_knows_gaps(
    values: list[float], gaps: Any, refused: str | None
) -> None:
    extractor = Extractor([returning(values)], [2], gaps)
    if refused is None:
        row = extractor.extract(ITEM)
        assert np.isnan(row).tolist() == np.isnan(values).tolist()
        return
    with pytest.raises(FeatureFailed, match=refused):
        extractor.extract(ITEM)
