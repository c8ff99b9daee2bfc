"""Compiled raw scores of linear models and Gaussian naive Bayes, without early exits.

Inputs Z are (N, d). Arguments are not checked.
"""

import math

import numpy as np
from numba import boolean, float64
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import ONE_ROW, OPTIONS, njit
from ...scoring.kernels.native import FLOATS, FLOATS_2D, FLOATS_3D, ROW
from ...scoring.kernels.preparation import CODES, COLUMNS, prepare_row
from ...scoring.model import Floats, Rows


@njit(float64(FLOATS, FLOATS_2D), **OPTIONS)
def dot(z: Floats, weights: Floats) -> float:
    """Return the sum of z[j] * weights[j, 0] over all j.

    Four partial sums are interleaved to hide latency.
    """
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


@njit(inline="always")
def add_row(z: Floats, weights: Floats, intercepts: Floats, out: Floats) -> bool:
    """Write the R raw scores of one row's inputs z (d,) to `out` (R,).

    Returns True if all raw scores are finite.
    """
    outputs = weights.shape[1]
    finite = True
    if outputs == 1:
        out[0] = dot(z, weights) + intercepts[0]
        return math.isfinite(out[0])
    for r in range(outputs):
        out[r] = 0.0
    for j in range(z.shape[0]):  # outside, to read weights in the order of memory
        for r in range(outputs):
            out[r] += z[j] * weights[j, r]
    for r in range(outputs):
        out[r] += intercepts[r]
        finite &= math.isfinite(out[r])
    return finite


@njit(boolean(FLOATS_2D, FLOATS_2D, FLOATS, float64[:, ::1]), **OPTIONS)
def linear(Z: Floats, weights: Floats, intercepts: Floats, out: Floats) -> bool:
    """Write Z @ weights + intercepts to `out` (N, R); return True if all are finite."""
    finite = True
    for i in range(Z.shape[0]):
        finite &= add_row(Z[i], weights, intercepts, out[i])
    return finite


@njit(
    boolean(ROW, COLUMNS, CODES, FLOATS_3D, FLOATS_2D, FLOATS, float64[::1]), **ONE_ROW
)
def linear_one(
    row: Rows,
    columns: NDArray[np.int32],
    operations: NDArray[np.int64],
    table: Floats,
    weights: Floats,
    intercepts: Floats,
    out: Floats,
) -> bool:
    """Prepare one full row, and write its raw scores to `out` (R,).

    Returns True if all raw scores are finite.
    """
    z = np.empty(columns.shape[0])
    prepare_row(row, columns, operations, table, z)
    return bool(add_row(z, weights, intercepts, out))


@njit(boolean(FLOATS_2D, FLOATS_2D, FLOATS_2D, FLOATS, float64[:, ::1]), **OPTIONS)
def gaussian(
    Z: Floats, means: Floats, variances: Floats, constants: Floats, out: Floats
) -> bool:
    """Write joint log-likelihoods (N, K) to `out`; return True if all are finite."""
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
