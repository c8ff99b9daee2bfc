"""Compiled gradients for the training of lattices.

Shapes: T lattices over S inputs, R raw scores, V = 2^S vertices, P keypoints, d inputs.
Level s of a lattice's weights holds 2^s of them, those of its first s inputs, from
place 2^s - 1 on; the last level are the weights of the vertices.
"""

import math

import numpy as np
from numba import boolean, float32, float64, int16, int32, int64, njit, uint64, void
from numba.core.types import Array
from numpy.typing import NDArray

PLACES = Array(int16, 2, "C", readonly=True)
PARTS = Array(float32, 2, "C", readonly=True)
ROWS = Array(int64, 1, "C", readonly=True)
CODES = Array(int64, 1, "C", readonly=True)
INPUTS = Array(int32, 2, "C", readonly=True)
FLOATS = Array(float64, 1, "C", readonly=True)
FLOATS_3D = Array(float64, 3, "C", readonly=True)
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}  # no fastmath: NaN


@njit(void(FLOATS, float64[::1]), **OPTIONS)
def weigh(inputs: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Weights at calibrated `inputs` (S,), level by level: `out` (2 V - 1,)."""
    out[0] = 1.0
    for s in range(inputs.shape[0]):
        half = uint64(1 << s)
        first, second = half - uint64(1), uint64(2) * half - uint64(1)
        for k in range(half):
            i = uint64(k)
            above = out[first + i] * inputs[s]
            out[second + half + i] = above
            out[second + i] = out[first + i] - above


@njit(void(FLOATS, int64, float64[::1]), **OPTIONS)
def residuals(margins: NDArray[np.float64], y: int, out: NDArray[np.float64]) -> None:
    """Slope of the log loss in each margin (R,): what is predicted less what is so."""
    if margins.shape[0] == 1:
        out[0] = 0.5 * (1.0 + math.tanh(0.5 * margins[0])) - float(y)
        return
    total = 0.0
    largest = margins.max()
    for r in range(margins.shape[0]):
        out[r] = math.exp(margins[r] - largest)
        total += out[r]
    for r in range(margins.shape[0]):
        out[r] /= total
    out[y] -= 1.0


@njit(
    float64(FLOATS, float64, float64[::1], float64[::1]),
    **OPTIONS,
)
def descend(
    weights: NDArray[np.float64],
    f: float,
    cells: NDArray[np.float64],
    out: NDArray[np.float64],
) -> float:
    """Halve `cells` (2 half,) at f into `out` (half,); the slope in f.

    `weights` (half,) are those of the inputs not yet halved.
    """
    half = uint64(weights.shape[0])
    slope = 0.0
    for k in range(half):
        i = uint64(k)
        rise = cells[half + i] - cells[i]
        slope += weights[i] * rise
        out[i] = cells[i] + f * rise
    return slope


@njit(
    void(
        ROWS,
        PLACES,
        PARTS,
        CODES,
        INPUTS,
        boolean,
        FLOATS_3D,
        FLOATS_3D,
        FLOATS,
        float64[:, :, ::1],
        float64[:, :, ::1],
        float64[::1],
    ),
    **OPTIONS,
)
def gradient(
    rows: NDArray[np.int64],
    places: NDArray[np.int16],
    parts: NDArray[np.float32],
    y: NDArray[np.int64],
    inputs: NDArray[np.int32],
    joint: bool,
    calibrations: NDArray[np.float64],
    vertices: NDArray[np.float64],
    bias: NDArray[np.float64],
    by_calibration: NDArray[np.float64],
    by_vertex: NDArray[np.float64],
    by_bias: NDArray[np.float64],
) -> None:
    """Add the slopes of the log loss over `rows` to the last three arrays.

    Where `joint`, of the loss of all lattices together, else of the sum of each
    lattice's own. `places` and `parts` (N, d) are keypoints below values and how far
    they are from there to the next; `calibrations` (T, S, P + 1), `vertices` (T, R, V)
    and `bias` (R,) are where the slopes are taken.
    """
    T, S = inputs.shape
    R, V = vertices.shape[1], vertices.shape[2]
    gaps = calibrations.shape[2] - 1
    calibrated = np.empty((T, S))
    scores, slopes = np.empty((T, R)), np.empty((T, R))
    weights, cells, other = np.empty(2 * V - 1), np.empty(V), np.empty(V)
    for n in range(rows.shape[0]):
        i = rows[n]
        for t in range(T):
            for s in range(S):
                j = inputs[t, s]
                k, f = places[i, j], parts[i, j]
                low, high = calibrations[t, s, k], calibrations[t, s, min(k + 1, gaps)]
                calibrated[t, s] = low + f * (high - low)
            weigh(calibrated[t], weights)
            last = weights[V - 1 :]
            for r in range(R):
                scores[t, r] = np.dot(last, vertices[t, r])
        if joint:
            for r in range(R):
                scores[0, r] = scores[:, r].sum() + bias[r]
            residuals(scores[0], y[i], slopes[0])
            for t in range(1, T):
                slopes[t] = slopes[0]
        else:
            for t in range(T):
                residuals(scores[t] + bias, y[i], slopes[t])
        by_bias += slopes[0]
        for t in range(T):
            weigh(calibrated[t], weights)
            cells[:] = 0.0
            for r in range(R):
                slope = slopes[t, r]
                for v in range(V):
                    by_vertex[t, r, v] += slope * weights[V - 1 + v]
                    cells[v] += slope * vertices[t, r, v]
            for s in range(S - 1, -1, -1):
                half = 1 << s
                level = weights[half - 1 : 2 * half - 1]
                slope = descend(level, calibrated[t, s], cells, other)
                cells, other = other, cells
                j = inputs[t, s]
                k, f = places[i, j], parts[i, j]
                by_calibration[t, s, k] += slope * (1.0 - f)
                by_calibration[t, s, min(k + 1, gaps)] += slope * f


@njit(
    void(float64[::1], float64[::1], float64[::1], float64[::1], float64, float64),
    **OPTIONS,
)
def adam(
    slopes: NDArray[np.float64],
    means: NDArray[np.float64],
    squares: NDArray[np.float64],
    parameters: NDArray[np.float64],
    rate: float,
    step: float,
) -> None:
    """One step of Adam (Kingma and Ba, Algorithm 1), the `step`-th, counted from 1."""
    first, second = 1.0 - 0.9**step, 1.0 - 0.999**step
    for i in range(parameters.shape[0]):
        means[i] = 0.9 * means[i] + 0.1 * slopes[i]
        squares[i] = 0.999 * squares[i] + 0.001 * slopes[i] * slopes[i]
        size = math.sqrt(squares[i] / second) + 1e-8
        parameters[i] -= rate * (means[i] / first) / size
