# mypy: disallow-untyped-decorators=False
"""The helpers of kernels, each in a kernel of its own."""

from typing import Any

import numpy as np
import pytest
from llvmlite import ir  # type: ignore[import-untyped]
from numba import carray, float64, int32, int64, types, uint64, void
from numba.extending import intrinsic

from polydom.models.scoring.address_table import LINE, aligned, lay_table
from polydom.models.scoring.kernels.cached_njit import ONE_ROW, njit
from polydom.models.scoring.kernels.native import (
    constant,
    entry,
    frozen,
    gather,
    instruction,
    load,
    on_stack,
    pointer,
    spread,
    store,
)

pytestmark = pytest.mark.jit
WIDE = 8
DOUBLES, INTS = (
    ir.VectorType(ir.DoubleType(), WIDE),
    ir.VectorType(ir.IntType(32), WIDE),
)
ADDRESS = types.uint64
KIND = np.dtype(
    [("first", "<u8"), ("second", "<u8"), ("count", "<i8"), ("share", "<f8")]
)


@intrinsic
def copy_vector(typing_context: Any, source: Any, out: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        store(builder, load(builder, arguments[0], DOUBLES), arguments[1])
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS), generate


@intrinsic
def fill_vectors(typing_context: Any, number: Any, out: Any) -> Any:
    """Write a number that is known now, then one that is not."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, out = arguments
        store(builder, constant(DOUBLES, 7.5), out)
        after = builder.add(out, ir.IntType(64)(8 * WIDE))
        store(builder, spread(builder, number, DOUBLES), after)
        return context.get_dummy_value()

    return types.void(types.float64, ADDRESS), generate


@intrinsic
def pick(typing_context: Any, source: Any, places: Any, out: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, places, out = arguments
        places = load(builder, places, INTS)
        store(builder, gather(builder, source, places, DOUBLES), out)
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS, ADDRESS), generate


@intrinsic
def round_twice(typing_context: Any, number: Any) -> Any:
    """Use one of LLVM's functions twice in a module."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        double, value = ir.DoubleType(), arguments[0]
        for _ in range(2):
            floor = instruction(builder, "llvm.floor.f64", double, double)
            value = builder.fadd(builder.call(floor, [value]), double(0.5))
        return value

    return types.float64(types.float64), generate


def at(array: Any) -> int:
    return int(array.ctypes.data)


def test_vectors_are_read_and_written_at_any_address() -> None:
    @njit(void(uint64, uint64))
    def copy(source: int, out: int) -> None:
        copy_vector(source, out)

    room, made = np.zeros(8 * WIDE + 1, np.uint8), np.zeros(WIDE)
    room[1:].view(np.uint8)[:] = np.arange(float(WIDE)).view(np.uint8)
    copy(at(room) + 1, at(made))
    np.testing.assert_array_equal(made, np.arange(WIDE))


def test_one_number_fills_a_vector() -> None:
    @njit(void(float64, uint64))
    def fill(number: float, out: int) -> None:
        fill_vectors(number, out)

    made = np.zeros((2, WIDE))
    fill(-0.25, at(made))
    np.testing.assert_array_equal(made, np.repeat([[7.5], [-0.25]], WIDE, axis=1))


def test_elements_are_gathered_from_their_places() -> None:
    @njit(void(uint64, uint64, uint64))
    def take(source: int, places: int, out: int) -> None:
        pick(source, places, out)

    values = np.random.default_rng(0).normal(size=100)
    places, made = np.array([0, 99, 3, 3, 50, 1, 98, 7], np.int32), np.zeros(WIDE)
    take(at(values), at(places), at(made))
    np.testing.assert_array_equal(made, values[places])


def test_an_instruction_is_declared_once_a_module() -> None:
    @njit(float64(float64))
    def rounded(number: float) -> Any:
        return round_twice(number)

    assert rounded(-2.75) == -2.5


def test_room_on_the_stack_is_a_call_s_own() -> None:
    @njit(int64(int64))
    def add_up(count: int) -> int:
        room = carray(on_stack(count), (count,), np.int32)
        for i in range(count):
            room[i] = i
        total = 0
        for i in range(count):
            total += room[i]
        return total

    assert [add_up(n) for n in (1, 5, 1000, 5)] == [0, 10, 499500, 10]


def test_a_table_says_where_arrays_are() -> None:
    @njit(float64(uint64))
    def read(address: int) -> Any:
        table = carray(pointer(address), (1,), KIND)[0]
        first = carray(pointer(table.first), (table.count,), np.float64)
        second = carray(pointer(table.second), (table.count,), np.int32)
        return first[-1] * table.share + second[1]

    first, second = np.array([1.0, 2.0, 8.0]), np.array([4, 5, 6], np.int32)
    table = lay_table(KIND, {"first": first, "second": second}, count=3, share=0.5)
    assert read(table.address) == 9.0
    first[:] = 0.0  # it has copies
    assert read(table.address) == 9.0


@pytest.mark.parametrize("shape", [(3,), (5, 7)])
def test_copies_begin_a_cache_line(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape)[::-1]
    made = aligned(array)
    np.testing.assert_array_equal(made, array)
    assert at(made) % LINE == 0
    assert made.flags.c_contiguous


def test_an_entry_takes_what_its_dispatcher_does() -> None:
    @njit(int64(frozen(int32), int64), **ONE_ROW)
    def count(array: Any, start: int) -> int:
        return start + int(array.shape[0])

    numbers = np.arange(3, dtype=np.int32)
    assert entry(count)(numbers, 4) == count(numbers, 4) == 7
    assert entry(len) is len
