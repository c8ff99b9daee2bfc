"""Checked access to the arrays of a model file, by name, type and shape."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from polydom.features.errors import BadModel

from .model import Floats


class Stored:
    """The arrays of one model file. Its methods check an array's type and shape."""

    def __init__(self, kind: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.kind = kind
        self.arrays = arrays

    def fail(self, reason: str) -> BadModel:
        """Return a BadModel error for the caller to raise; `reason` is its message."""
        return BadModel(f"stored {self.kind} model: {reason}")

    def array(
        self, name: str, dtype: DTypeLike, shape: tuple[int | None, ...]
    ) -> NDArray[Any]:
        """Return the array `name`.

        Raises BadModel if its type is not `dtype`, or its shape is not `shape`, where
        None stands for any length.
        """
        if name not in self.arrays:
            raise self.fail(f"array {name!r} is missing")
        array = np.asarray(self.arrays[name])
        wanted = np.dtype(dtype)
        if array.dtype != wanted:
            raise self.fail(f"array {name!r} is {array.dtype}, it must be {wanted}")
        if array.ndim != len(shape) or any(
            length not in (None, found)
            for length, found in zip(shape, array.shape, strict=True)
        ):
            text = ", ".join(
                "any" if length is None else f"{length}" for length in shape
            )
            raise self.fail(
                f"array {name!r} has shape {array.shape}, it must be ({text})"
            )
        return np.ascontiguousarray(array)  # which kernels rely on

    def finite(self, name: str, shape: tuple[int | None, ...]) -> Floats:
        """Return the float64 array `name`; raise BadModel if it has NaN or infinity."""
        array: Floats = self.array(name, np.float64, shape)
        if not np.isfinite(array).all():
            raise self.fail(f"array {name!r} holds NaN or infinity")
        return array

    def columns(self, width: int) -> NDArray[np.int32]:
        """Return the positions (d,) of a model's inputs in the full row.

        Raises BadModel unless all positions are from 0 to `width` - 1.
        """
        columns: NDArray[np.int32] = self.array("columns", np.int32, (None,))
        if columns.size and not (columns.min() >= 0 and columns.max() < width):
            raise self.fail(f"a column lies outside the row of {width} columns")
        return columns

    def classes(self) -> NDArray[Any]:
        """Return the class labels (K,).

        Raises BadModel if there are none, or if they are not strictly ascending.
        """
        if "classes" not in self.arrays:
            raise self.fail("array 'classes' is missing")
        classes = np.asarray(self.arrays["classes"])
        if classes.dtype.kind not in "biufU" or classes.ndim != 1 or not classes.size:
            raise self.fail(
                f"array 'classes' is {classes.dtype} of shape {classes.shape}; "
                "it must hold one number or text per class"
            )
        if not (classes[1:] > classes[:-1]).all():
            raise self.fail("classes must ascend, each once")
        return classes
