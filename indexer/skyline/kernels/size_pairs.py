"""Compiled proofs that one cost is nowhere above another, for sizes (a, b).

A kernel never raises and never checks. Cost polynomials are in the order of
`features/costs/polynomials.py`.
"""

import numpy as np
from numba import boolean, float64, int64
from numba.types import Tuple
from numpy.typing import NDArray

from polydom.models.scoring.kernels.cached_njit import OPTIONS, njit
from polydom.models.scoring.kernels.native import FLOATS_2D

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FLOATS_OUT = float64[::1]
ROOM = float64[:, ::1]
ROWS_OUT = int64[::1]
SIFTED = Tuple((ROWS_OUT, boolean[::1]))


@njit(float64(FLOATS_2D, int64, float64, float64), inline="always", **OPTIONS)
def pair_cost(coefficients: Floats, row: int, a: float, b: float) -> float:
    """Cost in seconds of one row of `coefficients`; as `polynomials.cost_at`."""
    cost_s: float = coefficients[row, 0]
    first, degree = 1, 1
    while first < coefficients.shape[1]:
        part, power = 0.0, 1.0
        for k in range(first, first + degree + 1):
            part = part * a + coefficients[row, k] * power
            power *= b
        cost_s += part
        first += degree + 1
        degree += 1
    return cost_s


@njit(FLOATS_OUT(FLOATS_2D, float64, float64), **OPTIONS)
def pair_costs(coefficients: Floats, a: float, b: float) -> Floats:
    """Cost of each row of `coefficients` at one size."""
    costs_s = np.empty(coefficients.shape[0])
    for row in range(coefficients.shape[0]):
        costs_s[row] = pair_cost(coefficients, row, a, b)
    return costs_s


@njit(SIFTED(FLOATS_2D), **OPTIONS)
def sift(controls: Floats) -> tuple[Ints, NDArray[np.bool_]]:
    """List who may be on a skyline somewhere in a cell, and who is a step of it.

    Rows of `controls` are control values in the cell (Bernstein coefficients), the
    most accurate first: whoever's are all at most another's is nowhere dearer. That
    is transitive, and so what holds against the last step and those listed since
    holds against all before.
    """
    kept = np.empty(controls.shape[0], np.int64)
    steps = np.empty(controls.shape[0], np.bool_)
    found = last = 0
    for row in range(controls.shape[0]):
        needed = step = True
        for place in range(last, found):
            lower = higher = False
            for k in range(controls.shape[1]):
                lower |= controls[row, k] < controls[kept[place], k]
                higher |= controls[row, k] > controls[kept[place], k]
                if lower and higher:
                    break
            if not lower:
                needed = False
                break
            step &= not higher
        if needed:
            kept[found], steps[found] = row, step
            if step:
                last = found
            found += 1
    return kept[:found], steps[:found]


@njit(boolean(ROOM, ROWS_OUT, int64, int64), **OPTIONS)
def never_negative(room: Floats, depths: Ints, side: int, deepest: int) -> bool:
    """Whether the polynomial with control values `room[0]` is proven never negative.

    `side` (d + 1) squared are its control values; rows of `room` below them are
    scratch, deepest + 2 in all. Halves the rectangle until no control value is
    negative, or one at a corner is, which is a value of the polynomial; False too
    where `deepest` halvings decide nothing.
    """
    corners = (0, side - 1, side * (side - 1), side * side - 1)
    depths[0] = 0
    waiting = 1
    while waiting > 0:
        top = waiting - 1
        for corner in corners:
            if room[top, corner] < 0.0:
                return False
        least = 0.0
        for k in range(side * side):
            least = min(least, room[top, k])
        if least >= 0.0:
            waiting -= 1
            continue
        if depths[top] == deepest:
            return False
        # De Casteljau: one half replaces the whole, the other goes on top.
        depths[top] += 1
        depths[waiting] = depths[top]
        by_row = depths[top] & 1
        along, across = (side, 1) if by_row else (1, side)
        for line in range(side):
            for left in range(side):
                base = line * across
                room[waiting, base + (side - 1 - left) * along] = room[
                    top, base + (side - 1) * along
                ]
                for k in range(side - 1, left, -1):
                    here = base + k * along
                    room[top, here] = 0.5 * (room[top, here] + room[top, here - along])
        waiting += 1
    return True


@njit(ROWS_OUT(FLOATS_2D, int64, int64), **OPTIONS)
def undominated_pairs(controls: Floats, side: int, deepest: int) -> Ints:
    """List the rows of `controls` that no row listed before is proven to dominate."""
    kept = np.empty(controls.shape[0], np.int64)
    room, depths = np.empty((deepest + 2, side * side)), np.empty(deepest + 2, np.int64)
    found = 0
    for row in range(controls.shape[0]):
        dominated = False
        for place in range(found):
            for k in range(side * side):
                room[0, k] = controls[row, k] - controls[kept[place], k]
            dominated = never_negative(room, depths, side, deepest)
            if dominated:
                break
        if not dominated:
            kept[found] = row
            found += 1
    return kept[:found]
