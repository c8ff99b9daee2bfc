"""Compiled lower envelopes of cost curves, and the dominance test of candidates."""

import numpy as np
from numba import boolean, float64, int64
from numba.types import Tuple
from numpy.typing import NDArray

from polydom.models.scoring.kernels.cached_njit import OPTIONS, njit
from polydom.models.scoring.kernels.native import FLAGS, FLOATS, FLOATS_2D, copy

from .crossings import FLOATS_OUT, INTS_OUT, UNIT, certain_order, compare, ever_cheaper

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(boolean(FLOATS_2D, FLOATS_2D, FLOATS_2D, int64, int64, FLOATS), **OPTIONS)
def is_cheaper(
    costs: Floats, least: Floats, most: Floats, row: int, other: int, sizes: Floats
) -> bool:
    """Return True if candidate `row` costs less than candidate `other` at some size.

    The costs of C candidates at `sizes` (S,) are at least `least` (C, S) and at most
    `most` (C, S). If these bounds do not decide, the cost curves are compared exactly.
    """
    for k in range(sizes.shape[0]):
        if most[row, k] < least[other, k]:
            return True
    low, high = sizes[0], sizes[sizes.shape[0] - 1]
    cheaper: bool = ever_cheaper(costs[row], costs[other], low, high)
    return cheaper


@njit(INTS_OUT(FLOATS_2D, FLOATS, FLAGS, FLOATS), **OPTIONS)
def undominated(
    coefficients: Floats,
    accuracies: Floats,
    on_skyline: NDArray[np.bool_],
    sizes: Floats,
) -> Ints:
    """Return the positions of candidates that no other dominates, ascending.

    `accuracies` must be in descending order. Each candidate is compared with the
    undominated candidates before it, which is enough because dominance is transitive.
    It is also compared with those as accurate as itself, which it may dominate.
    `on_skyline` marks candidates that are known to be undominated. `sizes` ascend from
    the smallest to the largest size of items.
    """
    count, width = coefficients.shape
    # Bounds of the costs at the sizes, rounding included.
    least = np.empty((count, sizes.shape[0]))
    most = np.empty((count, sizes.shape[0]))
    for row in range(count):
        for at in range(sizes.shape[0]):
            cost = magnitude = 0.0
            for k in range(width - 1, -1, -1):
                cost = cost * sizes[at] + coefficients[row, k]
                magnitude = magnitude * sizes[at] + abs(coefficients[row, k])
            error = 4 * (width + 1) * UNIT * magnitude
            least[row, at], most[row, at] = cost - error, cost + error
    kept = np.empty(count, np.int64)
    end = group = 0
    for row in range(count):
        if row > 0 and accuracies[row] != accuracies[row - 1]:
            group = end
        dominated = False
        # The candidates kept last are compared first: they likely cost as little.
        for k in range(-1 if on_skyline[row] else end - 1, -1, -1):
            if not is_cheaper(coefficients, least, most, row, kept[k], sizes):
                dominated = True
                break
        if dominated:
            continue
        last = group
        for k in range(group, end):
            if on_skyline[kept[k]] or is_cheaper(
                coefficients, least, most, kept[k], row, sizes
            ):
                kept[last] = kept[k]
                last += 1
        kept[last] = row
        end = last + 1
    return kept[:end]


PIECES = Tuple((FLOATS_OUT, INTS_OUT))


@njit(PIECES(FLOATS_OUT, INTS_OUT, int64), **OPTIONS)
def grown(starts: Floats, owners: Ints, size: int) -> tuple[Floats, Ints]:
    """Return both arrays of an envelope, enlarged if they are shorter than `size`."""
    held = starts.shape[0]
    if size <= held:
        return starts, owners
    more_starts, more_owners = np.empty(2 * size), np.empty(2 * size, np.int64)
    copy(starts, more_starts)
    copy(owners, more_owners)
    return more_starts, more_owners


MERGED = Tuple((boolean, int64, FLOATS_OUT, INTS_OUT))


@njit(
    MERGED(
        FLOATS_2D, int64, FLOATS_OUT, INTS_OUT, int64, float64, FLOATS_OUT, INTS_OUT
    ),
    **OPTIONS,
)
def merge_curve(
    coefficients: Floats,
    row: int,
    starts: Floats,
    owners: Ints,
    pieces: int,
    high: float,
    new_starts: Floats,
    new_owners: Ints,
) -> tuple[bool, int, Floats, Ints]:
    """Merge candidate `row`'s cost curve into a lower envelope of cost curves.

    An envelope consists of `pieces` pieces. Piece k is the cost curve of candidate
    `owners[k]`, from size `starts[k]` to the start of the next piece; the last piece
    ends at `high`. Returns (changed, pieces, starts, owners). `changed` is True if the
    curve of `row` is below the old envelope somewhere; the rest describes the new
    envelope. Its arrays are `new_starts` and `new_owners`, or larger arrays if these
    are too short.
    """
    width = coefficients.shape[1]
    new_starts, new_owners = grown(new_starts, new_owners, pieces + 64)
    # A stack of spans of pieces, the leftmost on top. Uncertain spans are halved.
    firsts, lasts = np.zeros(64, np.int64), np.zeros(64, np.int64)
    lasts[0] = pieces - 1
    top = count = 0
    while top >= 0:
        first, last = firsts[top], lasts[top]
        top -= 1
        left = starts[first]
        right = starts[last + 1] if last + 1 < pieces else np.inf
        middle = (first + last) // 2
        rival = coefficients[owners[middle]]
        order = certain_order(coefficients[row], rival, left, min(right, high))
        if order > 0:  # above one curve of the span, so above the envelope there
            for k in range(first, last + 1):
                new_starts[count], new_owners[count] = starts[k], owners[k]
                count += 1
            continue
        if first < last:
            firsts[top + 1], lasts[top + 1] = middle + 1, last
            firsts[top + 2], lasts[top + 2] = first, middle
            top += 2
            continue
        run_starts, run_signs = starts[first : first + 1], np.full(1, -1)
        if order == 0:
            run_starts, run_signs = compare(coefficients[row], rival, starts[0], high)
        runs = run_signs.shape[0]
        if runs == 0:  # equal curves: the envelope keeps its own
            runs, run_starts, run_signs = 1, starts[first : first + 1], np.full(1, 1)
        needed = count + pieces - last + width
        new_starts, new_owners = grown(new_starts, new_owners, needed)
        # The lower of both curves, run by run.
        for run in range(runs):
            begin = max(left, run_starts[run])
            end = run_starts[run + 1] if run + 1 < runs else np.inf
            if end <= left or begin >= right:
                continue
            lower = row if run_signs[run] < 0 else owners[last]
            if count == 0 or new_owners[count - 1] != lower:
                new_starts[count], new_owners[count] = begin, lower
                count += 1
    changed = False
    for k in range(count):
        changed = changed or new_owners[k] == row
    return changed, count, new_starts, new_owners


SKYLINE = Tuple((INTS_OUT, FLOATS_OUT, FLOATS_OUT))


@njit(SKYLINE(FLOATS_2D, FLOATS, float64, float64), **OPTIONS)
def envelope_intervals(
    coefficients: Floats, accuracies: Floats, low: float, high: float
) -> tuple[Ints, Floats, Floats]:
    """Return the intervals of sizes in which candidates are on the skyline.

    Returns (positions, starts, ends): for each interval, the position of its candidate,
    its first size, and the first size after it. The end is infinite for an interval
    that reaches `high`. A candidate can have several intervals, or none. Intervals have
    no particular order. `accuracies` must be in descending order.
    """
    count = coefficients.shape[0]
    starts, owners = np.full(8, low), np.zeros(8, np.int64)
    spare_starts, spare_owners = np.empty(8), np.empty(8, np.int64)
    rows, begins, ends = np.empty(8, np.int64), np.empty(8), np.empty(8)
    pieces = found = first = 0
    changed = False
    for row in range(count):
        if row == 0:
            pieces, changed = 1, True
        else:
            lower, new_pieces, spare_starts, spare_owners = merge_curve(
                coefficients,
                row,
                starts,
                owners,
                pieces,
                high,
                spare_starts,
                spare_owners,
            )
            if lower:
                changed = True
                pieces = new_pieces
                starts, spare_starts = spare_starts, starts
                owners, spare_owners = spare_owners, owners
        # The intervals are final after all equally accurate curves are merged.
        if row + 1 < count and accuracies[row + 1] == accuracies[row]:
            continue
        for k in range(pieces if changed else 0):
            if owners[k] < first:
                continue
            ends, _ = grown(ends, rows, found + 1)
            begins, rows = grown(begins, rows, found + 1)
            begins[found], rows[found] = starts[k], owners[k]
            ends[found] = starts[k + 1] if k + 1 < pieces else np.inf
            found += 1
        first, changed = row + 1, False
    return rows[:found].copy(), begins[:found].copy(), ends[:found].copy()
