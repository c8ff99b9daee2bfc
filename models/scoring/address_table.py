"""Tables of addresses, by which kernels find their arrays."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

LINE = 64  # bytes of a cache line, and of the widest vector


class NotCopied:
    """Base of objects with addresses of arrays: a copy might outlive the arrays."""

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
    """A record of numbers and array addresses; a kernel gets the record's address."""

    record: NDArray[np.void]  # (1,) structured: Addresses of arrays, and numbers
    arrays: dict[str, NDArray[Any]]  # Arrays whose addresses the record has, by field
    address: int  # Address of the record


def lay_table(
    kind: np.dtype[Any], arrays: Mapping[str, NDArray[Any]], **numbers: float
) -> AddressTable:
    """Fill a record with `numbers` and the addresses of aligned copies of `arrays`."""
    record = np.zeros(1, kind)
    kept = {name: aligned(array) for name, array in arrays.items()}
    for name, array in kept.items():
        record[name] = array.ctypes.data
    for name, number in numbers.items():
        record[name] = number
    return AddressTable(record, kept, record.ctypes.data)


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """Copy an array to the start of a cache line, so that no vector spans two lines."""
    made = aligned_empty(array.shape, array.dtype)
    made[...] = array
    return made


def aligned_empty(shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """Make an uninitialised array that begins a cache line."""
    size = math.prod(shape) * np.dtype(kind).itemsize
    memory = np.empty(size + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    made: NDArray[Any] = memory[first : first + size].view(kind).reshape(shape)
    return made
