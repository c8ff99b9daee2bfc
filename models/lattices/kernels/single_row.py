"""Compiled evaluation of single rows by lattices, sixteen lattices at a time.

First the row is placed between the keypoints of all its columns. Then, a block of
lattices at a time, their inputs are calibrated: those that read the same column lie
side by side, and all of them at each keypoint. Then come the block's groups, one
lattice in each lane: its inputs are sorted, which gives the vertices of the simplex
that holds them, or all its vertices are halved input by input.

The kernels take the address of a table of addresses, as those of packed trees do, and
trust what they find there: `packed.py` makes it. Shapes: D columns of P
keypoints, T lattices over S inputs, R raw scores, V = 2^S vertices, G groups.
"""

import math
from typing import Any

import numpy as np
from numba import carray, float64, int32, int64, uint64, void
from numpy.typing import NDArray

from ...scoring.address_table import LINE
from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import ROW, ROWS, frozen, on_stack, pointer, table_at
from ...scoring.kernels.stops import margin_of
from ...scoring.model import Rows
from ...scoring.stops import BEST, UNDECIDED
from .simd_steps import (
    BITS,
    LANES,
    SHIFT,
    STEP,
    calibrate,
    collect_keys,
    collect_shares,
    exchange,
    halve_cells_1,
    halve_cells_3,
    halve_vertices_1,
    halve_vertices_3,
    walk,
)

DOUBLE_ROW, DOUBLE_ROWS = frozen(float64), frozen(float64, 2)

# What the address of packed lattices is that of, for B blocks with E exchanges.
TABLE = np.dtype(
    [
        ("columns", "<u8"),  # (D,) int32
        ("knots", "<u8"),  # (P, D) float64
        ("gaps", "<u8"),  # (P - 1, D) float64, between keypoints
        ("blocks", "<u8"),  # (B + 1, BLOCK_SIZE) int64
        ("runs", "<u8"),  # (.., RUN_SIZE) int64
        ("calibrations", "<u8"),  # a block's: (P + 2, its pitch) int32
        ("places", "<u8"),  # (G, S, LANES) int32, of inputs among the block's
        ("exchanges", "<u8"),  # (E, 2) int64, bytes from the first of the sorted keys
        # (G, LANES, R, V) int32 of simplices, else (G, R, V, LANES)
        ("vertices", "<u8"),
        ("limits", "<u8"),  # (2, T) float64, or (T,) margins
        ("unit", "<f8"),
        ("column_count", "<u8"),
        ("keypoint_count", "<u8"),
        ("block_count", "<u8"),
        ("exchange_count", "<u8"),
        ("lattice_count", "<u8"),
        ("input_count", "<u8"),
        ("output_count", "<u8"),
        ("simplex", "<u8"),
        ("work", "<u8"),  # bytes to write on
        ("calibrated", "<u8"),  # where in these each of what is written begins
        ("keys", "<u8"),
        ("values", "<u8"),
        ("cells", "<u8"),
        ("held", "<u8"),
        ("sums", "<u8"),
    ]
)

# Of a block: its first run, group and calibration, and all its inputs, padded.
FIRST_RUN, FIRST_GROUP, FIRST_CALIBRATION, PITCH, BLOCK_SIZE = range(5)
# Of inputs that read one column: which, where they begin, and how many steps they are.
COLUMN, START, STEPS, RUN_SIZE = range(4)


def _place_row(row: Rows, address: int, work: int) -> None:
    """Write how far along its keypoints each column's value is: (D,) int32.

    `plain.locate` in one number, in 2^-20 of the way between two keypoints.
    All columns take the steps of one binary search together.
    """
    table = table_at(address, TABLE)
    D, P = int64(table.column_count), int64(table.keypoint_count)
    columns = carray(pointer(table.columns), (D,), np.int32)
    knots = carray(pointer(table.knots), (P, D), np.float64)
    gaps = carray(pointer(table.gaps), (P - 1, D), np.float64)
    out = carray(pointer(work), (D,), np.int32)
    held = carray(pointer(work + table.held), (D,), np.float64)
    last = P - 1
    for k in range(D):
        j = uint64(k)
        value = float64(row[uint64(columns[j])])
        # What is missing is seen to below.
        held[j] = min(max(value, knots[0, j]), knots[last, j])
        out[j] = 0
    size = last - 1
    while size > 0:
        step = (size + 1) >> 1
        size -= step
        for k in range(D):
            j = uint64(k)
            ahead = out[j] + int32(step)
            out[j] = ahead if knots[uint64(ahead), j] <= held[j] else out[j]
    for k in range(D):
        j = uint64(k)
        low = uint64(out[j])
        share = (held[j] - knots[low, j]) / gaps[low, j]
        whole = (share * 2.0**BITS + SHIFT) - SHIFT
        value = row[uint64(columns[j])]
        along = int32(low << uint64(BITS)) + int32(whole)
        out[j] = int32(P << BITS) if math.isnan(value) else along


place_row = njit(
    [void(ROW, uint64, uint64), void(DOUBLE_ROW, uint64, uint64)], **OPTIONS
)(_place_row)


@njit(void(uint64, int64, uint64), **OPTIONS)
def calibrate_block(address: int, b: int, work: int) -> None:
    """Calibrate the inputs of block b."""
    table = table_at(address, TABLE)
    B = int64(table.block_count)
    blocks = carray(pointer(table.blocks), (B + 1, BLOCK_SIZE), np.int64)
    count = blocks[B, FIRST_RUN]
    runs = carray(pointer(table.runs), (count, RUN_SIZE), np.int64)
    places = carray(pointer(work), (int64(table.column_count),), np.int32)
    start = table.calibrations + uint64(4 * blocks[b, FIRST_CALIBRATION])
    pitch = uint64(4 * blocks[b, PITCH])
    for k in range(blocks[b, FIRST_RUN], blocks[b + 1, FIRST_RUN]):
        r = uint64(k)
        at = uint64(places[uint64(runs[r, COLUMN])])
        part = float64(int64(at & uint64((1 << BITS) - 1))) * 2.0**-BITS
        offset = uint64(4 * runs[r, START])
        low = start + pitch * (at >> uint64(BITS)) + offset
        out = work + table.calibrated + offset
        for _ in range(runs[r, STEPS]):
            calibrate(low, low + pitch, part, out)
            low += uint64(4 * STEP)
            out += uint64(4 * STEP)


@njit(void(uint64, uint64, uint64), **OPTIONS)
def walk_group(address: int, group: int, work: int) -> None:
    """Sort a group's inputs and walk along them: its values (R, LANES)."""
    table = table_at(address, TABLE)
    S, R = table.input_count, table.output_count
    inputs, keys = work + table.calibrated, work + table.keys
    row = uint64(4 * LANES)
    places = table.places + group * S * row
    for k in range(S):
        s = uint64(k)
        collect_keys(inputs, places + s * row, s, keys + s * row)
    count = int64(table.exchange_count)
    exchanges = carray(pointer(table.exchanges), (count, 2), np.uint64)
    for k in range(count):
        e = uint64(k)
        exchange(keys + exchanges[e, 0], keys + exchanges[e, 1])
    V = uint64(1) << S
    at = table.vertices + group * R * V * row
    out = work + table.values
    for _ in range(R):
        walk(keys, S, at, R * V, out)
        at += uint64(4) * V
        out += uint64(8 * LANES)


@njit(void(uint64, uint64, uint64, uint64), **OPTIONS)
def halve_vertices(vertices: int, size: int, shares: int, cells: int) -> None:
    """Interpolate vertices (V, LANES) at shares (size, LANES), all but the last.

    The one cell that is left is shifted, and the first of `cells`.
    """
    pitch, s = uint64(8 * LANES), size
    step = uint64(3) if size >= uint64(3) else uint64(1)
    s -= step
    count = uint64(1) << s
    far, at, out = count * uint64(4 * LANES), vertices, cells
    own = shares + s * pitch
    for _ in range(count):
        if step == uint64(3):
            halve_vertices_3(at, far, own, out)
        else:
            halve_vertices_1(at, far, own, out)
        at += uint64(4 * LANES)
        out += pitch
    while s > uint64(0):
        step = uint64(3) if s >= uint64(3) else uint64(1)
        s -= step
        count = uint64(1) << s
        far, own, at = count * pitch, shares + s * pitch, cells
        # Each cell is written where nothing is left to be read.
        for _ in range(count):
            if step == uint64(3):
                halve_cells_3(at, far, own, at)
            else:
                halve_cells_1(at, far, own, at)
            at += pitch


@njit(void(uint64, uint64, uint64), **OPTIONS)
def halve_group(address: int, group: int, work: int) -> None:
    """Interpolate a group between all its vertices: its values (R, LANES)."""
    table = table_at(address, TABLE)
    S, R = table.input_count, table.output_count
    inputs, shares = work + table.calibrated, work + table.keys
    row = uint64(4 * LANES)
    places = table.places + group * S * row
    for k in range(S):
        s = uint64(k)
        collect_shares(inputs, places + s * row, shares + uint64(2) * s * row)
    V = uint64(1) << S
    at = table.vertices + group * R * V * row
    cells = carray(pointer(work + table.cells), (LANES,), np.float64)
    values = carray(pointer(work + table.values), (int64(R), LANES), np.float64)
    for r in range(R):
        halve_vertices(at, S, shares, work + table.cells)
        for lane in range(LANES):
            values[r, lane] = cells[lane] - SHIFT
        at += V * row


@njit(inline="always")
def evaluate(table: Any, address: int, group: int, work: int) -> None:
    """Write the values of a group: (R, LANES) float64."""
    if table.simplex:
        walk_group(address, group, work)
    else:
        halve_group(address, group, work)


@njit(inline="always")
def room(table: Any) -> int:
    """Reserve what a row is evaluated on, from the beginning of a cache line."""
    size = int64(table.work)
    made = carray(on_stack(size // 4 + LINE // 4), (1,), np.int32)
    start = uint64(made.ctypes.data)
    first: int = (start + uint64(LINE - 1)) & ~uint64(LINE - 1)
    return first


def _raw(row: Rows, address: int, out: NDArray[np.float64]) -> None:
    """Write the sums of all lattices: `out` (R,)."""
    table = table_at(address, TABLE)
    work = room(table)
    B, R = int64(table.block_count), int64(table.output_count)
    blocks = carray(pointer(table.blocks), (B + 1, BLOCK_SIZE), np.int64)
    values = carray(pointer(work + table.values), (R, LANES), np.float64)
    sums = carray(pointer(work + table.sums), (R, LANES), np.float64)
    unit = table.unit
    sums[:] = 0.0
    place_row(row, address, work)
    for b in range(B):
        calibrate_block(address, b, work)
        for g in range(blocks[b, FIRST_GROUP], blocks[b + 1, FIRST_GROUP]):
            evaluate(table, address, uint64(g), work)
            for r in range(R):
                for lane in range(LANES):
                    sums[r, lane] += values[r, lane]
    for r in range(R):
        out[r] = sums[r].sum() * unit


raw = njit(
    [void(ROW, uint64, float64[::1]), void(DOUBLE_ROW, uint64, float64[::1])],
    **OPTIONS,
)(_raw)


def _raw_many(X: Rows, address: int, out: NDArray[np.float64]) -> None:
    """Write the sums of all lattices for each row: `out` (N, R)."""
    for i in range(X.shape[0]):
        raw(X[i], address, out[i])


raw_many = njit(
    [void(ROWS, uint64, float64[:, ::1]), void(DOUBLE_ROWS, uint64, float64[:, ::1])],
    **OPTIONS,
)(_raw_many)


@njit(int64(ROW, uint64, float64[::1]), **OPTIONS)
def early(row: NDArray[np.float32], address: int, out: NDArray[np.float64]) -> int:
    """Answer of one row as soon as a limit says so: 4 * lattices used + answer.

    For one raw score; the sum so far goes to `out[0]`.
    """
    table = table_at(address, TABLE)
    work = room(table)
    B, T = int64(table.block_count), int64(table.lattice_count)
    blocks = carray(pointer(table.blocks), (B + 1, BLOCK_SIZE), np.int64)
    values = carray(pointer(work + table.values), (LANES,), np.float64)
    limits = carray(pointer(table.limits), (2, T), np.float64)
    unit = table.unit
    place_row(row, address, work)
    total = 0.0
    for b in range(B):
        calibrate_block(address, b, work)
        for g in range(blocks[b, FIRST_GROUP], blocks[b + 1, FIRST_GROUP]):
            evaluate(table, address, uint64(g), work)
            first = g * LANES
            for lane in range(min(LANES, T - first)):
                t = uint64(first + lane)
                total += values[uint64(lane)] * unit
                if (total < limits[0, t]) | (total > limits[1, t]):
                    out[0] = total
                    return 4 * (first + lane + 1) + int(total > limits[1, t])
    out[0] = total
    return int(4 * T + UNDECIDED)


@njit(void(ROWS, uint64, float64[::1], int64[::1]), **OPTIONS)
def early_many(
    X: NDArray[np.float32],
    address: int,
    totals: NDArray[np.float64],
    codes: NDArray[np.int64],
) -> None:
    """Sum and answer of `early` for each row: `totals` (N,), `codes` (N,)."""
    for i in range(X.shape[0]):
        codes[i] = early(X[i], address, totals[i : i + 1])


@njit(int64(ROW, uint64, float64[::1]), **OPTIONS)
def early_by_margin(
    row: NDArray[np.float32], address: int, totals: NDArray[np.float64]
) -> int:
    """Add lattices to `totals` (R,) until the best leads by more than its margin.

    Returns its code, 4 * lattices used + answer.
    """
    table = table_at(address, TABLE)
    work = room(table)
    B, T = int64(table.block_count), int64(table.lattice_count)
    R = int64(table.output_count)
    blocks = carray(pointer(table.blocks), (B + 1, BLOCK_SIZE), np.int64)
    values = carray(pointer(work + table.values), (R, LANES), np.float64)
    margins = carray(pointer(table.limits), (T,), np.float64)
    unit = table.unit
    place_row(row, address, work)
    for b in range(B):
        calibrate_block(address, b, work)
        for g in range(blocks[b, FIRST_GROUP], blocks[b + 1, FIRST_GROUP]):
            evaluate(table, address, uint64(g), work)
            first = g * LANES
            for lane in range(min(LANES, T - first)):
                for r in range(R):
                    totals[r] += values[uint64(r), uint64(lane)] * unit
                if margin_of(totals) > margins[uint64(first + lane)]:
                    return int(4 * (first + lane + 1) + BEST)
    return int(4 * T + UNDECIDED)


@njit(void(ROWS, uint64, float64[:, ::1], int64[::1]), **OPTIONS)
def early_by_margin_many(
    X: NDArray[np.float32],
    address: int,
    totals: NDArray[np.float64],
    codes: NDArray[np.int64],
) -> None:
    """Totals (N, R) and codes (N,) of `early_by_margin` for each row."""
    for i in range(X.shape[0]):
        codes[i] = early_by_margin(X[i], address, totals[i])
