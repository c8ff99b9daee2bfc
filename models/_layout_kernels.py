"""Compiled evaluation of single rows by packed trees, several trees in flight.

A node is 64 bits: the key of its threshold, the slot of its input and its left child.
Keys are float32 bits mapped to int32 in the same order, so that a comparison takes one
cycle; a missing value becomes the lowest or the highest key, whichever sends it where
the node wants it. A leaf leads to itself, so six trees of different depths walk side by
side without a branch, and their cache misses overlap.

The kernels take the address of a table of addresses: handing one number over from
Python costs a tenth of handing over ten arrays. They trust what they find there;
`layout.py` fills it from checked nodes and keeps the arrays alive.
"""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import carray, config, float32, float64, int32, int64, types, uint64, void
from numba.core.types import Array
from numba.extending import intrinsic
from numpy.typing import NDArray

from .declare import njit

ROW = Array(float32, 1, "C", readonly=True)
ROWS = Array(float32, 2, "C", readonly=True)
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}  # no fastmath: NaN
# One row takes microseconds: to let go of Python's lock would cost a part of that.
ONE_ROW = {**OPTIONS, "nogil": False}

# Entries of the table.
(
    SLOTS,
    COLUMNS,
    LACKING,
    ZEROS,
    NODES,
    ROOTS,
    DEPTHS,
    VALUES,
    LEAVES,
    TARGETS,
    TREES,
    TERMS,
    LOWER,
    UPPER,
    BIAS,
    GROUP,
    NODE_COUNT,
    VALUE_COUNT,
    TABLE_SIZE,
) = range(19)
ABREAST = 6
LOWEST, HIGHEST = -(2**31), 2**31 - 1
NO_ZERO = 1  # in ZEROS: a zero is a value like any other
TINY = int(np.float32(1e-35).view(np.int32))  # bits of LightGBM's kZeroThreshold
# What an early exit answers.
NEGATIVE, POSITIVE, UNDECIDED = range(3)
# A sum in another order differs by rounding: where it comes this near to the threshold
# (or this share of it, if that is more), the library's own order decides.
NEAR = 1e-9


@intrinsic
def pointer(typing_context: Any, address: Any) -> Any:
    """Turn an address into a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.uint64), generate


@intrinsic
def on_stack(typing_context: Any, count: Any) -> Any:
    """Reserve room for `count` int32 until the calling kernel returns."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room = builder.alloca(ir.IntType(32), size=arguments[0])
        return builder.bitcast(room, ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@njit(void(ROW, uint64, int32[::1]), **OPTIONS)
def read_keys(row: NDArray[np.float32], address: int, keys: NDArray[np.int32]) -> None:
    """Key of each slot's input: `keys` (S,)."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    count = int64(table[SLOTS])
    columns = carray(pointer(table[COLUMNS]), (count,), np.int32)
    lacking = carray(pointer(table[LACKING]), (count,), np.int32)
    zeros = carray(pointer(table[ZEROS]), (count,), np.int32)
    bits = row.view(np.int32)
    for s in range(count):
        value = bits[columns[s]]
        magnitude = value & int32(HIGHEST)
        key = value ^ ((value >> int32(31)) & int32(HIGHEST))
        if zeros[s] != int32(NO_ZERO) and magnitude <= int32(TINY):
            key = zeros[s]
        if magnitude > int32(0x7F800000):  # NaN
            key = lacking[s]
        keys[s] = key


@njit(inline="always")
def step(node: int, keys: NDArray[np.int32]) -> int:
    """Child, counted from the root, to which a row with these keys goes."""
    slot = (node >> uint64(16)) & uint64(0xFFFF)
    right = keys[slot] > int32(node >> uint64(32))
    child: int = (node & uint64(0xFFFF)) + uint64(right)
    return child


@njit(inline="always")
def walk(
    nodes: NDArray[np.uint64],
    roots: NDArray[np.int64],
    t: int,
    depth: int,
    keys: NDArray[np.int32],
) -> int:
    """Node in which tree t ends."""
    root = uint64(roots[t])
    n = uint64(0)
    for _ in range(depth):
        n = step(nodes[root + n], keys)
    end: int = root + n
    return end


@njit(inline="always")
def walk_abreast(
    nodes: NDArray[np.uint64],
    roots: NDArray[np.int64],
    t: int,
    depth: int,
    keys: NDArray[np.int32],
) -> tuple[int, int, int, int, int, int]:
    """Nodes in which six trees from t on end."""
    ra, rb, rc = uint64(roots[t]), uint64(roots[t + 1]), uint64(roots[t + 2])
    rd, re, rf = uint64(roots[t + 3]), uint64(roots[t + 4]), uint64(roots[t + 5])
    a = b = c = d = e = f = uint64(0)
    for _ in range(depth):
        a = step(nodes[ra + a], keys)
        b = step(nodes[rb + b], keys)
        c = step(nodes[rc + c], keys)
        d = step(nodes[rd + d], keys)
        e = step(nodes[re + e], keys)
        f = step(nodes[rf + f], keys)
    return ra + a, rb + b, rc + c, rd + d, re + e, rf + f


@njit(float64(ROW, uint64), **ONE_ROW)
def margin(row: NDArray[np.float32], address: int) -> float:
    """Raw score of one row, trees added in their order; for one raw score per row."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    slots, trees = int64(table[SLOTS]), int64(table[TREES])
    keys = carray(on_stack(slots), (slots,), np.int32)
    read_keys(row, address, keys)
    nodes = carray(pointer(table[NODES]), (int64(table[NODE_COUNT]),), np.uint64)
    roots = carray(pointer(table[ROOTS]), (trees + 1,), np.int64)
    depths = carray(pointer(table[DEPTHS]), (trees,), np.int32)
    values = carray(pointer(table[VALUES]), (int64(table[VALUE_COUNT]),), np.float64)
    total = carray(pointer(table[BIAS]), (1,), np.float64)[0]
    whole = trees - trees % ABREAST
    for t in range(0, whole, ABREAST):
        a, b, c, d, e, f = walk_abreast(nodes, roots, t, depths[t], keys)
        total = total + values[a] + values[b] + values[c]
        total = total + values[d] + values[e] + values[f]
    for t in range(whole, trees):
        total += values[walk(nodes, roots, t, depths[t], keys)]
    return float(total)


@njit(void(ROWS, uint64, float64[::1]), **OPTIONS)
def margins(X: NDArray[np.float32], address: int, out: NDArray[np.float64]) -> None:
    """Raw score of each row: `out` (N,)."""
    for i in range(X.shape[0]):
        out[i] = margin(X[i], address)


@njit(void(ROWS, uint64, float64[:, ::1]), **OPTIONS)
def raw_scores(X: NDArray[np.float32], address: int, out: NDArray[np.float64]) -> None:
    """Add the trees' leaf values, V each, to the raw scores `out` (N, R)."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    slots, trees = int64(table[SLOTS]), int64(table[TREES])
    terms = int64(table[TERMS])
    keys = carray(on_stack(slots), (slots,), np.int32)
    nodes = carray(pointer(table[NODES]), (int64(table[NODE_COUNT]),), np.uint64)
    roots = carray(pointer(table[ROOTS]), (trees + 1,), np.int64)
    depths = carray(pointer(table[DEPTHS]), (trees,), np.int32)
    leaves = carray(pointer(table[LEAVES]), (int64(table[NODE_COUNT]),), np.int32)
    targets = carray(pointer(table[TARGETS]), (trees,), np.int32)
    values = carray(pointer(table[VALUES]), (int64(table[VALUE_COUNT]),), np.float64)
    whole = trees - trees % ABREAST
    for i in range(X.shape[0]):
        read_keys(X[i], address, keys)
        for t in range(0, whole, ABREAST):
            ends = walk_abreast(nodes, roots, t, depths[t], keys)
            for j in range(ABREAST):
                first = int64(leaves[ends[j]]) * terms
                for v in range(terms):
                    out[i, targets[t + j] + v] += values[uint64(first + v)]
        for t in range(whole, trees):
            end = walk(nodes, roots, t, depths[t], keys)
            first = int64(leaves[end]) * terms
            for v in range(terms):
                out[i, targets[t] + v] += values[uint64(first + v)]


@njit(inline="always")
def outside(
    total: float, t: int, lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> bool:
    """Say whether the sum after base model t is beyond one of its limits."""
    beyond: bool = (total < lower[t]) | (total > upper[t])
    return beyond


@njit(int64(ROW, uint64, float64[::1]), **OPTIONS)
def early(row: NDArray[np.float32], address: int, out: NDArray[np.float64]) -> int:
    """Answer of one row as soon as a limit says so: 4 * trees used + answer.

    The sum so far goes to `out[0]`. Six trees are walked before their six sums are
    looked at, all at once: a mispredicted branch costs as much as two trees.
    """
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    slots, trees = int64(table[SLOTS]), int64(table[TREES])
    keys = carray(on_stack(slots), (slots,), np.int32)
    read_keys(row, address, keys)
    nodes = carray(pointer(table[NODES]), (int64(table[NODE_COUNT]),), np.uint64)
    roots = carray(pointer(table[ROOTS]), (trees + 1,), np.int64)
    depths = carray(pointer(table[DEPTHS]), (trees,), np.int32)
    values = carray(pointer(table[VALUES]), (int64(table[VALUE_COUNT]),), np.float64)
    lower = carray(pointer(table[LOWER]), (trees,), np.float64)
    upper = carray(pointer(table[UPPER]), (trees,), np.float64)
    total = 0.0
    whole = trees - trees % ABREAST
    for t in range(0, whole, ABREAST):
        ends = walk_abreast(nodes, roots, t, depths[t], keys)
        before = total
        sa = total + values[ends[0]]
        sb = sa + values[ends[1]]
        sc = sb + values[ends[2]]
        sd = sc + values[ends[3]]
        se = sd + values[ends[4]]
        total = se + values[ends[5]]
        if (
            outside(sa, t, lower, upper)
            | outside(sb, t + 1, lower, upper)
            | outside(sc, t + 2, lower, upper)
            | outside(sd, t + 3, lower, upper)
            | outside(se, t + 4, lower, upper)
            | outside(total, t + 5, lower, upper)
        ):
            total = before
            for j in range(ABREAST):
                total += values[ends[j]]
                if outside(total, t + j, lower, upper):
                    out[0] = total
                    return 4 * (t + j + 1) + int(total > upper[t + j])
    for t in range(whole, trees):
        total += values[walk(nodes, roots, t, depths[t], keys)]
        if outside(total, t, lower, upper):
            out[0] = total
            return 4 * (t + 1) + int(total > upper[t])
    out[0] = total
    return int(4 * trees + UNDECIDED)


@njit(inline="always")
def side(total: float, bias: float) -> int:
    """Answer of a whole sum, without its bias; undecided near the threshold."""
    above = total + bias
    if abs(above) > NEAR * max(1.0, abs(bias)):
        return int(above > 0.0)
    return int(UNDECIDED)


@njit(int64(ROW, uint64), **ONE_ROW)
def decide(row: NDArray[np.float32], address: int) -> int:
    """Answer of one row: that of `early`, or on which side of 0 the whole sum is."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    total = carray(on_stack(2), (1,), np.float64)
    answer = early(row, address, total) & 3
    if answer != UNDECIDED:
        return int(answer)
    return int(side(total[0], carray(pointer(table[BIAS]), (1,), np.float64)[0]))


@njit(void(ROWS, uint64, float64[::1], int64[::1]), **OPTIONS)
def early_many(
    X: NDArray[np.float32],
    address: int,
    sums: NDArray[np.float64],
    codes: NDArray[np.int64],
) -> None:
    """Sum and answer of `early` for each row: `sums` (N,), `codes` (N,)."""
    for i in range(X.shape[0]):
        codes[i] = early(X[i], address, sums[i : i + 1])


@njit(inline="always")
def lead_of(totals: NDArray[np.float64]) -> float:
    """By how much the best of K >= 2 sums exceeds the second best."""
    best, second = totals[0], -np.inf
    for k in range(1, totals.shape[0]):
        second = max(second, min(best, totals[k]))
        best = max(best, totals[k])
    lead: float = best - second
    return lead


@njit(int64(ROW, uint64, float64[::1]), **ONE_ROW)
def early_lead(row: NDArray[np.float32], address: int, totals: Any) -> int:
    """Add base models to `totals` (R,) until the lead is beyond its margin.

    Returns 2 * base models used, + 1 if a margin stopped it. A base model is GROUP
    trees one after the other; its margin is in UPPER.
    """
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    slots, trees = int64(table[SLOTS]), int64(table[TREES])
    terms, group = int64(table[TERMS]), int64(table[GROUP])
    keys = carray(on_stack(slots), (slots,), np.int32)
    read_keys(row, address, keys)
    nodes = carray(pointer(table[NODES]), (int64(table[NODE_COUNT]),), np.uint64)
    roots = carray(pointer(table[ROOTS]), (trees + 1,), np.int64)
    depths = carray(pointer(table[DEPTHS]), (trees,), np.int32)
    leaves = carray(pointer(table[LEAVES]), (int64(table[NODE_COUNT]),), np.int32)
    targets = carray(pointer(table[TARGETS]), (trees,), np.int32)
    values = carray(pointer(table[VALUES]), (int64(table[VALUE_COUNT]),), np.float64)
    margins = carray(pointer(table[UPPER]), (trees // group,), np.float64)
    whole = trees - trees % ABREAST
    left, used = group, 0
    for t in range(0, whole, ABREAST):
        ends = walk_abreast(nodes, roots, t, depths[t], keys)
        for j in range(ABREAST):
            first = int64(leaves[ends[j]]) * terms
            for v in range(terms):
                totals[targets[t + j] + v] += values[uint64(first + v)]
            left -= 1
            if left == 0:
                left = group
                used += 1
                if lead_of(totals) > margins[used - 1]:
                    return 2 * used + 1
    for t in range(whole, trees):
        end = walk(nodes, roots, t, depths[t], keys)
        first = int64(leaves[end]) * terms
        for v in range(terms):
            totals[targets[t] + v] += values[uint64(first + v)]
        left -= 1
        if left == 0:
            left = group
            used += 1
            if lead_of(totals) > margins[used - 1]:
                return 2 * used + 1
    return 2 * used


@njit(void(ROWS, uint64, float64[:, ::1], int64[::1]), **OPTIONS)
def lead_many(
    X: NDArray[np.float32],
    address: int,
    totals: NDArray[np.float64],
    codes: NDArray[np.int64],
) -> None:
    """Totals (N, R) and codes (N,) of `early_lead` for each row."""
    for i in range(X.shape[0]):
        codes[i] = early_lead(X[i], address, totals[i])


COMPILED = not config.DISABLE_JIT


def entry(kernel: Any) -> Any:
    """Find the compiled function of a kernel with one signature."""
    if not COMPILED:
        return kernel
    return kernel.overloads[kernel.signatures[0]].entry_point
