"""Compiled lattices: interpolated look-up tables behind calibrators.

Everything is a whole number in float64. Calibrated inputs are multiples of 2^-20 in
[0, 1] and vertices whole units of at most 2^30, so that a weighted mean of two vertices
is exact before it is rounded to whole units again. Every step is then monotone in each
of its inputs, to the last bit, and sums of lattices are exact in any order.

A kernel never checks; `lattices.py` does, when a model is made. Shapes: d inputs of P
keypoints, T lattices over S inputs, R raw scores, V = 2^S vertices. Bit s of a vertex
is 1 where input s is. Indices are unsigned: signed ones are looked at for their sign,
and loops over them are not vectorised.
"""

import math
from typing import Any

import numpy as np
from numba import boolean, carray, float32, float64, int32, int64, njit, uint64, void
from numba.core.types import Array
from numpy.typing import NDArray

from ._layout_kernels import UNDECIDED, on_stack, pointer
from .model import Rows

ROW = Array(float32, 1, "C", readonly=True)
SINGLES_2D = Array(float32, 2, "C", readonly=True)
FLOATS_2D = Array(float64, 2, "C", readonly=True)
COLUMNS = Array(int32, 1, "C", readonly=True)
INPUTS = Array(int32, 2, "C", readonly=True)
UNITS_3D = Array(int32, 3, "C", readonly=True)
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}  # no fastmath: NaN

PARTS = 2.0**20  # of which a calibrated input is a whole number
SHIFT = 1.5 * 2.0**52  # what is added to it is rounded to a whole number
OPEN = -1  # a place that is not looked up yet

# Entries of the table of addresses and sizes.
(
    COLUMNS_AT,
    KNOTS_AT,
    INPUTS_AT,
    CALIBRATIONS_AT,
    VERTICES_AT,
    LIMITS_AT,
    UNIT_AT,
    WIDTH,
    KEYPOINTS,
    LATTICES,
    SIZE,
    TABLE_SIZE,
) = range(12)


@njit(inline="always")
def locate(value: float, knots: Any) -> tuple[int, float]:
    """Find the keypoint at or below a value, and how far on to the next it is.

    Beyond the first and last keypoint the value is theirs; P stands for a missing one.
    """
    last = knots.shape[0] - 1
    if math.isnan(value):
        return last + 1, 0.0
    if value <= knots[0]:
        return 0, 0.0
    if value >= knots[last]:
        return last, 0.0
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= value:
            low = middle
        else:
            high = middle
    share = (value - knots[low]) / (knots[low + 1] - knots[low])
    return low, ((share * PARTS + SHIFT) - SHIFT) / PARTS


@njit(inline="always")
def calibrate(
    row: Any,
    columns: Any,
    knots: Any,
    inputs: Any,
    calibrations: Any,
    places: Any,
    parts: Any,
    out: Any,
) -> None:
    """Calibrated inputs of one lattice: `out` (S,).

    `inputs` (S,) and `calibrations` (S, P + 2) are the lattice's own; `places` and
    `parts` (d,) keep what `locate` found for the row.
    """
    for i in range(inputs.shape[0]):
        s = uint64(i)
        j = uint64(inputs[s])
        if places[j] == OPEN:
            places[j], parts[j] = locate(float(row[columns[j]]), knots[j])
        k = uint64(places[j])
        low = float(calibrations[s, k])
        rise = float(calibrations[s, k + uint64(1)]) - low
        out[s] = ((rise * parts[j] + low + SHIFT) - SHIFT) / PARTS


@njit(inline="always")
def halve(cells: Any, half: int, f: float, out: Any) -> None:
    """Interpolate between both halves of `cells` (2 half,): `out` (half,).

    Cells are shifted, so the sum is rounded to a whole number of units.
    """
    for k in range(half):
        i = uint64(k)
        out[i] = (cells[half + i] - cells[i]) * f + cells[i]


@njit(inline="always")
def interpolate(vertices: Any, inputs: Any, work: Any, other: Any) -> float:
    """Multilinear interpolation of `vertices` (V,) at `inputs` (S,), in whole units.

    The vertices are halved input by input, from `work` to `other` (V / 2,) and back: a
    loop that reads where it writes would not be vectorised.
    """
    s = inputs.shape[0] - 1
    half, f = uint64(1 << s), inputs[s]
    for k in range(half):
        i = uint64(k)
        low = float(vertices[i])
        work[i] = (float(vertices[half + i]) - low) * f + (low + SHIFT)
    while s >= 2:
        halve(work, uint64(1 << (s - 1)), inputs[s - 1], other)
        halve(other, uint64(1 << (s - 2)), inputs[s - 2], work)
        s -= 2
    if s == 1:
        work[0] = (work[1] - work[0]) * inputs[0] + work[0]
    value: float = work[0] - SHIFT
    return value


def _base(
    X: Rows,
    columns: NDArray[np.int32],
    knots: NDArray[np.float64],
    inputs: NDArray[np.int32],
    calibrations: NDArray[np.int32],
    vertices: NDArray[np.int32],
    whole: bool,
    out: NDArray[np.float64],
) -> None:
    """Give what each lattice adds to each raw score, in units: `out` (N, T, R).

    Where `whole`, their sum: `out` (N, 1, R).
    """
    d, T, S = knots.shape[0], inputs.shape[0], inputs.shape[1]
    places, parts = np.empty(d, np.int64), np.empty(d)
    calibrated = np.empty(S)
    work, other = np.empty(1 << (S - 1)), np.empty(1 << (S - 1))
    for i in range(X.shape[0]):
        places[:] = OPEN
        out[i] = 0.0
        for t in range(T):
            calibrate(
                X[i],
                columns,
                knots,
                inputs[t],
                calibrations[t],
                places,
                parts,
                calibrated,
            )
            at = 0 if whole else t
            for r in range(vertices.shape[1]):
                value = interpolate(vertices[t, r], calibrated, work, other)
                out[i, at, r] += value


MODEL = (COLUMNS, FLOATS_2D, INPUTS, UNITS_3D, UNITS_3D)
base = njit(
    [
        void(SINGLES_2D, *MODEL, boolean, float64[:, :, ::1]),
        void(FLOATS_2D, *MODEL, boolean, float64[:, :, ::1]),
    ],
    **OPTIONS,
)(_base)


@njit(int64(ROW, uint64, float64[::1]), **OPTIONS)
def early(row: NDArray[np.float32], address: int, out: NDArray[np.float64]) -> int:
    """Answer of one row as soon as a limit says so: 4 * lattices used + answer.

    For one raw score; the sum so far goes to `out[0]`.
    """
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    d, P = int64(table[WIDTH]), int64(table[KEYPOINTS])
    T, S = int64(table[LATTICES]), int64(table[SIZE])
    columns = carray(pointer(table[COLUMNS_AT]), (d,), np.int32)
    knots = carray(pointer(table[KNOTS_AT]), (d, P), np.float64)
    inputs = carray(pointer(table[INPUTS_AT]), (T, S), np.int32)
    shape = (T, S, P + 2)
    calibrations = carray(pointer(table[CALIBRATIONS_AT]), shape, np.int32)
    vertices = carray(pointer(table[VERTICES_AT]), (T, 1 << S), np.int32)
    limits = carray(pointer(table[LIMITS_AT]), (2, T), np.float64)
    unit = carray(pointer(table[UNIT_AT]), (1,), np.float64)[0]
    half = 1 << (S - 1)
    places = carray(on_stack(2 * d), (d,), np.int64)
    parts = carray(on_stack(2 * d), (d,), np.float64)
    calibrated = carray(on_stack(2 * S), (S,), np.float64)
    work = carray(on_stack(2 * half), (half,), np.float64)
    other = carray(on_stack(2 * half), (half,), np.float64)
    places[:] = OPEN
    total = 0.0
    for t in range(T):
        calibrate(
            row,
            columns,
            knots,
            inputs[t],
            calibrations[t],
            places,
            parts,
            calibrated,
        )
        total += interpolate(vertices[t], calibrated, work, other) * unit
        if (total < limits[0, t]) | (total > limits[1, t]):
            out[0] = total
            return 4 * (t + 1) + int(total > limits[1, t])
    out[0] = total
    return int(4 * T + UNDECIDED)


@njit(void(SINGLES_2D, uint64, float64[::1], int64[::1]), **OPTIONS)
def early_many(
    X: NDArray[np.float32],
    address: int,
    totals: NDArray[np.float64],
    codes: NDArray[np.int64],
) -> None:
    """Sum and answer of `early` for each row: `totals` (N,), `codes` (N,)."""
    for i in range(X.shape[0]):
        codes[i] = early(X[i], address, totals[i : i + 1])
