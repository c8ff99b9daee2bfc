"""Compiled evaluation of lattices: interpolated look-up tables behind calibrators.

All results are exact or rounded to whole numbers, so they do not depend on the
processor. Calibrated inputs are multiples of 2^-20 in [0, 1], and vertices are whole
numbers of at most 2^30. So a weighted mean of vertices is exact before it is rounded to
a whole number. Each step is monotonic in each of its inputs, to the last bit, and sums
of lattices are the same in any order.

Shapes: d inputs of P keypoints, T lattices over S inputs, R raw scores, V = 2^S
vertices. Bit s of a vertex's index is its coordinate s. Indices are unsigned, because
LLVM does not vectorise loops that test an index for its sign. Arguments are not
checked.
"""

import math
from typing import Any

import numpy as np
from numba import boolean, float64, int32, uint64, void
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import FLOATS_2D, ROWS, frozen
from ...scoring.model import Floats, Rows

COLUMNS = frozen(int32)
INPUTS = frozen(int32, 2)
UNITS_3D = frozen(int32, 3)

PARTS = 2.0**20  # a calibrated input of 1 has this many units
SHIFT = 1.5 * 2.0**52  # a number added to it is rounded to a whole number
OPEN = -1  # marks a column whose value was not located yet


@njit(inline="always")
def locate(value: float, knots: Any) -> tuple[int, float]:
    """Return a value's position (k, share) among the ascending `knots`.

    `knots[k]` is the last knot that does not exceed the value; `share`, in [0, 1], is
    the fraction of the way to the next knot. Values beyond the ends are clipped. For a
    missing value, k is the number of knots.
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
    """Write the calibrated inputs of one lattice to `out` (S,).

    `places` and `parts` (d,) keep the results of `locate` for further lattices.
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
    """Write (1 - f) * (first half of `cells`) + f * (second half) to `out`."""
    for k in range(half):
        i = uint64(k)
        out[i] = (cells[half + i] - cells[i]) * f + cells[i]


@njit(inline="always")
def interpolate(vertices: Any, inputs: Any, work: Any, other: Any) -> float:
    """Interpolate between all vertices (V,) at `inputs` (S,); round to a whole number.

    `work` and `other` (V / 2,) are overwritten.
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


@njit(inline="always")
def walk(vertices: Any, inputs: Any, order: Any) -> float:
    """Interpolate between the S + 1 vertices of the simplex around `inputs` (S,).

    The result is rounded to a whole number. If the inputs are sorted in descending
    order, the weight of a corner is the difference of two neighbouring inputs, so the
    order of equal inputs does not matter. `order` (S,) is overwritten.
    """
    for s in range(inputs.shape[0]):
        place = s
        while place > 0 and inputs[order[place - 1]] < inputs[s]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = s
    left, total, v = 1.0, 0.0, 0
    for a in range(inputs.shape[0]):
        s = order[a]
        total += (left - inputs[s]) * float(vertices[v])
        left = inputs[s]
        v += 1 << s
    value: float = (total + left * float(vertices[v]) + SHIFT) - SHIFT
    return value


MODEL = (COLUMNS, FLOATS_2D, INPUTS, UNITS_3D, UNITS_3D, boolean, boolean)


@njit([void(X, *MODEL, float64[:, :, ::1]) for X in (ROWS, FLOATS_2D)], **OPTIONS)
def base(
    X: Rows,
    columns: NDArray[np.int32],
    knots: Floats,
    inputs: NDArray[np.int32],
    calibrations: NDArray[np.int32],
    vertices: NDArray[np.int32],
    simplex: bool,
    whole: bool,
    out: Floats,
) -> None:
    """Write the values of all lattices for rows X to `out` (N, T, R), as whole numbers.

    If `whole`, write their sums over the lattices to `out` (N, 1, R) instead. The other
    arguments are attributes of `Lattices`.
    """
    d, T, S = knots.shape[0], inputs.shape[0], inputs.shape[1]
    places, parts = np.empty(d, np.int64), np.empty(d)
    calibrated, order = np.empty(S), np.empty(S, np.int64)
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
                if simplex:
                    value = walk(vertices[t, r], calibrated, order)
                else:
                    value = interpolate(vertices[t, r], calibrated, work, other)
                out[i, at, r] += value
