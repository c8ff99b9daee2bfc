"""The early exit of Fan et al. (2002), row by row."""

import numpy as np
from numba import boolean, float64, int64, void
from numpy.typing import NDArray

from polydom.models.scoring.kernels.cached_njit import OPTIONS, njit
from polydom.models.scoring.kernels.native import FLOATS, FLOATS_2D, INTS

FLAGS_OUT, INTS_OUT = boolean[::1], int64[::1]


@njit(
    void(
        *(FLOATS_2D, INTS, INTS, INTS, FLOATS, FLOATS, float64, float64),
        *(FLAGS_OUT, INTS_OUT),
    ),
    **OPTIONS,
)
def walk_bins(
    scores: NDArray[np.float64],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    bins: NDArray[np.int64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    width: float,
    threshold: float,
    decisions: NDArray[np.bool_],
    used: NDArray[np.int64],
) -> None:
    """Evaluate each row early by its bin's thresholds; fill `decisions` and `used`.

    Position r's bins are the ascending `bins[starts[r]:starts[r + 1]]`, each with a
    `lower` and an `upper`; a sum in no known bin goes on.
    """
    last = order.shape[0]
    for i in range(scores.shape[0]):
        total = 0.0
        r = 0
        while r < last:
            total += scores[i, order[r]]
            wanted = np.rint(total / width)
            low = starts[r] + np.searchsorted(bins[starts[r] : starts[r + 1]], wanted)
            known = low < starts[r + 1] and bins[low] == wanted
            if known and (total < lower[low] or total > upper[low]):
                decisions[i] = total > upper[low]
                break
            r += 1
        if r == last:  # added as `models/scoring/whole_sums.py` does
            total = 0.0
            for t in range(last):
                total += scores[i, t]
            decisions[i] = total >= threshold
        used[i] = min(r + 1, last)
