"""Compiled evaluation of one row by linear terms; sums may stop early.

At the end of each block of terms, the kernel adds the block's constants, and compares
sums with limits. Adding terms in this order rounds differently from adding them in the
order of the inputs, so the kernel bounds the difference. If the complete sum is not
finite, or is so near to a tie that the difference could matter, the kernel writes NaN,
and the row stays undecided.
"""

import math
from typing import Any

import numpy as np
from numba import carray, float64, int64, types, uint64, void
from numpy.typing import NDArray

from ...scoring.kernels.cached_njit import ONE_ROW, OPTIONS, njit
from ...scoring.kernels.native import ROW, ROWS, on_stack, pointer, table_at
from ...scoring.kernels.stopping_rule import (
    beyond_margin,
    follow_limits,
    margin_of,
    outside,
)
from ...scoring.model import Floats
from ...scoring.stopping_rule import BEST, UNDECIDED
from .vector_steps import LANES, add_products, add_up, collect, largest, shape
from .vector_steps import ROW as VECTOR

# The record at the address of packed terms: G groups, B blocks, R raw scores.
TABLE = np.dtype(
    [
        ("columns", "<u8"),  # (G, LANES) int32
        ("shapes", "<u8"),  # (G, 5, LANES) float64, see `vector_steps.shape`
        ("weights", "<u8"),  # (G, R, LANES) float64
        ("ends", "<u8"),  # (B,) int64, groups up to the end of each block
        ("used", "<u8"),  # (B,) int64, base models up to the end of each block
        ("constants", "<u8"),  # (B, R) float64, added to the sums at the end of a block
        ("lower", "<u8"),  # (B,) float64
        ("upper", "<u8"),  # (B,) float64, or margins
        ("threshold", "<f8"),
        ("rounding", "<f8"),  # bound of rounding errors, per unit of the largest input
        ("constant_rounding", "<f8"),  # bound of rounding errors if inputs are 0
        ("blocks", "<i8"),  # B
        ("outputs", "<i8"),  # R
        ("shaped", "<i8"),  # 1 if `shapes` is used
    ]
)


@njit(inline="always")
def reserve(table: Any) -> int:
    """Reserve memory for the computation of one row, and return its address.

    The memory has room for three kinds of vectors of sixteen numbers: the values, the
    largest magnitude so far in each lane, and R vectors of sums. All numbers begin at
    0.
    """
    vectors = 2 + table.outputs
    made = carray(on_stack(vectors * VECTOR // 4), (vectors * VECTOR // 4,), np.int32)
    made[:] = 0
    address: int = uint64(made.ctypes.data)
    return address


@njit(void(uint64, uint64, int64, int64, uint64), **OPTIONS)
def add_groups(row: int, table_address: int, first: int, end: int, work: int) -> None:
    """Add the terms of groups `first` to `end` - 1 to the sums of one row.

    `row` is the address of the row, and `work` that of the memory from `reserve`.
    """
    table = table_at(table_address, TABLE)
    R, vector = uint64(table.outputs), uint64(VECTOR)
    peaks, sums = work + vector, work + uint64(2) * vector
    for k in range(first, end):
        g = uint64(k)
        collect(row, table.columns + uint64(4 * LANES) * g, work, peaks)
        if table.shaped:
            shape(work, table.shapes + uint64(5) * vector * g)
        weights = table.weights + vector * R * g
        for j in range(table.outputs):
            r = vector * uint64(j)
            add_products(work, weights + r, sums + r)


@njit(float64(uint64, uint64), **OPTIONS)
def rounding_of(table_address: int, work: int) -> float:
    """Return a bound on the difference between a row's sums in two orders of terms.

    The difference is due to rounding. The bound is valid for the row's inputs read so
    far. `work` is an address from `reserve`.
    """
    table = table_at(table_address, TABLE)
    bits = carray(on_stack(2), (1,), np.int32)
    bits[0] = largest(work + uint64(VECTOR))
    peak = float64(bits.view(np.float32)[0])
    return float(table.rounding * peak + table.constant_rounding)


@njit(int64(ROW, uint64, float64[::1]), **OPTIONS)
def early(row: NDArray[np.float32], table_address: int, out: Floats) -> int:
    """Add a row's terms to the sum `out[0]`, until the sum is beyond a limit.

    Returns 4 * (number of terms added) + the answer. The answer is 0 or 1, or
    `UNDECIDED` if the sum was never beyond a limit.
    """
    table = table_at(table_address, TABLE)
    B, work, at = table.blocks, reserve(table), uint64(row.ctypes.data)
    ends = carray(pointer(table.ends), (B,), np.int64)
    used = carray(pointer(table.used), (B,), np.int64)
    constants = carray(pointer(table.constants), (B,), np.float64)
    lower = carray(pointer(table.lower), (B,), np.float64)
    upper = carray(pointer(table.upper), (B,), np.float64)
    first, total = 0, 0.0
    for b in range(B):
        add_groups(at, table_address, first, ends[b], work)
        first = ends[b]
        total = add_up(work + uint64(2 * VECTOR)) + constants[b]
        if outside(total, lower[b], upper[b]):
            if not math.isfinite(total):
                break
            out[0] = total
            return int(4 * used[b]) + int(total > upper[b])
    if not abs(total - table.threshold) > rounding_of(table_address, work):
        total = math.nan
    out[0] = total if math.isfinite(total) else math.nan
    return int(4 * used[B - 1] + UNDECIDED)


@njit(int64(ROW, uint64), **ONE_ROW)
def decide(row: NDArray[np.float32], table_address: int) -> int:
    """Return the class of one row: 0, 1 or, near a tie, `UNDECIDED`.

    If the row's sum is never beyond a limit, its final sum is compared with the
    threshold.
    """
    return int(follow_limits(early, TABLE, row, table_address)[0] & 3)


@njit(types.Tuple((int64, float64))(ROW, uint64), **ONE_ROW)
def early_one(row: NDArray[np.float32], table_address: int) -> tuple[int, float]:
    """Return one row's code and its sum when it stopped.

    The code is 4 * (number of terms added) + the class that `decide` returns.
    """
    code, total = follow_limits(early, TABLE, row, table_address)
    return int(code), float(total)


@njit(int64(ROW, uint64, float64[::1]), **ONE_ROW)
def early_by_margin(
    row: NDArray[np.float32], table_address: int, totals: Floats
) -> int:
    """Add a row's terms to `totals` (R,) until the best class's lead exceeds a margin.

    Returns 4 * (number of terms added) + the answer. The answer is `BEST`, or
    `UNDECIDED` if the lead never exceeded its margin.
    """
    table = table_at(table_address, TABLE)
    B, R, work, at = (
        table.blocks,
        table.outputs,
        reserve(table),
        uint64(row.ctypes.data),
    )
    ends = carray(pointer(table.ends), (B,), np.int64)
    used = carray(pointer(table.used), (B,), np.int64)
    constants = carray(pointer(table.constants), (B, R), np.float64)
    margins = carray(pointer(table.upper), (B,), np.float64)
    first = 0
    for b in range(B):
        add_groups(at, table_address, first, ends[b], work)
        first = ends[b]
        finite = True
        for r in range(R):
            sums = work + uint64(VECTOR) * uint64(2 + r)
            totals[r] = add_up(sums) + constants[b, r]
            finite &= math.isfinite(totals[r])
        if not finite:
            totals[:] = math.nan
            break
        if beyond_margin(totals, margins[b]):
            return int(4 * used[b] + BEST)
    if not margin_of(totals) > 2.0 * rounding_of(table_address, work):
        totals[:] = math.nan
    return int(4 * used[B - 1] + UNDECIDED)


# Kernels of many rows write totals (N, R) and codes (N,).
MANY = void(ROWS, uint64, float64[:, ::1], int64[::1])


@njit(MANY, **OPTIONS)
def early_many(X: Any, table_address: int, totals: Any, codes: Any) -> None:
    """Evaluate each row of X by `early`.

    Write its sum to `totals` (N, 1) and its code to `codes` (N,).
    """
    for i in range(X.shape[0]):
        codes[i] = early(X[i], table_address, totals[i])


@njit(MANY, **OPTIONS)
def early_by_margin_many(X: Any, table_address: int, totals: Any, codes: Any) -> None:
    """Evaluate each row of X by `early_by_margin`.

    Write its sums to `totals` (N, R) and its code to `codes` (N,).
    """
    for i in range(X.shape[0]):
        codes[i] = early_by_margin(X[i], table_address, totals[i])
