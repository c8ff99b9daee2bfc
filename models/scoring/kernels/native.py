"""What numba lacks for kernels: memory addresses, and LLVM's vector instructions.

*Addresses.* Passing an array from Python to a kernel takes a hundred nanoseconds;
passing a number takes ten. So the addresses and sizes of a kernel's arrays are in one
record (`AddressTable`), and the kernel gets only the address of the record.
`table_at(address, TABLE)` reads the record, and `carray(pointer(table.field), shape,
dtype)` reads an array. Nothing is checked.

*Vectors.* A function decorated with `in_llvm` runs while a kernel is compiled. Each
method of `builder` that it calls appends one LLVM instruction to the kernel. So an `if`
or `for` in the function decides which instructions are appended, and does not run in
the kernel. LLVM's integers have no sign: instead, there are signed and unsigned
instructions. Loads and stores must state the alignment of the address, as LLVM would
otherwise assume the size of the vector.
"""

import functools
from collections.abc import Callable
from inspect import isfunction
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import boolean, carray, float32, float64, int64, types
from numba.core.types import Array
from numba.extending import intrinsic

from .cached_njit import Kernel, njit

ADDRESS = types.uint64
INT, LONG, BYTE = ir.IntType(32), ir.IntType(64), ir.IntType(8)


def frozen(kind: Any, axes: int = 1) -> Any:
    """Return numba's type of read-only, contiguous arrays with `axes` dimensions."""
    return Array(kind, axes, "C", readonly=True)


ROW, ROWS = frozen(float32), frozen(float32, 2)
INTS, FLAGS, FLOATS = frozen(int64), frozen(boolean), frozen(float64)
FLOATS_2D, FLOATS_3D = frozen(float64, 2), frozen(float64, 3)


def in_llvm(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that lets kernels call a function that writes LLVM code.

    `signature` is a numba signature, or a function from the arguments' types to a
    signature. The decorated function gets a builder and the arguments as LLVM values.
    It returns an LLVM value, the result in the kernel, or None.
    """

    def decorate(write: Callable[..., Any]) -> Any:
        @functools.wraps(write)
        def typed(typing_context: Any, *kinds: Any) -> Any:
            def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
                made = write(builder, *values)
                return context.get_dummy_value() if made is None else made

            return signature(*kinds) if isfunction(signature) else signature, generate

        return intrinsic(typed)

    return decorate


@in_llvm(types.voidptr(ADDRESS))
def pointer(builder: Any, address: Any) -> Any:
    """Convert the address of an array, an integer, to a pointer for `carray`."""
    return builder.inttoptr(address, BYTE.as_pointer())


@njit(inline="always")
def table_at(address: int, kind: Any) -> Any:
    """Return the record of dtype `kind` that is stored at an address."""
    return carray(pointer(address), (1,), kind)[0]


@njit(inline="always")
def copy(source: Any, out: Any) -> None:
    """Copy `source` to `out` (both one-dimensional) by a loop, which compiles fast."""
    for k in range(source.shape[0]):
        out[k] = source[k]


@in_llvm(types.voidptr(types.int64))
def on_stack(builder: Any, count: Any) -> Any:
    """Reserve `count` int32 on the calling kernel's stack; return a pointer to them."""
    return builder.bitcast(builder.alloca(INT, size=count), BYTE.as_pointer())


def entry(kernel: Any) -> Any:
    """Return the compiled function of a kernel, compiling it first if necessary.

    The function does not check the types of its arguments. If `kernel` is not a
    `Kernel`, it is returned unchanged.
    """
    if not isinstance(kernel, Kernel):
        return kernel
    kernel.compile_declared()
    return kernel.overloads[kernel.signatures[0]].entry_point


def constant(kind: Any, number: Any) -> Any:
    """Return a constant LLVM vector of type `kind`, with `number` in each element."""
    return ir.Constant(kind, [kind.element(number)] * kind.count)


def spread(builder: Any, number: Any, kind: Any) -> Any:
    """Return an LLVM vector of type `kind`, with `number` in each element.

    Unlike in `constant`, `number` is an LLVM value, which the kernel computes.
    """
    none = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(none, number, INT(0))
    return builder.shuffle_vector(
        first, none, constant(ir.VectorType(INT, kind.count), 0)
    )


def load(builder: Any, address: Any, kind: Any, align: int = 1) -> Any:
    """Read a vector of type `kind` from an address, a multiple of `align` bytes."""
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = align
    return value


def store(builder: Any, value: Any, address: Any, align: int = 1) -> None:
    """Write a vector to an address that is a multiple of `align` bytes."""
    place = builder.inttoptr(address, value.type.as_pointer())
    builder.store(value, place).align = align


def gather(builder: Any, start: Any, places: Any, kind: Any) -> Any:
    """Return a vector of the elements at indices `places` of the array at `start`."""
    element, count = kind.element, kind.count
    wide = builder.zext(places, ir.VectorType(LONG, count))
    base = builder.inttoptr(start, element.as_pointer())
    at = builder.gep(base, [wide], source_etype=element)
    at.type = ir.VectorType(element.as_pointer(), count)
    every = constant(ir.VectorType(ir.IntType(1), count), 1)
    name = f"llvm.masked.gather.v{count}{element.intrinsic_name}.v{count}p0"
    read = instruction(builder, name, kind, at.type, INT, every.type, kind)
    return builder.call(read, [at, INT(4), every, ir.Constant(kind, ir.Undefined)])


def instruction(builder: Any, name: str, result: Any, *kinds: Any) -> Any:
    """Return LLVM's built-in function `name`; declare it in the kernel if necessary.

    `result` is the type of the function's result, `kinds` are the types of its
    arguments.
    """
    found = builder.module.globals.get(name)
    return found or ir.Function(builder.module, ir.FunctionType(result, kinds), name)
