"""The cuts of lists of rows that cost least, compiled; nothing is checked here.

A list holds the rows at one position by ascending number (running sum, or minus the
margin of the leading class), int32 a row; an entry whose number equals the one before
is stored as ~row, which is negative: no threshold parts the two. `positive` says of
each entry which stop is the wrong one, the low one if it is positive, else the high
one; `levels` how likely that is among rows with about this number (`fill_levels`). A
cut (a, b) stops the entries before a low and those from b on high.
"""

import math

import numpy as np
from numba import boolean, float64, int32, int64, types, uint8, void
from numba.core.types import Array
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import FLAGS, FLOATS, INTS

PARTS = 20  # one in so many rows, those around a sum, tell what is still to come there
FEWEST, MOST = 20, 300  # of them, where there are as many
GRID = 32  # sums of a position at which neighbours are asked; lines lie between
BLUR = 0.4  # standard deviations of what is to come that each neighbour's is blurred by
STEPS = 8  # levels to a unit of log odds
MIDDLE = 128  # level of even odds
OWN = 0.1  # weight of a row's own ending, the rest is its neighbours'
IDS = Array(int32, 1, "C", readonly=True)
CUTS = Array(int64, 2, "C", readonly=True)
LEVELS = Array(uint8, 1, "C", readonly=True)


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


@njit(types.UniTuple(int64, 2)(IDS, FLOATS, FLOATS, float64, boolean), **OPTIONS)
def cheapest_cuts(
    ids: NDArray[np.int32],
    chances: NDArray[np.float64],
    onward: NDArray[np.float64],
    price: float,
    both: bool,
) -> tuple[int, int]:
    """Cuts (a, b) of one list that cost least.

    A wrong stop costs `price`; a low one is wrong with the chance in `chances` (n,), a
    high one with the rest of it. Going on costs `onward` (n,) >= 0 by entry; entries of
    rows that do not come this far have NaN there and do not count. Without `both`
    nothing stops high: b is n.

        ids      4      0      ~2     1      3
        chances  0      0      1      1      1
        onward   2      2      2      2      NaN

    At a price of 10 the cuts are (1, 3). Row 4 stops low, which saves 2. Row 0 would
    save 2 more, but row 2 would stop with it, wrongly. Row 1 stops high.
    """
    n = ids.shape[0]
    a = 0
    b = n
    value = 0.0
    best = 0.0
    for j in range(n):
        if onward[j] >= 0.0:
            value += price * chances[j] - onward[j]
        if value < best and (j + 1 == n or ids[j + 1] >= 0):
            best = value
            a = j + 1
    if not both:
        return a, n
    value = 0.0
    best = 0.0
    for j in range(n - 1, -1, -1):
        if onward[j] >= 0.0:
            value += price * (1.0 - chances[j]) - onward[j]
        if value < best and ids[j] >= 0:
            best = value
            b = j
    if a > b:  # the best of either side overlap: b is sought for each a
        low = 0.0
        least = 0.0
        high = 0.0  # what stopping the entries so far costs high
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
                low += price * chances[j] - onward[j]
                high += price * (1.0 - chances[j]) - onward[j]
    return a, b


@njit(float64[::1](), **OPTIONS)
def level_chances() -> NDArray[np.float64]:
    """Chance of a positive ending at each level, (256,); 0 and 255 are certain."""
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
    """Find where each row stops under `cuts` (2, T), and whether it is decided wrongly.

    Position r's list is `ids[starts[r]:starts[r + 1]]`, with its `positive`. `stop`
    (N,) and `wrong` (N,) are filled; a row that no cut stops ends at the last position.
    """
    last = starts.shape[0] - 2
    stop[:] = last
    wrong[:] = False
    for r in range(last - 1, -1, -1):  # the earliest stop is written last
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
    void(
        IDS,
        FLAGS,
        LEVELS,
        INTS,
        int64,
        FLOATS,
        float64,
        boolean,
        CUTS,
        int64[:, ::1],
    ),
    **OPTIONS,
)
def improve_cuts(
    ids: NDArray[np.int32],
    positive: NDArray[np.bool_],
    levels: NDArray[np.uint8],
    starts: NDArray[np.int64],
    rows: int,
    costs: NDArray[np.float64],
    price: float,
    both: bool,
    widest: NDArray[np.int64],
    cuts: NDArray[np.int64],
) -> None:
    """Choose the cuts of each position anew, from the last to the first, in place.

    Lists are as in `follow_cuts`, of `rows` rows. `cuts` (2, T) stay within `widest`
    (2, T): entries outside these are in no later list. The whole cost (`costs` (T,) by
    position, `price` times the chance that a stop is wrong) never rises: the cuts at r
    are the best for the rows that reach r, given what going on costs each under the
    cuts after r. A stop's chance is `OWN` of what its own row says and the rest what
    its level does; with levels of 0 and 255 alone, which say the same, it is exact.
    """
    last = starts.shape[0] - 2
    of_level = level_chances()
    stop = np.empty(rows, np.int32)
    wrong = np.empty(rows, np.bool_)
    follow_cuts(ids, positive, starts, cuts, stop, wrong)
    onward = np.zeros(rows, np.float64)
    entries = np.empty(rows, np.float64)
    chances = np.empty(rows, np.float64)
    for r in range(last - 1, -1, -1):
        here = ids[starts[r] : starts[r + 1]]
        flags = positive[starts[r] : starts[r + 1]]
        near = levels[starts[r] : starts[r + 1]]
        for j in range(here.shape[0]):
            own = 1.0 if flags[j] else 0.0
            chances[j] = own + (1.0 - OWN) * (of_level[near[j]] - own)
        first, end = widest[0, r], widest[1, r]
        for j in range(first, end):  # those with a place at r + 1
            row = here[j] if here[j] >= 0 else ~here[j]
            onward[row] += costs[r + 1]
            entries[j] = onward[row] if stop[row] >= r else math.nan
        a, b = cheapest_cuts(
            here[first:end], chances[first:end], entries[first:end], price, both
        )
        cuts[0, r] = first + a
        cuts[1, r] = first + b
        for j in range(cuts[0, r]):
            row = here[j] if here[j] >= 0 else ~here[j]
            onward[row] = price * chances[j]
        for j in range(cuts[1, r], here.shape[0]):
            row = here[j] if here[j] >= 0 else ~here[j]
            onward[row] = price * (1.0 - chances[j])
