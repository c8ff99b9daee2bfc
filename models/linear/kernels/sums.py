"""Compiled models that are sums over their inputs.

Z (N, d) are prepared rows. Nothing is checked here; `linear.py` and `naive_bayes.py`
do.
"""

import math

from numba import boolean, float64

from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import FLOATS, FLOATS_2D
from ...scoring.model import Floats


@njit(float64(FLOATS, FLOATS_2D), **OPTIONS)
def dot(z: Floats, weights: Floats) -> float:
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
def linear(Z: Floats, weights: Floats, intercepts: Floats, out: Floats) -> bool:
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
    Z: Floats, means: Floats, variances: Floats, constants: Floats, out: Floats
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
