"""Convert labels, groups and weights that users pass to `fit` to NumPy arrays."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.validation import assert_all_finite, check_consistent_length

from polydom.features.errors import BadInput
from polydom.features.items import Item
from polydom.features.tables.records import take

from .items import is_missing


def labels_of(y: Any, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Convert labels to an array (N,); data types of pandas become types of NumPy.

    Raises BadInput or ValueError if a label is missing or infinite.
    """
    own = getattr(getattr(y, "dtype", None), "numpy_dtype", None)  # pandas: Int64, ...
    if own is not None and not y.isna().any():
        y = y.to_numpy(dtype=own)
    values = column_or_1d(y, warn=True)
    if values.dtype.kind == "O":
        for row, value in enumerate(values.tolist()):
            if is_missing(value):
                raise BadInput(f"Input y contains NaN: item {row} has no label")
    labels: NDArray[Any] = values if dtype is None else values.astype(dtype)
    if labels.dtype.kind == "f" and (gaps := np.isnan(labels)).any():
        raise BadInput(f"Input y contains NaN: item {int(gaps.argmax())} has no label")
    assert_all_finite(labels, input_name="y")
    return labels


class Counted(NamedTuple):
    """The items to fit, without items of weight 0."""

    items: Sequence[Item]
    labels: NDArray[Any]
    groups: NDArray[Any] | None  # None if each item is its own group
    # (N,): Weights above 0 with a mean of 1; None if all are equal
    weights: NDArray[np.float64] | None
    # (N,): Position of each item among the items that were given
    rows: NDArray[np.int64]


def count_items(
    items: Sequence[Item], labels: NDArray[Any], groups: Any, sample_weight: Any
) -> Counted:
    """Return the items to fit, without items of weight 0.

    Raises ValueError if the arguments differ in length, or weights are invalid.
    """
    check_consistent_length(items, labels, groups, sample_weight)
    if groups is not None:
        groups = column_or_1d(groups)
    if sample_weight is None:
        return Counted(items, labels, groups, None, np.arange(len(items)))
    weights = column_or_1d(sample_weight, dtype=np.float64)
    assert_all_finite(weights, input_name="sample_weight")
    if (weights < 0).any():
        row = int((weights < 0).argmax())
        raise BadInput(
            f"sample_weight of item {row} is {weights[row]:g}; 0 or more is needed"
        )
    rows = np.flatnonzero(weights)
    if not len(rows):
        raise BadInput("all weights of sample_weight are zero")
    kept: NDArray[np.float64] | None = weights[rows] / weights[rows].mean()
    if (weights[rows] == weights[rows[0]]).all():
        kept = None
    groups = None if groups is None else groups[rows]
    return Counted(take(items, rows), labels[rows], groups, kept, rows)
