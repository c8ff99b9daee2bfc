"""Compiled costs and dominance tests, for item sizes of two numbers (a, b).

A test proves that one candidate never costs more than another. Arguments are not
checked.
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
WORK = float64[:, ::1]
ROWS_OUT = int64[::1]
SIFTED = Tuple((ROWS_OUT, boolean[::1]))


@njit(float64(FLOATS_2D, int64, float64, float64), inline="always", **OPTIONS)
def pair_cost(coefficients: Floats, row: int, a: float, b: float) -> float:
    """Return the cost in seconds of one row of `coefficients` at size (a, b)."""
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
    """Return the cost in seconds of each row of `coefficients` at size (a, b)."""
    costs_s = np.empty(coefficients.shape[0])
    for row in range(coefficients.shape[0]):
        costs_s[row] = pair_cost(coefficients, row, a, b)
    return costs_s


@njit(SIFTED(FLOATS_2D), **OPTIONS)
def sift(controls: Floats) -> tuple[Ints, NDArray[np.bool_]]:
    """Select the candidates that may be on a skyline in a cell, a rectangle of sizes.

    Row i of `controls` has the Bernstein coefficients of candidate i's cost in the
    cell. The most accurate candidate comes first. If every coefficient of one row is at
    most that of another row, the first candidate never costs more than the other in the
    cell.

    Returns (rows, steps). `rows` leaves out each candidate for which an earlier, more
    accurate one never costs more. `steps` is True for each returned row that never
    costs more than any returned row before it.
    """
    kept = np.empty(controls.shape[0], np.int64)
    steps = np.empty(controls.shape[0], np.bool_)
    found = last = 0
    for row in range(controls.shape[0]):
        needed = step = True
        # Rows before the last step need no test: the step never costs more than they.
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


@njit(boolean(WORK, ROWS_OUT, int64, int64), **OPTIONS)
def never_negative(work: Floats, depths: Ints, side: int, deepest: int) -> bool:
    """Return True if a polynomial is proven to be nowhere negative in a rectangle.

    `work[0]` has the polynomial's `side` * `side` Bernstein coefficients, with side =
    degree + 1. The rectangle is halved repeatedly, until no part of it has a negative
    coefficient. The result is False if the polynomial is negative at a corner of a
    part, or if `deepest` halvings do not decide. `work` must have `deepest` + 2 rows.
    `depths` and all rows of `work` after the first are scratch memory.
    """
    corners = (0, side - 1, side * (side - 1), side * side - 1)
    depths[0] = 0
    waiting = 1
    while waiting > 0:
        top = waiting - 1
        for corner in corners:
            if work[top, corner] < 0.0:
                return False
        least = 0.0
        for k in range(side * side):
            least = min(least, work[top, k])
        if least >= 0.0:
            waiting -= 1
            continue
        if depths[top] == deepest:
            return False
        # De Casteljau: one half replaces the rectangle, the other goes on the stack.
        depths[top] += 1
        depths[waiting] = depths[top]
        by_row = depths[top] & 1
        along, across = (side, 1) if by_row else (1, side)
        for line in range(side):
            for left in range(side):
                base = line * across
                work[waiting, base + (side - 1 - left) * along] = work[
                    top, base + (side - 1) * along
                ]
                for k in range(side - 1, left, -1):
                    here = base + k * along
                    work[top, here] = 0.5 * (work[top, here] + work[top, here - along])
        waiting += 1
    return True


@njit(ROWS_OUT(FLOATS_2D, int64, int64), **OPTIONS)
def undominated_pairs(controls: Floats, side: int, deepest: int) -> Ints:
    """Return the candidates that are not proven to be dominated, ascending.

    Row i of `controls` (C, side * side) has the Bernstein coefficients of candidate i's
    cost. The most accurate candidate comes first. Each candidate is compared with the
    returned candidates before it.
    """
    kept = np.empty(controls.shape[0], np.int64)
    work, depths = np.empty((deepest + 2, side * side)), np.empty(deepest + 2, np.int64)
    found = 0
    for row in range(controls.shape[0]):
        dominated = False
        for place in range(found):
            for k in range(side * side):
                work[0, k] = controls[row, k] - controls[kept[place], k]
            dominated = never_negative(work, depths, side, deepest)
            if dominated:
                break
        if not dominated:
            kept[found] = row
            found += 1
    return kept[:found]
