"""**Our reading of** P2-STOP (2026): stop when a score's increments hardly spread.

Known of it: stopping is "a nonparametric change-point problem on prediction
increments"; the interquartile range of the last w increments is watched, and the rule
"stops when a relative-scale criterion is met". Window, threshold and scale could not be
read. Here increments are |change of the mean vote| (forests, the largest over classes)
or |score| (boosting), and their range is compared with that of the first w, or with the
margin reached. It promises nothing about agreement.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Scale = Literal["first window", "margin"]

WINDOWS = (8, 16, 32)
SPREADS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of the scale
SCALES: tuple[Scale, ...] = ("first window", "margin")
TINY = 1e-12
BLOCK = 250  # rows at a time: windows take w times the memory


def vote_increments(counts: Codes) -> tuple[Floats, Floats]:
    """(increments, margins), (N, T) each, of the mean vote by class; (N, T, K) votes.

    The margin is that of the first class's share over the second's.
    """
    shares = counts / np.arange(1, counts.shape[1] + 1)[:, None]
    moves = np.abs(np.diff(shares, axis=1, prepend=0.0)).max(axis=2)
    best = np.sort(shares, axis=2)
    return moves, best[:, :, -1] - best[:, :, -2]


def score_increments(scores: Floats, bias: float) -> tuple[Floats, Floats]:
    """(increments, margins), (N, T) each, of one raw score; (N, T) of base models."""
    return np.abs(scores), np.abs(np.cumsum(scores, axis=1) + bias)


def spreads(increments: Floats, window: int) -> Floats:
    """Range between the quartiles of the last `window` increments: (N, T - w + 1)."""
    found = np.empty((len(increments), increments.shape[1] - window + 1))
    for start in range(0, len(increments), BLOCK):
        rows = slice(start, start + BLOCK)
        windows = np.lib.stride_tricks.sliding_window_view(
            increments[rows], window, axis=1
        )
        low, high = np.quantile(windows, [0.25, 0.75], axis=2)
        found[rows] = high - low
    return found


def stops(ranges: Floats, margins: Floats, scale: Scale, spread: float) -> Codes:
    """Count the base models (N,) until the range is `spread` of the scale.

    `ranges` are of `spreads`; at the earliest after two windows, so that the first and
    the last have no increment in common.
    """
    models = margins.shape[1]
    window = models - ranges.shape[1] + 1
    last = ranges[:, window:]  # ends after 2w, 2w + 1, ... base models
    against = ranges[:, :1] if scale == "first window" else margins[:, 2 * window - 1 :]
    small = last <= spread * np.maximum(against, TINY)
    small[:, -1] = True
    used: Codes = small.argmax(axis=1) + 2 * window
    return used
