"""Instructions of AVX-512 with VBMI, as steps of the kernels in `simd.py`.

Intel has them from Ice Lake on, AMD from Zen 4 on. Where a processor lacks them, or
numba may not use them, `VECTORS` is false and nothing here may be compiled. Addresses
are trusted, and are multiples of 64 unless something else is said.
"""

from typing import Any

from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import config, types
from numba.extending import intrinsic

from ...scoring.kernels.cached_njit import COMPILED
from ...scoring.kernels.native import constant, instruction, load, spread, store
from ..keys import HIGHEST, INFINITE, NO_ZERO, TINY

LANES = 64  # bytes of a vector
STEP = 16  # numbers of 32 bits in a vector
MOST_DEPTH = 8  # a leaf's place in its tree is a byte


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

_BIT, _I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
_BYTES, _WORDS = ir.VectorType(_I8, LANES), ir.VectorType(_I32, STEP)
_LONGS = ir.VectorType(_I64, 8)
ADDRESS = types.uint64


@intrinsic
def room(typing_context: Any, count: Any) -> Any:
    """Reserve `count` vectors of 64 bytes until the calling kernel returns: address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors = builder.alloca(_BYTES, size=arguments[0])
        vectors.align = 64
        return builder.ptrtoint(vectors, _I64)

    return types.uint64(types.int64), generate


@intrinsic
def write_keys(
    typing_context: Any, row: Any, columns: Any, lacking: Any, zeros: Any, out: Any
) -> Any:
    """Write the keys of 16 slots: `packed.read_keys`, all at once.

    `row` is the address of a row of float32, wherever; the others are those of 16 int32
    each.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, columns, lacking, zeros, out = arguments
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
        return context.get_dummy_value()

    return types.void(*[ADDRESS] * 5), generate


@intrinsic
def count_below(typing_context: Any, key: Any, cuts: Any) -> Any:
    """How many of the 16 int32 at an address are less than a key."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        key, address = arguments
        cuts = load(builder, address, _WORDS, LANES)
        below = builder.icmp_signed("<", cuts, spread(builder, key, _WORDS))
        count = builder.ctpop(builder.bitcast(below, _I16))
        return builder.zext(count, _I64)

    return types.int64(types.int32, ADDRESS), generate


@intrinsic
def write_vector(typing_context: Any, out: Any, first: Any, second: Any) -> Any:
    """Write 16 bytes, and 48 zeros beyond them.

    A vector that is read where parts of it have just been written waits until they
    are in the cache; one that was written as a whole is handed on.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, first, second = arguments
        vector = builder.insert_element(constant(_LONGS, 0), first, _I32(0))
        store(builder, builder.insert_element(vector, second, _I32(1)), out, LANES)
        return context.get_dummy_value()

    return types.void(ADDRESS, types.uint64, types.uint64), generate


def _descend(builder: Any, codes: Any, tests: Any, depth: int) -> Any:
    """Places (64 bytes) of the leaves reached, for trees of this depth.

    Each answer halves the tests that may come next, of all levels below it: to choose
    between two takes no more than to make one, and need not wait for the latest answer
    but for the last choice.
    """
    name = "llvm.x86.avx512.permvar.qi.512"
    permute = instruction(builder, name, _BYTES, _BYTES, _BYTES)

    def choose(level: int, part: int) -> Any:
        """Slots, or limits, of the tests that the trees have come to."""
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
        return context.get_dummy_value()

    return types.void(types.int64, ADDRESS, ADDRESS, ADDRESS), generate
