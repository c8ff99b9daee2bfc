"""Compiled early exits of many rows: a slice of the trees for all rows still open.

A slice is evaluated as in `_block_kernels.py`, a block of rows per tree. After each
base model the sums of a vector of rows are compared with its limits at once; rows that
are beyond get their answer there and then. The next slice, about twice as long, takes
only those that are left, put together into full blocks anew: its inputs are coded for
them alone, and only those that its trees ask for. The last few rows walk by themselves.

Sums are added in the order of the trees, so all answers are those of the kernels for
one row to the bit. `slices.py` lays out the trees and is trusted.
"""

from typing import NamedTuple

import numpy as np
from numba import carray, float64, int64, types, uint64, void
from numba.core.types import Array
from numpy.typing import NDArray

from ._block_kernels import (
    BLOCK,
    WIDTH,
    WIDTHS,
    Forest,
    Room,
    add_tree,
    key_of,
    rank_keys,
)
from ._layout_kernels import (
    ABREAST,
    DEPTHS,
    LEAVES,
    NODE_COUNT,
    NODES,
    OPTIONS,
    ROOTS,
    ROW,
    ROWS,
    SLOTS,
    TABLE_SIZE,
    TARGETS,
    TERMS,
    TREES,
    UNDECIDED,
    VALUE_COUNT,
    VALUES,
    lead_of,
    on_stack,
    outside,
    pointer,
    read_keys,
    walk,
    walk_abreast,
)
from ._stop_kernels import LIMITS, stop
from .declare import njit

CHUNK = 32768  # rows that are put together after a slice
FEWEST_OPEN = 24  # fewer walk one by one


class Stops(NamedTuple):
    """When rows stop, and which slices there are.

    Attributes
    ----------
    limits : (2, T) or (1, T) float64
        After each base model: sums below the first or above the second stop, or leads
        above the only one.
    bounds : (P + 1, 2) int64
        Trees and slots before each slice, and all of them.
    group : int
        Trees per base model.
    """

    limits: NDArray[np.float64]
    bounds: NDArray[np.int64]
    group: int


class Open(NamedTuple):
    """Rows that have not stopped, and room for those of a vector.

    Attributes
    ----------
    rows : (CHUNK,) int64
    beyond : (WORDS,) uint64
        One for each row of a vector whose sums are beyond a limit.
    best : (2, WIDTH) float64
        Largest and second largest sum.
    """

    rows: NDArray[np.int64]
    beyond: NDArray[np.uint64]
    best: NDArray[np.float64]


STOPS = types.NamedTuple([LIMITS, Array(int64, 2, "C"), int64], Stops)
OPEN = types.NamedTuple([int64[::1], uint64[::1], float64[:, ::1]], Open)


def _evaluate(
    X: NDArray[np.float32],
    p: int,
    count: int,
    forest: Forest,
    room: Room,
    terms: int,
    stops: Stops,
    open_: Open,
    sums: NDArray[np.float64],
    codes: NDArray[np.int64],
) -> int:
    """Add slice p to the sums of `count` open rows; how many are still open."""
    bounds, rows, bits = stops.bounds, open_.rows, X.view(np.int32)
    totals, keys, at = room.totals, room.keys, uint64(room.totals.ctypes.data)
    # Parts of named tuples are counted as used wherever they are taken out.
    group, limits = stops.group, stops.limits
    beyond, best = open_.beyond, open_.best
    columns, lacking, zeros = forest.columns, forest.lacking, forest.zeros
    kept = 0
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        for s in range(bounds[p, 1], bounds[p + 1, 1]):
            column, absent, zero = uint64(columns[s]), lacking[s], zeros[s]
            for j in range(size):
                row = uint64(rows[start + j])
                keys[0, j] = key_of(bits[row, column], absent, zero)
            rank_keys(s, s - bounds[p, 1], size, forest, room)
        for r in range(sums.shape[1]):
            for j in range(size):
                totals[r, j] = sums[rows[start + j], r]
            for j in range(size, (size + WIDTH - 1) // WIDTH * WIDTH):
                totals[r, j] = np.nan
        t, end = bounds[p, 0], bounds[p + 1, 0]
        while t < end:
            for _ in range(group):
                add_tree(t, size, forest, room, terms, at, at)
                t += 1
            model = t // group - 1
            stop(model, start, size, totals, limits, rows, beyond, best, sums, codes)
        for j in range(size):
            i = rows[start + j]
            if codes[i] == 0:
                rows[kept] = i
                kept += 1
                for r in range(sums.shape[1]):
                    sums[i, r] = totals[r, j]
    return kept


evaluate = njit(
    [
        int64(
            ROWS, int64, int64, *kinds, int64, STOPS, OPEN, float64[:, ::1], int64[::1]
        )
        for kinds in WIDTHS
    ],
    **OPTIONS,
)(_evaluate)


@njit(int64(ROW, int64, uint64, STOPS, float64[::1]), **OPTIONS)
def resume(
    row: NDArray[np.float32],
    first: int,
    address: int,
    stops: Stops,
    totals: NDArray[np.float64],
) -> int:
    """Code of one row that goes on at tree `first`; `totals` (R,) are its sums so far.

    `first` begins a slice, and slices are whole sets of trees that walk abreast.
    """
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    slots, trees = int64(table[SLOTS]), int64(table[TREES])
    terms, group, limits = int64(table[TERMS]), stops.group, stops.limits
    binary = limits.shape[0] == 2
    none: int = 4 * trees + UNDECIDED if binary else 2 * (trees // group)
    if first == trees:
        return none
    keys = carray(on_stack(slots), (slots,), np.int32)
    read_keys(row, address, keys)
    nodes = carray(pointer(table[NODES]), (int64(table[NODE_COUNT]),), np.uint64)
    roots = carray(pointer(table[ROOTS]), (trees + 1,), np.int64)
    depths = carray(pointer(table[DEPTHS]), (trees,), np.int32)
    leaves = carray(pointer(table[LEAVES]), (int64(table[NODE_COUNT]),), np.int32)
    targets = carray(pointer(table[TARGETS]), (trees,), np.int32)
    values = carray(pointer(table[VALUES]), (int64(table[VALUE_COUNT]),), np.float64)
    model, left, nowhere = first // group, group, uint64(0)
    ends = nowhere, nowhere, nowhere, nowhere, nowhere, nowhere
    for t in range(first, trees, ABREAST):
        count = min(ABREAST, trees - t)
        if count == ABREAST:
            ends = walk_abreast(nodes, roots, t, depths[t], keys)
        for j in range(count):
            end = ends[j]
            if count < ABREAST:
                end = walk(nodes, roots, t + j, depths[t + j], keys)
            if binary:
                totals[0] += values[end]
                if outside(totals[0], t + j, limits[0], limits[1]):
                    above = totals[0] > limits[1, t + j]
                    return int(4 * (t + j + 1) + int64(above))
                continue
            place = int64(leaves[end]) * terms
            for v in range(terms):
                totals[targets[t + j] + v] += values[uint64(place + v)]
            left -= 1
            if left == 0:
                left = group
                model += 1
                if lead_of(totals) > limits[0, model - 1]:
                    return int(2 * model + 1)
    return none


def _exit_slices(
    X: NDArray[np.float32],
    forest: Forest,
    room: Room,
    terms: int,
    stops: Stops,
    open_: Open,
    address: int,
    sums: NDArray[np.float64],
    codes: NDArray[np.int64],
) -> None:
    """Codes (N,) of all rows, which are 0, and their sums (N, R) where they stop."""
    starts = stops.bounds[:, 0]
    for first in range(0, X.shape[0], CHUNK):
        count = min(CHUNK, X.shape[0] - first)
        for j in range(count):
            open_.rows[j] = first + j
        p = 0
        while p < starts.shape[0] - 1 and count >= FEWEST_OPEN:
            count = evaluate(
                X, p, count, forest, room, terms, stops, open_, sums, codes
            )
            p += 1
        for j in range(count):
            i = open_.rows[j]
            codes[i] = resume(X[i], starts[p], address, stops, sums[i])


exit_slices = njit(
    [
        void(ROWS, *kinds, int64, STOPS, OPEN, uint64, float64[:, ::1], int64[::1])
        for kinds in WIDTHS
    ],
    **OPTIONS,
)(_exit_slices)
