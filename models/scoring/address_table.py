"""Records of the addresses of arrays, through which kernels read the arrays."""

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
    """A record of numbers and of arrays' addresses.

    A kernel gets only the address of the record.
    """

    record: NDArray[np.void]  # (1,) structured: Addresses of arrays, and numbers
    arrays: dict[str, NDArray[Any]]  # Arrays whose addresses the record has, by field
    address: int  # Address of the record


def lay_table(
    kind: np.dtype[Any], arrays: Mapping[str, NDArray[Any]], **numbers: float
) -> AddressTable:
    """Copy `arrays`, and put the addresses of the copies into a record with `numbers`.

    Each copy begins at a cache line. `kind` is the structured type of the record.
    """
    record = np.zeros(1, kind)
    kept = {name: aligned(array) for name, array in arrays.items()}
    for name, array in kept.items():
        record[name] = array.ctypes.data
    for name, number in numbers.items():
        record[name] = number
    return AddressTable(record, kept, record.ctypes.data)


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy that begins at a cache line, so that no vector spans two lines."""
    made = aligned_empty(array.shape, array.dtype)
    made[...] = array
    return made


def aligned_empty(shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """Make an uninitialised array that begins at a cache line."""
    size = math.prod(shape) * np.dtype(kind).itemsize
    memory = np.empty(size + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    made: NDArray[Any] = memory[first : first + size].view(kind).reshape(shape)
    return made
