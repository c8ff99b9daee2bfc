"""Budgets that no feature set costs, or that buy none: said when costs are known."""

import logging

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray

log = logging.getLogger("polydom")

LONG_S = 0.1  # from here on budgets may be meant in milliseconds


def say_odd_budgets(
    budgets: tuple[float, float],
    curves: NDArray[np.float64],
    sizes: tuple[float, float],
    *,
    in_seconds: bool,
) -> None:
    """Warn if every set costs less than all budgets, or each more.

    Parameters
    ----------
    budgets
        The smallest and the largest, in units of the curves.
    curves : (C, T)
        Cost polynomials of the sets, but for the empty one.
    sizes
        The smallest and the largest that the index answers for.
    in_seconds
        Whether the unit is seconds.
    """
    if not len(curves):
        return
    low, high = budgets
    cheapest = float(polyval(sizes[0], curves.T).min())
    dearest = float(polyval(sizes[1], curves.T).max())
    if cheapest <= high and low <= dearest:
        return
    unit, per_unit = (" ms", 1000.0) if in_seconds else ("", 1.0)
    cost = f"{cheapest * per_unit:.2g} to {dearest * per_unit:.2g}{unit}"
    if low > dearest:
        what = "every set costs less than all budgets, so only the best of all is kept"
        is_long = in_seconds and low >= LONG_S
        meant = f"; did you mean [{low / 1000:g}, {high / 1000:g}]?" if is_long else ""
    else:
        what = "no budget buys a feature, so the prior always answers"
        meant = ""
    log.warning(
        "search.budgets is [%g, %g]%s, and feature sets cost %s: %s%s",
        low,
        high,
        ", in seconds" if in_seconds else "",
        cost,
        what,
        meant,
    )
