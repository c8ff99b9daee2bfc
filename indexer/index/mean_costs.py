"""Mean costs of plans, which early exits make lower than the plans' cost curves.

The index compares budgets with a high quantile of a plan's cost. The worth of buying a
plan depends on its mean cost.
"""

import numpy as np
from numpy.typing import NDArray

from .package import Package

Floats = NDArray[np.float64]


def mean_costs(package: Package, coefficients: Floats) -> Floats:
    """Return mean cost polynomials (C, T) of candidates.

    `coefficients` (C, T) are costs of items that end no plan early. An item that ends
    at a checkpoint costs the features before the checkpoint, and the models of all
    checkpoints so far. The mean weights both by the shares of such items.
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
