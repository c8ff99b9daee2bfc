"""What plans cost on average: less than their curves say, where they may answer early.

A budget is held by the high quantile of a plan's cost, which the index is made of; what
it is worth to buy is a matter of its mean.
"""

import numpy as np
from numpy.typing import NDArray

from .package import Package

Floats = NDArray[np.float64]


def mean_costs(package: Package, coefficients: Floats) -> Floats:
    """Cost polynomials (C, T) of candidates, weighted by where their items end.

    `coefficients` (C, T) are the index's, which hold where no item ends early. Items
    that end at a checkpoint have paid for the features before it, and for the models
    that were asked on the way.
    """
    means: Floats = coefficients.copy()
    saved_s = package.model_s - package.mean_s if len(package.mean_s) else None
    for row, ends in enumerate(package.ends):
        mask, checks_s = 0, 0.0
        total = np.zeros(coefficients.shape[1])
        for k, share in enumerate(ends[:-1]):
            mask |= 1 << package.orders[row][k - 1] if k else 0
            if np.isfinite(package.margins[row][k] if package.margins else np.inf):
                checks_s += float(package.checked_s[package.fallbacks[row][k]])
            if share:
                total += share * package.costs.of(mask)
                total[0] += share * checks_s
        means[row] = total + ends[-1] * coefficients[row]
        if saved_s is not None:
            means[row, 0] -= ends[-1] * saved_s[row]
    return means
