"""Compiled evaluation of one row by trees of 64-bit nodes, six trees at a time.

A node has the key of its threshold, the slot of its input, and its left child. A leaf
is its own child, so the kernel can walk through six trees of different depths at the
same time without a branch, and their cache misses overlap. The last group of six is
filled up with trees that are a single leaf of -0, which changes no sum.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import carray, float64, int32, int64, types, uint64, void
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import ONE_ROW, OPTIONS, njit
from ...scoring.kernels.native import ROW, ROWS, on_stack, pointer, table_at
from ...scoring.kernels.stopping_rule import beyond_margin, follow_limits, outside
from ...scoring.model import Floats
from ...scoring.stopping_rule import BEST, UNDECIDED
from ..keys import HIGHEST, INFINITE, NO_ZERO, TINY

ABREAST = 6

# Fields of the record at the address of packed trees, in both layouts for one row: S
# slots, R raw scores, V values of a leaf.
COMMON = [
    ("columns", "<u8"),  # (S,) int32, as are `lacking` and `zeros`: see `Slots`
    ("lacking", "<u8"),
    ("zeros", "<u8"),
    ("values", "<u8"),  # float64 of leaves
    ("targets", "<u8"),  # (T,) int32
    ("bias", "<u8"),  # (R,) float64
    ("lower", "<u8"),  # (T,) float64
    ("upper", "<u8"),  # (T,) float64, or margins
    ("floors", "<u8"),  # float64, one for each group of trees evaluated together
    ("ceilings", "<u8"),
    ("threshold", "<f8"),
    ("slots", "<i8"),  # S
    ("value_count", "<i8"),
    ("terms", "<i8"),  # V
    ("models", "<i8"),  # number of base models
    ("group", "<i8"),  # number of trees of a base model
]
# The record of this layout. `values` has one value for each node, (M,), or (L, V) if
# there are several raw scores. T is a multiple of six.
TABLE = np.dtype(
    [
        *COMMON,
        ("nodes", "<u8"),  # (M,) uint64
        ("roots", "<u8"),  # (T,) int64
        ("depths", "<u8"),  # (T,) int32, depth of the deepest of six
        ("leaves", "<u8"),  # (M,) int32, row of `values`
        ("node_count", "<i8"),  # M
        ("padded", "<i8"),  # T
    ]
)


class Walks(NamedTuple):
    """The arrays that a walk through packed trees reads."""

    nodes: NDArray[np.uint64]
    roots: NDArray[np.int64]
    depths: NDArray[np.int32]
    values: Floats
    leaves: NDArray[np.int32]
    targets: NDArray[np.int32]


@njit(inline="always")
def walks_of(table: Any) -> Walks:
    """Return the arrays that a walk reads; the record `table` has their addresses."""
    return Walks(
        carray(pointer(table.nodes), (table.node_count,), np.uint64),
        carray(pointer(table.roots), (table.padded,), np.int64),
        carray(pointer(table.depths), (table.padded,), np.int32),
        carray(pointer(table.values), (table.value_count,), np.float64),
        carray(pointer(table.leaves), (table.node_count,), np.int32),
        carray(pointer(table.targets), (table.padded,), np.int32),
    )


@njit(inline="always")
def key_of(bits: int, lacking: int, zero: int) -> int:
    """Return the key of an input, given its float32 bits (`keys.py` explains keys).

    A missing value gets the key `lacking`. A value near 0 gets the key `zero`, unless
    `zero` is NO_ZERO.
    """
    magnitude = bits & int32(HIGHEST)
    key = bits ^ ((bits >> int32(31)) & int32(HIGHEST))
    if zero != int32(NO_ZERO) and magnitude <= int32(TINY):
        key = zero
    if magnitude > int32(INFINITE):  # NaN
        key = lacking
    return int(key)


@njit(void(ROW, uint64, int32[::1]), **OPTIONS)
def read_keys(
    row: NDArray[np.float32], table_address: int, keys: NDArray[np.int32]
) -> None:
    """Write a row's keys to `keys` (S,), one for each slot (see `trees/keys.py`)."""
    table = table_at(table_address, TABLE)
    columns = carray(pointer(table.columns), (table.slots,), np.int32)
    lacking = carray(pointer(table.lacking), (table.slots,), np.int32)
    zeros = carray(pointer(table.zeros), (table.slots,), np.int32)
    bits = row.view(np.int32)
    for s in range(table.slots):
        keys[s] = key_of(bits[columns[s]], lacking[s], zeros[s])


@njit(inline="always")
def step(node: int, keys: NDArray[np.int32]) -> int:
    """Return the position, relative to the root, of the child to which a row goes.

    `node` is the packed node, of 64 bits, that tests the row; `keys` (S,) are the row's
    keys.
    """
    slot = (node >> uint64(16)) & uint64(0xFFFF)
    right = keys[slot] > int32(node >> uint64(32))
    child: int = (node & uint64(0xFFFF)) + uint64(right)
    return child


@njit(inline="always")
def walk_abreast(
    trees: Walks, t: int, keys: NDArray[np.int32]
) -> tuple[int, int, int, int, int, int]:
    """Return the positions of the leaves that a row reaches in trees `t` to `t + 5`."""
    nodes, roots = trees.nodes, trees.roots
    ra, rb, rc = uint64(roots[t]), uint64(roots[t + 1]), uint64(roots[t + 2])
    rd, re, rf = uint64(roots[t + 3]), uint64(roots[t + 4]), uint64(roots[t + 5])
    a = b = c = d = e = f = uint64(0)
    for _ in range(trees.depths[t]):
        a = step(nodes[ra + a], keys)
        b = step(nodes[rb + b], keys)
        c = step(nodes[rc + c], keys)
        d = step(nodes[rd + d], keys)
        e = step(nodes[re + e], keys)
        f = step(nodes[rf + f], keys)
    return ra + a, rb + b, rc + c, rd + d, re + e, rf + f


@njit(inline="always")
def add_leaf(trees: Walks, end: int, target: int, terms: int, totals: Floats) -> None:
    """Add the values of the leaf at position `end` to `totals`, from `target` on."""
    first = int64(trees.leaves[end]) * terms
    for v in range(terms):
        totals[target + v] += trees.values[uint64(first + v)]


@njit(float64(ROW, uint64), **ONE_ROW)
def margin(row: NDArray[np.float32], table_address: int) -> float:
    """Return the raw score of one row, for trees with a single raw score."""
    table = table_at(table_address, TABLE)
    keys = carray(on_stack(table.slots), (table.slots,), np.int32)
    read_keys(row, table_address, keys)
    trees = walks_of(table)
    values = trees.values
    total = carray(pointer(table.bias), (1,), np.float64)[0]
    for t in range(0, table.padded, ABREAST):
        a, b, c, d, e, f = walk_abreast(trees, t, keys)
        total = total + values[a] + values[b] + values[c]
        total = total + values[d] + values[e] + values[f]
    return float(total)


# A part of an evaluation adds the base models at positions `first` to `end` - 1 to the
# sums so far. `first` is a multiple of `PackedTerms.step`, and so is `end`, unless it
# is the number of all base models.
PART = int64(ROW, uint64, int64, int64, float64[::1])


@njit(PART, **OPTIONS)
def early(
    row: NDArray[np.float32], table_address: int, first: int, end: int, out: Floats
) -> int:
    """Add the leaf values of trees `first` to `end` - 1 to the sum `out[0]`.

    Stops as soon as the sum passes a limit. Returns 4 * (number of trees added since
    the first of all) + the answer: 0, 1, or `UNDECIDED` if no limit was passed. Each
    group of six trees has a floor and a ceiling. If the sum before the group is between
    the two, it cannot pass a limit within the group, and the limits of the six trees
    are not checked.
    """
    table = table_at(table_address, TABLE)
    keys = carray(on_stack(table.slots), (table.slots,), np.int32)
    read_keys(row, table_address, keys)
    trees = walks_of(table)
    values = trees.values
    lower = carray(pointer(table.lower), (table.padded,), np.float64)
    upper = carray(pointer(table.upper), (table.padded,), np.float64)
    sixes = table.padded // ABREAST
    floors = carray(pointer(table.floors), (sixes,), np.float64)
    ceilings = carray(pointer(table.ceilings), (sixes,), np.float64)
    total = out[0]
    for six in range(first // ABREAST, -(-end // ABREAST)):
        t = ABREAST * six
        a, b, c, d, e, f = walk_abreast(trees, t, keys)
        before = total
        total = total + values[a] + values[b] + values[c]
        total = total + values[d] + values[e] + values[f]
        if outside(before, floors[six], ceilings[six]):
            ends = a, b, c, d, e, f
            for j in range(ABREAST):
                before += values[ends[j]]
                if outside(before, lower[t + j], upper[t + j]):
                    out[0] = before
                    return int(4 * (t + j + 1)) + int(before > upper[t + j])
    out[0] = total
    return int(4 * end + UNDECIDED)


@njit(inline="always")
def early_whole(row: NDArray[np.float32], table_address: int, out: Floats) -> int:
    """Call `early` for all trees."""
    models = table_at(table_address, TABLE).models
    return int(early(row, table_address, 0, models, out))


@njit(int64(ROW, uint64), **ONE_ROW)
def decide(row: NDArray[np.float32], table_address: int) -> int:
    """Return the class of one row: 0, 1 or, near a tie, `UNDECIDED`.

    The row's leaf values are added until the sum passes an early-exit limit, which
    decides. If the sum never passes one, the final sum is compared with the threshold.
    """
    return int(follow_limits(early_whole, TABLE, row, table_address)[0] & 3)


@njit(types.Tuple((int64, float64))(ROW, uint64), **ONE_ROW)
def early_one(row: NDArray[np.float32], table_address: int) -> tuple[int, float]:
    """Return (code, sum) of one row.

    The code is 4 * (number of base models added) + the class that `decide` returns.
    """
    code, total = follow_limits(early_whole, TABLE, row, table_address)
    return int(code), float(total)


@njit(PART, **OPTIONS)
def early_by_margin_part(
    row: NDArray[np.float32], table_address: int, first: int, end: int, totals: Any
) -> int:
    """Add the leaf values of base models `first` to `end` - 1 to `totals` (R,).

    Stops as soon as the best class leads by enough. Returns 4 * (number of base models
    added since the first of all) + `BEST`, or + `UNDECIDED` if no lead was large
    enough.
    """
    table = table_at(table_address, TABLE)
    keys = carray(on_stack(table.slots), (table.slots,), np.int32)
    read_keys(row, table_address, keys)
    trees = walks_of(table)
    margins = carray(pointer(table.upper), (table.padded,), np.float64)
    group = table.group
    for six in range(first * group // ABREAST, -(-end * group // ABREAST)):
        t = ABREAST * six
        ends = walk_abreast(trees, t, keys)
        for j in range(max(0, first * group - t), min(ABREAST, end * group - t)):
            add_leaf(trees, ends[j], trees.targets[t + j], table.terms, totals)
            if beyond_margin(totals, margins[t + j]):
                return int(4 * ((t + j + 1) // group) + BEST)
    return int(4 * end + UNDECIDED)


@njit(int64(ROW, uint64, float64[::1]), **ONE_ROW)
def early_by_margin(row: NDArray[np.float32], table_address: int, totals: Any) -> int:
    """Add a row's leaf values to `totals` (R,) until the best class leads by enough.

    Returns the code that `early_by_margin_part` returns for all base models.
    """
    models = table_at(table_address, TABLE).models
    return int(early_by_margin_part(row, table_address, 0, models, totals))


# Kernels of many rows take totals (N, R), which begin as the starts of the sums, and
# write codes (N,).
MANY = void(ROWS, uint64, float64[:, ::1], int64[::1])


@njit(MANY, **OPTIONS)
def margins(X: Any, table_address: int, totals: Any, codes: Any) -> None:
    """Write the raw score of each row of X to `totals` (N, 1)."""
    for i in range(X.shape[0]):
        totals[i, 0] = margin(X[i], table_address)


@njit(MANY, **OPTIONS)
def raw_scores(X: Any, table_address: int, totals: Any, codes: Any) -> None:
    """Add to `totals` (N, R) the values of each row's leaf in each tree."""
    table = table_at(table_address, TABLE)
    keys = carray(on_stack(table.slots), (table.slots,), np.int32)
    trees = walks_of(table)
    for i in range(X.shape[0]):
        read_keys(X[i], table_address, keys)
        for t in range(0, table.padded, ABREAST):
            ends = walk_abreast(trees, t, keys)
            for j in range(ABREAST):
                target = trees.targets[t + j]
                add_leaf(trees, ends[j], target, table.terms, totals[i])


@njit(MANY, **OPTIONS)
def early_many(X: Any, table_address: int, totals: Any, codes: Any) -> None:
    """Evaluate each row of X by `early`.

    Write its sum to `totals` (N, 1) and its code to `codes` (N,).
    """
    for i in range(X.shape[0]):
        codes[i] = early_whole(X[i], table_address, totals[i])


@njit(MANY, **OPTIONS)
def early_by_margin_many(X: Any, table_address: int, totals: Any, codes: Any) -> None:
    """Evaluate each row of X by `early_by_margin`.

    Write its sums to `totals` (N, R) and its code to `codes` (N,).
    """
    for i in range(X.shape[0]):
        codes[i] = early_by_margin(X[i], table_address, totals[i])
