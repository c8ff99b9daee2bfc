"""Bounds on the share of new decisions that early exits change, from calibration rows.

The bounds are exact: binomial for independent rows, and Bentkus' for groups of rows.
"""

import math
from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

Groups = NDArray[np.int64]


def upper_bound(changed: int, rows: int, confidence: float) -> float:
    """Return an upper bound on the probability that a schedule changes a decision.

    `changed` is the number of changed decisions among `rows` independent rows. The
    bound is Clopper and Pearson's, one-sided.
    """
    from scipy.special import betaincinv

    if changed >= rows:
        return 1.0
    return float(betaincinv(changed + 1, rows - changed, confidence))


def most_changed(
    rows: int, alpha: float, confidence: float, groups: Groups | None = None
) -> float:
    """Return the largest number of changed calibration decisions that proves `alpha`.

    For a schedule that changes more than the share `alpha` of new decisions, the
    probability that it changes at most this number of calibration decisions is at most
    1 - confidence. The result is below 0 if there are too few rows for a proof.

    Without groups, rows are independent, and the number of changed decisions is
    binomial.

    With `groups` (M,), a group number for each row, only groups are independent. A
    group's number of changed rows, divided by the size of the largest group, lies in
    [0, 1], however the group's rows depend on each other. For the sum S of these ratios
    over n groups, Bentkus' bound (On Hoeffding's inequalities, Annals of Probability
    32, 2004) says

        P(S <= t) <= min over a > t of E max(a - B, 0) / (a - t),

    where B is binomial, with n trials and the same mean as S. The bound holds because
    max(a - x, 0) is convex in x, and S is at most B in convex order (Hoeffding, 1956
    and 1963). Only whole numbers a are tried, as one of them attains the minimum.
    """
    from scipy.special import bdtr

    sizes = np.ones(rows) if groups is None else group_sizes(groups)
    if sizes.max() == 1:
        counts = range(rows)
        bounds = bisect_right(
            counts, alpha, key=lambda changed: upper_bound(changed, rows, confidence)
        )
        return bounds - 1.0
    count, largest = len(sizes), float(sizes.max())
    chance = alpha * rows / (count * largest)
    whole = np.arange(1, math.ceil(count * chance) + 2)
    expected = np.cumsum(bdtr(whole - 1.0, count, chance))
    return largest * float((whole - expected / (1 - confidence)).max())


def number_groups(groups: Any, rows: int, what: str = "rows") -> Groups:
    """Return each row's group as a number from 0, shape (N,).

    Raises BadInput unless `groups` has `rows` values of one type.
    """
    given = np.asarray(groups)
    if given.shape != (rows,):
        raise BadInput(
            f"groups have shape {given.shape}; one of each of the {rows} {what} is "
            "needed"
        )
    try:
        return np.unique(given, return_inverse=True)[1]
    except TypeError as error:
        raise BadInput(
            f"groups must all be numbers, or all be texts: {error}"
        ) from error


def group_sizes(groups: Groups) -> NDArray[np.int64]:
    """Return the number of rows in each group."""
    return np.unique(groups, return_counts=True)[1]


def fewest_rows(alpha: float, confidence: float) -> int:
    """Return the smallest number of calibration rows that can prove `alpha` > 0.

    This number suffices only if the schedule changes none of their decisions.
    """
    return math.ceil(math.log1p(-confidence) / math.log1p(-alpha))


def lacking_rows(
    rows: int, alpha: float, confidence: float, groups: Groups | None = None
) -> str:
    """Return a description of too few calibration rows, for an error; "" if enough."""
    if rows and most_changed(rows, alpha, confidence, groups) >= 0:
        return ""
    if groups is None or not rows or (sizes := group_sizes(groups)).max() == 1:
        return f"{rows} to calibrate on"
    return (
        f"{rows} to calibrate on, in {len(sizes)} groups, which weigh as much as "
        f"{rows / sizes.max():.3g} like the largest, of {sizes.max()}"
    )
