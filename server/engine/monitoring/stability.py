"""The population stability index: how far present shares are from those of a build."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SMOOTHING = 0.5  # items added to each bin, so that no share is 0
NORMAL_95 = 1.6448536269514722  # 0.95 quantile of the standard normal distribution


def stability_index(expected: Floats, counts: Floats) -> Floats:
    """Return the population stability index of each of C columns: (C,), at least 0.

    `expected` and `counts` (C, B) are numbers of the build's items, and of present
    items, in the B bins of each column. The index is the sum over bins of (p - q) *
    ln(p / q), with the present share p and the build's share q, after `SMOOTHING`
    items were added to each bin. Bins without any items of both do not count.
    """
    used = (expected > 0) | (counts > 0)
    q, p = (_smoothed(own, used) for own in (expected, counts))
    index: Floats = ((p - q) * np.log(p / q)).sum(axis=1)
    return index


def _smoothed(counts: Floats, used: NDArray[np.bool_]) -> Floats:
    """Return smoothed shares; 1 in bins that are not used."""
    more = counts + SMOOTHING * used
    total = np.maximum(more.sum(axis=1, keepdims=True), SMOOTHING)
    shares: Floats = np.where(used, more / total, 1.0)
    return shares


def chance_level(expected: Floats, counts: Floats) -> Floats:
    """Return what the index exceeds by chance in 5 % of all cases: (C,).

    If both samples come from the same distribution, the index is about (1/n + 1/m)
    times a chi-squared variable with as many degrees of freedom as there are used bins
    but one; n and m are the samples' sizes. The level is infinite for no items.
    """
    degrees = ((expected > 0) | (counts > 0)).sum(axis=1) - 1.0
    n, m = counts.sum(axis=1), expected.sum(axis=1)
    with np.errstate(divide="ignore"):
        scale = 1 / n + 1 / m
    most = scale * chi_squared_95(np.maximum(degrees, 1.0))
    level: Floats = np.where(degrees > 0, most, 0.0)
    return level


def chi_squared_95(degrees: Floats) -> Floats:
    """Return the 0.95 quantiles of chi-squared distributions, to within 3 %.

    This is the approximation by Wilson and Hilferty (1931); `degrees` are 1 or more.
    """
    spread = 2 / (9 * degrees)
    found: Floats = degrees * (1 - spread + NORMAL_95 * np.sqrt(spread)) ** 3
    return found
