"""Compiled stopping rules, applied after each base model; see `stopping_rule.py`."""

from typing import Any

import numpy as np
from numba import carray

from ..model import Floats
from ..stopping_rule import NEAR, UNDECIDED
from .cached_njit import njit
from .native import on_stack, table_at


@njit(inline="always")
def outside(total: float, lower: float, upper: float) -> bool:
    """Return True if a sum is below `lower` or above `upper`."""
    beyond: bool = (total < lower) | (total > upper)
    return beyond


@njit(inline="always")
def side(total: float, threshold: float) -> int:
    """Compare a sum over all base models with the threshold.

    Return POSITIVE above the threshold, NEGATIVE below, and UNDECIDED near a tie.
    """
    above = total - threshold
    if abs(above) > NEAR * max(1.0, abs(threshold)):
        return int(above > 0.0)
    return int(UNDECIDED)


@njit(inline="always")
def follow_limits(early: Any, kind: Any, row: Any, address: int) -> tuple[int, float]:
    """Evaluate one row, and return its code and its sum.

    If the row does not stop early, `side` gives the answer. `early` is a kernel (row,
    table address, array for the sum) that returns the code.
    """
    total = carray(on_stack(2), (1,), np.float64)
    code = early(row, address, total)
    if code & 3 == UNDECIDED:
        code += side(total[0], table_at(address, kind).threshold) - UNDECIDED
    return int(code), float(total[0])


@njit(inline="always")
def margin_of(totals: Floats) -> float:
    """Compute the difference between the largest and second largest of K >= 2 sums."""
    best, second = totals[0], -np.inf
    for k in range(1, totals.shape[0]):
        second = max(second, min(best, totals[k]))
        best = max(best, totals[k])
    margin: float = best - second
    return margin


@njit(inline="always")
def beyond_margin(totals: Floats, margin: float) -> bool:
    """Return True if the largest sum leads by more than `margin`."""
    if margin == np.inf:
        return False
    enough: bool = margin_of(totals) > margin
    return enough
