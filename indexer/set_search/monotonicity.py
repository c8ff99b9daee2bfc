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
    """Pairs of a trained set and a superset of it that is less accurate."""

    pairs: int  # Number of compared pairs
    # (RESOLUTION + 1,) int64: Number of violations by loss of accuracy, in steps of
    # 1 / RESOLUTION, rounded up
    histogram: NDArray[np.int64]
    largest: float  # Largest loss of accuracy, 0 without a violation

    @property
    def count(self) -> int:
        """Number of pairs in which the superset is less accurate."""
        return int(self.histogram.sum())

    def facts(self) -> dict[str, int | float]:
        """Return plain data of the violations, to be stored in an index."""
        return {
            "pairs": self.pairs,
            "count": self.count,
            "p95": self.quantile(0.95),
            "largest": self.largest,
        }

    def quantile(self, share: float) -> float:
        """Return the quantile at `share`, in [0, 1], of the violations' losses.

        The quantile is 0 if there are no violations.
        """
        counts = np.cumsum(self.histogram)
        if counts[-1] == 0:
            return 0.0
        step = int(np.searchsorted(counts, share * counts[-1]))
        return min(step / RESOLUTION, self.largest)


def measure_violations(
    masks: NDArray[np.uint64], accuracies: NDArray[np.float64]
) -> Violations:
    """Compare trained sets with their trained subsets, and count violations.

    `masks` (E,) are the trained sets, and `accuracies` (E,) their accuracies. If there
    are more than `MOST_TESTS` pairs to compare, only every n-th set is compared with
    its subsets.
    """
    stride = max(1, math.ceil(masks.size * masks.size / MOST_TESTS))
    histogram = np.zeros(RESOLUTION + 1, np.int64)
    pairs, largest = kernels.count_violations(masks, accuracies, stride, histogram)
    return Violations(pairs, histogram, largest)
