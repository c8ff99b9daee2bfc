"""Candidates whose sizes are of two numbers, and their costs over a rectangle."""

import math

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadInput
from ..features.polynomials import degree_of, exponents
from ..features.sizes import is_size
from ._cell_kernels import pair_costs
from .skyline import check_rows

Floats = NDArray[np.float64]
Pair = tuple[float, float]


def by_accuracy(
    coefficients: Floats, accuracies: Floats, sizes: tuple[Pair, Pair]
) -> NDArray[np.int64]:
    """Order candidates, the most accurate first; of equals the cheapest, then row."""
    low_s, high_s = np.empty(len(coefficients)), np.empty(len(coefficients))
    costs = np.ascontiguousarray(coefficients)
    pair_costs(costs, *sizes[0], low_s)
    pair_costs(costs, *sizes[1], high_s)
    return np.lexsort([low_s, high_s, -accuracies])


def control_values(coefficients: Floats, sizes: tuple[Pair, Pair]) -> Floats:
    """Bernstein coefficients (C, (d + 1) ** 2) of polynomials in a rectangle.

    A polynomial is a mean of them, weighted by its place, everywhere in it; the first
    and the last are its values at the smallest and the largest size. Nothing cancels
    in computing them, since nothing is negative.
    """
    degree = degree_of(coefficients.shape[1], 2)
    (low_a, low_b), (high_a, high_b) = sizes
    of_a, of_b = exponents(degree).T
    blossoms = (
        _blossoms(low_a, high_a, degree)[of_a][:, :, np.newaxis]
        * _blossoms(low_b, high_b, degree)[of_b][:, np.newaxis, :]
    )
    # Not by BLAS, which may give equal rows unequal results.
    flat = blossoms.reshape(len(of_a), -1)
    controls: Floats = np.einsum("ct,ts->cs", coefficients, flat)
    return controls


def _blossoms(low: float, high: float, degree: int) -> Floats:
    """Bernstein coefficients [p, i] of x ** p, p = 0 .. degree, between two numbers.

    The mean product of p of the numbers, of which i are `high` and the rest `low`.
    """
    values = np.empty((degree + 1, degree + 1))
    for p in range(degree + 1):
        for i in range(degree + 1):
            values[p, i] = math.fsum(
                math.comb(i, k)
                * math.comb(degree - i, p - k)
                * high**k
                * low ** (p - k)
                for k in range(max(0, p - degree + i), min(i, p) + 1)
            ) / math.comb(degree, p)
    return values


def check_pairs(
    coefficients: Floats, accuracies: Floats, sizes: tuple[Pair, Pair]
) -> None:
    """Refuse candidates that cannot be indexed by sizes of two numbers.

    Raises
    ------
    BadInput
        If shapes disagree, there is no candidate, a number is not finite, an accuracy
        is outside [0, 1], the sizes are no rectangle of numbers above 0, or a
        coefficient is negative.
    """
    if coefficients.ndim != 2 or accuracies.shape != coefficients.shape[:1]:
        raise BadInput(
            f"costs of shape {coefficients.shape} and accuracies of shape "
            f"{accuracies.shape}; (C, T) and (C,) are needed"
        )
    if len(coefficients) == 0 or degree_of(coefficients.shape[1], 2) < 0:
        raise BadInput(
            f"{len(coefficients)} candidates with {coefficients.shape[1]} coefficients "
            "came; at least one, with 1, 3, 6, 10 ... of them, is needed"
        )
    low, high = sizes
    if (
        not (is_size(low, 2) and is_size(high, 2))
        or low[0] > high[0]
        or low[1] > high[1]
    ):
        raise BadInput(
            f"sizes are {sizes!r}; the smallest and the largest of both numbers, "
            "above 0, are needed"
        )
    check_rows(np.asarray(np.isfinite(coefficients).all(axis=1)), "a cost not finite")
    inside = np.logical_and(accuracies >= 0, accuracies <= 1)
    check_rows(inside, "an accuracy outside [0, 1]")
    rising = np.asarray((coefficients >= 0).all(axis=1))
    check_rows(rising, "a negative coefficient, so that its cost might fall")
