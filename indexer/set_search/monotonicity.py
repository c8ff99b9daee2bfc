"""How far accuracy was from growing with the feature set (ICSP, appendix)."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .kernels import sandwich as kernels

MOST_TESTS = 500_000_000  # pairs looked at; of more sets only every n-th is compared
RESOLUTION = 10_000  # of the losses of accuracy that are counted


@dataclass(frozen=True, slots=True, eq=False)
class Violations:
    """How often a trained set was less accurate than one of its trained subsets.

    The measurement of ICSP's appendix, figures (a) and (b).

    Attributes
    ----------
    pairs : (m + 1,) int64
        Comparable pairs looked at, by distance (features the larger set has more).
    histogram : (m + 1, RESOLUTION + 1) int64
        Violations by distance and by loss of accuracy in steps of 1 / RESOLUTION,
        rounded up.
    largest : (m + 1,) float64
        Largest loss by distance, 0 where there is none.
    complete : bool
        Whether all pairs were looked at, or only those of every n-th larger set.
    """

    pairs: NDArray[np.int64]
    histogram: NDArray[np.int64]
    largest: NDArray[np.float64]
    complete: bool

    @property
    def count(self) -> int:
        """Number of pairs in which the larger set was less accurate."""
        return int(self.histogram.sum())

    @property
    def tolerance(self) -> float:
        """The tolerance that would have covered every violation."""
        return float(self.largest.max())

    def quantile(self, share: float) -> float:
        """Loss that `share` of the violations do not exceed; 0 if there are none."""
        reached = np.cumsum(self.histogram.sum(axis=0))
        if reached[-1] == 0:
            return 0.0
        step = int(np.searchsorted(reached, share * reached[-1]))
        return min(step / RESOLUTION, float(np.max(self.largest)))


def measure_violations(
    m: int, masks: NDArray[np.uint64], accuracies: NDArray[np.float64]
) -> Violations:
    """Compare trained sets (E,) of m features with their trained subsets."""
    stride = max(1, math.ceil(masks.size * masks.size / MOST_TESTS))
    pairs = np.zeros(m + 1, np.int64)
    histogram = np.zeros((m + 1, RESOLUTION + 1), np.int64)
    largest = np.zeros(m + 1)
    kernels.count_violations(
        masks, accuracies, stride, RESOLUTION, pairs, histogram, largest
    )
    return Violations(pairs, histogram, largest, complete=stride == 1)
