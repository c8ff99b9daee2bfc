"""Slow twins of the costs of features."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import median

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.features.costs.polynomials import monomials
from polydom.features.sizes import Size

Floats = NDArray[np.float64]


def pinball_loss(errors: NDArray[np.float64], quantile: float) -> float:
    """Sum of q e where a time lies above the curve, (1 - q) |e| where below."""
    above, below = errors[errors > 0], errors[errors <= 0]
    return quantile * float(above.sum()) - (1 - quantile) * float(below.sum())


def least_pinball_loss(
    sizes: NDArray[np.float64],
    seconds: NDArray[np.float64],
    scale: NDArray[np.float64],
    quantile: float,
    degree: int,
) -> float:
    """Least loss of a polynomial without negative coefficients, by trying all corners.

    Some corner is best: as many times hit exactly as there are coefficients not zero.
    """
    design = sizes[:, np.newaxis] ** np.arange(degree + 1) / scale[:, np.newaxis]
    times = seconds / scale
    best = pinball_loss(times, quantile)
    for count in range(1, degree + 2):
        for powers in itertools.combinations(range(degree + 1), count):
            for hit in itertools.combinations(range(len(sizes)), count):
                part = design[np.ix_(hit, powers)]
                if np.linalg.matrix_rank(part) == count:
                    found = np.linalg.solve(part, times[list(hit)])
                    if (found >= 0).all():
                        errors = times - design[:, powers] @ found
                        best = min(best, pinball_loss(errors, quantile))
    return best


def cost_of_set(
    features: Sequence[Sequence[float]],
    steps: Sequence[Sequence[float]],
    needs: Sequence[Sequence[int]],
    overhead: Sequence[float],
    chosen: Sequence[int],
) -> list[float]:
    """Add up the overhead, a set's features, and every step that one of them needs."""
    total = list(overhead)
    used = sorted({step for feature in chosen for step in needs[feature]})
    for row in [features[k] for k in sorted(chosen)] + [steps[k] for k in used]:
        total = [a + b for a, b in zip(total, row, strict=True)]
    return total


def feature_seconds(costs: CostTable, order: Sequence[int], size: Size) -> Floats:
    """Seconds that each feature adds when computed in this order on this size.

    A step is paid by the first feature that needs it; the overhead by none.
    """
    powers = monomials([size], len(costs.overhead))[0]
    paid: set[int] = set()
    seconds = np.empty(len(order))
    for place, position in enumerate(order):
        fresh = [step for step in costs.needs[position] if step not in paid]
        paid.update(fresh)
        own = costs.feature_coefficients[position]
        seconds[place] = (own + costs.step_coefficients[fresh].sum(axis=0)) @ powers
    return seconds


def exact_pair_cost(coefficients: Sequence[float], a: float, b: float) -> Fraction:
    """Cost in two numbers without rounding, term by term: 1, a, b, a^2, ab, b^2 ..."""
    cost, degree, left = Fraction(0), 0, list(coefficients)
    while left:
        for j in range(degree + 1):
            term = Fraction(a) ** (degree - j) * Fraction(b) ** j
            cost += Fraction(left.pop(0)) * term
        degree += 1
    return cost


def outliers(
    seconds: Sequence[float],
    usual_s: Sequence[float],
    quantile: float,
    items: Sequence[int] | None,
) -> list[bool]:
    """Each time against the ordered ratios of all to what their items take."""
    if max(seconds) <= 0:
        return [False] * len(seconds)
    ratios = []
    for place, (took, usually) in enumerate(zip(seconds, usual_s, strict=True)):
        level = max(usually, 1e-9 * max(seconds))
        if items is not None:
            own = [
                s
                for s, item in zip(seconds, items, strict=True)
                if item == items[place]
            ]
            if len(own) >= 3:
                level = max(level, median(own))
        ratios.append(took / level)
    share = max(0.5, 1 - 4 * (1 - quantile))
    most = sorted(ratios)[math.floor(share * (len(ratios) - 1))]
    return [ratio > 4 * max(most, 1) for ratio in ratios]
