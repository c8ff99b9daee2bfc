"""Compiled gradients for the training of lattices; `plain.py` explains the shapes."""

import math
from typing import NamedTuple

import numpy as np
from numba import boolean, float32, float64, int16, int32, int64, types, uint64, void
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import FLOATS, FLOATS_2D, INTS
from ...scoring.model import Floats

Ints = NDArray[np.int64]


class Model(NamedTuple):
    """Training rows, as positions between keypoints, and the parameters of lattices."""

    # `places` and `parts`: (N, d) int16 and float32: Keypoint at or below each value,
    # and the fraction of the way to the next keypoint
    places: NDArray[np.int16]
    parts: NDArray[np.float32]
    inputs: NDArray[np.int32]  # Input of each lattice's slots, (T, S)
    simplex: bool
    calibrations: Floats  # Calibrated value at each key point, (T, S, P + 1)
    vertices: Floats  # Value at each vertex, (T, R, V)


SUMS, CUBE = float64[:, ::1], float64[:, :, ::1]
MODEL = types.NamedTuple(
    [int16[:, ::1], float32[:, ::1], int32[:, ::1], boolean, CUBE, CUBE], Model
)


@njit(void(FLOATS, float64[::1]), **OPTIONS)
def weigh(inputs: Floats, out: Floats) -> None:
    """Write a lattice's interpolation weights at `inputs` (S,) to `out` (2 V - 1,).

    For each s = 0 ... S, the interpolation along the first s inputs has 2^s weights,
    which begin at position 2^s - 1. So the last V numbers are the weights of the
    vertices.
    """
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
def residuals(margins: Floats, y: int, out: Floats) -> None:
    """Write the gradient of a row's log loss with respect to its raw scores.

    `margins` (R,) are the raw scores. Each number in `out` (R,) is the predicted
    probability of a class, less 1 for the true class `y`.
    """
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


@njit(float64(FLOATS, float64, float64[::1], float64[::1]), **OPTIONS)
def descend(weights: Floats, f: float, cells: Floats, out: Floats) -> float:
    """Write (1 - f) * (first half of `cells`) + f * (second half) to `out`.

    Return the derivative of the sum of `out` * `weights` with respect to f.
    """
    half = uint64(weights.shape[0])
    slope = 0.0
    for k in range(half):
        i = uint64(k)
        rise = cells[half + i] - cells[i]
        slope += weights[i] * rise
        out[i] = cells[i] + f * rise
    return slope


PATH = (int64[::1], int64[::1], float64[::1])  # `order`, `path`, `weights` of `climb`


@njit(void(FLOATS, *PATH), **OPTIONS)
def climb(inputs: Floats, order: Ints, path: Ints, weights: Floats) -> None:
    """Find the corners of the simplex that contains `inputs` (S,), and their weights.

    Write the positions of the inputs, the largest input first, to `order` (S,); the
    corners to `path` (S + 1,); and the corners' interpolation weights to `weights` (S +
    1,).
    """
    S = inputs.shape[0]
    for s in range(S):
        place = s
        while place > 0 and inputs[order[place - 1]] < inputs[s]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = s
    left, v = 1.0, 0
    for a in range(S):
        path[a], weights[a] = v, left - inputs[order[a]]
        left = inputs[order[a]]
        v += 1 << order[a]
    path[S], weights[S] = v, left


@njit(void(int64, MODEL, SUMS, SUMS), **OPTIONS)
def score_row(i: int, model: Model, calibrated: Floats, out: Floats) -> None:
    """Write training row i's calibrated inputs (T, S) and its scores `out` (T, R)."""
    places, parts, inputs, simplex, calibrations, vertices = model
    (T, S), (_, R, V) = inputs.shape, vertices.shape
    missing = calibrations.shape[2] - 1
    order, path = np.empty(S, np.int64), np.empty(S + 1, np.int64)
    weights = np.empty(S + 1 if simplex else 2 * V - 1)
    for t in range(T):
        own = calibrated[t]
        for s in range(S):
            k, f = places[i, inputs[t, s]], parts[i, inputs[t, s]]
            low = calibrations[t, s, k]
            high = calibrations[t, s, min(k + 1, missing)]
            own[s] = low + f * (high - low)
        if simplex:
            climb(own, order, path, weights)
            for r in range(R):
                out[t, r] = 0.0
                for a in range(S + 1):
                    out[t, r] += weights[a] * vertices[t, r, path[a]]
        else:
            weigh(own, weights)
            for r in range(R):
                out[t, r] = np.dot(weights[V - 1 :], vertices[t, r])


@njit(void(MODEL, SUMS), **OPTIONS)
def sum_rows(model: Model, out: Floats) -> None:
    """Write each training row's sums over all lattices to `out` (N, R)."""
    calibrated = np.empty(model.inputs.shape)
    scores = np.empty((model.inputs.shape[0], model.vertices.shape[1]))
    for i in range(out.shape[0]):
        score_row(i, model, calibrated, scores)
        for r in range(out.shape[1]):
            out[i, r] = scores[:, r].sum()


@njit(void(FLOATS, FLOATS, FLOATS_2D, SUMS, float64[::1], float64[::1]), **OPTIONS)
def slope_between_all(
    inputs: Floats,
    slopes: Floats,
    vertices: Floats,
    by_vertex: Floats,
    weights: Floats,
    out: Floats,
) -> None:
    """Compute gradients for a lattice that interpolates between all its vertices.

    `slopes` (R,) are the derivatives of the loss with respect to the lattice's scores.
    The gradient with respect to its `vertices` is added to `by_vertex` (R, V). The
    gradient with respect to its `inputs` is written to `out` (S,).
    """
    V = vertices.shape[1]
    cells, other = np.zeros(V), np.empty(V)
    weigh(inputs, weights)
    for r in range(slopes.shape[0]):
        for v in range(V):
            by_vertex[r, v] += slopes[r] * weights[V - 1 + v]
            cells[v] += slopes[r] * vertices[r, v]
    for s in range(inputs.shape[0] - 1, -1, -1):
        half = 1 << s
        level = weights[half - 1 : 2 * half - 1]
        out[s] = descend(level, inputs[s], cells, other)
        cells, other = other, cells


@njit(void(FLOATS, FLOATS, FLOATS_2D, SUMS, *PATH, float64[::1]), **OPTIONS)
def slope_on_simplex(
    inputs: Floats,
    slopes: Floats,
    vertices: Floats,
    by_vertex: Floats,
    order: Ints,
    path: Ints,
    weights: Floats,
    out: Floats,
) -> None:
    """Do the same as `slope_between_all`, for a lattice that interpolates on simplices.

    `order`, `path` and `weights` are overwritten, as by `climb`.
    """
    S = inputs.shape[0]
    climb(inputs, order, path, weights)
    out[:] = 0.0
    for r in range(slopes.shape[0]):
        for a in range(S + 1):
            by_vertex[r, path[a]] += slopes[r] * weights[a]
        for a in range(S):
            step = vertices[r, path[a + 1]] - vertices[r, path[a]]
            out[order[a]] += slopes[r] * step


@njit(void(INTS, INTS, boolean, MODEL, FLOATS, CUBE, CUBE, float64[::1]), **OPTIONS)
def gradient(
    rows: Ints,
    y: Ints,
    joint: bool,
    model: Model,
    bias: Floats,
    by_calibration: Floats,
    by_vertex: Floats,
    by_bias: Floats,
) -> None:
    """Add the gradient of the log loss of the training rows `rows` to three arrays.

    They are `by_calibration` (T, S, P + 1), `by_vertex` (T, R, V) and `by_bias` (R,).
    If `joint`, the loss is that of the sum of all lattices. Otherwise it is the sum of
    the losses of the single lattices, and `by_bias` has no meaning.
    """
    places, parts, inputs, simplex, calibrations, vertices = model
    (T, S), (_, R, V) = inputs.shape, vertices.shape
    missing = calibrations.shape[2] - 1
    calibrated, by_input = np.empty((T, S)), np.empty(S)
    scores, slopes = np.empty((T, R)), np.empty((T, R))
    order, path = np.empty(S, np.int64), np.empty(S + 1, np.int64)
    weights = np.empty(S + 1 if model.simplex else 2 * V - 1)
    for n in range(rows.shape[0]):
        i = rows[n]
        score_row(i, model, calibrated, scores)
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
            own, slope, to = calibrated[t], slopes[t], by_vertex[t]
            if simplex:
                slope_on_simplex(
                    own, slope, vertices[t], to, order, path, weights, by_input
                )
            else:
                slope_between_all(own, slope, vertices[t], to, weights, by_input)
            for s in range(S):
                k, f = places[i, inputs[t, s]], parts[i, inputs[t, s]]
                by_calibration[t, s, k] += by_input[s] * (1.0 - f)
                by_calibration[t, s, min(k + 1, missing)] += by_input[s] * f


@njit(
    void(float64[::1], float64[::1], float64[::1], float64[::1], float64, float64),
    **OPTIONS,
)
def adam(
    slopes: Floats,
    means: Floats,
    squares: Floats,
    parameters: Floats,
    rate: float,
    step: float,
) -> None:
    """Update `parameters` by one step of Adam (Kingma and Ba, Algorithm 1).

    `slopes` is the gradient, `rate` the learning rate, and `step` counts from 1. The
    moments `means` and `squares` are also updated.
    """
    first, second = 1.0 - 0.9**step, 1.0 - 0.999**step
    for i in range(parameters.shape[0]):
        means[i] = 0.9 * means[i] + 0.1 * slopes[i]
        squares[i] = 0.999 * squares[i] + 0.001 * slopes[i] * slopes[i]
        size = math.sqrt(squares[i] / second) + 1e-8
        parameters[i] -= rate * (means[i] / first) / size
