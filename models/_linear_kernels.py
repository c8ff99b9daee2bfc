"""Compiled preparation of rows, and the models that are sums over their inputs.

X (N, width) are full rows; a preparation takes the model's inputs out of them and
scales them, in scikit-learn's order of operations, so that the results are the same
bits. Nothing is checked here; `prepare.py`, `linear.py` and `bayes.py` do.
"""

import math

import numpy as np
from numba import boolean, float32, float64, int32, int64, void
from numba.core.types import Array
from numpy.typing import NDArray

from .declare import njit
from .model import Rows

FLOATS = Array(float64, 1, "C", readonly=True)
FLOATS_2D = Array(float64, 2, "C", readonly=True)
FLOATS_3D = Array(float64, 3, "C", readonly=True)
SINGLES_2D = Array(float32, 2, "C", readonly=True)
CODES = Array(int64, 1, "C", readonly=True)
COLUMNS = Array(int32, 1, "C", readonly=True)
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}  # no fastmath: NaN

# Operations of a preparation, and the rows of the table of an affine one.
AFFINE, BINARISE, LARGEST_NORM, SUM_NORM, SQUARE_NORM = range(5)
FILL, CENTER, SCALE, GAIN, OFFSET, LOW, HIGH = range(7)


@njit(void(float64[::1], FLOATS_2D), **OPTIONS)
def rescale(z: NDArray[np.float64], table: NDArray[np.float64]) -> None:
    """Fill gaps, then (z - center) / scale * gain + offset, within [low, high]."""
    for j in range(z.shape[0]):
        v = z[j]
        if math.isnan(v):
            v = table[FILL, j]
        v = (v - table[CENTER, j]) / table[SCALE, j]
        v = v * table[GAIN, j] + table[OFFSET, j]
        if v < table[LOW, j]:
            v = table[LOW, j]
        elif v > table[HIGH, j]:
            v = table[HIGH, j]
        z[j] = v


@njit(void(float64[::1], int64), **OPTIONS)
def normalise(z: NDArray[np.float64], operation: int) -> None:
    """Divide by the norm; a zero row stays as it is."""
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


def _prepare(
    X: Rows,
    columns: NDArray[np.int32],
    operations: NDArray[np.int64],
    table: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Take each row's inputs from `columns` (d,) and put them through S operations.

    `table` (S, 7, d) belongs to the affine operations; the threshold of a binarising
    one stands in its CENTER row. `out` is (N, d).
    """
    for i in range(X.shape[0]):
        for j in range(columns.shape[0]):
            out[i, j] = X[i, columns[j]]
        for s in range(operations.shape[0]):
            if operations[s] == AFFINE:
                rescale(out[i], table[s])
            elif operations[s] == BINARISE:
                for j in range(columns.shape[0]):
                    if not math.isnan(out[i, j]):
                        out[i, j] = 1.0 if out[i, j] > table[s, CENTER, j] else 0.0
            else:
                normalise(out[i], operations[s])


prepare = njit(
    [
        void(SINGLES_2D, COLUMNS, CODES, FLOATS_3D, float64[:, ::1]),
        void(FLOATS_2D, COLUMNS, CODES, FLOATS_3D, float64[:, ::1]),
    ],
    **OPTIONS,
)(_prepare)


@njit(float64(FLOATS, FLOATS_2D), **OPTIONS)
def dot(z: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Sum of z[j] * weights[j, 0], in four interleaved parts to hide latency."""
    a = b = c = d = 0.0
    whole = z.shape[0] - z.shape[0] % 4
    for j in range(0, whole, 4):
        a += z[j] * weights[j, 0]
        b += z[j + 1] * weights[j + 1, 0]
        c += z[j + 2] * weights[j + 2, 0]
        d += z[j + 3] * weights[j + 3, 0]
    for j in range(whole, z.shape[0]):
        a += z[j] * weights[j, 0]
    return (a + b) + (c + d)


@njit(boolean(FLOATS_2D, FLOATS_2D, FLOATS, float64[:, ::1]), **OPTIONS)
def linear(
    Z: NDArray[np.float64],
    weights: NDArray[np.float64],
    intercepts: NDArray[np.float64],
    out: NDArray[np.float64],
) -> bool:
    """Z (N, d) times `weights` (d, R) plus `intercepts` (R,): `out` (N, R).

    Says whether all of `out` is finite, as it cannot be where Z is not.
    """
    outputs = weights.shape[1]
    finite = True
    for i in range(Z.shape[0]):
        if outputs == 1:
            out[i, 0] = dot(Z[i], weights) + intercepts[0]
            finite &= math.isfinite(out[i, 0])
            continue
        for r in range(outputs):
            out[i, r] = 0.0
        for j in range(Z.shape[1]):
            for r in range(outputs):
                out[i, r] += Z[i, j] * weights[j, r]
        for r in range(outputs):
            out[i, r] += intercepts[r]
            finite &= math.isfinite(out[i, r])
    return finite


@njit(boolean(FLOATS_2D, FLOATS_2D, FLOATS_2D, FLOATS, float64[:, ::1]), **OPTIONS)
def gaussian(
    Z: NDArray[np.float64],
    means: NDArray[np.float64],
    variances: NDArray[np.float64],
    constants: NDArray[np.float64],
    out: NDArray[np.float64],
) -> bool:
    """Joint log-likelihood of each class: `out` (N, K).

    `means` and `variances` are (K, d); `constants` (K,) hold what does not depend on
    the row. Says whether all of `out` is finite, as it cannot be where Z is not.
    """
    finite = True
    for i in range(Z.shape[0]):
        for k in range(means.shape[0]):
            total = 0.0
            for j in range(Z.shape[1]):
                gap = Z[i, j] - means[k, j]
                total += gap * gap / variances[k, j]
            out[i, k] = constants[k] - 0.5 * total
            finite &= math.isfinite(out[i, k])
    return finite
