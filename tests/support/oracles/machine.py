"""Slow twins of the speed of a machine."""

import math
from collections.abc import Sequence
from fractions import Fraction


def upper_median_by_counting(values: Sequence[float], confidence: float) -> float:
    """Largest of all, or the first in order with that few chances to be too low."""
    count = len(values)
    for rank in range(1, count):
        heads = [math.comb(count, k) for k in range(rank, count + 1)]
        if Fraction(sum(heads), 2**count) <= 1 - Fraction(confidence):
            return sorted(values)[rank - 1]
    return max(values)
