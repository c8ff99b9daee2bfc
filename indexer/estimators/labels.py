"""Labels that an estimator is fitted to, as an array of NumPy."""

from typing import Any

from numpy.typing import DTypeLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.validation import assert_all_finite

from polydom.features.errors import BadInput

from .items import is_missing


def labels_of(y: Any, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Make an array (N,) of labels, of NumPy's own type where pandas has another.

    Raises
    ------
    BadInput
        If an item has no label; the first is named.
    ValueError
        If there is more than one column, or a number is not finite.
    """
    own = getattr(getattr(y, "dtype", None), "numpy_dtype", None)  # of Int64, boolean
    if own is not None and not y.isna().any():
        y = y.to_numpy(dtype=own)
    values = column_or_1d(y, warn=True)
    if values.dtype.kind == "O":
        for row, value in enumerate(values.tolist()):
            if is_missing(value):
                raise BadInput(f"Input y contains NaN: item {row} has no label")
    labels: NDArray[Any] = values if dtype is None else values.astype(dtype)
    assert_all_finite(labels, input_name="y")
    return labels
