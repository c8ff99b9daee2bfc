"""Steps of the kernels in `one_row.py`, for sixteen lattices at a time.

Products are exact, and sums are whole numbers below 2^53, so on every processor the
results equal those of `plain.py` to the bit. Addresses are not checked.
"""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

from ...scoring.kernels.native import (
    ADDRESS,
    INT,
    LONG,
    constant,
    gather,
    in_llvm,
    instruction,
    load,
    spread,
    store,
)

LANES = 16  # lattices in a group
STEP = 8  # inputs calibrated at a time: a vector has eight float64
BITS = 20  # bits of a calibrated input
WHICH = 4  # lowest bits of a sort key, which hold the input's number

DOUBLE = ir.DoubleType()
INTS, DOUBLES = ir.VectorType(INT, LANES), ir.VectorType(DOUBLE, LANES)
SHIFT = 1.5 * 2.0**52  # a number added to it is rounded to a whole number


def _add_product(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, fused into one instruction if available.

    a * b must be exact, so that both ways give the same result.
    """
    name = f"llvm.fmuladd.v{a.type.count}f64"
    fused = instruction(builder, name, *[a.type] * 4)
    return builder.call(fused, [a, b, c])


@in_llvm(types.void(ADDRESS, ADDRESS, types.float64, ADDRESS))
def calibrate(builder: Any, low: Any, high: Any, part: Any, out: Any) -> None:
    """Write low + (high - low) * part, rounded to integers, to `out` (STEP,) int32.

    `low` and `high` are addresses of int32 arrays (STEP,); `part` is in [0, 1].
    """
    ints, floats = ir.VectorType(INT, STEP), ir.VectorType(DOUBLE, STEP)
    low, high = (builder.sitofp(load(builder, at, ints), floats) for at in (low, high))
    part = spread(builder, part, floats)
    value = _add_product(builder, builder.fsub(high, low), part, low)
    # The lowest bits of so large a float64 are the whole number.
    value = builder.fadd(value, constant(floats, SHIFT))
    whole = builder.bitcast(value, ir.VectorType(LONG, STEP))
    store(builder, builder.trunc(whole, ints), out)


@in_llvm(types.void(ADDRESS, ADDRESS, ADDRESS, ADDRESS))
def collect_keys(builder: Any, inputs: Any, places: Any, s: Any, out: Any) -> None:
    """Write sort keys for input number `s` of each of sixteen lattices to `out`.

    Lattice k's value is `inputs[places[k]]`. The lowest bits of a key are `s`, the bits
    above them are the value.
    """
    found = gather(builder, inputs, load(builder, places, INTS), INTS)
    which = spread(builder, builder.trunc(s, INT), INTS)
    high = builder.shl(found, constant(INTS, WHICH))
    store(builder, builder.or_(high, which), out)


@in_llvm(types.void(ADDRESS, ADDRESS, ADDRESS))
def collect_shares(builder: Any, inputs: Any, places: Any, out: Any) -> None:
    """Write the `inputs` at the positions `places` to `out`, as float64 in [0, 1]."""
    found = gather(builder, inputs, load(builder, places, INTS), INTS)
    share = constant(DOUBLES, 2.0**-BITS)
    whole = builder.sitofp(found, DOUBLES)
    store(builder, builder.fmul(whole, share), out)


@in_llvm(types.void(ADDRESS, ADDRESS))
def exchange(builder: Any, first: Any, second: Any) -> None:
    """Swap the keys at two addresses, lane by lane, if the second key is larger."""
    one, other = (load(builder, at, INTS) for at in (first, second))
    above = builder.icmp_signed(">", one, other)
    store(builder, builder.select(above, one, other), first)
    store(builder, builder.select(above, other, one), second)


@in_llvm(types.void(*[ADDRESS] * 5))
def walk(builder: Any, keys: Any, size: Any, vertices: Any, far: Any, out: Any) -> None:
    """Interpolate sixteen lattices on the simplices that their sorted `keys` describe.

    Each lattice has `size` keys, in descending order. Its vertices begin `far` numbers
    after those of the previous lattice.
    """
    lanes = ir.Constant(INTS, [INT(lane) for lane in range(LANES)])
    far = spread(builder, builder.trunc(far, INT), INTS)
    at = cgutils.alloca_once_value(builder, builder.mul(lanes, far))
    left = cgutils.alloca_once_value(builder, constant(INTS, 1 << BITS))
    total = cgutils.alloca_once_value(builder, constant(DOUBLES, 0.0))

    def add(weight: Any) -> None:
        cells = gather(builder, vertices, builder.load(at), INTS)
        cells, weight = (builder.sitofp(v, DOUBLES) for v in (cells, weight))
        sum_ = _add_product(builder, cells, weight, builder.load(total))
        builder.store(sum_, total)

    with cgutils.for_range(builder, size) as loop:
        offset = builder.mul(loop.index, ir.Constant(LONG, 4 * LANES))
        key = load(builder, builder.add(keys, offset), INTS)
        value = builder.lshr(key, constant(INTS, WHICH))
        add(builder.sub(builder.load(left), value))
        builder.store(value, left)
        which = builder.and_(key, constant(INTS, (1 << WHICH) - 1))
        step = builder.shl(constant(INTS, 1), which)
        builder.store(builder.add(builder.load(at), step), at)
    add(builder.load(left))
    shift = constant(DOUBLES, SHIFT)
    value = builder.fmul(builder.load(total), constant(DOUBLES, 2.0**-BITS))
    value = builder.fsub(builder.fadd(value, shift), shift)
    store(builder, value, out, 8)


def _halving(inputs: int, whole: bool) -> Any:
    """Make a function that interpolates along 1 or 3 `inputs` at once.

    The function reads int32 vertices if `whole`, else float64 cells.
    """

    @in_llvm(types.void(*[ADDRESS] * 4))
    def halve(builder: Any, at: Any, far: Any, shares: Any, out: Any) -> None:
        """Interpolate between the vertices of each row's cell; write results to `out`.

        The first vertex is at the address `at`, and each next one `far` bytes later.
        `shares` is the address of the rows' places in the cell, in [0, 1], by input.
        """
        row = []
        for _ in range(1 << inputs):
            kind = INTS if whole else DOUBLES
            value = load(builder, at, kind)
            row.append(builder.sitofp(value, DOUBLES) if whole else value)
            at = builder.add(at, far)
        for s in reversed(range(inputs)):
            place = builder.add(shares, ir.Constant(LONG, 8 * LANES * s))
            share = load(builder, place, DOUBLES)
            pairs = zip(row[: 1 << s], row[1 << s :], strict=True)
            next_row = []
            for low, high in pairs:
                rise = builder.fsub(high, low)
                if whole and s == inputs - 1:
                    low = builder.fadd(low, constant(DOUBLES, SHIFT))
                next_row.append(_add_product(builder, rise, share, low))
            row = next_row
        store(builder, row[0], out, 8)

    return halve


# Functions for vertices (first line) and for intermediate cells, over 3 inputs or 1.
halve_vertices_3, halve_vertices_1 = _halving(3, True), _halving(1, True)
halve_cells_3, halve_cells_1 = _halving(3, False), _halving(1, False)
