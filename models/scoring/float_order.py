"""Integers in the order of floating-point values, and searches through all values."""

import struct
from collections.abc import Callable
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from .model import Floats


def turned(bits: NDArray[np.int32]) -> NDArray[np.int32]:
    """Map the bits of float32 values to integers that are ordered as the values are.

    The function is its own inverse: it also maps these integers back to bits.
    """
    made: NDArray[np.int32] = bits ^ ((bits >> 31) & np.int32(2**31 - 1))
    return made


# Places of -infinity and infinity in this order.
LEAST, MOST = turned(np.array([-np.inf, np.inf], np.float32).view(np.int32)).tolist()


def find_last(
    prepare: Callable[[NDArray[np.float32]], Floats], limits: Floats
) -> Floats:
    """Return, for each of d limits, the largest float32 x with `prepare(x) <= limit`.

    `prepare` maps an array (d,) element by element, and must be monotonic: a larger
    value never gives a smaller result. The result is NaN if `prepare` exceeds the limit
    even at -inf.
    """
    low, high = np.full(len(limits), LEAST - 1), np.full(len(limits), MOST)
    while (low < high).any():
        middle = (low + high + 1) // 2
        fits = prepare(_values_at(middle)) <= limits
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return np.where(low < LEAST, np.nan, _values_at(low).astype(np.float64))


def _values_at(places: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the float32 values that `turned` maps to the integers `places`."""
    return turned(np.maximum(places, LEAST).astype(np.int32)).view(np.float32)


def first_with(holds: Callable[[float], bool]) -> float:
    """Return the least float64 for which `holds` is true; NaN if it is for none.

    If `holds` is true for a number, it must be true for every larger one.
    """
    low, high = _place_of(-inf), _place_of(inf)
    while low < high:
        middle = (low + high) // 2
        if holds(_number_at(middle)):
            high = middle
        else:
            low = middle + 1
    found = _number_at(low)
    return found if holds(found) else nan


def _place_of(number: float) -> int:
    """Return the place of a float64 in the order of all float64 values."""
    bits: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return bits if bits >= 0 else -(bits & (2**63 - 1))


def _number_at(place: int) -> float:
    bits = place if place >= 0 else 2**63 - place
    (number,) = struct.unpack("<d", struct.pack("<Q", bits))
    return float(number)
