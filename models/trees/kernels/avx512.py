"""Steps of the vector kernels, made of AVX-512 instructions with VBMI.

If the processor lacks the instructions, or numba may not use them, `VECTORS` is False
and nothing in this module may be compiled. Addresses are multiples of 64 unless a
docstring says otherwise.
"""

from typing import Any

from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import config, types

from ...scoring.kernels.cached_njit import COMPILED
from ...scoring.kernels.native import (
    ADDRESS,
    constant,
    in_llvm,
    instruction,
    load,
    spread,
    store,
)
from ..keys import HIGHEST, INFINITE, NO_ZERO, TINY

LANES = 64  # bytes in a vector
STEP = 16  # numbers of 32 bits in a vector
MOST_DEPTH = 8  # because the place of a leaf is a byte
IN_REGISTERS = 64  # leaf values that fit into registers


def has_instructions() -> bool:
    """Return True if numba compiles for a processor with AVX-512 VBMI."""
    if not COMPILED or config.CPU_FEATURES is not None or not config.ENABLE_AVX:
        return False
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know this processor
        return False
    return all(features.get(name) for name in ("avx512bw", "avx512vbmi"))


VECTORS = has_instructions()

_BIT, _I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
_BYTES, _WORDS = ir.VectorType(_I8, LANES), ir.VectorType(_I32, STEP)
_LONGS, _DOUBLES = ir.VectorType(_I64, 8), ir.VectorType(ir.DoubleType(), 8)
_EIGHT = ir.VectorType(_I8, 8)


@in_llvm(types.uint64(types.int64))
def reserve(builder: Any, count: Any) -> Any:
    """Reserve `count` vectors of 64 bytes on the stack of the calling kernel.

    Returns their address.
    """
    vectors = builder.alloca(_BYTES, size=count)
    vectors.align = 64
    return builder.ptrtoint(vectors, _I64)


@in_llvm(types.void(*[ADDRESS] * 5))
def write_keys(
    builder: Any, row: Any, columns: Any, lacking: Any, zeros: Any, out: Any
) -> None:
    """Write the keys (see `trees/keys.py`) of a row's inputs in 16 slots to `out`.

    All arguments are addresses; only `row` may be unaligned. `columns`, `lacking` and
    `zeros` are those of the 16 slots, as in `Slots`. `one_row.read_keys` does the same
    without vectors.
    """
    some, base = ir.VectorType(_BIT, STEP), _I8.as_pointer()
    name = "llvm.x86.avx512.mask.gather.dpi.512"
    kinds = [_WORDS, base, _WORDS, some, _I32]
    gather = instruction(builder, name, _WORDS, *kinds)
    columns = load(builder, columns, _WORDS, LANES)
    row, width = builder.inttoptr(row, base), _I32(4)
    none, every = constant(_WORDS, 0), constant(some, 1)
    value = builder.call(gather, [none, row, columns, every, width])
    positive = constant(_WORDS, HIGHEST)
    magnitude = builder.and_(value, positive)
    below = builder.ashr(value, constant(_WORDS, 31))
    key = builder.xor(value, builder.and_(below, positive))
    zeros = load(builder, zeros, _WORDS, LANES)
    kept = builder.icmp_signed("==", zeros, constant(_WORDS, NO_ZERO))
    large = builder.icmp_signed(">", magnitude, constant(_WORDS, TINY))
    key = builder.select(builder.or_(kept, large), key, zeros)
    is_nan = builder.icmp_signed(">", magnitude, constant(_WORDS, INFINITE))
    key = builder.select(is_nan, load(builder, lacking, _WORDS, LANES), key)
    store(builder, key, out, LANES)


@in_llvm(types.int64(types.int32, ADDRESS))
def count_below(builder: Any, key: Any, address: Any) -> Any:
    """Return how many of the 16 int32 numbers at an address are less than `key`."""
    cuts = load(builder, address, _WORDS, LANES)
    below = builder.icmp_signed("<", cuts, spread(builder, key, _WORDS))
    count = builder.ctpop(builder.bitcast(below, _I16))
    return builder.zext(count, _I64)


@in_llvm(types.void(ADDRESS, types.uint64, types.uint64))
def write_vector(builder: Any, out: Any, first: Any, second: Any) -> None:
    """Write `first` and `second` (8 bytes each), then 48 zeros, in one instruction.

    Two smaller writes would delay the next read of the vector.
    """
    vector = builder.insert_element(constant(_LONGS, 0), first, _I32(0))
    store(builder, builder.insert_element(vector, second, _I32(1)), out, LANES)


def _descend(builder: Any, codes: Any, tests: Any, depth: int) -> Any:
    """Return a vector: the index of the leaf that a row reaches in each of 64 trees.

    The trees are complete, and all have the depth `depth`.
    """
    name = "llvm.x86.avx512.permvar.qi.512"
    permute = instruction(builder, name, _BYTES, _BYTES, _BYTES)

    def choose(level: int, part: int) -> Any:
        """Return, for each tree, the slot (`part` 0) or the limit (1) of a test.

        The test is the one that the row reaches on `level`.
        """
        at = [2 * (test - 1) + part for test in range(1 << level, 2 << level)]
        left = [
            load(builder, builder.add(tests, _I64(LANES * i)), _BYTES, LANES)
            for i in at
        ]
        for right in rights:
            half = len(left) // 2
            pairs = zip(left[:half], left[half:], strict=True)
            left = [builder.select(right, b, a) for a, b in pairs]
        return left[0]

    rights: list[Any] = []
    place = constant(_BYTES, 0)
    for level in range(depth):
        slots, limits = choose(level, 0), choose(level, 1)
        right = builder.icmp_unsigned(
            ">", builder.call(permute, [codes, slots]), limits
        )
        further = builder.or_(place, constant(_BYTES, 1 << (depth - level - 1)))
        place = builder.select(right, further, place)
        rights.append(right)
    return place


@in_llvm(types.void(types.int64, ADDRESS, ADDRESS, ADDRESS))
def find_places(builder: Any, depth: Any, codes: Any, tests: Any, out: Any) -> None:
    """Write 64 bytes to `out`: the index of the leaf that a row reaches in each tree.

    `codes` is the address of the row's codes, a byte for each of 64 slots. `tests` is
    the address of the tests of 64 complete trees, in heap order. The tests at one place
    of this order take 128 bytes: first the slot to test in each tree, then the limit in
    each tree.
    """
    codes = load(builder, codes, _BYTES, LANES)
    end = builder.append_basic_block("end")
    choice = builder.switch(depth, end)
    for levels in range(MOST_DEPTH + 1):
        block = builder.append_basic_block(f"depth{levels}")
        choice.add_case(_I64(levels), block)
        builder.position_at_end(block)
        store(builder, _descend(builder, codes, tests, levels), out, LANES)
        builder.branch(end)
    builder.position_at_end(end)


def _adder(size: int) -> Any:
    """Make `add` for trees of at most `size` leaf values, which fit into registers."""

    @in_llvm(types.void(*[ADDRESS] * 3))
    def add(builder: Any, places: Any, values: Any, totals: Any) -> None:
        """Add `values[places[k]]` to `totals[k]`, for k from 0 to 63.

        The arguments are addresses: `places` of bytes, the others of float64.
        """
        if not VECTORS:  # without vectors nothing calls `add`
            return
        name = "llvm.x86.avx512.vpermi2var.pd.512"
        kinds = _DOUBLES, _LONGS, _DOUBLES
        pick = instruction(builder, name, _DOUBLES, *kinds)

        def read(address: Any, distance: int, kind: Any) -> Any:
            return load(builder, builder.add(address, _I64(distance)), kind)

        table = [read(values, 64 * k, _DOUBLES) for k in range(size // 8)]
        for first in range(0, LANES, 8):
            place = read(places, first, _EIGHT)
            low, bit = builder.zext(place, _LONGS), 16
            found = [
                builder.call(pick, [table[k], low, table[k + 1]])
                for k in range(0, len(table), 2)
            ]
            while len(found) > 1:
                own = builder.and_(place, constant(_EIGHT, bit))
                upper = builder.icmp_unsigned("!=", own, constant(_EIGHT, 0))
                halves = zip(found[::2], found[1::2], strict=True)
                found = [builder.select(upper, b, a) for a, b in halves]
                bit *= 2
            total = builder.add(totals, _I64(8 * first))
            sums = builder.fadd(load(builder, total, _DOUBLES), found[0])
            store(builder, sums, total)

    return add


add_of_half, add_of_all = _adder(IN_REGISTERS // 2), _adder(IN_REGISTERS)
