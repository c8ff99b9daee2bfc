"""Compiled preparation of rows, with the same operations, in order, as scikit-learn."""

import math

import numpy as np
from numba import float64, int32, int64, void
from numpy.typing import NDArray

from ..model import Floats, Rows
from .cached_njit import OPTIONS, njit
from .native import FLOATS_2D, FLOATS_3D, ROWS, frozen

CODES, COLUMNS = frozen(int64), frozen(int32)

# Operations of a preparation, then the rows of an affine operation's table. ROUNDED and
# SINGLE are affine, and round as scikit-learn does for float32 rows: ROUNDED rounds the
# result of each step to float32, SINGLE also the scaler's own numbers. Rows of float64
# are not rounded.
AFFINE, BINARISE, LARGEST_NORM, SUM_NORM, SQUARE_NORM, ROUNDED, SINGLE = range(7)
AFFINES = (AFFINE, ROUNDED, SINGLE)
FILL, CENTER, SCALE, GAIN, OFFSET, LOW, HIGH = range(7)


@njit(inline="always")
def single(value: float) -> float:
    """Round a float64 number to the nearest float32 number."""
    rounded: float = float64(np.float32(value))
    return rounded


@njit(void(float64[::1], FLOATS_2D, int64), **OPTIONS)
def rescale(z: Floats, table: Floats, operation: int) -> None:
    """Fill the missing inputs in z (d,), and scale all inputs, in place.

    An input becomes (z - center) / scale * gain + offset, clipped to [low, high]. The
    rows of `table` (7, d) are filling, center, scale, gain, offset, low and high.
    `operation`, one of `AFFINES`, decides how intermediate results are rounded.
    """
    for j in range(z.shape[0]):
        v = z[j]
        if math.isnan(v):
            v = table[FILL, j]
        center, scale = table[CENTER, j], table[SCALE, j]
        if operation == SINGLE:
            center, scale = single(center), single(scale)
        if operation == AFFINE:
            v = (v - center) / scale
            v = v * table[GAIN, j] + table[OFFSET, j]
        else:
            v = single(single(v - center) / scale)
            v = single(single(v * table[GAIN, j]) + table[OFFSET, j])
        if v < table[LOW, j]:
            v = table[LOW, j]
        elif v > table[HIGH, j]:
            v = table[HIGH, j]
        z[j] = v


@njit(void(float64[::1], int64), **OPTIONS)
def normalise(z: Floats, operation: int) -> None:
    """Divide z (d,) by its norm if that is above 0; `operation` selects the norm."""
    norm = 0.0
    for j in range(z.shape[0]):
        if operation == SQUARE_NORM:
            norm += z[j] * z[j]
        elif operation == SUM_NORM:
            norm += abs(z[j])
        else:
            norm = max(norm, abs(z[j]))
    if operation == SQUARE_NORM:
        norm = math.sqrt(norm)
    if norm != 0.0:
        for j in range(z.shape[0]):
            z[j] /= norm


@njit(inline="always")
def prepare_row(
    row: Rows,
    columns: NDArray[np.int32],
    operations: NDArray[np.int64],
    table: Floats,
    out: Floats,
) -> None:
    """Prepare one row as `prepare` does, and write its inputs to `out` (d,)."""
    for j in range(columns.shape[0]):
        out[j] = row[columns[j]]
    for s in range(operations.shape[0]):
        if operations[s] in (ROUNDED, SINGLE) and row.itemsize == 4:
            rescale(out, table[s], operations[s])
        elif operations[s] in AFFINES:
            rescale(out, table[s], AFFINE)
        elif operations[s] == BINARISE:
            for j in range(columns.shape[0]):
                if not math.isnan(out[j]):
                    out[j] = 1.0 if out[j] > table[s, CENTER, j] else 0.0
        else:
            normalise(out, operations[s])


@njit(
    [
        void(ROWS, COLUMNS, CODES, FLOATS_3D, float64[:, ::1]),
        void(FLOATS_2D, COLUMNS, CODES, FLOATS_3D, float64[:, ::1]),
    ],
    **OPTIONS,
)
def prepare(
    X: Rows,
    columns: NDArray[np.int32],
    operations: NDArray[np.int64],
    table: Floats,
    out: Floats,
) -> None:
    """Select d inputs from rows X, apply S operations, and write to `out` (N, d).

    `columns` (d,) are the positions of the inputs in X. `table[s]` (7, d) has the
    parameters of operation s, as for `rescale`; BINARISE has its threshold in row
    CENTER.
    """
    for i in range(X.shape[0]):
        prepare_row(X[i], columns, operations, table, out[i])
