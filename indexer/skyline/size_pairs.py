"""Prune candidates for item sizes of two numbers, such as width and height."""

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

DEEPEST = 12  # after so many halvings of a rectangle, an undecided candidate is kept


def prune_pairs(
    coefficients: Floats, accuracies: Floats, sizes: tuple[Pair, Pair]
) -> NDArray[np.int64]:
    """Return the rows of candidates that are not proven to be dominated, ascending.

    This is `prune` for sizes of two numbers. One candidate never costs more than
    another if the difference of their costs is nowhere negative. This is proven if no
    Bernstein coefficient of the difference in the rectangle `sizes` is negative. If
    some are, the rectangle is halved, up to `DEEPEST` times, and the test is repeated
    in each half.
    """
    check_pairs(coefficients, accuracies, sizes)
    order = by_accuracy(coefficients, accuracies, sizes)
    controls = control_values(coefficients[order], sizes)
    side = math.isqrt(controls.shape[1])
    return np.sort(order[undominated_pairs(controls, side, DEEPEST)])


def by_accuracy(
    coefficients: Floats, accuracies: Floats, sizes: tuple[Pair, Pair]
) -> NDArray[np.int64]:
    """Return the rows of all candidates, sorted by descending accuracy.

    Of equally accurate candidates, the one that costs less at the largest size comes
    first, then the one that costs less at the smallest size, then the smaller row.
    """
    costs = np.ascontiguousarray(coefficients)
    low_s, high_s = (pair_costs(costs, *size) for size in sizes)
    return np.lexsort([low_s, high_s, -accuracies])


def control_values(coefficients: Floats, sizes: tuple[Pair, Pair]) -> Floats:
    """Return the Bernstein coefficients (C, (d + 1) ** 2) of C cost polynomials.

    `coefficients` (C, T) have total degree d. At every size in the rectangle `sizes`, a
    polynomial is a weighted mean of its Bernstein coefficients. No term is negative, so
    the computation is free of cancellation.
    """
    degree = degree_of(coefficients.shape[1], 2)
    (low_a, low_b), (high_a, high_b) = sizes
    of_a, of_b = exponents(degree).T
    blossoms = (
        _blossoms(low_a, high_a, degree)[of_a][:, :, np.newaxis]
        * _blossoms(low_b, high_b, degree)[of_b][:, np.newaxis, :]
    )
    # Not by BLAS: it may compute unequal results for equal rows.
    flat = blossoms.reshape(len(of_a), -1)
    controls: Floats = np.einsum("ct,ts->cs", coefficients, flat)
    return controls


def _blossoms(low: float, high: float, degree: int) -> Floats:
    """Return the Bernstein coefficients of x ** p on [low, high], for all powers p.

    Row p of the result, for p = 0 ... `degree`, has coefficients i = 0 ... `degree`. To
    compute coefficient i, take i copies of `high` and `degree` - i copies of `low`. The
    coefficient is the product of p of these numbers, averaged over all choices of p.
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
    """Raise BadInput unless candidates and `sizes` are for sizes of two numbers."""
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
