"""Slow twins of look-ups of an index."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tests.support.oracles.costs import exact_pair_cost


def best_accuracy(
    coefficients: NDArray[np.float64],
    accuracies: Sequence[float],
    size: float,
    budget: float,
) -> float | None:
    """Try every candidate; the highest accuracy that is affordable, None if none is."""
    affordable = [
        accuracy
        for polynomial, accuracy in zip(coefficients, accuracies, strict=True)
        if np.polynomial.polynomial.polyval(size, polynomial) <= budget
    ]
    return max(affordable, default=None)


def most_accurate_pairs(
    coefficients: Sequence[Sequence[float]],
    accuracies: Sequence[float],
    size: tuple[float, float],
    budget: Fraction,
) -> float:
    """Try every candidate without rounding; the best accuracy that fits, else -1."""
    return max(
        (
            accuracy
            for polynomial, accuracy in zip(coefficients, accuracies, strict=True)
            if exact_pair_cost(polynomial, *size) <= budget
        ),
        default=-1.0,
    )


def pair_skyline(
    coefficients: Sequence[Sequence[float]],
    accuracies: Sequence[float],
    size: tuple[float, float],
) -> list[float]:
    """Accuracies of the skyline at one size: sort by exact cost, keep who excels."""
    costs = [exact_pair_cost(polynomial, *size) for polynomial in coefficients]
    skyline: list[float] = []
    for row in sorted(range(len(costs)), key=lambda r: (costs[r], -accuracies[r])):
        if not skyline or accuracies[row] > skyline[-1]:
            skyline.append(accuracies[row])
    return skyline
