"""Quantile regression of times on sizes, by polynomials that never fall.

Sizes are (M,), or (M, 2) where they are of two numbers; coefficients are those of
`polynomials.py`, none negative, so that a polynomial falls in neither number. The loss,
its linear program and how many times are fitted: docs/explanation/cost-curves.md.
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

FOLDS = 4  # of the times, for choosing the degree
CLOSE = 0.01  # relative held-out loss that is not worth a degree
REWEIGHTINGS = 3
TINY = 1e-6  # smallest scale of a time's error, relative to the longest time
SMALLEST_S = 1e-12  # no clock tells less from nothing
USUAL_DEGREE = 3
SHAPED_BY = 0.9  # highest quantile that tells a degree: of few times higher ones do not
AT_ONCE = 1000  # times in one linear program, unless there are very many


def fit_quantile(
    sizes: Floats,
    seconds: Floats,
    quantile: float,
    max_degree: int,
    seed: int,
    items: NDArray[np.int64] | None = None,
) -> Floats:
    """Fit a polynomial (T,) to a quantile of times; see `CostCurve.fit`.

    Errors are divided by the curve itself, found in a few rounds. At its fixed point
    the share of times under the curve is `quantile` even where the constant is zero.
    """
    if seconds.max() < SMALLEST_S:
        return np.zeros(1)
    outliers = outliers_of(seconds, usual_s(sizes, seconds), quantile, items)
    if not outliers_belong(count := int(outliers.sum()), len(seconds), quantile):
        # they lie above the curve: count them so, and let them bend nothing
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
    """Degree of which there are no more coefficients than different sizes."""
    distinct = len(np.unique(sizes, axis=0))
    return max(
        degree
        for degree in range(most + 1)
        if count_terms(degree, sizes.ndim) <= distinct
    )


def usual_s(sizes: Floats, seconds: Floats) -> Floats:
    """Median time at each size, by a polynomial that few outliers do not bend."""
    scale = np.maximum(local_medians(sizes, seconds), TINY * float(seconds.max()))
    if not scale.all():
        return seconds
    degree = highest_degree(sizes, USUAL_DEGREE)
    return values_at(minimise(sizes, seconds, scale, 0.5, degree), sizes)


def local_medians(sizes: Floats, seconds: Floats) -> Floats:
    """For each time, the median of those at similar sizes."""
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
    """Find the lowest degree whose held-out loss is hardly above the best one's.

    Hardly means by at most its standard error, or by CLOSE. Too few times to hold any
    out are fitted by a line.
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
    """Find the coefficients c (T,) >= 0 with the least pinball loss, exactly.

    The loss, of times y at sizes n, is the sum over all times of::

        rho((y - f(n)) / scale),    rho(e) = max(q e, (q - 1) e),    f = sum_j c_j phi_j
    """
    design, units = design_of(sizes, scale, degree)
    count = min(max(AT_ONCE, 3 * round(len(sizes) ** (2 / 3))), len(sizes))
    sample = np.concatenate(split_near(sizes, count))[:: len(sizes) // count]
    found = minimum_from_sample(design, seconds / scale, quantile, sample, count)
    coefficients: Floats = found / units
    return coefficients


def minimise_each(
    sizes: Floats,
    seconds: Floats,
    scale: Floats,
    quantile: float,
    parts: Sequence[tuple[NDArray[np.bool_], int]],
) -> list[Floats]:
    """Minimise for each of some parts of the times, given with a degree.

    Few times are put into one linear program: to set one up takes longer than to solve
    it.
    """
    if len(sizes) > AT_ONCE:
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
    assert found is not None  # without a pull the loss is bounded below
    ends = np.cumsum([len(own) for own in units])
    return [x / own for x, own in zip(np.split(found, ends[:-1]), units, strict=True)]


def design_of(sizes: Floats, scale: Floats, degree: int) -> tuple[Floats, Floats]:
    """Terms (M, T) of polynomials over `scale`, and what their coefficients are in.

    Sizes are scaled to [0, 1], without which the cube of a million pixels would drown
    the constant.
    """
    terms, largest = count_terms(degree, sizes.ndim), sizes.max(axis=0)
    design = monomials(sizes / largest, terms) / scale[:, np.newaxis]
    units = design.max(axis=0)
    return design / units, units * monomials([largest], terms)[0]


def minimum_from_sample(
    design: Floats,
    times: Floats,
    quantile: float,
    sample: NDArray[np.int64],
    count: int,
) -> Floats:
    """Minimise the pinball loss of `times - design @ x` over x >= 0, a part at a time.

    Times far from the curve pull at it with a constant force as long as they stay on
    their side, so that only the `count` nearest need be variables (Portnoy and Koenker,
    The Gaussian Hare and the Laplacian Tortoise, 1997). Where one of the others changes
    sides, more are taken as near. The first curve is that of a sample.
    """
    found = pinball_minimum(design[sample], times[sample], quantile)
    assert found is not None  # without a pull the loss is bounded below
    settled = len(sample) == len(times)
    while not settled:
        distance = times - design @ found
        force = np.where(distance > 0, quantile, quantile - 1)
        near = np.argpartition(np.abs(distance), count - 1)[:count]
        force[near] = 0
        closer = pinball_minimum(design[near], times[near], quantile, force @ design)
        if closer is not None:
            found = closer
            above = times > design @ found
            settled = np.array_equal(above[force != 0], force[force != 0] > 0)
        count = min(2 * count, len(times))
    return found


def pinball_minimum(
    design: Any, times: Floats, quantile: float, pull: Floats | float = 0.0
) -> Floats | None:
    """Minimise the pinball loss of `times - design @ x` less `pull @ x` over x >= 0.

    `design` (M, T) may be sparse. `pull` (T,) is the constant force of further times;
    None comes back where there is no minimum then. Solved is the dual linear program
    (Koenker and Bassett, Regression Quantiles, 1978), with one bounded variable a time
    and few constraints, of which x are the multipliers::

        max u @ times    where    design.T @ u <= -pull,    q - 1 <= u <= q
    """
    from scipy.optimize import linprog

    result = linprog(
        -times,
        A_ub=design.T,
        b_ub=np.zeros(design.shape[1]) - pull,
        bounds=(quantile - 1, quantile),
        method="highs",
        options={"presolve": False},  # no constraint of so few can be left out
    )
    if result.status == 2:
        return None
    if result.status != 0:
        raise BadInput(f"the times cannot be fitted: {result.message}")
    return np.maximum(-np.asarray(result.ineqlin.marginals, np.float64), 0)
