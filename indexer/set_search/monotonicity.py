"""Count supersets that are less accurate than their subsets (ICSP, appendix)."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .kernels import sandwich as kernels

MOST_TESTS = 500_000_000  # with more pairs, only every n-th larger set is compared
RESOLUTION = 10_000  # steps of the histogram of losses, for losses from 0 to 1


@dataclass(frozen=True, slots=True, eq=False)
class Violations:
    """Pairs of a trained set and its superset in which the superset is less accurate.

    The distance of a pair is the number of features that only the superset has. The
    attributes are the numbers that ICSP's appendix shows in its figures (a) and (b).
    """

    pairs: NDArray[np.int64]  # (m + 1,) int64: Number of compared pairs, by distance
    # (m + 1, RESOLUTION + 1) int64: Number of violations, by distance and by loss of
    # accuracy in steps of 1 / RESOLUTION, rounded up
    histogram: NDArray[np.int64]
    # (m + 1,) float64: Largest loss of accuracy by distance, 0 without a violation
    largest: NDArray[np.float64]
    # True if all pairs were compared, False if only every n-th larger set was
    complete: bool

    @property
    def count(self) -> int:
        """Number of pairs in which the superset is less accurate."""
        return int(self.histogram.sum())

    @property
    def tolerance(self) -> float:
        """Largest loss of accuracy: the smallest tolerance that permits every loss."""
        return float(self.largest.max())

    def facts(self) -> dict[str, int | float]:
        """Return plain data of the violations, to be stored in an index."""
        return {
            "pairs": int(self.pairs.sum()),
            "count": self.count,
            "p95": self.quantile(0.95),
            "largest": self.tolerance,
        }

    def quantile(self, share: float) -> float:
        """Return the quantile at `share`, in [0, 1], of the violations' losses.

        The quantile is 0 if there are no violations.
        """
        counts = np.cumsum(self.histogram.sum(axis=0))
        if counts[-1] == 0:
            return 0.0
        step = int(np.searchsorted(counts, share * counts[-1]))
        return min(step / RESOLUTION, float(np.max(self.largest)))


def measure_violations(
    m: int, masks: NDArray[np.uint64], accuracies: NDArray[np.float64]
) -> Violations:
    """Compare trained sets with their trained subsets, and count violations.

    `masks` (E,) are the trained sets of m features, and `accuracies` (E,) their
    accuracies. If there are more than `MOST_TESTS` pairs to compare, only every n-th
    set is compared with its subsets.
    """
    stride = max(1, math.ceil(masks.size * masks.size / MOST_TESTS))
    pairs = np.zeros(m + 1, np.int64)
    histogram = np.zeros((m + 1, RESOLUTION + 1), np.int64)
    largest = np.zeros(m + 1)
    kernels.count_violations(
        masks, accuracies, stride, RESOLUTION, pairs, histogram, largest
    )
    return Violations(pairs, histogram, largest, complete=stride == 1)
