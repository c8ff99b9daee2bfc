"""Cuts of a sorted list of running sums, and the thresholds that draw them.

A cut c lies between the c-th and the next value, at their midpoint; a threshold can
only be drawn where a number lies strictly between the two, so equal sums are never
parted. The outermost cuts stop every row seen and nothing beyond.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def parted(values: Floats) -> NDArray[np.bool_]:
    """Find at which of the n + 1 cuts of (n,) ascending values a threshold can lie."""
    middle = values[:-1] / 2 + values[1:] / 2
    valid = np.ones(len(values) + 1, np.bool_)
    valid[1:-1] = (values[:-1] < middle) & (middle < values[1:])
    return valid


def list_entries(rows: NDArray[np.int64], values: Floats) -> NDArray[np.int32]:
    """Make the list of `rows` (n,), by ascending `values`, that the kernels cut.

    A row that no threshold parts from the one before is listed as ~row.

    Examples
    --------
    >>> list_entries(np.array([4, 0, 2, 1, 3]), np.array([-2.0, -1, -1, 0.5, 3]))
    array([ 4,  0, -3,  1,  3], dtype=int32)
    """
    return np.where(parted(values)[:-1], rows, ~rows).astype(np.int32)


def thresholds_at(values: Floats, a: int, b: int) -> tuple[float, float]:
    """Thresholds (lower, upper) that stop the values before cut a and from b on.

    A side that stops nothing gets an infinite threshold; one that stops everything
    seen gets the next float beyond, so that a sum further out still goes on.
    """
    n = len(values)
    lower, upper = -np.inf, np.inf
    if a == n > 0:
        lower = np.nextafter(values[-1], np.inf)
    elif a > 0:
        lower = values[a - 1] / 2 + values[a] / 2
    if b == 0 < n:
        upper = np.nextafter(values[0], -np.inf)
    elif b < n:
        upper = values[b - 1] / 2 + values[b] / 2
    return float(lower), float(upper)


def most_stops(
    values: Floats, positive: NDArray[np.bool_], allowed: int, both: bool
) -> tuple[int, int]:
    """Find the cuts (a, b) that stop most values with at most `allowed` errors.

    One step of QWYC's Algorithm 2. Of equally good cuts those with the fewest errors
    are taken, then the smallest a.
    """
    n = len(values)
    valid = parted(values)
    wrong_low = np.concatenate([[0], np.cumsum(positive)])
    wrong_high = np.concatenate([np.cumsum(~positive[::-1])[::-1], [0]])
    lows = np.flatnonzero(valid & (wrong_low <= allowed))
    highs = np.flatnonzero(valid) if both else np.array([n])
    # wrong_high falls with the cut: the first cut cheap enough stops the most.
    left = allowed - wrong_low[lows]
    first = len(highs) - np.searchsorted(wrong_high[highs][::-1], left, side="right")
    b = np.maximum(highs[first], lows)
    errors = wrong_low[lows] + wrong_high[b]
    best = np.lexsort((lows, errors, -(lows + n - b)))[0]
    return int(lows[best]), int(b[best])
