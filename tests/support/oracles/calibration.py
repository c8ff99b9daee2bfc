"""Slow calibration, written from its definition."""

import numpy as np
from numpy.typing import NDArray

from polydom.models.scoring.calibration import Calibration

Floats = NDArray[np.float64]


def calibrated_slowly(
    calibration: Calibration, raw: Floats, scores: list[float], gain: float
) -> Floats:
    """Return calibrated class scores (K,) of one row, by its raw and class scores."""
    logs, limit, *rest = calibration.table.tolist()
    K = len(scores)
    with np.errstate(divide="ignore"):
        z = np.log(scores) if logs else gain * raw
    if K > 2:
        slope, *offsets = rest
        z = np.clip(z, -limit, limit)
        mapped = slope * z + np.array(offsets)
        power = np.exp(np.maximum(mapped - mapped.max(), -36.0))
        return np.array(power / power.sum())
    below, above, *knots = rest
    odds = float(z[0])
    if len(z) == 2:
        odds = 0.0 if z[0] == z[1] else float(z[1] - z[0])
    odds = min(max(odds, -limit), limit)
    x, y = np.array(knots).reshape(2, -1)
    if odds <= x[0]:
        mapped_odds = y[0] + below * (odds - x[0])
    elif odds >= x[-1]:
        mapped_odds = y[-1] + above * (odds - x[-1])
    else:
        mapped_odds = float(np.interp(odds, x, y))
    mapped_odds = min(max(mapped_odds, -36.0), 36.0)
    share = 1 / (1 + np.exp(-mapped_odds))
    return np.array([1 - share, share])
