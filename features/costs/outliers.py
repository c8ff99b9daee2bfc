"""Outliers among measured times: whether the machine or the call made them.

A high quantile of few times depends on the largest of them. A time during which another
program ran may be a hundred times as long as the call takes. Three such times among 240
make the curve through the 0.99 quantile useless.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# A time is an outlier if its ratio to the usual time exceeds FAR times a high quantile
# of all ratios. With q the quantile of the curve, that is the 1 - ROOM * (1 - q)
# quantile: outliers are at most ROOM times as many as may lie above the curve.
FAR = 4.0
ROOM = 4
# Times of an item from which on their median tells what the item takes.
OFTEN = 3
# Outliers belong to the call if a share of 1 - q would give so many or more with a
# probability below OWN. They surely belong to it below SURELY_OWN; they surely are
# fewer if it would give so few or less with a probability of at most SURELY_FEW.
OWN = 0.3
SURELY_OWN = 1e-6
SURELY_FEW = 0.05


def outliers_of(
    seconds: Floats,
    usual_s: Floats,
    quantile: float,
    items: NDArray[np.int64] | None = None,
) -> Flags:
    """Mark the times (M,) that are far above the usual times of such items (M,).

    An item that is slow every time was not disturbed. So where an item has at least
    `OFTEN` times, its usual time is at least the median of these. `usual_s` has the
    usual time at the size of each item, `items` the number of the item that each time
    belongs to.
    """
    if seconds.max() <= 0:
        return np.zeros(len(seconds), np.bool_)
    usual_s = np.maximum(usual_s, 1e-9 * seconds.max())
    if items is not None:
        usual_s = np.maximum(usual_s, _own_medians(items, seconds))
    ratios = seconds / usual_s
    share = max(0.5, 1 - ROOM * (1 - quantile))
    most = float(np.quantile(ratios, share, method="lower"))
    far: Flags = ratios > FAR * max(most, 1.0)
    return far


def outliers_in_doubt(outliers: int, times: int, quantile: float) -> bool:
    """Say whether more times are needed to tell if outliers belong under a curve.

    They do not belong there if their share is surely below 1 - `quantile`. They do if
    their share is surely above it.
    """
    if outliers == 0 or chance_of_more(outliers, times, 1 - quantile) < SURELY_OWN:
        return False
    from scipy.special import bdtr

    return float(bdtr(outliers, times, 1 - quantile)) > SURELY_FEW


def outliers_belong(outliers: int, times: int, quantile: float) -> bool:
    """Say whether the quantile of all times is an outlier, since these are so many."""
    return chance_of_more(outliers, times, 1 - quantile) < OWN


def chance_of_more(count: int, times: int, share: float) -> float:
    """Chance that at least `count` times are of a kind that has this share of all."""
    from scipy.special import bdtrc

    return 1.0 if count == 0 else float(bdtrc(count - 1, times, share))


def quantile_of_others(times: int, outliers: int, quantile: float) -> float:
    """Return the quantile of the other times under which `quantile` of all times lie.

    It stays half a time below 1, which would be the largest of the other times.
    """
    others = times - outliers
    return min(quantile * times / others, 1 - 0.5 / others) if outliers else quantile


def steady_quantile(seconds: Floats, quantile: float) -> float:
    """Return a quantile of times (M,) of one call; few outliers hardly move it."""
    found = outliers_of(seconds, np.full(len(seconds), np.median(seconds)), quantile)
    count = int(found.sum())
    if outliers_belong(count, len(seconds), quantile):
        return float(np.quantile(seconds, quantile))
    wanted = quantile_of_others(len(seconds), count, quantile)
    return float(np.quantile(seconds[~found], wanted))


def _own_medians(items: NDArray[np.int64], seconds: Floats) -> Floats:
    """Median of the times of each time's item; 0 for items with fewer than `OFTEN`."""
    medians = np.zeros(len(seconds))
    order = np.argsort(items, kind="stable")
    ends = np.flatnonzero(np.diff(items[order])) + 1
    for own in np.split(order, ends):
        if len(own) >= OFTEN:
            medians[own] = np.median(seconds[own])
    return medians
