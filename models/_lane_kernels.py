"""Compiled evaluation of single rows with 512-bit vectors, 64 trees at once.

Every tree of a group of 64 has a lane, a byte of each vector. The row's values are
bytes too: how many of the thresholds of their slot are below them, so that one vector
register holds 64 slots. A test picks each tree's slot out of it (`vpermb`) and compares
with each tree's threshold; all tests of a group are made, down to the depth of its
deepest tree, and their answers choose the leaf from the bottom up. There is nothing to
be mispredicted, and what is left to wait for is the sum, which keeps the trees' order.

Thresholds below a value are counted in two steps of 16: pivots, then those between two
of them. The instructions are those of AVX-512 with VBMI (Intel from Ice Lake, AMD from
Zen 4 on). Where a processor lacks them, or numba may not use them, `VECTORS` is false,
nothing here is compiled and nothing may be called. As in `_layout_kernels.py` nothing
is checked, and a kernel takes the address of a table; `lanes.py` fills it.
"""

from typing import Any

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import carray, config, float64, int64, njit, types, uint64, void
from numba.extending import intrinsic
from numpy.typing import NDArray

from ._layout_kernels import (
    COMPILED,
    ONE_ROW,
    OPTIONS,
    ROW,
    ROWS,
    UNDECIDED,
    lead_of,
    pointer,
    read_keys,
    side,
)

LANES = 64  # trees in a group, and slots of a row
MOST_DEPTH = 8  # a leaf's place in its tree is a byte
MOST_CUTS = 256  # of a slot; the last is above every value
STEP = 16  # cuts compared at once
ABREAST = 8  # trees whose sums are kept between limits at once
SPAN = 16  # groups whose places are found before they are used

# Entries of the table; the first four are those that `read_keys` knows.
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
    TABLE_SIZE,
) = range(22)


def has_instructions() -> bool:
    """Say whether numba compiles for a processor with AVX-512 VBMI."""
    if not COMPILED or config.CPU_FEATURES is not None or not config.ENABLE_AVX:
        return False
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:  # not known for this processor
        return False
    return all(features.get(name) for name in ("avx512bw", "avx512vbmi"))


VECTORS = has_instructions()


def kernel(signature: Any, options: dict[str, Any] = OPTIONS) -> Any:
    """Compile a function, where there are the instructions for it."""
    return njit(signature, **options) if VECTORS else lambda function: function


_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_BYTES, _WORDS = ir.VectorType(_I8, LANES), ir.VectorType(_I32, STEP)


def _load(builder: Any, address: Any, kind: Any, align: int = 64) -> Any:
    loaded = builder.load(builder.inttoptr(address, kind.as_pointer()))
    loaded.align = align
    return loaded


def _spread(builder: Any, value: Any, kind: Any) -> Any:
    """Give every lane the same value."""
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, _I32(0))
    lanes = ir.Constant(ir.VectorType(_I32, kind.count), [0] * kind.count)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), lanes)


@intrinsic
def room(typing_context: Any, count: Any) -> Any:
    """Reserve `count` vectors of 64 bytes until the calling kernel returns: address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors = builder.alloca(_BYTES, size=arguments[0])
        vectors.align = 64
        return builder.ptrtoint(vectors, _I64)

    return types.uint64(types.int64), generate


@intrinsic
def count_below(typing_context: Any, key: Any, cuts: Any) -> Any:
    """How many of the 16 int32 at an address are less than a key."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        key, address = arguments
        cuts = _load(builder, address, _WORDS)
        below = builder.icmp_signed("<", cuts, _spread(builder, key, _WORDS))
        count = builder.ctpop(builder.bitcast(below, _I16))
        return builder.zext(count, _I64)

    return types.int64(types.int32, types.uint64), generate


def _answer(builder: Any, permute: Any, codes: Any, tests: Any, depth: int) -> Any:
    """Places (64 bytes) of the leaves reached, for trees of this depth."""

    def place(test: int, level: int) -> Any:
        """Place of the leaf below a test, counted from the leftmost below it."""
        at = builder.add(tests, _I64(2 * LANES * (test - 1)))
        slots = _load(builder, at, _BYTES)
        limits = _load(builder, builder.add(at, _I64(LANES)), _BYTES)
        right = builder.icmp_unsigned(
            ">", builder.call(permute, [codes, slots]), limits
        )
        half = ir.Constant(_BYTES, [1 << (depth - level - 1)] * LANES)
        if level == depth - 1:
            return builder.select(right, half, ir.Constant(_BYTES, [0] * LANES))
        left_place = place(2 * test, level + 1)
        right_place = builder.or_(place(2 * test + 1, level + 1), half)
        return builder.select(right, right_place, left_place)

    if depth == 0:
        return ir.Constant(_BYTES, [0] * LANES)
    return place(1, 0)


@intrinsic
def find_places(
    typing_context: Any, depth: Any, codes: Any, tests: Any, out: Any
) -> Any:
    """Write the place (64 bytes) of the leaf that each tree of a group reaches.

    `codes` is the address of the row's 64 codes; `tests` that of the group's tests,
    for each 64 slots and 64 limits, root first, then level by level.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        depth, codes, tests, out = arguments
        name = "llvm.x86.avx512.permvar.qi.512"
        kind = ir.FunctionType(_BYTES, [_BYTES, _BYTES])
        permute = builder.module.globals.get(name)
        permute = permute or ir.Function(builder.module, kind, name)
        codes = _load(builder, codes, _BYTES)
        end = builder.append_basic_block("end")
        choice = builder.switch(depth, end)
        for levels in range(MOST_DEPTH + 1):
            block = builder.append_basic_block(f"depth{levels}")
            choice.add_case(_I64(levels), block)
            builder.position_at_end(block)
            places = _answer(builder, permute, codes, tests, levels)
            builder.store(places, builder.inttoptr(out, _BYTES.as_pointer())).align = 64
            builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64, types.uint64, types.uint64), generate


@kernel(void(ROW, uint64, uint64))
def read_codes(row: NDArray[np.float32], address: int, out: int) -> None:
    """Write how many cuts of each slot are below the row's value: 64 bytes."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    slots = int64(table[SLOTS])
    keys = carray(pointer(room(4)), (LANES,), np.int32)
    read_keys(row, address, keys)
    codes = carray(pointer(out), (LANES,), np.uint8)
    for s in range(slots):
        part = count_below(keys[s], table[PIVOTS] + uint64(4 * STEP * s))
        cuts = table[CUTS] + uint64(4 * (MOST_CUTS * s + STEP * part))
        codes[s] = STEP * part + count_below(keys[s], cuts)


@kernel(void(uint64, int64, int64, uint64, uint64))
def fill_places(address: int, first: int, end: int, codes: int, out: int) -> None:
    """Write the places of the leaves that the trees of some groups reach."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    groups = int64(table[GROUPS])
    depths = carray(pointer(table[DEPTHS]), (groups,), np.int64)
    tests = carray(pointer(table[TESTS]), (groups,), np.uint64)
    for g in range(first, end):
        find_places(depths[g], codes, tests[g], out + uint64(LANES * (g - first)))


@kernel(float64(ROW, uint64), ONE_ROW)
def lane_margin(row: NDArray[np.float32], address: int) -> float:
    """Raw score of one row: `_layout_kernels.margin` to the same bit.

    The places of many groups are found before their values are added: each sum
    waits for the one before it, and would keep what comes after it waiting too.
    """
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    groups = int64(table[GROUPS])
    depths = carray(pointer(table[DEPTHS]), (groups,), np.int64)
    firsts = carray(pointer(table[FIRSTS]), (groups,), np.uint64)
    sizes = carray(pointer(table[SIZES]), (groups,), np.int64)
    values = carray(pointer(table[VALUES]), (1,), np.float64)
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


@kernel(void(ROWS, uint64, float64[::1]))
def lane_margins(
    X: NDArray[np.float32], address: int, out: NDArray[np.float64]
) -> None:
    """Raw score of each row: `out` (N,)."""
    for i in range(X.shape[0]):
        out[i] = lane_margin(X[i], address)


@kernel(void(ROWS, uint64, float64[:, ::1]))
def lane_scores(X: NDArray[np.float32], address: int, out: NDArray[np.float64]) -> None:
    """Add the trees to `out` (N, R): `_layout_kernels.raw_scores` to the same bit."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    groups, terms = int64(table[GROUPS]), int64(table[TERMS])
    depths = carray(pointer(table[DEPTHS]), (groups,), np.int64)
    firsts = carray(pointer(table[FIRSTS]), (groups,), np.uint64)
    trees = int64(table[TREES])
    targets = carray(pointer(table[TARGETS]), (trees,), np.int32)
    values = carray(pointer(table[VALUES]), (1,), np.float64)
    codes, found = room(1), room(SPAN)
    places = carray(pointer(found), (SPAN * LANES,), np.uint8)
    for i in range(X.shape[0]):
        read_codes(X[i], address, codes)
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


@kernel(int64(ROW, uint64, float64[::1]))
def lane_early(row: NDArray[np.float32], address: int, out: Any) -> int:
    """Answer of one row as soon as a limit says so: `_layout_kernels.early`.

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
    values = carray(pointer(table[VALUES]), (1,), np.float64)
    lower = carray(pointer(table[LOWER]), (1,), np.float64)
    upper = carray(pointer(table[UPPER]), (1,), np.float64)
    floors = carray(pointer(table[FLOORS]), (1,), np.float64)
    ceilings = carray(pointer(table[CEILINGS]), (1,), np.float64)
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


@kernel(int64(ROW, uint64), ONE_ROW)
def lane_decide(row: NDArray[np.float32], address: int) -> int:
    """Answer of one row: `_layout_kernels.decide`."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    total = carray(pointer(room(1)), (1,), np.float64)
    answer = lane_early(row, address, total) & 3
    if answer != UNDECIDED:
        return int(answer)
    return int(side(total[0], carray(pointer(table[BIAS]), (1,), np.float64)[0]))


@kernel(void(ROWS, uint64, float64[::1], int64[::1]))
def lane_early_many(
    X: NDArray[np.float32],
    address: int,
    sums: NDArray[np.float64],
    codes: NDArray[np.int64],
) -> None:
    """Sum and answer of `lane_early` for each row: `sums` (N,), `codes` (N,)."""
    for i in range(X.shape[0]):
        codes[i] = lane_early(X[i], address, sums[i : i + 1])


@kernel(int64(ROW, uint64, float64[::1]), ONE_ROW)
def lane_lead(row: NDArray[np.float32], address: int, totals: Any) -> int:
    """Add base models until the lead is enough: `_layout_kernels.early_lead`."""
    table = carray(pointer(address), (TABLE_SIZE,), np.uint64)
    groups, terms = int64(table[GROUPS]), int64(table[TERMS])
    depths = carray(pointer(table[DEPTHS]), (groups,), np.int64)
    firsts = carray(pointer(table[FIRSTS]), (groups,), np.uint64)
    trees, group = int64(table[TREES]), int64(table[GROUP])
    targets = carray(pointer(table[TARGETS]), (trees,), np.int32)
    values = carray(pointer(table[VALUES]), (1,), np.float64)
    margins = carray(pointer(table[UPPER]), (trees // group,), np.float64)
    codes, found = room(1), room(SPAN)
    places = carray(pointer(found), (SPAN * LANES,), np.uint8)
    read_codes(row, address, codes)
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
