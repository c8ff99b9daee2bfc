"""Labels that an estimator is fitted to: of whatever library, of NumPy's own types."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from polydom.features.errors import BadInput
from polydom.indexer.estimators.labels import labels_of


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
