"""The early exit of Fan et al. (2002), row by row."""

import numpy as np
from numba import boolean, float64, int64, njit, void
from numba.core.types import Array
from numpy.typing import NDArray

FLOATS = Array(float64, 1, "C", readonly=True)
FLOATS_2D = Array(float64, 2, "C", readonly=True)
ROWS = Array(int64, 1, "C", readonly=True)
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}  # no fastmath: NaN


@njit(
    void(
        FLOATS_2D,
        ROWS,
        ROWS,
        ROWS,
        FLOATS,
        FLOATS,
        float64,
        float64,
        boolean[::1],
        int64[::1],
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
        if r == last:  # added as `models.sums` does
            total = 0.0
            for t in range(last):
                total += scores[i, t]
            decisions[i] = total >= threshold
        used[i] = min(r + 1, last)
