"""Costs as polynomials of a size, which is one number or two.

The coefficients of a polynomial in one number n are in the order 1, n, n^2, ... In two
numbers (a, b), the order is 1, a, b, a^2, ab, b^2, ...: by total degree, then by
falling power of a. So terms of a lower degree always come first.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import ArrayLike, NDArray

from ..sizes import Size

Floats = NDArray[np.float64]


def count_terms(degree: int, variables: int) -> int:
    """Return the number of coefficients of a polynomial in one or two `variables`."""
    return math.comb(degree + variables, variables)


def degree_of(terms: int, variables: int) -> int:
    """Return the degree of a polynomial with `terms` coefficients.

    The result is -1 if no polynomial in `variables` numbers has that many.
    """
    if variables == 1:
        return terms - 1
    # the inverse of (degree + 1) (degree + 2) / 2 terms
    degree = (math.isqrt(8 * terms + 1) - 3) // 2
    return degree if count_terms(degree, 2) == terms else -1


def exponents(degree: int) -> NDArray[np.int64]:
    """Return the powers (T, 2) of a and b in each term of a polynomial in a and b."""
    return np.array(
        [(total - j, j) for total in range(degree + 1) for j in range(total + 1)],
        np.int64,
    )


def monomials(sizes: ArrayLike, terms: int) -> Floats:
    """Return the values (M, terms) of the first `terms` monomials at M sizes."""
    points = np.asarray(sizes, np.float64)
    if points.ndim == 1:
        powers: Floats = points[:, np.newaxis] ** np.arange(terms)
        return powers
    of_a, of_b = exponents(degree_of(terms, 2)).T
    products: Floats = points[:, :1] ** of_a * points[:, 1:] ** of_b
    return products


def cost_at(coefficients: Sequence[float], size: Size) -> float:
    """Return the value of a polynomial at one size.

    The compiled look-up repeats this arithmetic, with the same result to the last bit.
    If no coefficient is negative, the value never falls as a size grows, in spite of
    rounding.
    """
    if isinstance(size, tuple):
        return _cost_at_pair(coefficients, *size)
    cost = 0.0
    for coefficient in reversed(coefficients):
        cost = cost * size + coefficient
    return cost


def _cost_at_pair(coefficients: Sequence[float], a: float, b: float) -> float:
    """Return the value of a polynomial at (a, b), summed degree by degree."""
    cost, first, degree = coefficients[0], 1, 1
    while first < len(coefficients):
        part, power = 0.0, 1.0
        for coefficient in coefficients[first : first + degree + 1]:
            part = part * a + coefficient * power
            power *= b
        cost += part
        first += degree + 1
        degree += 1
    return cost


def values_at(coefficients: Floats, sizes: ArrayLike) -> Floats:
    """Return the values (M,) of a polynomial at many sizes.

    The last bits may differ from the results of `cost_at`.
    """
    points = np.asarray(sizes, np.float64)
    if points.ndim == 1:
        return np.asarray(polyval(points, coefficients), np.float64)
    return np.asarray(monomials(points, len(coefficients)) @ coefficients)


def costs_at(coefficients: Floats, size: Size) -> Floats:
    """Return the values (...,) of polynomials at one size.

    `coefficients` (..., terms) has the coefficients of each polynomial in its last
    axis.
    """
    values: Floats = coefficients @ monomials([size], coefficients.shape[-1])[0]
    return values
