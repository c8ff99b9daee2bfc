"""Whole numbers in the order of float32."""

import numpy as np
from numpy.typing import NDArray


def turned(bits: NDArray[np.int32]) -> NDArray[np.int32]:
    """Bits of float32 to whole numbers in their order, and these to bits.

    A float32's bits, read as int32, ascend with it from 0 on; with all but the sign
    turned over where it is negative they do below 0 too.
    """
    made: NDArray[np.int32] = bits ^ ((bits >> 31) & np.int32(2**31 - 1))
    return made
