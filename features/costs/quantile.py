"""Quantile regression: polynomials of sizes, fitted to a quantile of times.

Sizes have shape (M,), or (M, 2) if a size is two numbers. Coefficients are in the order
of `polynomials.py`, and none is negative. docs/explanation/cost-curves.md explains the
loss, and the linear program that minimises it.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from ..sizes import split_near
from .outliers import outliers_belong, outliers_of, quantile_of_others
from .polynomials import count_terms, monomials, values_at

Floats = NDArray[np.float64]

FOLDS = 4  # parts of the times, each held out once to choose the degree
# The degree rises only if the held-out loss falls by more than this share.
CLOSE = 0.01
REWEIGHTINGS = 3  # number of fits; each divides errors by the curve before it
TINY = 1e-6  # least scale of a time's error, relative to the longest time
SMALLEST_S = 1e-12  # shorter times are zero: no clock tells them apart
USUAL_DEGREE = 3  # highest degree of the curve of usual times
# Highest quantile whose fit chooses the degree. Above a higher quantile lie too few
# times to tell the form of the curve.
SHAPED_BY = 0.9
# Up to this number of times, one linear program fits all folds and degrees: setting a
# program up takes longer than solving it.
FEW_TIMES = 1000


def fit_quantile(
    sizes: Floats,
    seconds: Floats,
    quantile: float,
    max_degree: int,
    seed: int,
    items: NDArray[np.int64] | None = None,
) -> Floats:
    """Return the coefficients (T,) of a curve through a quantile of times.

    See `CostCurve.fit`. The loss divides each error by the height of the curve, which
    is known only after a fit. So the fit is repeated `REWEIGHTINGS` times, each time
    with the heights of the previous curve.
    """
    if seconds.max() < SMALLEST_S:
        return np.zeros(1)
    outliers = outliers_of(seconds, usual_s(sizes, seconds), quantile, items)
    if not outliers_belong(count := int(outliers.sum()), len(seconds), quantile):
        # count the outliers as times above the curve, and fit without them
        covering = quantile_of_others(len(seconds), count, quantile)
        sizes, seconds = sizes[~outliers], seconds[~outliers]
        if seconds.max() < SMALLEST_S:
            return np.zeros(1)
    else:
        covering = quantile
    floor = TINY * float(seconds.max())
    scale = np.maximum(local_medians(sizes, seconds), floor)
    highest = highest_degree(sizes, max_degree)
    degree = choose_degree(
        sizes, seconds, scale, min(quantile, SHAPED_BY), highest, seed
    )
    for _ in range(REWEIGHTINGS):
        coefficients = minimise(sizes, seconds, scale, covering, degree)
        scale = np.maximum(values_at(coefficients, sizes), floor)
    return coefficients


def highest_degree(sizes: Floats, most: int) -> int:
    """Return the highest degree, up to `most`, that the sizes can determine."""
    distinct = len(np.unique(sizes, axis=0))
    return max(
        degree
        for degree in range(most + 1)
        if count_terms(degree, sizes.ndim) <= distinct
    )


def usual_s(sizes: Floats, seconds: Floats) -> Floats:
    """Fit a curve to the median times, and return its value (M,) at each size."""
    scale = np.maximum(local_medians(sizes, seconds), TINY * float(seconds.max()))
    if not scale.all():
        return seconds
    degree = highest_degree(sizes, USUAL_DEGREE)
    return values_at(minimise(sizes, seconds, scale, 0.5, degree), sizes)


def local_medians(sizes: Floats, seconds: Floats) -> Floats:
    """Return for each of M times the median of the times at similar sizes."""
    medians = np.empty_like(seconds)
    for near in split_near(sizes, int(np.clip(len(sizes) // 8, 1, 32))):
        medians[near] = np.median(seconds[near])
    return medians


def choose_degree(
    sizes: Floats,
    seconds: Floats,
    scale: Floats,
    quantile: float,
    highest: int,
    seed: int,
) -> int:
    """Return the lowest degree, up to `highest`, that predicts held-out times well.

    The best degree has the smallest held-out loss. A lower degree is preferred if its
    loss exceeds the smallest loss by no more than the standard error of the difference,
    or by no more than `CLOSE` times the smallest loss. If there are too few times to
    hold any out, the degree is at most 1.
    """
    if highest == 0 or len(sizes) < 2 * FOLDS:
        return min(highest, 1)
    fold = np.random.default_rng(seed).permutation(len(sizes)) % FOLDS
    losses = np.empty((highest + 1, len(sizes)))
    tries = [*itertools.product(range(FOLDS), range(highest + 1))]
    parts = [(fold != held, degree) for held, degree in tries]
    fitted = minimise_each(sizes, seconds, scale, quantile, parts)
    for (held, degree), coefficients in zip(tries, fitted, strict=True):
        out = fold == held
        error = (seconds[out] - values_at(coefficients, sizes[out])) / scale[out]
        losses[degree, out] = np.maximum(quantile * error, (quantile - 1) * error)
    means = losses.mean(axis=1)
    excess = losses - losses[np.argmin(means)]
    noise = excess.std(axis=1) / np.sqrt(len(sizes))
    close = excess.mean(axis=1) <= np.maximum(noise, CLOSE * means.min() + 1e-9)
    return int(np.argmax(close))


def minimise(
    sizes: Floats, seconds: Floats, scale: Floats, quantile: float, degree: int
) -> Floats:
    """Return the coefficients c (T,) >= 0 that minimise the pinball loss exactly.

    For times y at sizes n, a quantile q and the terms phi_j of a polynomial, the loss
    is the sum over all times of::

        rho((y - f(n)) / scale),    rho(e) = max(q e, (q - 1) e),    f = sum_j c_j phi_j
    """
    design, units = design_of(sizes, scale, degree)
    coefficients: Floats = pinball_minimum(design, seconds / scale, quantile) / units
    return coefficients


def minimise_each(
    sizes: Floats,
    seconds: Floats,
    scale: Floats,
    quantile: float,
    parts: Sequence[tuple[NDArray[np.bool_], int]],
) -> list[Floats]:
    """Fit a polynomial to each of `parts`, and return the coefficients of each fit.

    A part is a mask (M,) of the times to use, and the degree of the polynomial.
    """
    if len(sizes) > FEW_TIMES:
        return [
            minimise(sizes[kept], seconds[kept], scale[kept], quantile, degree)
            for kept, degree in parts
        ]
    from scipy.sparse import block_diag

    designs, units = zip(
        *(design_of(sizes[kept], scale[kept], degree) for kept, degree in parts),
        strict=True,
    )
    times = np.concatenate([seconds[kept] / scale[kept] for kept, _ in parts])
    found = pinball_minimum(block_diag(designs, format="csr"), times, quantile)
    ends = np.cumsum([len(own) for own in units])
    return [x / own for x, own in zip(np.split(found, ends[:-1]), units, strict=True)]


def design_of(sizes: Floats, scale: Floats, degree: int) -> tuple[Floats, Floats]:
    """Return the scaled design matrix (M, T) of a fit, and its column scales (T,).

    Divide the fitted coefficients by the scales to get those of the polynomial. Each
    column is scaled to a maximum of 1: otherwise the cube of a million pixels would be
    so large that the solver loses the constant term.
    """
    terms, largest = count_terms(degree, sizes.ndim), sizes.max(axis=0)
    design = monomials(sizes / largest, terms) / scale[:, np.newaxis]
    units = design.max(axis=0)
    return design / units, units * monomials([largest], terms)[0]


def pinball_minimum(design: Any, times: Floats, quantile: float) -> Floats:
    """Return the x (T,) >= 0 with the smallest pinball loss of `times - design @ x`.

    `design` (M, T) may be sparse. The solver gets the dual linear program (Koenker and
    Bassett, Regression Quantiles, 1978), in which q is the quantile::

        max u @ times    where    design.T @ u <= 0,    q - 1 <= u <= q

    It has one bounded variable for each time, and only T constraints. The multipliers
    of these constraints are x.
    """
    from scipy.optimize import linprog

    result = linprog(
        -times,
        A_ub=design.T,
        b_ub=np.zeros(design.shape[1]),
        bounds=(quantile - 1, quantile),
        method="highs",
        options={"presolve": False},  # there are too few constraints
    )
    if result.status != 0:
        raise BadInput(f"the times cannot be fitted: {result.message}")
    return np.maximum(-np.asarray(result.ineqlin.marginals, np.float64), 0)
