"""Labels, groups and weights that an estimator is fitted to, of any library."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from polydom.features.errors import BadInput
from polydom.indexer.estimators.items import items_of
from polydom.indexer.estimators.labels import count_items, labels_of


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        ([1, 0], "int64"),
        (pd.Series([1, 0], dtype="Int64"), "int64"),
        (pd.Series([1, 0], dtype="Int8"), "int8"),
        (pd.Series([True, False], dtype="boolean"), "bool"),
        (pd.Series([1, 0], dtype=pd.ArrowDtype(pa.int32())), "int32"),
        (pd.Series(pd.Categorical([1, 0])), "int64"),
        (pl.Series([1, 0]), "int64"),
        (pa.array([1, 0]), "int64"),
        (np.array([True, False]), "bool"),
        (pd.Series([1.0, 0.0], dtype="Float64"), "float64"),
    ],
)
def test_labels_keep_their_type(y: Any, kind: str) -> None:
    labels = labels_of(y)
    assert labels.dtype == kind
    assert labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    "y",
    [
        ("yes", "no"),
        np.array(["yes", "no"]),
        pd.Series(["yes", "no"]),
        pd.Series(["yes", "no"], dtype="string"),
        pd.Series(["yes", "no"], dtype="category"),
        pl.Series(["yes", "no"], dtype=pl.Categorical),
        pa.array(["yes", "no"]),
        pa.chunked_array([["yes"], ["no"]]),
    ],
)
def test_labels_may_be_words_of_any_library(y: Any) -> None:
    assert labels_of(y).tolist() == ["yes", "no"]


@pytest.mark.parametrize(
    "y",
    [
        ["yes", None],
        np.array(["yes", np.nan], object),
        pd.Series(["yes", pd.NA], dtype="string"),
        pd.Series(["yes", np.nan]),
        pl.Series(["yes", None]),
        pa.array(["yes", None]),
    ],
)
def test_an_item_without_a_label_is_named(y: Any) -> None:
    with pytest.raises(BadInput, match="y contains NaN: item 1 has no label"):
        labels_of(y)


def test_numbers_without_a_value_are_refused() -> None:
    for y in ([1.0, np.nan], pd.Series([1, None], dtype="Int64"), [1.0, None]):
        with pytest.raises(ValueError, match="y contains NaN"):
            labels_of(y, np.float64)
    with pytest.raises(ValueError, match="y contains infinity"):
        labels_of([1.0, np.inf], np.float64)
    with pytest.raises(ValueError, match="could not convert"):
        labels_of(["low", "high"], np.float64)


def test_numbers_may_be_decimal() -> None:
    assert labels_of([Decimal("1.5"), 2], np.float64).tolist() == [1.5, 2.0]


X = pd.DataFrame({"age": [3, 4, 5, 6]})
Y = np.array(["a", "b", "a", "b"])


def count(weights: Any, groups: Any = None) -> Any:
    return count_items(items_of(X), Y, groups, weights)


@pytest.mark.parametrize("of", [list, np.array, pd.Series])
def test_items_without_weight_are_left_out(of: Any) -> None:
    counted = count(of([2, 0, 1, 3]), groups=of(["p", "q", "q", "p"]))
    assert [item.payload["age"] for item in counted.items] == [3, 5, 6]
    assert counted.labels.tolist() == ["a", "a", "b"]
    assert counted.groups.tolist() == ["p", "q", "p"]
    assert counted.weights.tolist() == [1.0, 0.5, 1.5]
    assert counted.rows.tolist() == [0, 2, 3]


def test_equal_weights_are_none() -> None:
    assert count([7, 0, 7, 7]).weights is None
    assert count(None).weights is None
    assert count(None).rows.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1, 1, -0.5, 1], "sample_weight of item 2 is -0.5; 0 or more is needed"),
        ([0, 0, 0, 0], "all weights of sample_weight are zero"),
        ([1, 1, np.nan, 1], "sample_weight contains NaN"),
        ([1, 1, np.inf, 1], "sample_weight contains infinity"),
        ([1, 1, 1], "inconsistent numbers of samples"),
        ([[1, 1]] * 4, "1d array"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        count(weights)
