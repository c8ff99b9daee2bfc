"""Where to cut a sorted list of running sums so that the rows outside stop.

A cut c lies between the c-th and the next value, at their midpoint; a threshold can
only be drawn where a number lies strictly between the two, so equal sums are never
parted. The outermost cuts stop every row seen and nothing beyond.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def parted(values: Floats) -> NDArray[np.bool_]:
    """Which of the n + 1 cuts of (n,) ascending values a threshold can be drawn at."""
    middle = values[:-1] / 2 + values[1:] / 2
    valid = np.ones(len(values) + 1, np.bool_)
    valid[1:-1] = (values[:-1] < middle) & (middle < values[1:])
    return valid


def thresholds_at(values: Floats, a: int, b: int) -> tuple[float, float]:
    """(lower, upper) that stop the a smallest and all but the b smallest values.

    A side that stops nothing gets an infinite threshold; one that stops everything
    seen gets the next float beyond, so that an unheard-of sum still goes on.
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
    """Cuts (a, b) of ascending `values` that stop most with <= `allowed` errors.

    The first a values stop negative, those from b on positive; on ties the fewest
    errors, then the smallest a. One step of QWYC's Algorithm 2.
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
