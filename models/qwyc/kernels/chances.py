"""How likely a running sum is to end positive, compiled; nothing is checked here.

Whether a row ends so is one draw, and cuts chosen at hundreds of positions find the
places where the draws were lucky: on fresh rows they change several times as many
decisions. So a sum is judged by its neighbours, each of which says where it would have
ended, had it been at this very sum.
"""

import math

import numpy as np
from numba import float64, int64, uint8, void
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import FLOATS

PARTS = 20  # one in so many rows, those around a sum, tell what is still to come there
FEWEST, MOST = 20, 300  # of them, where there are as many
GRID = 32  # sums of a position at which neighbours are asked; lines lie between
BLUR = 0.4  # standard deviations of what is to come that each neighbour's is blurred by
STEPS = 8  # levels to a unit of log odds
MIDDLE = 128  # level of even odds


@njit(float64(FLOATS, FLOATS, float64, float64), **OPTIONS)
def log_odds(
    values: NDArray[np.float64], final: NDArray[np.float64], border: float, at: float
) -> float:
    """Log odds that a row whose running sum is `at` ends at `border` or above.

    `values` (n,) are running sums, ascending, and `final` (n,) where their rows ended.
    What it still gains is drawn from the gains of the rows nearest by rank, blurred by
    a normal distribution. Infinite where all gained the same.
    """
    n = values.shape[0]
    near = min(n, max(FEWEST, min(MOST, n // PARTS)))
    place = np.searchsorted(values, at) - near // 2
    first = max(0, min(place, n - near))
    end = first + near
    count = 0
    mean = 0.0
    square = 0.0
    for i in range(first, end):
        gain = final[i] - values[i]
        count += 1
        more = gain - mean
        mean += more / count
        square += more * (gain - mean)
    blur = BLUR * math.sqrt(2.0 * square / count)
    above = 0.0
    below = 0.0
    for i in range(first, end):
        beyond = at + (final[i] - values[i]) - border
        tail = math.erfc(abs(beyond) / blur) if blur > 0.0 else 0.0
        above += 2.0 - tail if beyond >= 0.0 else tail
        below += tail if beyond >= 0.0 else 2.0 - tail
    if above == 0.0:
        return -math.inf
    if below == 0.0:
        return math.inf
    return math.log(above) - math.log(below)


@njit(void(FLOATS, FLOATS, float64, int64, int64, uint8[::1]), **OPTIONS)
def fill_levels(
    values: NDArray[np.float64],
    final: NDArray[np.float64],
    border: float,
    first: int,
    end: int,
    levels: NDArray[np.uint8],
) -> None:
    """Fill `levels` (n,) of ascending running sums from `first` to before `end`.

    A level is 128 + 8 times the log odds of ending at `border` or above, rounded, 1 to
    254. The odds are found at `GRID` evenly spaced sums and lie on lines between them.
    """
    low = values[first]
    width = (values[end - 1] - low) / (GRID - 1)
    found = np.empty(GRID, np.float64)
    for k in range(GRID):
        odds = log_odds(values, final, border, low + width * k)
        found[k] = min(max(MIDDLE + STEPS * odds, 1.0), 254.0)
    for j in range(first, end):
        place = (values[j] - low) / width if width > 0.0 else 0.0
        k = min(int(place), GRID - 2)
        share = place - k
        level = found[k] + (found[k + 1] - found[k]) * share
        levels[j] = np.uint8(level + 0.5)
