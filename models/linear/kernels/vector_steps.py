"""Steps of the kernels in `early_sums.py`, for sixteen terms at a time."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from ...scoring.kernels.native import ADDRESS, constant, gather, in_llvm, load, store

LANES = 16
INFINITE = 0x7F800000  # bits of the float32 infinity
MAGNITUDE = 2**31 - 1  # mask of all bits of a float32 but the sign
ROW = 8 * LANES  # bytes of a vector of float64

_LONG = ir.IntType(64)
_SINGLES = ir.VectorType(ir.FloatType(), LANES)
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
_WORDS = ir.VectorType(ir.IntType(32), LANES)


@in_llvm(types.void(*[ADDRESS] * 4))
def collect(builder: Any, row: Any, columns: Any, values: Any, peaks: Any) -> None:
    """Copy the row's inputs in sixteen columns to `values`, as float64.

    Each of the sixteen `peaks` is raised to the magnitude of its input, if that is
    larger. All arguments are addresses.
    """
    found = gather(builder, row, load(builder, columns, _WORDS), _SINGLES)
    store(builder, builder.fpext(found, _DOUBLES), values)
    bits = builder.and_(builder.bitcast(found, _WORDS), constant(_WORDS, MAGNITUDE))
    before = load(builder, peaks, _WORDS)
    larger = builder.icmp_signed(">", bits, before)
    known = builder.icmp_signed("<=", bits, constant(_WORDS, INFINITE))
    larger = builder.and_(larger, known)
    store(builder, builder.select(larger, bits, before), peaks)


@in_llvm(types.void(*[ADDRESS] * 2))
def shape(builder: Any, values: Any, shapes: Any) -> None:
    """Scale, shift and clip sixteen values in place, and fill missing values.

    `shapes` is the address of five vectors: gain, offset, low, high and filling.
    """
    ends = [builder.add(shapes, _LONG(ROW * k)) for k in range(5)]
    gain, offset, low, high, filling = (load(builder, at, _DOUBLES) for at in ends)
    value = load(builder, values, _DOUBLES)
    made = builder.fadd(builder.fmul(value, gain), offset)
    made = builder.select(builder.fcmp_ordered("<", made, low), low, made)
    made = builder.select(builder.fcmp_ordered(">", made, high), high, made)
    missing = builder.fcmp_unordered("uno", value, value)
    store(builder, builder.select(missing, filling, made), values)


@in_llvm(types.void(*[ADDRESS] * 3))
def add_products(builder: Any, values: Any, weights: Any, sums: Any) -> None:
    """Add the products of sixteen values and weights to sixteen sums, in place."""
    value, weight, total = (
        load(builder, at, _DOUBLES) for at in (values, weights, sums)
    )
    store(builder, builder.fadd(total, builder.fmul(value, weight)), sums)


@in_llvm(types.float64(ADDRESS))
def add_up(builder: Any, sums: Any) -> Any:
    """Return the total of sixteen sums, by repeatedly adding one half to the other."""
    left, count = load(builder, sums, _DOUBLES), LANES
    while count > 1:
        count //= 2
        word = ir.VectorType(ir.IntType(32), count)
        halves = [
            builder.shuffle_vector(
                left,
                ir.Constant(left.type, ir.Undefined),
                ir.Constant(word, [ir.IntType(32)(first + k) for k in range(count)]),
            )
            for first in (0, count)
        ]
        left = builder.fadd(*halves)
    return builder.extract_element(left, ir.IntType(32)(0))


@in_llvm(types.int32(ADDRESS))
def largest(builder: Any, peaks: Any) -> Any:
    """Return the largest of the sixteen magnitudes at the address `peaks`."""
    kept = load(builder, peaks, _WORDS)
    most = builder.extract_element(kept, ir.IntType(32)(0))
    for k in range(1, LANES):
        other = builder.extract_element(kept, ir.IntType(32)(k))
        most = builder.select(builder.icmp_signed(">", other, most), other, most)
    return most
