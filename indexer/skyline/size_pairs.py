"""Candidates whose sizes are of two numbers, and their costs over a rectangle."""

import math

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.polynomials import degree_of, exponents
from polydom.features.errors import BadInput
from polydom.features.sizes import is_size

from .kernels.size_pairs import pair_costs, undominated_pairs
from .skylines import check_numbers, check_rows

Floats = NDArray[np.float64]
Pair = tuple[float, float]

DEEPEST = 12  # halvings of a rectangle after which a doubtful pair is kept


def prune_pairs(
    coefficients: Floats, accuracies: Floats, sizes: tuple[Pair, Pair]
) -> NDArray[np.int64]:
    """Keep the candidates that none dominates, and those in doubt: `prune` for pairs.

    One is dropped only where the difference of its cost and that of one candidate, at
    least as accurate, is proven not to be negative in the whole rectangle: by its
    Bernstein coefficients there, in halves, in halves of these, and so on to DEEPEST.
    Arguments and errors are those of `check_pairs`.
    """
    check_pairs(coefficients, accuracies, sizes)
    order = by_accuracy(coefficients, accuracies, sizes)
    controls = control_values(coefficients[order], sizes)
    side = math.isqrt(controls.shape[1])
    return np.sort(order[undominated_pairs(controls, side, DEEPEST)])


def by_accuracy(
    coefficients: Floats, accuracies: Floats, sizes: tuple[Pair, Pair]
) -> NDArray[np.int64]:
    """Order candidates, the most accurate first; of equals the cheapest, then row."""
    costs = np.ascontiguousarray(coefficients)
    low_s, high_s = (pair_costs(costs, *size) for size in sizes)
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

    Parameters
    ----------
    coefficients : (C, T)
        Cost polynomials in two numbers (features/costs/polynomials.py), none negative.
    accuracies : (C,)
        In [0, 1].
    sizes
        The smallest and the largest size, both numbers above 0.

    Raises
    ------
    BadInput
        If shapes disagree, there is no candidate, a number is not finite, an accuracy
        is outside [0, 1], the sizes are no rectangle of numbers above 0, or a
        coefficient is negative.
    """
    check_numbers(coefficients, accuracies, "T")
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
    rising = np.asarray((coefficients >= 0).all(axis=1))
    check_rows(rising, "a negative coefficient, so that its cost might fall")
