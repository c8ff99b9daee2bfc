"""Map float32 values to whole numbers of the same order, and search by bisection."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .model import Floats


def turned(bits: NDArray[np.int32]) -> NDArray[np.int32]:
    """Map the bits of float32 values to whole numbers in the order of the values.

    A second call maps the whole numbers back to the bits.
    """
    made: NDArray[np.int32] = bits ^ ((bits >> 31) & np.int32(2**31 - 1))
    return made


# Places of -infinity and infinity in this order.
LEAST, MOST = turned(np.array([-np.inf, np.inf], np.float32).view(np.int32)).tolist()


def find_last(
    prepare: Callable[[NDArray[np.float32]], Floats], limits: Floats
) -> Floats:
    """Find the largest float32 values (d,) that `prepare` maps to at most `limits`.

    `prepare` maps values (d,) to inputs (d,); a larger value must not give a smaller
    input. The result is NaN if `prepare` maps even -inf to more than the limit.
    """
    low, high = np.full(len(limits), LEAST - 1), np.full(len(limits), MOST)
    while (low < high).any():
        middle = (low + high + 1) // 2
        fits = prepare(_numbered(middle)) <= limits
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return np.where(low < LEAST, np.nan, _numbered(low).astype(np.float64))


def _numbered(places: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the float32 values at positions `places` in the order of all values."""
    return turned(np.maximum(places, LEAST).astype(np.int32)).view(np.float32)
