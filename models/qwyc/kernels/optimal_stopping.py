"""Optimal stopping, compiled: choose which sorted rows stop at each position.

Arguments are not checked. A row *ends positive* if the whole ensemble decides it as
positive. At each position of the order of base models, a row has a number: its running
sum, or minus the margin of its leading class (`running_sums.py`).

*List.* The rows at one position are listed as int32, in ascending order of their
numbers. If two neighbours have equal numbers, no threshold separates them, and the
second row is stored as ~row. A low stop is wrong for entries whose `positive` is True,
a high stop for all other entries.

*Level.* A number from 0 to 255 that tells how likely a row is to end positive. It is
estimated from rows with similar numbers (`fill_levels`).

*Cuts.* Cuts (a, b) of a list mean: the entries [:a] stop low, the entries [b:] stop
high, and the entries between them continue to the next position.
"""

import math

import numpy as np
from numba import boolean, float64, int32, int64, types, uint8, void
from numba.core.types import Array
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import FLAGS, FLOATS, INTS

# Number of neighbours of a sum: one in PARTS rows, at least FEWEST and at most MOST.
PARTS = 20
FEWEST, MOST = 20, 300
GRID = 32  # sums per position at which odds are computed; others are interpolated
BLUR = 0.4  # deviation of each neighbour's gain, in standard deviations of all gains
STEPS = 8  # levels per unit of log odds
MIDDLE = 128  # level for even odds
OWN = 0.1  # weight of a row's own ending; its neighbours share the rest
IDS = Array(int32, 1, "C", readonly=True)
CUTS = Array(int64, 2, "C", readonly=True)
PRICES = Array(float64, 2, "C", readonly=True)
LEVELS = Array(uint8, 1, "C", readonly=True)


@njit(float64(FLOATS, FLOATS, float64, float64), **OPTIONS)
def log_odds(
    values: NDArray[np.float64], final: NDArray[np.float64], border: float, at: float
) -> float:
    """Return the log odds that a row with running sum `at` ends with at least `border`.

    The rows with running sums `values` (n,) nearest to `at` are taken as examples. What
    later base models add to the row's sum is assumed to be distributed like the
    examples' `final - values`, smoothed with a normal kernel.
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
    """Compute `levels[first:end]` for rows with ascending running sums `values` (n,).

    A level is 128 + 8 * (log odds that the row's sum ends with at least `border`),
    rounded, and clipped to 1 ... 254.
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


@njit(types.UniTuple(int64, 2)(IDS, FLOATS, FLOATS, FLOATS, boolean), **OPTIONS)
def cheapest_cuts(
    ids: NDArray[np.int32],
    lows: NDArray[np.float64],
    highs: NDArray[np.float64],
    onward: NDArray[np.float64],
    both: bool,
) -> tuple[int, int]:
    """Return the cuts (a, b) of the list `ids` with the smallest total cost.

    The entries `ids[:a]` stop low, `ids[b:]` stop high, and the others continue. An
    entry that stops low costs `lows` (n,) >= 0, one that stops high costs `highs` (n,)
    >= 0: the price of a wrong stop times its probability. An entry that continues costs
    `onward` (n,) >= 0; NaN marks rows that stopped at an earlier position. Unless
    `both`, nothing stops high, and b is n.

        ids     4      0      ~2     1      3
        lows    0      0      10     10     10
        highs   10     10     0      0      0
        onward  2      2      2      2      NaN

    The cuts are (1, 3). Row 4 stops low, which saves 2. Row 0 would save 2 more; but
    row 2 has the same number, so it would stop too, wrongly. Row 1 stops high.
    """
    n = ids.shape[0]
    a = 0
    b = n
    value = 0.0
    best = 0.0
    for j in range(n):
        if onward[j] >= 0.0:
            value += lows[j] - onward[j]
        if value < best and (j + 1 == n or ids[j + 1] >= 0):
            best = value
            a = j + 1
    if not both:
        return a, n
    value = 0.0
    best = 0.0
    for j in range(n - 1, -1, -1):
        if onward[j] >= 0.0:
            value += highs[j] - onward[j]
        if value < best and ids[j] >= 0:
            best = value
            b = j
    if a > b:  # the two sides overlap: find the best b for each a
        low = 0.0
        least = 0.0
        high = 0.0  # cost so far, if all entries so far stop high
        best = math.inf
        place = 0
        for j in range(n + 1):
            if j == n or ids[j] >= 0:
                if low < least:
                    least = low
                    place = j
                if least - high < best:
                    best = least - high
                    a = place
                    b = j
            if j < n and onward[j] >= 0.0:
                low += lows[j] - onward[j]
                high += highs[j] - onward[j]
    return a, b


@njit(float64[::1](), **OPTIONS)
def level_chances() -> NDArray[np.float64]:
    """Return the probability (256,) that a row ends positive, for each level."""
    chances = np.zeros(256, np.float64)
    for level in range(1, 255):
        chances[level] = 1.0 / (1.0 + math.exp((MIDDLE - level) / STEPS))
    chances[255] = 1.0
    return chances


@njit(void(IDS, FLAGS, INTS, CUTS, int32[::1], boolean[::1]), **OPTIONS)
def follow_cuts(
    ids: NDArray[np.int32],
    positive: NDArray[np.bool_],
    starts: NDArray[np.int64],
    cuts: NDArray[np.int64],
    stop: NDArray[np.int32],
    wrong: NDArray[np.bool_],
) -> None:
    """Write to `stop` (N,) the position at which each row stops.

    `ids[starts[r]:starts[r + 1]]` lists the rows at position r. Rows before the place
    `cuts[0, r]` in this list stop as negative, and rows from the place `cuts[1, r]` on
    stop as positive. `wrong` (N,) becomes True for each row that stops with another
    answer than the whole ensemble's.
    """
    last = starts.shape[0] - 2
    stop[:] = last
    wrong[:] = False
    for r in range(last - 1, -1, -1):  # backwards, so that the earliest stop remains
        first = starts[r]
        here = ids[first : starts[r + 1]]
        for j in range(cuts[0, r]):
            row = here[j] if here[j] >= 0 else ~here[j]
            stop[row] = r
            wrong[row] = positive[first + j]
        for j in range(cuts[1, r], here.shape[0]):
            row = here[j] if here[j] >= 0 else ~here[j]
            stop[row] = r
            wrong[row] = not positive[first + j]


@njit(
    void(IDS, FLAGS, LEVELS, INTS, FLOATS, PRICES, boolean, CUTS, int64[:, ::1]),
    **OPTIONS,
)
def improve_cuts(
    ids: NDArray[np.int32],
    positive: NDArray[np.bool_],
    levels: NDArray[np.uint8],
    starts: NDArray[np.int64],
    costs: NDArray[np.float64],
    prices: NDArray[np.float64],
    both: bool,
    widest: NDArray[np.int64],
    cuts: NDArray[np.int64],
) -> None:
    """Choose the `cuts` (2, T) of all T positions anew, from the last to the first.

    The lists are those of `Stopping`. The cuts are changed in place, within the bounds
    `widest` (2, T). Their cost never rises: it is the sum of `costs` (T,) up to each
    row's stop, and a price for each wrong stop: `prices[0]` (N,) of a low stop,
    `prices[1]` of a high stop. The probability that a row ends positive is taken as OWN
    * (1 if it does, else 0) + (1 - OWN) * (probability for the row's level).
    """
    last = starts.shape[0] - 2
    rows = prices.shape[1]
    of_level = level_chances()
    stop = np.empty(rows, np.int32)
    wrong = np.empty(rows, np.bool_)
    follow_cuts(ids, positive, starts, cuts, stop, wrong)
    onward = np.zeros(rows, np.float64)
    entries = np.empty(rows, np.float64)
    lows = np.empty(rows, np.float64)
    highs = np.empty(rows, np.float64)
    for r in range(last - 1, -1, -1):
        here = ids[starts[r] : starts[r + 1]]
        flags = positive[starts[r] : starts[r + 1]]
        near = levels[starts[r] : starts[r + 1]]
        for j in range(here.shape[0]):
            row = here[j] if here[j] >= 0 else ~here[j]
            own = 1.0 if flags[j] else 0.0
            chance = own + (1.0 - OWN) * (of_level[near[j]] - own)
            lows[j] = prices[0, row] * chance
            highs[j] = prices[1, row] * (1.0 - chance)
        first, end = widest[0, r], widest[1, r]
        for j in range(first, end):  # these entries are in the list of r + 1
            row = here[j] if here[j] >= 0 else ~here[j]
            onward[row] += costs[r + 1]
            entries[j] = onward[row] if stop[row] >= r else math.nan
        a, b = cheapest_cuts(
            here[first:end],
            lows[first:end],
            highs[first:end],
            entries[first:end],
            both,
        )
        cuts[0, r] = first + a
        cuts[1, r] = first + b
        for j in range(cuts[0, r]):
            row = here[j] if here[j] >= 0 else ~here[j]
            onward[row] = lows[j]
        for j in range(cuts[1, r], here.shape[0]):
            row = here[j] if here[j] >= 0 else ~here[j]
            onward[row] = highs[j]
