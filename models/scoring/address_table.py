"""What is packed for kernels, and stays where it is."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

LINE = 64  # bytes, the width of a cache line and of the widest vectors


class NotCopied:
    """Arrays that kernels find by their addresses, or read without checking them.

    A copy would hold the addresses of the original, which may be gone. So models copy
    and pickle the arrays they are made of, check them, and pack them anew.
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
    """Where a kernel finds its arrays, by one address.

    Attributes
    ----------
    record : (1,) structured
        What the kernel reads: addresses of arrays, and numbers.
    arrays
        What the addresses point at, by field.
    address
        Of the record.
    """

    record: NDArray[np.void]
    arrays: dict[str, NDArray[Any]]
    address: int


def lay_table(
    kind: np.dtype[Any], arrays: Mapping[str, NDArray[Any]], **numbers: float
) -> AddressTable:
    """Fill a record of a kind with the addresses of `arrays`, and with `numbers`.

    Arrays are copied; each begins a cache line.
    """
    record = np.zeros(1, kind)
    kept = {name: aligned(array) for name, array in arrays.items()}
    for name, array in kept.items():
        record[name] = array.ctypes.data
    for name, number in numbers.items():
        record[name] = number
    return AddressTable(record, kept, record.ctypes.data)


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """Copy to the beginning of a cache line, so that no vector lies across two."""
    made = aligned_room(array.shape, array.dtype)
    made[...] = array
    return made


def aligned_room(shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """Make an array that is not filled and begins a cache line."""
    size = math.prod(shape) * np.dtype(kind).itemsize
    room = np.empty(size + LINE, np.uint8)
    first = -room.ctypes.data % LINE
    made: NDArray[Any] = room[first : first + size].view(kind).reshape(shape)
    return made
