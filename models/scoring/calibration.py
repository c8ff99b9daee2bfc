"""Calibration: a map from class scores to probabilities that hold on fresh items."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernels.calibration import (
    FIRST_KNOT,
    FIRST_OFFSET,
    calibrate_many,
    calibrate_one,
    share_by_odds,
    share_by_scores,
)
from .kernels.native import entry
from .model import Floats
from .stored_arrays import Stored

MOST_KNOTS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """A map from class scores to probabilities, fitted to items with known classes.

    For K > 2 classes, the calibrated score of class k is proportional to exp(slope *
    z[k] + offset[k]) (Guo et al., 2017: temperature and bias). For two classes, the
    calibrated log odds are a rising, piecewise linear function of the log odds z: one
    knot makes Platt's map or a slope for each side, more knots an isotonic one. With
    equal offsets, or with a knot that maps 0 to 0, the largest class score stays the
    largest. Here, z are the raw scores times the gain, or the logarithms of the class
    scores. A calibrated score is never 0 or 1.
    """

    # Table of the kernels, float64: its positions are in `kernels/calibration.py`
    table: Floats
    # Compiled kernels of one row: `calibrate_one`, and for two classes `share_by_odds`
    # and `share_by_scores`
    one: Any = field(init=False)
    by_odds: Any = field(init=False)
    by_scores: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "one", entry(calibrate_one))
        object.__setattr__(self, "by_odds", entry(share_by_odds))
        object.__setattr__(self, "by_scores", entry(share_by_scores))

    def __reduce__(self) -> tuple[Any, ...]:
        return Calibration, (self.table,)

    @property
    def logs(self) -> bool:
        """True if the map reads logarithms of class scores, False for raw scores."""
        return bool(self.table[0])

    def apply(self, raw: Floats, gain: float, scores: Floats) -> None:
        """Replace class scores (N, K) of rows by calibrated ones, in place.

        `raw` (N, R) are the rows' raw scores, and `gain` is their factor in the link.
        """
        calibrate_many(raw, gain, self.table, scores)

    def find_flaw(self, classes: int) -> str | None:
        """Describe what is wrong for a number of classes; None if nothing is."""
        table, fixed = self.table, FIRST_KNOT if classes == 2 else FIRST_OFFSET
        free = len(table) - fixed
        paired = 2 <= free <= 2 * MOST_KNOTS and free % 2 == 0
        if not (paired if classes == 2 else free == classes > 2):
            return f"a calibration of {len(table)} numbers is not for {classes} classes"
        logs, limit = table[:2]
        if logs not in (0, 1) or not limit > 0 or (logs and np.isinf(limit)):
            return "a calibration needs 0, or 1 and a finite limit above 0"
        slopes, knots = table[2:fixed], table[fixed:]
        if not (slopes > 0).all() or not np.isfinite(table[2:]).all():
            return "a calibration's slopes must be above 0, and its numbers finite"
        if classes == 2 and not (np.diff(knots.reshape(2, -1)) > 0).all():
            return "the knots of a calibration must rise"
        return None


def make_line(
    slope: float, offsets: NDArray[Any], *, logs: bool, limit: float = np.inf
) -> Calibration:
    """Make the map `slope` * z + `offsets` (K,) for the log score z of each class.

    `slope` is above 0. `logs` says what z is; see `Calibration`. Larger magnitudes of z
    count as `limit`; for logarithms it must be finite.
    """
    head = [float(logs), limit]
    if len(offsets) != 2:
        return Calibration(np.array([*head, slope, *offsets], np.float64))
    numbers = [*head, slope, slope, 0.0, offsets[1] - offsets[0]]
    return Calibration(np.array(numbers, np.float64))


def make_knots(
    knots: Floats, slopes: tuple[float, float], *, logs: bool, limit: float = np.inf
) -> Calibration:
    """Make a piecewise linear map of the log odds of two classes.

    `knots` (2, M) are ascending log odds and their calibrated log odds, which ascend,
    too. `slopes` are those below the first and above the last knot; both are above 0.
    """
    return Calibration(np.array([float(logs), limit, *slopes, *knots.ravel()]))


def load_calibration(stored: Stored) -> Calibration | None:
    """Read the calibration of a stored head, unchecked; None if there is none."""
    if "calibration" not in stored.arrays:
        return None
    return Calibration(stored.array("calibration", np.float64, (None,)))
