"""Thresholds of prepared inputs, found again among the values of full rows."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .float_order import turned
from .kernels.preparation import AFFINES, BINARISE, GAIN, SCALE
from .model import Floats
from .preparation import Preparation

# Numbers of the least and the largest float32, which are infinite, in their order.
LEAST, MOST = turned(np.array([-np.inf, np.inf], np.float32).view(np.int32)).tolist()


def ascends(preparation: Preparation) -> bool:
    """Say whether no larger value of a column becomes a smaller input."""
    affine = np.isin(preparation.operations, AFFINES)
    slopes = preparation.table[affine][:, [SCALE, GAIN]]
    known = affine | (preparation.operations == BINARISE)
    return bool(known.all() and (slopes > 0).all())


def find_last(
    prepare: Callable[[NDArray[np.float32]], Floats], limits: Floats
) -> Floats:
    """Find the largest float32 values (d,) that become no more than limits (d,).

    `prepare` makes inputs (d,) of values (d,), each ascending with its own. NaN where
    -inf already becomes more.
    """
    low, high = np.full(len(limits), LEAST - 1), np.full(len(limits), MOST)
    while (low < high).any():
        middle = (low + high + 1) // 2
        fits = prepare(_numbered(middle)) <= limits
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return np.where(low < LEAST, np.nan, _numbered(low).astype(np.float64))


def _numbered(places: NDArray[np.int64]) -> NDArray[np.float32]:
    """Give the float32 values at places of their order, from the least on."""
    return turned(np.maximum(places, LEAST).astype(np.int32)).view(np.float32)
