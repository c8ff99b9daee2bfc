"""Memory for compiled kernels: aligned arrays, and a record of their addresses."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

LINE = 64  # bytes of a cache line, and of the widest vector


class NotCopied:
    """Base class of objects that hold addresses of arrays.

    Copying and pickling raise BadInput, because a copy might outlive the arrays.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce__(self) -> NoReturn:
        raise BadInput(
            f"{type(self).__name__} holds addresses of this process; copy or pickle "
            "the model that it was packed for"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AddressTable(NotCopied):
    """Arrays for compiled kernels, and a record with their addresses and some numbers.

    A kernel gets only the address of the record, which is a single integer.
    """

    record: NDArray[np.void]  # (1,) structured: Addresses of arrays, and numbers
    arrays: dict[str, NDArray[Any]]  # Arrays whose addresses the record has, by field
    address: int  # Address of the record


def lay_table(
    kind: np.dtype[Any], arrays: Mapping[str, NDArray[Any]], **numbers: float
) -> AddressTable:
    """Copy `arrays`; write the addresses of the copies, and `numbers`, into a record.

    `kind` is the structured dtype of the record, with a field for each array and
    number. The address of each copy is a multiple of 64 bytes, a cache line.
    """
    record = np.zeros(1, kind)
    kept = {name: aligned(array) for name, array in arrays.items()}
    for name, array in kept.items():
        record[name] = array.ctypes.data
    for name, number in numbers.items():
        record[name] = number
    return AddressTable(record, kept, record.ctypes.data)


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy whose address is a multiple of 64 bytes, a cache line."""
    made = aligned_empty(array.shape, array.dtype)
    made[...] = array
    return made


def aligned_empty(shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """Make an uninitialised array whose address is a multiple of 64 bytes."""
    size = math.prod(shape) * np.dtype(kind).itemsize
    memory = np.empty(size + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    made: NDArray[Any] = memory[first : first + size].view(kind).reshape(shape)
    return made
