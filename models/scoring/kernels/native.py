"""What kernels need that numba does not offer: addresses, and vectors of LLVM.

Addresses. To hand an array over from Python costs a hundred nanoseconds, a number a
tenth of that. So what is packed for a kernel lies in arrays whose addresses, and
sizes, are the fields of one record (`AddressTable`), and the kernel takes the
address of the record: `table_at(address, TABLE)` reads it, and
`carray(pointer(table.field), shape, dtype)` each array. Nothing is checked on the way;
whoever packs is trusted.

Vectors. LLVM has vectors of any length, on any processor: it cuts them to what the
machine has. numba has none, so the steps that need them are written in LLVM's own
instructions. A function `in_llvm` is called by the compiler of each kernel that calls
it, and appends instructions to the kernel's block, one a call of `builder`. So Python
runs once, while a kernel is compiled: its `if` and `for` choose and repeat
instructions, they do not run with the kernel. Its arguments are LLVM's values, not
numbers; they have no sign, the instruction knows
(`icmp_signed`, `icmp_unsigned`). Loads and stores say what the address is a multiple
of, as LLVM would take the whole vector's size for it.

Two habits of llvmlite are worked around here. An instruction of a processor is a
function of the module that is declared once, under LLVM's name for it (`instruction`).
And `gep`, which counts places from an address on, believes that its result is one
pointer, though for a vector of places it is a vector of pointers; nothing is computed
from that belief but the text that LLVM reads, so the type of the finished value is put
right before it is used (`gather`).
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
    """Type of an array without gaps, of so many axes, that a kernel only reads."""
    return Array(kind, axes, "C", readonly=True)


ROW, ROWS = frozen(float32), frozen(float32, 2)
INTS, FLAGS, FLOATS = frozen(int64), frozen(boolean), frozen(float64)
FLOATS_2D, FLOATS_3D = frozen(float64, 2), frozen(float64, 3)


def in_llvm(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make a function for kernels of one that writes LLVM's instructions.

    Parameters
    ----------
    signature
        Numba's, or a function of the arguments' types that gives it.

    Returns
    -------
    A decorator, of functions of the builder and the arguments' values. They return
    the result's value, or None where there is no result.
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
    """Turn an address into a pointer."""
    return builder.inttoptr(address, BYTE.as_pointer())


@njit(inline="always")
def table_at(address: int, kind: Any) -> Any:
    """Read the record of a kind that begins at an address."""
    return carray(pointer(address), (1,), kind)[0]


@njit(inline="always")
def copy(source: Any, out: Any) -> None:
    """Copy one axis into another as long, or longer.

    To assign one array to another brings in all that numba knows of shapes and of
    their errors, whose compilation takes longer than most kernels'.
    """
    for k in range(source.shape[0]):
        out[k] = source[k]


@in_llvm(types.voidptr(types.int64))
def on_stack(builder: Any, count: Any) -> Any:
    """Reserve room for `count` int32 until the calling kernel returns."""
    return builder.bitcast(builder.alloca(INT, size=count), BYTE.as_pointer())


def entry(kernel: Any) -> Any:
    """Find the compiled function of a kernel with one signature.

    Its dispatcher would look at the types of the arguments; this takes them for what
    they must be. What is not compiled is its own.
    """
    if not isinstance(kernel, Kernel):
        return kernel
    kernel.compile_declared()
    return kernel.overloads[kernel.signatures[0]].entry_point


def constant(kind: Any, number: Any) -> Any:
    """Give a vector of one number known now."""
    return ir.Constant(kind, [kind.element(number)] * kind.count)


def spread(builder: Any, number: Any, kind: Any) -> Any:
    """Give a vector of one number known when the kernel runs."""
    none = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(none, number, INT(0))
    return builder.shuffle_vector(
        first, none, constant(ir.VectorType(INT, kind.count), 0)
    )


def load(builder: Any, address: Any, kind: Any, align: int = 1) -> Any:
    """Read a vector from an address, any or a multiple of `align` bytes."""
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = align
    return value


def store(builder: Any, value: Any, address: Any, align: int = 1) -> None:
    """Write a vector to an address, any or a multiple of `align` bytes."""
    place = builder.inttoptr(address, value.type.as_pointer())
    builder.store(value, place).align = align


def gather(builder: Any, start: Any, places: Any, kind: Any) -> Any:
    """Read the elements at `places`, below 2^32, from the address `start` on."""
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
    """Declare one of LLVM's functions; it is in the kernel's module once."""
    found = builder.module.globals.get(name)
    return found or ir.Function(builder.module, ir.FunctionType(result, kinds), name)
