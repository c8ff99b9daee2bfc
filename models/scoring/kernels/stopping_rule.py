"""Compiled parts of the stopping rules that `scoring/stopping_rule.py` describes."""

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
    """Return the class of a row by its sum over all base models.

    This is POSITIVE for sums above the threshold, NEGATIVE for sums below, and
    UNDECIDED for sums too near to the threshold, where rounding could change the class.
    """
    above = total - threshold
    if abs(above) > NEAR * max(1.0, abs(threshold)):
        return int(above > 0.0)
    return int(UNDECIDED)


@njit(inline="always")
def follow_limits(
    early: Any, kind: Any, row: Any, table_address: int
) -> tuple[int, float]:
    """Evaluate one row with a model for two classes; return (code, sum).

    The kernel `early(row, table_address, sum)` adds base models to the sum, which is 0
    before, and returns the code: 4 * (number of base models added) + answer. If the row
    does not stop early, `side` gives the answer. The threshold is in the record of
    dtype `kind` at `table_address`.
    """
    total = carray(on_stack(2), (1,), np.float64)  # two int32 are one float64
    total[0] = 0.0
    code = early(row, table_address, total)
    if code & 3 == UNDECIDED:
        code += side(total[0], table_at(table_address, kind).threshold) - UNDECIDED
    return int(code), float(total[0])


@njit(inline="always")
def margin_of(totals: Floats) -> float:
    """Return the difference between the largest and second largest of K >= 2 sums."""
    best, second = totals[0], -np.inf
    for k in range(1, totals.shape[0]):
        second = max(second, min(best, totals[k]))
        best = max(best, totals[k])
    margin: float = best - second
    return margin


@njit(inline="always")
def beyond_margin(totals: Floats, margin: float) -> bool:
    """Return True if the largest sum leads the second by more than `margin`."""
    if margin == np.inf:  # as after most trees of a base model
        return False
    enough: bool = margin_of(totals) > margin
    return enough
