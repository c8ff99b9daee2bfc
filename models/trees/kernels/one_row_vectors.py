"""Compiled evaluation of one row with 512-bit vectors, 64 trees at a time.

Each of 64 trees has a lane: one byte in every vector. The kernel turns the inputs of a
row into bytes, too: the code of an input is the number of its slot's thresholds that
are below the input. So one vector register has the codes of 64 slots. On each level, a
tree's next test depends on the results of its earlier tests. The kernel looks up the
code of the test's slot in the register (`vpermb`), and compares the code with the
test's limit.

Codes are counted in two steps: an input is compared with every 16th threshold, and then
with the 16 thresholds up to the next of these.

If `avx512.VECTORS` is False, nothing in this module may be called. Each kernel gives
the same bits as the kernel of `one_row.py` that its docstring names.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import carray, float64, int64, types, uint64, void
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import ONE_ROW, OPTIONS, njit
from ...scoring.kernels.native import ROW, pointer, table_at
from ...scoring.kernels.stopping_rule import beyond_margin, follow_limits, outside
from ...scoring.model import Floats
from ...scoring.stopping_rule import BEST, UNDECIDED
from .avx512 import (
    LANES,
    STEP,
    VECTORS,
    count_below,
    find_places,
    reserve,
    write_keys,
    write_vector,
)
from .one_row import COMMON, MANY, PART

MOST_CUTS = 256  # thresholds of a slot; the last threshold exceeds every value
ABREAST = 8  # consecutive trees that share one floor and one ceiling
SPAN = 16  # groups whose leaves are found before their values are added

# The record of this layout: L slots, G groups. `values` has the values of all leaves;
# `lower` and `upper` are (64 G,).
TABLE = np.dtype(
    [
        *COMMON,
        ("pivots", "<u8"),  # (L, STEP) int32, every 16th of the cuts
        ("cuts", "<u8"),  # (L, MOST_CUTS) int32
        ("depths", "<u8"),  # (G,) int64
        ("sizes", "<u8"),  # (G,) int64, trees rounded up to a multiple of eight
        ("tests", "<u8"),  # uint8, alternating vectors of slots and of limits
        ("first_tests", "<u8"),  # (G,) uint64, offsets of groups in bytes
        ("first_values", "<u8"),  # (G,) uint64, offsets of groups in leaves
        ("groups", "<i8"),  # G
        ("trees", "<i8"),
    ]
)


class Groups(NamedTuple):
    """The arrays in which kernels find a group's tests, leaves and leaf values."""

    depths: NDArray[np.int64]
    first_tests: NDArray[np.uint64]
    first_values: NDArray[np.uint64]
    sizes: NDArray[np.int64]
    targets: NDArray[np.int32]
    values: Floats


@njit(inline="always")
def groups_of(table: Any) -> Groups:
    """Return the arrays of groups; the record `table` has their addresses."""
    return Groups(
        carray(pointer(table.depths), (table.groups,), np.int64),
        carray(pointer(table.first_tests), (table.groups,), np.uint64),
        carray(pointer(table.first_values), (table.groups,), np.uint64),
        carray(pointer(table.sizes), (table.groups,), np.int64),
        carray(pointer(table.targets), (table.trees,), np.int32),
        carray(pointer(table.values), (table.value_count,), np.float64),
    )


def kernel(signature: Any, options: dict[str, Any] = OPTIONS) -> Any:
    """Return a decorator that compiles a kernel or, without AVX-512, does nothing."""
    return njit(signature, **options) if VECTORS else lambda function: function


@kernel(uint64(uint64, uint64, int64))
def count_cuts(table_address: int, keys_at: int, first: int) -> int:
    """Count the thresholds below a row's key, for each of the 8 slots from `first` on.

    Returns the 8 counts as the bytes of one number. `keys_at` is the keys' address.
    """
    table = table_at(table_address, TABLE)
    keys = carray(pointer(keys_at), (LANES,), np.int32)
    codes = uint64(0)
    for j in range(8):
        s = first + j
        part = count_below(keys[s], table.pivots + uint64(4 * STEP * s))
        cuts = table.cuts + uint64(4 * (MOST_CUTS * s + STEP * part))
        code = uint64(STEP * part + count_below(keys[s], cuts))
        codes |= code << uint64(8 * j)
    return int(codes)


@kernel(void(uint64, uint64, uint64))
def read_codes(row: int, table_address: int, out: int) -> None:
    """Write a row's codes, one byte for each of 64 slots, to the address `out`."""
    table = table_at(table_address, TABLE)
    keys = reserve(4)
    codes = carray(pointer(out), (LANES // 8,), np.uint64)
    for s in range(0, table.slots, STEP):
        at = uint64(4 * s)
        columns, lacking = table.columns + at, table.lacking + at
        write_keys(row, columns, lacking, table.zeros + at, keys + at)
        low = count_cuts(table_address, keys, s)
        high = count_cuts(table_address, keys, s + 8)
        if s == 0:
            write_vector(out, low, high)
        else:
            codes[s // 8], codes[s // 8 + 1] = low, high


@kernel(void(uint64, int64, int64, uint64, uint64))
def fill_places(table_address: int, first: int, end: int, codes: int, out: int) -> None:
    """Find the leaf that a row reaches in each tree of groups `first` to `end` - 1.

    Writes 64 bytes for each group to the address `out`: the leaf's index in each tree.
    `codes` is the address of the row's codes.
    """
    table = table_at(table_address, TABLE)
    groups = groups_of(table)
    for g in range(first, end):
        tests = table.tests + groups.first_tests[g]
        find_places(groups.depths[g], codes, tests, out + uint64(LANES * (g - first)))


@njit(inline="always")
def leaf_of(groups: Groups, g: int, k: int, place: int) -> int:
    """Return the position of a leaf among the leaves of all trees.

    `place` is its position among the leaves of tree `k` in group `g`.
    """
    first = groups.first_values[g] + (uint64(k) << uint64(groups.depths[g]))
    leaf: int = first + uint64(place)
    return leaf


@njit(inline="always")
def add_leaf(
    groups: Groups, leaf: int, target: int, terms: int, totals: Floats
) -> None:
    """Add the values of the leaf at position `leaf` to `totals`, from `target` on."""
    for v in range(terms):
        totals[target + v] += groups.values[leaf * uint64(terms) + uint64(v)]


@kernel(float64(uint64, uint64))
def add_values(row: int, table_address: int) -> float:
    """Return the raw score of the row at address `row`, bit by bit that of `margin`.

    The leaves of up to `SPAN` groups are found before their values are added.
    """
    table = table_at(table_address, TABLE)
    groups = groups_of(table)
    codes, found = reserve(1), reserve(SPAN)
    places = carray(pointer(found), (SPAN * LANES,), np.uint8)
    read_codes(row, table_address, codes)
    total = carray(pointer(table.bias), (1,), np.float64)[0]
    for start in range(0, table.groups, SPAN):
        end = min(start + SPAN, table.groups)
        fill_places(table_address, start, end, codes, found)
        for g in range(start, end):
            at = LANES * (g - start)
            for j in range(0, groups.sizes[g], ABREAST):
                for k in range(j, j + ABREAST):
                    total += groups.values[leaf_of(groups, g, k, places[at + k])]
    return float(total)


@kernel(float64(ROW, uint64), ONE_ROW)
def simd_margin(row: NDArray[np.float32], table_address: int) -> float:
    """Return the raw score of one row, bit by bit that of `one_row.margin`."""
    return float(add_values(row.ctypes.data, table_address))


@njit(inline="always")
def next_groups(start: int, last: int) -> int:
    """Return the end of the groups to evaluate together from group `start` on.

    From the first group on, they are one, one, two, four ... at a time, because most
    rows stop in the first group. The end is at most `last`.
    """
    return int(min(start + max(1, min(start, SPAN)), last))


@kernel(PART)
def simd_early(
    row: NDArray[np.float32], table_address: int, first: int, end: int, out: Any
) -> int:
    """Add the leaf values of trees `first` to `end` - 1 to the sum `out[0]`.

    Stops as soon as the sum passes a limit. Returns the code that `one_row.early`
    returns.
    """
    table = table_at(table_address, TABLE)
    groups = groups_of(table)
    lower = carray(pointer(table.lower), (LANES * table.groups,), np.float64)
    upper = carray(pointer(table.upper), (LANES * table.groups,), np.float64)
    eights = LANES // ABREAST * table.groups
    floors = carray(pointer(table.floors), (eights,), np.float64)
    ceilings = carray(pointer(table.ceilings), (eights,), np.float64)
    codes, found = reserve(1), reserve(SPAN)
    places = carray(pointer(found), (SPAN * LANES,), np.uint8)
    read_codes(row.ctypes.data, table_address, codes)
    total = out[0]
    start, last = first // LANES, -(-end // LANES)
    while start < last:
        stop = next_groups(start, last)
        fill_places(table_address, start, stop, codes, found)
        for g in range(start, stop):
            at = LANES * (g - start)
            size = groups.sizes[g]
            if end < table.models:
                size = min(size, end - LANES * g)
            for j in range(max(0, first - LANES * g), size, ABREAST):
                before, eight = total, uint64((LANES * g + j) // ABREAST)
                for k in range(j, j + ABREAST):
                    total += groups.values[leaf_of(groups, g, k, places[at + k])]
                if outside(before, floors[eight], ceilings[eight]):
                    for k in range(j, j + ABREAST):
                        leaf = leaf_of(groups, g, k, places[at + k])
                        before += groups.values[leaf]
                        t = uint64(LANES * g + k)
                        if outside(before, lower[t], upper[t]):
                            out[0] = before
                            return int(4 * (t + 1)) + int(before > upper[t])
        start = stop
    out[0] = total
    return int(4 * end + UNDECIDED)


@njit(inline="always")
def simd_early_whole(row: NDArray[np.float32], table_address: int, out: Any) -> int:
    """Call `simd_early` for all trees."""
    models = table_at(table_address, TABLE).models
    return int(simd_early(row, table_address, 0, models, out))


@kernel(int64(ROW, uint64), ONE_ROW)
def simd_decide(row: NDArray[np.float32], table_address: int) -> int:
    """Return the class of one row, 0, 1 or `UNDECIDED`, as `one_row.decide` does."""
    return int(follow_limits(simd_early_whole, TABLE, row, table_address)[0] & 3)


@kernel(types.Tuple((int64, float64))(ROW, uint64), ONE_ROW)
def simd_early_one(row: NDArray[np.float32], table_address: int) -> tuple[int, float]:
    """Return (code, sum) of one row, as `one_row.early_one` does."""
    code, total = follow_limits(simd_early_whole, TABLE, row, table_address)
    return int(code), float(total)


@kernel(PART)
def simd_early_by_margin_part(
    row: NDArray[np.float32], table_address: int, first: int, end: int, totals: Any
) -> int:
    """Add the leaf values of base models `first` to `end` - 1 to `totals` (R,).

    Stops as soon as the best class leads by enough. Returns the code that
    `one_row.early_by_margin_part` returns.
    """
    table = table_at(table_address, TABLE)
    groups = groups_of(table)
    margins = carray(pointer(table.upper), (LANES * table.groups,), np.float64)
    codes, found = reserve(1), reserve(SPAN)
    places = carray(pointer(found), (SPAN * LANES,), np.uint8)
    read_codes(row.ctypes.data, table_address, codes)
    group = table.group
    start, last = first * group // LANES, -(-end * group // LANES)
    while start < last:
        stop = next_groups(start, last)
        fill_places(table_address, start, stop, codes, found)
        low, high = max(LANES * start, first * group), min(LANES * stop, end * group)
        for t in range(low, high):
            place = places[t - LANES * start]
            leaf = leaf_of(groups, t // LANES, t % LANES, place)
            add_leaf(groups, leaf, groups.targets[t], table.terms, totals)
            if beyond_margin(totals, margins[t]):
                return int(4 * ((t + 1) // group) + BEST)
        start = stop
    return int(4 * end + UNDECIDED)


@kernel(int64(ROW, uint64, float64[::1]), ONE_ROW)
def simd_early_by_margin(
    row: NDArray[np.float32], table_address: int, totals: Any
) -> int:
    """Add a row's leaf values to `totals` (R,) until the best class leads by enough.

    Returns the code that `one_row.early_by_margin` returns.
    """
    models = table_at(table_address, TABLE).models
    return int(simd_early_by_margin_part(row, table_address, 0, models, totals))


@kernel(MANY)
def simd_margins(X: Any, table_address: int, totals: Any, codes: Any) -> None:
    """Write the raw score of each row of X to `totals` (N, 1)."""
    for i in range(X.shape[0]):
        totals[i, 0] = add_values(X[i].ctypes.data, table_address)


@kernel(MANY)
def simd_scores(X: Any, table_address: int, totals: Any, codes: Any) -> None:
    """Add to `totals` (N, R) the values of each row's leaf in each tree."""
    table = table_at(table_address, TABLE)
    groups = groups_of(table)
    bytes_, found = reserve(1), reserve(SPAN)
    places = carray(pointer(found), (SPAN * LANES,), np.uint8)
    for i in range(X.shape[0]):
        read_codes(X[i].ctypes.data, table_address, bytes_)
        for start in range(0, table.groups, SPAN):
            end = min(start + SPAN, table.groups)
            fill_places(table_address, start, end, bytes_, found)
            for t in range(LANES * start, min(LANES * end, table.trees)):
                place = places[t - LANES * start]
                leaf = leaf_of(groups, t // LANES, t % LANES, place)
                add_leaf(groups, leaf, groups.targets[t], table.terms, totals[i])


@kernel(MANY)
def simd_early_many(X: Any, table_address: int, totals: Any, codes: Any) -> None:
    """Write each row's sum (N, 1) and code (N,) by `simd_early`."""
    for i in range(X.shape[0]):
        codes[i] = simd_early_whole(X[i], table_address, totals[i])


@kernel(MANY)
def simd_early_by_margin_many(
    X: Any, table_address: int, totals: Any, codes: Any
) -> None:
    """Write each row's sums (N, R) and code (N,) by `simd_early_by_margin`."""
    for i in range(X.shape[0]):
        codes[i] = simd_early_by_margin(X[i], table_address, totals[i])
