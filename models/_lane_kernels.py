"""Compiled evaluation of single rows with 512-bit vectors, 64 trees at once.

Every tree of a group of 64 has a lane, a byte of each vector. The row's values are
bytes too: how many of the thresholds of their slot are below them, so that one vector
register holds 64 slots. Level by level, what each tree tests next is chosen by its
answers so far; a test picks the tree's slot out of the register (`vpermb`) and compares
with the tree's threshold. There is nothing to be mispredicted, and what is left to wait
for is the sum, which keeps the trees' order.

Thresholds below a value are counted in two steps of 16: pivots, then those between two
of them. Where `_vector_kernels.VECTORS` is false nothing here is compiled and nothing
may be called. As in `_layout_kernels.py` nothing is checked, and a kernel takes the
address of a table, which `lanes.py` fills, and that of a row.
"""

from typing import Any

import numpy as np
from numba import carray, float64, int64, uint64, void
from numpy.typing import NDArray

from ._layout_kernels import (
    ONE_ROW,
    OPTIONS,
    ROW,
    ROWS,
    UNDECIDED,
    lead_of,
    pointer,
    side,
)
from ._vector_kernels import (
    LANES,
    STEP,
    VECTORS,
    count_below,
    find_places,
    room,
    write_keys,
    write_vector,
)
from .declare import njit

MOST_CUTS = 256  # of a slot; the last is above every value
ABREAST = 8  # trees whose sums are kept between limits at once
SPAN = 16  # groups whose places are found before they are used

# Entries of the table.
(
    SLOTS,
    COLUMNS,
    LACKING,
    ZEROS,
    PIVOTS,
    CUTS,
    TREES,
    TERMS,
    GROUP,
    GROUPS,
    DEPTHS,
    SIZES,
    TESTS,
    VALUES,
    FIRSTS,
    TARGETS,
    BIAS,
    LOWER,
    UPPER,
    FLOORS,
    CEILINGS,
    VALUE_COUNT,
    TABLE_SIZE,
) = range(23)


def kernel(signature: Any, options: dict[str, Any] = OPTIONS) -> Any:
    """Compile a function, where there are the instructions for it."""
    return njit(signature, **options) if VECTORS else lambda function: function


@kernel(uint64(uint64, uint64, int64))
def count_cuts(address: int, keys_at: int, first: int) -> int:
    """How many cuts of each of 8 slots are below its key: a byte each."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    keys = carray(pointer(keys_at), (LANES,), np.int32)
    codes = uint64(0)
    for j in range(8):
        s = first + j
        part = count_below(keys[s], table[PIVOTS] + uint64(4 * STEP * s))
        cuts = table[CUTS] + uint64(4 * (MOST_CUTS * s + STEP * part))
        code = uint64(STEP * part + count_below(keys[s], cuts))
        codes |= code << uint64(8 * j)
    return int(codes)


@kernel(void(uint64, uint64, uint64))
def read_codes(row: int, address: int, out: int) -> None:
    """Write how many cuts of each slot are below the row's value: 64 bytes."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    keys = room(4)
    codes = carray(pointer(out), (LANES // 8,), np.uint64)
    for s in range(0, int64(table[SLOTS]), STEP):
        at = uint64(4 * s)
        columns, lacking = table[COLUMNS] + at, table[LACKING] + at
        write_keys(row, columns, lacking, table[ZEROS] + at, keys + at)
        low, high = count_cuts(address, keys, s), count_cuts(address, keys, s + 8)
        if s == 0:
            write_vector(out, low, high)
        else:
            codes[s // 8], codes[s // 8 + 1] = low, high


@kernel(void(uint64, int64, int64, uint64, uint64))
def fill_places(address: int, first: int, end: int, codes: int, out: int) -> None:
    """Write the places of the leaves that the trees of some groups reach."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    groups = int64(table[GROUPS])
    depths = carray(pointer(table[DEPTHS]), (groups,), np.int64)
    tests = carray(pointer(table[TESTS]), (groups,), np.uint64)
    for g in range(first, end):
        find_places(depths[g], codes, tests[g], out + uint64(LANES * (g - first)))


@kernel(float64(uint64, uint64))
def add_values(row: int, address: int) -> float:
    """Raw score of the row at an address: `_layout_kernels.margin` to the same bit.

    The places of many groups are found before their values are added: each sum
    waits for the one before it, and would keep what comes after it waiting too.
    """
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    groups = int64(table[GROUPS])
    depths = carray(pointer(table[DEPTHS]), (groups,), np.int64)
    firsts = carray(pointer(table[FIRSTS]), (groups,), np.uint64)
    sizes = carray(pointer(table[SIZES]), (groups,), np.int64)
    values = carray(pointer(table[VALUES]), (int64(table[VALUE_COUNT]),), np.float64)
    codes, found = room(1), room(SPAN)
    places = carray(pointer(found), (SPAN * LANES,), np.uint8)
    read_codes(row, address, codes)
    total = carray(pointer(table[BIAS]), (1,), np.float64)[0]
    for start in range(0, groups, SPAN):
        end = min(start + SPAN, groups)
        fill_places(address, start, end, codes, found)
        for g in range(start, end):
            at, depth, first = LANES * (g - start), uint64(depths[g]), firsts[g]
            for j in range(0, sizes[g], ABREAST):
                for k in range(j, j + ABREAST):
                    leaf = (uint64(k) << depth) + uint64(places[at + k])
                    total += values[first + leaf]
    return float(total)


@kernel(float64(ROW, uint64), ONE_ROW)
def lane_margin(row: NDArray[np.float32], address: int) -> float:
    """Raw score of one row."""
    return float(add_values(row.ctypes.data, address))


@kernel(void(ROWS, uint64, float64[::1]))
def lane_margins(
    X: NDArray[np.float32], address: int, out: NDArray[np.float64]
) -> None:
    """Raw score of each row: `out` (N,)."""
    for i in range(X.shape[0]):
        out[i] = add_values(X[i].ctypes.data, address)


@kernel(void(ROWS, uint64, float64[:, ::1]))
def lane_scores(X: NDArray[np.float32], address: int, out: NDArray[np.float64]) -> None:
    """Add the trees to `out` (N, R): `_layout_kernels.raw_scores` to the same bit."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    groups, terms = int64(table[GROUPS]), int64(table[TERMS])
    depths = carray(pointer(table[DEPTHS]), (groups,), np.int64)
    firsts = carray(pointer(table[FIRSTS]), (groups,), np.uint64)
    trees = int64(table[TREES])
    targets = carray(pointer(table[TARGETS]), (trees,), np.int32)
    values = carray(pointer(table[VALUES]), (int64(table[VALUE_COUNT]),), np.float64)
    codes, found = room(1), room(SPAN)
    places = carray(pointer(found), (SPAN * LANES,), np.uint8)
    for i in range(X.shape[0]):
        read_codes(X[i].ctypes.data, address, codes)
        for start in range(0, groups, SPAN):
            end = min(start + SPAN, groups)
            fill_places(address, start, end, codes, found)
            for t in range(LANES * start, min(LANES * end, trees)):
                g = t // LANES
                leaf = uint64(t % LANES) << uint64(depths[g])
                leaf += firsts[g] + uint64(places[t - LANES * start])
                for v in range(terms):
                    value = values[leaf * uint64(terms) + uint64(v)]
                    out[i, targets[t] + v] += value


@kernel(int64(uint64, uint64, float64[::1]))
def lane_early(row: int, address: int, out: Any) -> int:
    """Answer a row, at an address, once a limit says so: `_layout_kernels.early`.

    Most rows stop in the first group, so its sums are looked at before the next
    are found, then those of one more, of two, of four. Between a floor and a
    ceiling no leaf of the next eight trees leads past a limit; else their sums are
    made again one by one, beside those which the trees after them wait for.
    """
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    groups, trees = int64(table[GROUPS]), int64(table[TREES])
    depths = carray(pointer(table[DEPTHS]), (groups,), np.int64)
    firsts = carray(pointer(table[FIRSTS]), (groups,), np.uint64)
    sizes = carray(pointer(table[SIZES]), (groups,), np.int64)
    values = carray(pointer(table[VALUES]), (int64(table[VALUE_COUNT]),), np.float64)
    lower = carray(pointer(table[LOWER]), (LANES * groups,), np.float64)
    upper = carray(pointer(table[UPPER]), (LANES * groups,), np.float64)
    eights = LANES // ABREAST * groups
    floors = carray(pointer(table[FLOORS]), (eights,), np.float64)
    ceilings = carray(pointer(table[CEILINGS]), (eights,), np.float64)
    codes, found = room(1), room(SPAN)
    places = carray(pointer(found), (SPAN * LANES,), np.uint8)
    read_codes(row, address, codes)
    total = 0.0
    start, end = 0, 1
    while start < groups:
        fill_places(address, start, end, codes, found)
        for g in range(start, end):
            at, depth, first = LANES * (g - start), uint64(depths[g]), firsts[g]
            for j in range(0, sizes[g], ABREAST):
                before, eight = total, uint64((LANES * g + j) // ABREAST)
                for k in range(j, j + ABREAST):
                    leaf = (uint64(k) << depth) + uint64(places[at + k])
                    total += values[first + leaf]
                if (before < floors[eight]) | (before > ceilings[eight]):
                    for k in range(j, j + ABREAST):
                        leaf = (uint64(k) << depth) + uint64(places[at + k])
                        before += values[first + leaf]
                        t = uint64(LANES * g + k)
                        if (before < lower[t]) | (before > upper[t]):
                            out[0] = before
                            return int(4 * (t + 1)) + int(before > upper[t])
        start, end = end, min(end + min(end, SPAN), groups)
    out[0] = total
    return int(4 * trees + UNDECIDED)


@kernel(int64(uint64, uint64))
def lane_side(row: int, address: int) -> int:
    """Answer of the row at an address: `_layout_kernels.decide`."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    total = carray(pointer(room(1)), (1,), np.float64)
    answer = lane_early(row, address, total) & 3
    if answer != UNDECIDED:
        return int(answer)
    return int(side(total[0], carray(pointer(table[BIAS]), (1,), np.float64)[0]))


@kernel(int64(ROW, uint64), ONE_ROW)
def lane_decide(row: NDArray[np.float32], address: int) -> int:
    """Answer of one row: `_layout_kernels.decide`."""
    return int(lane_side(row.ctypes.data, address))


@kernel(void(ROWS, uint64, float64[::1], int64[::1]))
def lane_early_many(
    X: NDArray[np.float32],
    address: int,
    sums: NDArray[np.float64],
    codes: NDArray[np.int64],
) -> None:
    """Sum and answer of `lane_early` for each row: `sums` (N,), `codes` (N,)."""
    for i in range(X.shape[0]):
        codes[i] = lane_early(X[i].ctypes.data, address, sums[i : i + 1])


@kernel(int64(ROW, uint64, float64[::1]), ONE_ROW)
def lane_lead(row: NDArray[np.float32], address: int, totals: Any) -> int:
    """Add base models until the lead is enough: `_layout_kernels.early_lead`."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    groups, terms = int64(table[GROUPS]), int64(table[TERMS])
    depths = carray(pointer(table[DEPTHS]), (groups,), np.int64)
    firsts = carray(pointer(table[FIRSTS]), (groups,), np.uint64)
    trees, group = int64(table[TREES]), int64(table[GROUP])
    targets = carray(pointer(table[TARGETS]), (trees,), np.int32)
    values = carray(pointer(table[VALUES]), (int64(table[VALUE_COUNT]),), np.float64)
    margins = carray(pointer(table[UPPER]), (trees // group,), np.float64)
    codes, found = room(1), room(SPAN)
    places = carray(pointer(found), (SPAN * LANES,), np.uint8)
    read_codes(row.ctypes.data, address, codes)
    left, used = group, 0
    start, end = 0, 1
    while start < groups:
        fill_places(address, start, end, codes, found)
        for t in range(LANES * start, min(LANES * end, trees)):
            g = t // LANES
            leaf = uint64(t % LANES) << uint64(depths[g])
            leaf += firsts[g] + uint64(places[t - LANES * start])
            for v in range(terms):
                value = values[leaf * uint64(terms) + uint64(v)]
                totals[targets[t] + v] += value
            left -= 1
            if left == 0:
                left = group
                used += 1
                if lead_of(totals) > margins[used - 1]:
                    return 2 * used + 1
        start, end = end, min(end + min(end, SPAN), groups)
    return 2 * used


@kernel(void(ROWS, uint64, float64[:, ::1], int64[::1]))
def lane_lead_many(
    X: NDArray[np.float32],
    address: int,
    totals: NDArray[np.float64],
    codes: NDArray[np.int64],
) -> None:
    """Totals (N, R) and codes (N,) of `lane_lead` for each row."""
    for i in range(X.shape[0]):
        codes[i] = lane_lead(X[i], address, totals[i])
