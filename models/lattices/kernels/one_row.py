"""Compiled evaluation of one row by lattices, sixteen lattices at a time.

Lattices are divided into groups of sixteen, and groups into blocks. First, the kernel
locates each column's value between its keypoints. Then, block by block, it calibrates
all inputs of the block, and evaluates the groups of the block. Each lane of a vector
register computes one lattice of the group.

To interpolate on simplices, the kernel sorts the inputs, which gives the corners of the
simplex. To interpolate between all vertices, it removes one input after the other, each
of which halves the number of vertices. `plain.py` explains the shapes; D is the number
of columns and G the number of groups. Arguments are not checked.
"""

import math
from typing import Any

import numpy as np
from numba import carray, float64, int32, int64, types, uint64, void

from ...scoring.address_table import LINE
from ...scoring.kernels.cached_njit import OPTIONS, njit
from ...scoring.kernels.native import (
    FLOATS,
    FLOATS_2D,
    ROW,
    ROWS,
    on_stack,
    pointer,
    table_at,
)
from ...scoring.kernels.stopping_rule import follow_limits, margin_of, outside
from ...scoring.model import Floats, Rows
from ...scoring.stopping_rule import BEST, UNDECIDED, Codes
from .vector_steps import (
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

# The record at the address of packed lattices: B blocks, E exchanges.
TABLE = np.dtype(
    [
        ("columns", "<u8"),  # (D,) int32
        ("knots", "<u8"),  # (P, D) float64
        ("gaps", "<u8"),  # (P - 1, D) float64, distances between keypoints
        ("first_of", "<u8"),  # (G,) int64, block that begins with the group, or -1
        ("blocks", "<u8"),  # (B + 1, BLOCK_SIZE) int64
        ("runs", "<u8"),  # (.., RUN_SIZE) int64
        ("calibrations", "<u8"),  # (P + 2, pitch) int32 for each block
        ("places", "<u8"),  # (G, S, LANES) int32, positions of inputs in their block
        ("exchanges", "<u8"),  # (E, 2) int64, offsets in bytes from the first key
        # int32, (G, LANES, R, V) for simplices, else (G, R, V, LANES)
        ("vertices", "<u8"),
        ("lower", "<u8"),  # (T,) float64
        ("upper", "<u8"),  # (T,) float64, or margins
        ("threshold", "<f8"),
        ("unit", "<f8"),
        ("column_count", "<u8"),
        ("keypoint_count", "<u8"),
        ("block_count", "<u8"),
        ("group_count", "<u8"),
        ("exchange_count", "<u8"),
        ("lattice_count", "<u8"),
        ("input_count", "<u8"),
        ("output_count", "<u8"),
        ("simplex", "<u8"),
        ("work", "<u8"),  # size of the memory for a row, in bytes
        ("calibrated", "<u8"),  # this and the next fields are offsets in this memory
        ("keys", "<u8"),
        ("values", "<u8"),
        ("cells", "<u8"),
        ("held", "<u8"),
        ("sums", "<u8"),
    ]
)

# Columns of a block: first run, first calibration, number of inputs with padding.
FIRST_RUN, FIRST_CALIBRATION, PITCH, BLOCK_SIZE = range(4)
# Columns of a run (the inputs of a block that read one column): column, first input,
# number of steps.
COLUMN, START, STEPS, RUN_SIZE = range(4)


@njit([void(ROW, uint64, uint64), void(FLOATS, uint64, uint64)], **OPTIONS)
def place_row(row: Rows, address: int, work: int) -> None:
    """Write the positions (D,) of a row's values between keypoints, as int32 at `work`.

    A position is 2^20 * (index of the keypoint below + fraction of the way to the
    next). The keypoints are those of the lattices packed at `address`.
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
        # Missing values are handled below.
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


@njit(void(uint64, int64, uint64), **OPTIONS)
def calibrate_block(address: int, b: int, work: int) -> None:
    """Calibrate the inputs of block `b` of the lattices packed at `address`.

    The positions from `place_row` are read from the memory at `work`, and the
    calibrated inputs are written there.
    """
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


@njit(void(uint64, uint64, uint64, uint64), **OPTIONS)
def halve_vertices(vertices: int, size: int, shares: int, cells: int) -> None:
    """Interpolate sixteen lattices between all of their vertices, input by input.

    `vertices` (V, LANES), the inputs' values `shares` (size, LANES), and the scratch
    memory `cells` are addresses. The results are the first LANES float64 at `cells`.
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
        # Each cell overwrites only cells that were read before.
        for _ in range(count):
            if step == uint64(3):
                halve_cells_3(at, far, own, at)
            else:
                halve_cells_1(at, far, own, at)
            at += pitch


@njit(void(uint64, uint64, uint64), **OPTIONS)
def evaluate(address: int, group: int, work: int) -> None:
    """Compute the values (R, LANES) of one group of the lattices packed at `address`.

    The values are written to the memory at `work`. The first group of a block also
    calibrates the block's inputs.
    """
    table = table_at(address, TABLE)
    first_of = carray(pointer(table.first_of), (int64(table.group_count),), np.int64)
    if first_of[group] >= 0:
        calibrate_block(address, first_of[group], work)
    S, R, row = table.input_count, table.output_count, uint64(4 * LANES)
    inputs, keys, out = work + table.calibrated, work + table.keys, work + table.values
    places = table.places + group * S * row
    V = uint64(1) << S
    at = table.vertices + group * R * V * row
    if table.simplex:
        for k in range(S):
            s = uint64(k)
            collect_keys(inputs, places + s * row, s, keys + s * row)
        count = int64(table.exchange_count)
        exchanges = carray(pointer(table.exchanges), (count, 2), np.uint64)
        for k in range(count):
            e = uint64(k)
            exchange(keys + exchanges[e, 0], keys + exchanges[e, 1])
        for _ in range(R):
            walk(keys, S, at, R * V, out)
            at += uint64(4) * V
            out += uint64(8 * LANES)
        return
    for k in range(S):
        s = uint64(k)
        collect_shares(inputs, places + s * row, keys + uint64(2) * s * row)
    cells = carray(pointer(work + table.cells), (LANES,), np.float64)
    values = carray(pointer(out), (int64(R), LANES), np.float64)
    for r in range(R):
        halve_vertices(at, S, keys, work + table.cells)
        for lane in range(LANES):
            values[r, lane] = cells[lane] - SHIFT
        at += V * row


@njit(inline="always")
def reserve(table: Any) -> int:
    """Reserve the stack memory that the kernels need for one row; return its address.

    The address is aligned to a cache line.
    """
    size = int64(table.work)
    made = carray(on_stack(size // 4 + LINE // 4), (1,), np.int32)
    start = uint64(made.ctypes.data)
    first: int = (start + uint64(LINE - 1)) & ~uint64(LINE - 1)
    return first


@njit([void(ROW, uint64, float64[::1]), void(FLOATS, uint64, float64[::1])], **OPTIONS)
def raw(row: Rows, address: int, out: Floats) -> None:
    """Write one row's raw scores, by the lattices at `address`, to `out` (R,).

    The raw scores do not include the bias.
    """
    table = table_at(address, TABLE)
    work = reserve(table)
    R = int64(table.output_count)
    values = carray(pointer(work + table.values), (R, LANES), np.float64)
    sums = carray(pointer(work + table.sums), (R, LANES), np.float64)
    sums[:] = 0.0
    place_row(row, address, work)
    for g in range(int64(table.group_count)):
        evaluate(address, uint64(g), work)
        for r in range(R):
            for lane in range(LANES):
                sums[r, lane] += values[r, lane]
    for r in range(R):
        out[r] = sums[r].sum() * table.unit


@njit(void(uint64, int64, uint64), **OPTIONS)
def enter_block(address: int, group: int, work: int) -> None:
    """Calibrate the block that contains `group`, unless it begins with `group`.

    `evaluate` calibrates a block at its first group. The lattices are packed at
    `address`; the memory of the row is at `work`.
    """
    table = table_at(address, TABLE)
    first_of = carray(pointer(table.first_of), (int64(table.group_count),), np.int64)
    g = group
    while first_of[g] < 0:
        g -= 1
    if g < group:
        calibrate_block(address, first_of[g], work)


# A part of an evaluation adds the lattices at positions `first` to `end` - 1 to the
# sums so far. Both are multiples of LANES, unless `end` is the number of all lattices.
PART = int64(ROW, uint64, int64, int64, float64[::1])


@njit(PART, **OPTIONS)
def early(row: Rows, address: int, first: int, end: int, out: Floats) -> int:
    """Add lattices `first` to `end` - 1 to the sum `out[0]` of one row.

    Stops as soon as the sum is beyond a limit. The lattices are packed at `address`.
    Returns 4 * (number of lattices added since the first of all) + the answer. The
    answer is 0 or 1, or `UNDECIDED` if the sum was never beyond a limit.
    """
    table = table_at(address, TABLE)
    work = reserve(table)
    T, unit = int64(table.lattice_count), table.unit
    values = carray(pointer(work + table.values), (LANES,), np.float64)
    lower = carray(pointer(table.lower), (T,), np.float64)
    upper = carray(pointer(table.upper), (T,), np.float64)
    place_row(row, address, work)
    enter_block(address, first // LANES, work)
    total = out[0]
    for g in range(first // LANES, -(-end // LANES)):
        evaluate(address, uint64(g), work)
        before = g * LANES
        for lane in range(min(LANES, T - before)):
            t = uint64(before + lane)
            total += values[uint64(lane)] * unit
            if outside(total, lower[t], upper[t]):
                out[0] = total
                return 4 * (before + lane + 1) + int(total > upper[t])
    out[0] = total
    return int(4 * end + UNDECIDED)


@njit(inline="always")
def early_whole(row: Rows, address: int, out: Floats) -> int:
    """Call `early` for all lattices."""
    count = int64(table_at(address, TABLE).lattice_count)
    return int(early(row, address, 0, count, out))


@njit(int64(ROW, uint64), **OPTIONS)
def decide(row: Rows, address: int) -> int:
    """Return one row's answer by the lattices packed at `address`.

    The answer is 0, 1, or `UNDECIDED` near a tie. If the row's sum is never beyond a
    limit, its final sum is compared with the threshold.
    """
    return int(follow_limits(early_whole, TABLE, row, address)[0] & 3)


@njit(types.Tuple((int64, float64))(ROW, uint64), **OPTIONS)
def early_one(row: Rows, address: int) -> tuple[int, float]:
    """Return one row's code and its sum when it stopped, by the lattices at `address`.

    The code is 4 * (number of lattices added) + the answer of `decide`.
    """
    code, total = follow_limits(early_whole, TABLE, row, address)
    return int(code), float(total)


@njit(PART, **OPTIONS)
def early_by_margin_part(
    row: Rows, address: int, first: int, end: int, totals: Floats
) -> int:
    """Add lattices `first` to `end` - 1 to the sums `totals` (R,) of one row.

    Stops as soon as the best class's lead exceeds a margin. The lattices are packed at
    `address`. Returns 4 * (number of lattices added since the first of all) + the
    answer. The answer is `BEST`, or `UNDECIDED` if the lead never exceeded its margin.
    """
    table = table_at(address, TABLE)
    work = reserve(table)
    T, R, unit = int64(table.lattice_count), int64(table.output_count), table.unit
    values = carray(pointer(work + table.values), (R, LANES), np.float64)
    margins = carray(pointer(table.upper), (T,), np.float64)
    place_row(row, address, work)
    enter_block(address, first // LANES, work)
    for g in range(first // LANES, -(-end // LANES)):
        evaluate(address, uint64(g), work)
        before = g * LANES
        for lane in range(min(LANES, T - before)):
            for r in range(R):
                totals[r] += values[uint64(r), uint64(lane)] * unit
            if margin_of(totals) > margins[uint64(before + lane)]:
                return int(4 * (before + lane + 1) + BEST)
    return int(4 * end + UNDECIDED)


@njit(int64(ROW, uint64, float64[::1]), **OPTIONS)
def early_by_margin(row: Rows, address: int, totals: Floats) -> int:
    """Add lattices to `totals` (R,) until the best class's lead exceeds a margin.

    Returns the code that `early_by_margin_part` returns for all lattices.
    """
    count = int64(table_at(address, TABLE).lattice_count)
    return int(early_by_margin_part(row, address, 0, count, totals))


# Kernels of many rows take totals (N, R), which begin as the starts of the sums, and
# write codes (N,).
MANY = (uint64, float64[:, ::1], int64[::1])


@njit([void(ROWS, *MANY), void(FLOATS_2D, *MANY)], **OPTIONS)
def raw_many(X: Rows, address: int, totals: Floats, codes: Codes) -> None:
    """Add each row's sums over all lattices to `totals` (N, R); `codes` is not used."""
    sums = np.empty(totals.shape[1])
    for i in range(X.shape[0]):
        raw(X[i], address, sums)
        for r in range(totals.shape[1]):
            totals[i, r] += sums[r]


@njit(void(ROWS, *MANY), **OPTIONS)
def early_many(X: Rows, address: int, totals: Floats, codes: Codes) -> None:
    """Call `early` for each row; write sums to `totals` (N, 1) and codes to `codes`."""
    for i in range(X.shape[0]):
        codes[i] = early_whole(X[i], address, totals[i])


@njit(void(ROWS, *MANY), **OPTIONS)
def early_by_margin_many(X: Rows, address: int, totals: Floats, codes: Codes) -> None:
    """Call `early_by_margin` for each row.

    Sums are added to `totals` (N, R), codes are written to `codes` (N,).
    """
    for i in range(X.shape[0]):
        codes[i] = early_by_margin(X[i], address, totals[i])
