"""Compiled counting behind the schedules: early exits, doubt, and optimal stopping.

Scores are (N, T): rows are examples, columns base models, N >> T. Scans look at many
base models and read the matrix in blocks of `BLOCK` neighbouring columns, a cache
line each, so no transposed copy is needed. Rows under consideration are listed with
the positive ones (by the full decision) first. Nothing is checked here.
"""

import math

import numpy as np
from numba import boolean, float64, int32, int64, types, void
from numba.core.types import Array
from numpy.typing import NDArray

from ..models.declare import njit

FLOATS = Array(float64, 1, "C", readonly=True)
FLOATS_2D = Array(float64, 2, "C", readonly=True)
ROWS = Array(int64, 1, "C", readonly=True)
FLAGS = Array(boolean, 1, "C", readonly=True)
IDS = Array(int32, 1, "C", readonly=True)
CUTS = Array(int64, 2, "C", readonly=True)
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}  # no fastmath: NaN

BLOCK = 8  # doubles in a cache line
BINS = 64  # of the running sum, when doubt is measured
CHUNK = 64  # columns whose bins fit the L1 cache together


@njit(
    void(FLOATS_2D, ROWS, FLOATS, FLOATS, float64, boolean[::1], int64[::1]), **OPTIONS
)
def walk(
    scores: NDArray[np.float64],
    order: NDArray[np.int64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    threshold: float,
    decisions: NDArray[np.bool_],
    used: NDArray[np.int64],
) -> None:
    """Evaluate each row early; `decisions` (N,) and `used` (N,) are filled.

    Whole sums are added anew, as `models.sums` does: a schedule's order rounds
    otherwise.
    """
    last = order.shape[0]
    for i in range(scores.shape[0]):
        total = 0.0
        r = 0
        while r < last:
            total += scores[i, order[r]]
            if total < lower[r] or total > upper[r]:
                break
            r += 1
        if r < last:
            decisions[i] = total > upper[r]
            used[i] = r + 1
        else:
            total = 0.0
            for t in range(last):
                total += scores[i, t]
            decisions[i] = total >= threshold
            used[i] = last


@njit(void(float64[::1], int64, int64, float64), **OPTIONS)
def sift(heap: NDArray[np.float64], node: int, size: int, value: float) -> None:
    """Put `value` at `node` of a max-heap of `size` entries, and restore the heap."""
    while True:
        child = 2 * node + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[node] = heap[child]
        node = child
    heap[node] = value


@njit(int64(FLOATS, float64, float64[::1]), **OPTIONS)
def smallest(values: NDArray[np.float64], sign: float, out: NDArray[np.float64]) -> int:
    """Fill `out` with the smallest of sign * values, ascending; how many there are."""
    size: int = min(out.shape[0], values.shape[0])
    for i in range(size):
        out[i] = sign * values[i]
    for node in range(size // 2 - 1, -1, -1):
        sift(out, node, size, out[node])
    for i in range(size, values.shape[0]):
        if sign * values[i] < out[0]:
            sift(out, 0, size, sign * values[i])
    for end in range(size - 1, 0, -1):
        value = out[end]
        out[end] = out[0]
        sift(out, 0, end, value)
    return size


@njit(int64(FLOATS, int64, float64), **OPTIONS)
def first_above(ascending: NDArray[np.float64], size: int, value: float) -> int:
    """Position of the first of `size` entries above `value`, `size` if none is."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] > value:
            high = middle
        else:
            low = middle + 1
    return low


@njit(void(FLOATS, FLOATS, float64, float64[::1], int64[::1]), **OPTIONS)
def stops_by_errors(
    right: NDArray[np.float64],
    wrong: NDArray[np.float64],
    sign: float,
    limits: NDArray[np.float64],
    stops: NDArray[np.int64],
) -> None:
    """Most rows that can stop on one side, for each number of errors allowed there.

    Rows stop below a threshold on sign * value; those of `right` stop rightly.
    `stops[e]` is filled for e = 0 .. len - 1 errors: all rows strictly below the
    (e + 1)-th smallest value of `wrong`, or every row where there is none. `limits`,
    as long, is scratch.
    """
    known = smallest(wrong, sign, limits)
    for e in range(stops.shape[0]):
        stops[e] = 0
    if known > 0:
        for i in range(right.shape[0]):
            value = sign * right[i]
            if value < limits[0]:
                stops[0] += 1
            elif value < limits[known - 1]:
                stops[first_above(limits, known, value)] += 1
    rights = 0
    wrongs = 0  # strictly below the current limit: fewer than e where values are tied
    for e in range(stops.shape[0]):
        if e < known:
            rights += stops[e]
            if e > 0 and limits[e] > limits[e - 1]:
                wrongs = e
            stops[e] = rights + wrongs
        else:
            stops[e] = right.shape[0] + wrong.shape[0]


@njit(void(FLOATS_2D, ROWS, FLOATS, int64, ROWS, int64, boolean, int64[::1]), **OPTIONS)
def count_stops(
    scores: NDArray[np.float64],
    rows: NDArray[np.int64],
    sums: NDArray[np.float64],
    positives: int,
    columns: NDArray[np.int64],
    allowed: int,
    both: bool,
    stopped: NDArray[np.int64],
) -> None:
    """Most rows each column could stop with at most `allowed` errors.

    The inner step of QWYC's Algorithm 1, linear in the rows: only the `allowed` + 1
    extreme values of each side are sorted. `rows` (n,) and `columns` (L,) index
    `scores`; `sums` (n,) are the running sums; `stopped` (L,) is filled.
    """
    n = rows.shape[0]
    values = np.empty((BLOCK, n), np.float64)
    low = np.empty(allowed + 1, np.int64)
    high = np.empty(allowed + 1, np.int64)
    limits = np.empty(allowed + 1, np.float64)
    for start in range(0, columns.shape[0], BLOCK):
        size = min(BLOCK, columns.shape[0] - start)
        for i in range(n):
            for j in range(size):
                values[j, i] = sums[i] + scores[rows[i], columns[start + j]]
        for j in range(size):
            positive = values[j, :positives]
            negative = values[j, positives:]
            stops_by_errors(negative, positive, 1.0, limits, low)
            best = low[allowed]
            if both:
                stops_by_errors(positive, negative, -1.0, limits, high)
                best = 0
                for e in range(allowed + 1):
                    best = max(best, low[e] + high[allowed - e])
            # Both sides reach over each other: one cut stops every row.
            stopped[start + j] = min(best, n)


@njit(float64(int64, int64), **OPTIONS)
def doubt_of(positives: int, negatives: int) -> float:
    """Doubt n sqrt(q (1 - q)) of n rows; half a row is added to either class."""
    q = (positives + 0.5) / (positives + negatives + 1.0)
    return (positives + negatives) * math.sqrt(q * (1.0 - q))


@njit(
    void(FLOATS_2D, ROWS, FLOATS, int64, ROWS, FLOATS, FLOATS, float64[::1]), **OPTIONS
)
def measure_doubt(
    scores: NDArray[np.float64],
    rows: NDArray[np.int64],
    sums: NDArray[np.float64],
    positives: int,
    columns: NDArray[np.int64],
    least: NDArray[np.float64],
    most: NDArray[np.float64],
    doubt: NDArray[np.float64],
) -> None:
    """Doubt left about the full decision once each column is added to the sums.

    The new sum is put into `BINS` equal bins between the column's `least` and `most`
    (L,); `doubt` (L,) is filled with the bins' doubts, added up.
    """
    counts = np.empty((CHUNK, 2, BINS), np.int32)
    scale = np.empty(CHUNK, np.float64)
    for start in range(0, columns.shape[0], CHUNK):
        size = min(CHUNK, columns.shape[0] - start)
        counts[:] = 0
        for j in range(size):
            span = most[start + j] - least[start + j]
            scale[j] = BINS / span if span > 0.0 else 0.0
        for i in range(rows.shape[0]):
            side = 1 if i < positives else 0
            row = scores[rows[i]]
            for j in range(size):
                place = (sums[i] + row[columns[start + j]] - least[start + j]) * scale[
                    j
                ]
                counts[j, side, int(min(max(place, 0.0), BINS - 1.0))] += 1
        for j in range(size):
            total = 0.0
            for b in range(BINS):
                total += doubt_of(counts[j, 1, b], counts[j, 0, b])
            doubt[start + j] = total


@njit(types.UniTuple(int64, 2)(IDS, FLAGS, FLOATS, float64, boolean), **OPTIONS)
def cut_entries(
    ids: NDArray[np.int32],
    positive: NDArray[np.bool_],
    onward: NDArray[np.float64],
    price: float,
    both: bool,
) -> tuple[int, int]:
    """Do `cheapest_cuts` with `onward` (n,) by entry, NaN for rows not here."""
    n = ids.shape[0]
    a = 0
    b = n
    value = 0.0
    best = 0.0
    for j in range(n):
        if onward[j] >= 0.0:
            value += (price if positive[j] else 0.0) - onward[j]
        if value < best and (j + 1 == n or ids[j + 1] >= 0):
            best = value
            a = j + 1
    if not both:
        return a, n
    value = 0.0
    best = 0.0
    for j in range(n - 1, -1, -1):
        if onward[j] >= 0.0:
            value += (0.0 if positive[j] else price) - onward[j]
        if value < best and ids[j] >= 0:
            best = value
            b = j
    if a > b:  # stopping either way beats going on: every row stops at one cut
        value = 0.0
        best = math.inf
        for j in range(n + 1):
            if (j == n or ids[j] >= 0) and value < best:
                best = value
                a = j
            if j < n and onward[j] >= 0.0:
                value += price if positive[j] else -price
        b = a
    return a, b


@njit(types.UniTuple(int64, 2)(IDS, FLAGS, FLOATS, FLAGS, float64, boolean), **OPTIONS)
def cheapest_cuts(
    ids: NDArray[np.int32],
    positive: NDArray[np.bool_],
    onward: NDArray[np.float64],
    here: NDArray[np.bool_],
    price: float,
    both: bool,
) -> tuple[int, int]:
    """Cuts (a, b) that cost least: entries before a stop low, from b on high.

    `ids` (n,) lists rows by ascending running sum; an entry equal in sum to the one
    before is stored as ~row, since no threshold parts the two. `positive` (n,) says
    of each entry which stop is the wrong one: the low one if it is positive, else the
    high one. A wrong stop costs `price`, going on costs `onward[row]` >= 0; rows not
    `here` do not count.
    """
    entries = np.empty(ids.shape[0], np.float64)
    for j in range(ids.shape[0]):
        row = ids[j] if ids[j] >= 0 else ~ids[j]
        entries[j] = onward[row] if here[row] else math.nan
    a, b = cut_entries(ids, positive, entries, price, both)
    return a, b


@njit(void(IDS, FLAGS, ROWS, CUTS, int32[::1], boolean[::1]), **OPTIONS)
def follow_cuts(
    ids: NDArray[np.int32],
    positive: NDArray[np.bool_],
    starts: NDArray[np.int64],
    cuts: NDArray[np.int64],
    stop: NDArray[np.int32],
    wrong: NDArray[np.bool_],
) -> None:
    """Fill `stop` (N,) with each row's last position under `cuts`, `wrong` (N,) too."""
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
    void(IDS, FLAGS, ROWS, int64, FLOATS, float64, boolean, CUTS, int64[:, ::1]),
    **OPTIONS,
)
def improve_cuts(
    ids: NDArray[np.int32],
    positive: NDArray[np.bool_],
    starts: NDArray[np.int64],
    rows: int,
    costs: NDArray[np.float64],
    price: float,
    both: bool,
    widest: NDArray[np.int64],
    cuts: NDArray[np.int64],
) -> None:
    """One backward pass: each position's cuts made the best for all the others'.

    Position r's entries are ids[starts[r]:starts[r + 1]] of N = `rows` rows, with
    their `positive`, as `cheapest_cuts` wants them; `cuts` (2, T) holds its two cuts,
    within those of `widest` (2, T): entries outside these have no place at r + 1 and
    stop. The whole cost (`costs` (T,) by position, `price` per wrong stop) never
    rises: cuts at r are chosen for the rows that reach r, knowing what going on will
    truly cost each of them.
    """
    last = starts.shape[0] - 2
    stop = np.empty(rows, np.int32)
    wrong = np.empty(rows, np.bool_)
    follow_cuts(ids, positive, starts, cuts, stop, wrong)
    onward = np.zeros(rows, np.float64)
    entries = np.empty(rows, np.float64)
    for r in range(last - 1, -1, -1):
        here = ids[starts[r] : starts[r + 1]]
        flags = positive[starts[r] : starts[r + 1]]
        first, end = widest[0, r], widest[1, r]
        for j in range(first, end):  # those with a place at r + 1
            row = here[j] if here[j] >= 0 else ~here[j]
            onward[row] += costs[r + 1]
            entries[j] = onward[row] if stop[row] >= r else math.nan
        a, b = cut_entries(
            here[first:end], flags[first:end], entries[first:end], price, both
        )
        cuts[0, r] = first + a
        cuts[1, r] = first + b
        for j in range(cuts[0, r]):
            row = here[j] if here[j] >= 0 else ~here[j]
            onward[row] = price if flags[j] else 0.0
        for j in range(cuts[1, r], here.shape[0]):
            row = here[j] if here[j] >= 0 else ~here[j]
            onward[row] = 0.0 if flags[j] else price
