"""Whole sums of base scores: one order of adding for whoever decides by them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .model import Floats

ROWS = 1024  # whose running sums are held at once


def whole_sums(scores: Floats, start: Floats | float = 0.0) -> Floats:
    """Add base scores (N, T) or (N, T, K) up one by one, as they stand: (N,) or (N, K).

    `start` is what each sum begins with, a number or (K,). NumPy's `sum` adds pairwise:
    it rounds differently, and so may decide differently at a threshold.
    """
    out = np.empty((len(scores), *scores.shape[2:]))
    for first in range(0, len(scores), ROWS):
        part: NDArray[Any] = scores[first : first + ROWS].astype(np.float64)
        part[:, 0] += start
        out[first : first + ROWS] = part.cumsum(axis=1)[:, -1]
    return out
