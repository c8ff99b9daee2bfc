"""Outliers: measured times far above the usual time of a call.

Another program that runs meanwhile can make a measured time a hundred times too long. A
high quantile of few times depends on the largest of them: three such times among 240
make the curve through the 0.99 quantile useless. But if a call itself is slow now and
then, a cost curve must cover its outliers.
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
# Fewest times of an item whose median counts as the item's usual time.
OFTEN = 3
# If a share of 1 - q of all times were outliers, how probable would so many be? Below
# OWN, the call itself makes the outliers; below SURELY_OWN, this is certain. The
# machine certainly makes them if the probability of so few is at most SURELY_FEW.
OWN = 0.3
SURELY_OWN = 1e-6
SURELY_FEW = 0.05


def outliers_of(
    seconds: Floats,
    usual_s: Floats,
    quantile: float,
    items: NDArray[np.int64] | None = None,
) -> Flags:
    """Return a mask (M,): True for a time far above the usual time of its item.

    Time i was measured on the item `items[i]`; `usual_s[i]` is the usual time of items
    of that size. `quantile` is the quantile that the cost curve follows. If an item was
    timed at least `OFTEN` times, its usual time is at least the median of its times. So
    an item that is slow in every measurement has no outliers.
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
    """Return True if more times are needed to decide if a curve must cover outliers.

    `outliers` is the number of outliers among `times` measurements. A curve through
    `quantile` must cover outliers if their true share is above 1 - `quantile`. The
    result is False if there are no outliers, or if their true share is clearly above or
    clearly below that limit.
    """
    if outliers == 0 or chance_of_more(outliers, times, 1 - quantile) < SURELY_OWN:
        return False
    from scipy.special import bdtr

    return float(bdtr(outliers, times, 1 - quantile)) > SURELY_FEW


def outliers_belong(outliers: int, times: int, quantile: float) -> bool:
    """Return True if outliers are so frequent that a cost curve must cover them.

    `outliers` is the number of outliers among `times` measurements. The result is True
    if their true share is probably above 1 - `quantile`.
    """
    return chance_of_more(outliers, times, 1 - quantile) < OWN


def chance_of_more(count: int, times: int, share: float) -> float:
    """Return the probability of at least `count` outliers among `times` measurements.

    Each measurement is an outlier with the probability `share`.
    """
    from scipy.special import bdtrc

    return 1.0 if count == 0 else float(bdtrc(count - 1, times, share))


def quantile_of_others(times: int, outliers: int, quantile: float) -> float:
    """Return the quantile to fit to the times that are no outliers.

    The curve should lie above the share `quantile` of all `times` measurements,
    although all `outliers` of these lie above the curve. The result is less than 1,
    since the largest time depends on chance.
    """
    others = times - outliers
    return min(quantile * times / others, 1 - 0.5 / others) if outliers else quantile


def steady_quantile(seconds: Floats, quantile: float) -> float:
    """Return a quantile of the times (M,) of one call, robust to a few outliers."""
    found = outliers_of(seconds, np.full(len(seconds), np.median(seconds)), quantile)
    count = int(found.sum())
    if outliers_belong(count, len(seconds), quantile):
        return float(np.quantile(seconds, quantile))
    wanted = quantile_of_others(len(seconds), count, quantile)
    return float(np.quantile(seconds[~found], wanted))


def _own_medians(items: NDArray[np.int64], seconds: Floats) -> Floats:
    """Return for each time the median of its item's times.

    It is 0 if the item has fewer than `OFTEN` times.
    """
    medians = np.zeros(len(seconds))
    order = np.argsort(items, kind="stable")
    ends = np.flatnonzero(np.diff(items[order])) + 1
    for own in np.split(order, ends):
        if len(own) >= OFTEN:
            medians[own] = np.median(seconds[own])
    return medians
