"""Integers in the order of float32 values, and a search through all float32 values."""

from collections.abc import Callable

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
