"""Convert arrays, lists or data frames to rows of numbers for models."""

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from .frames import open_frame
from .model import Rows

FLOATS = "fd"  # dtype characters of float32 and float64
# NumPy normally uses one object for this type, so `is` can replace the slower `==`. A
# row with an equal but different type object only takes the slower path.
SINGLE = np.dtype(np.float32)
DENSE = (SINGLE.itemsize,)  # strides of a row without gaps


def take_rows(X: Any) -> Rows:
    """Convert X to float32 or float64 rows (N, width); raise BadInput if impossible."""
    if type(X) is np.ndarray and X.ndim == 2 and X.dtype.char in FLOATS:
        return X
    made = as_numbers(X, "rows")
    if made.ndim != 2:
        cure = ": a single one goes as row[None]" if made.ndim == 1 else ""
        raise BadInput(
            f"rows of shape {made.shape}; they must be (N, width), one per item{cure}"
        )
    return made


def is_dense(row: Any, width: int) -> bool:
    """Return True if the row is a contiguous float32 array of at least `width` numbers.

    Compiled kernels, which check nothing, can safely read such a row.
    """
    return (
        type(row) is np.ndarray
        and row.dtype is SINGLE
        and row.strides == DENSE
        and len(row) >= width
    )


def take_row(row: Any) -> Rows:
    """Convert one row to float32 or float64 (width,); raise BadInput if impossible."""
    if type(row) is np.ndarray and row.ndim == 1 and row.dtype.char in FLOATS:
        return row
    made = as_numbers(row, "a row")
    if made.ndim != 1:
        raise BadInput(
            f"a row of shape {made.shape}; it must be (width,): several go to predict"
        )
    return made


def as_numbers(values: Any, what: str) -> NDArray[Any]:
    """Convert values to float32 or float64; raise BadInput unless all are real numbers.

    `what` names the values in the error's message.
    """
    array = _array(values, what)
    if array.dtype.kind not in "fiub":
        raise BadInput(
            f"{what} of {_kind(values, array)}: numbers are needed, and NaN for what "
            "is missing"
        )
    if array.dtype.char in FLOATS:
        return array
    return array.astype(np.float64)


def _array(values: Any, what: str) -> NDArray[Any]:
    frame = open_frame(values)
    if frame is not None and "categories" in frame.kinds:
        name = frame.names[frame.kinds.index("categories")]
        raise BadInput(
            f"{what} with categories in column {name!r}: numbers are needed, which the "
            "rows(frame) of the model gives that was fitted on them"
        )
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        kind = type(values).__name__
        raise BadInput(f"{what} of type {kind} are no array of numbers: {error}") from (
            error
        )
    if array.dtype == object and hasattr(values, "to_numpy"):
        # pandas' nullable numbers become objects unless a float type is asked for.
        with suppress(TypeError, ValueError):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return array


def _kind(values: Any, array: NDArray[Any]) -> str:
    """Describe, for an error, the type of values that are not all numbers."""
    kind, frame = type(values).__name__, open_frame(values)
    for j, name in enumerate(frame.names if frame else ()):
        assert frame is not None
        dtype = np.asarray(frame.column(j)).dtype
        if dtype.kind not in "fiub":
            return f"type {kind} with {dtype} in column {name!r}"
    return f"type {kind} with {array.dtype}"
