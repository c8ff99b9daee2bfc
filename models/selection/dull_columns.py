"""Columns that tell no rows apart, of which some learners make no model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# scikit-learn's HistGradientBoosting divides the range of each column by rows that it
# draws: so many at most, of more than FEW without those that it stops by.
DRAWN, FEW = 200_000, 10_000
# Known values that a column of more rows needs, so that it is never drawn empty.
KNOWN = 6


def fill_empty(estimator: Any, X: Any) -> Any:
    """Give rows X (N, d) that an estimator, or a pipeline, can be fitted on.

    Columns without any value, or with so few that a part of the rows would have none,
    become 0 where it is one that fails on them: a value that no decision depends on.
    """
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )

    kinds = HistGradientBoostingClassifier, HistGradientBoostingRegressor
    if not (isinstance(estimator, kinds) and _has_gaps(X)):
        return X
    rows = len(X)
    known = (rows - np.isnan(X).sum(axis=0)) * min(1.0, DRAWN / rows)
    scarce = known < (KNOWN if rows > FEW else 1)
    if not scarce.any():
        return X
    filled = X.copy()
    filled[:, scarce] = 0.0
    return filled


def telling(estimator: Any, X: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Say in which columns of the rows X (N, d) any two differ for an estimator.

    A value that is missing is one of its own, unless a pipeline fills it.
    """
    low, high = np.fmin.reduce(X), np.fmax.reduce(X)
    differ: NDArray[np.bool_] = low < high  # not of NaN: those of an empty column
    if not hasattr(estimator, "steps"):
        differ |= np.isnan(X).any(axis=0) & ~np.isnan(low)
    return differ


def _has_gaps(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.dtype.kind == "f" and bool(np.isnan(X).any())
