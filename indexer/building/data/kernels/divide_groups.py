"""Dividing groups of items into parts with similar shares of classes."""

import numpy as np
from numba import float64, int64, void
from numpy.typing import NDArray

from polydom.models.scoring.kernels.cached_njit import OPTIONS, njit
from polydom.models.scoring.kernels.native import FLOATS, INTS


@njit(
    void(INTS, INTS, INTS, INTS, FLOATS, float64[:, ::1], int64[::1], int64[::1]),
    **OPTIONS,
)
def divide_in_order(
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    classes: NDArray[np.int64],
    counts: NDArray[np.int64],
    weights: NDArray[np.float64],
    held: NDArray[np.float64],
    sizes: NDArray[np.int64],
    part_of: NDArray[np.int64],
) -> None:
    """Put each group into the part that has the fewest items of the group's classes.

    Groups are placed one after the other, in the given `order` (G,). Group g has
    `counts[j]` items of class `classes[j]`, for j from `starts[g]` to `starts[g + 1]`.
    When parts are compared, each item of class k has the weight `weights[k]`. If parts
    are equal, the part with fewer items in total is taken. The function fills three
    arrays: `held` (P, K), the number of items of each class in each part; `sizes` (P,),
    the number of items in each part; and `part_of` (G,), the part of each group. The
    caller passes `held` and `sizes` filled with zeros.
    """
    parts = held.shape[0]
    for place in range(order.shape[0]):
        group = order[place]
        best, least = 0, np.inf
        for part in range(parts):
            score = 0.0
            for j in range(starts[group], starts[group + 1]):
                k = classes[j]
                # half of the growth of a sum of squares, but for a term that all share
                score += weights[k] * counts[j] * held[part, k]
            if score < least or (score == least and sizes[part] < sizes[best]):
                best, least = part, score
        for j in range(starts[group], starts[group + 1]):
            held[best, classes[j]] += counts[j]
            sizes[best] += counts[j]
        part_of[group] = best
