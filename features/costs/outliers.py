"""Times far above all others: whether they are a machine's doing or a call's own.

A high quantile of few times is ruled by the largest of them. One that another program
disturbed may be a hundred times what the call takes, and three of those in 240 times
make a curve through the 0.99 quantile useless.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

FAR = 4.0  # times what nearly all others are at most
ROOM = 4  # times as many as lie above the quantile may be outliers
OFTEN = 3  # times of one item, from which on they tell what is its own
OWN = 0.3  # chance of so many above a quantile, from which on they belong there
SURELY_OWN = 1e-6
SURELY_FEW = 0.05


def outliers_of(
    seconds: Floats,
    usual_s: Floats,
    quantile: float,
    items: NDArray[np.int64] | None = None,
) -> Flags:
    """Mark the times (M,) that are far above what such items usually take (M,).

    Where an item was timed `OFTEN`, what it takes is at least its own median: one that
    takes longer each time is none that was disturbed. Far is `FAR` times as much as
    what all but `ROOM` times as many as the quantile leaves above it are at most.
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
    """Whether so many outliers among the times may or may not belong under a curve.

    They do not where their share is surely less than what the quantile leaves out, and
    they do where it surely is more.
    """
    if outliers == 0 or chance_of_more(outliers, times, 1 - quantile) < SURELY_OWN:
        return False
    from scipy.special import bdtr

    return float(bdtr(outliers, times, 1 - quantile)) > SURELY_FEW


def outliers_belong(outliers: int, times: int, quantile: float) -> bool:
    """Whether outliers are so many that the quantile of all times is among them."""
    return chance_of_more(outliers, times, 1 - quantile) < OWN


def chance_of_more(count: int, times: int, share: float) -> float:
    """Chance that at least `count` of the times are of a kind that has this share."""
    from scipy.special import bdtrc

    return 1.0 if count == 0 else float(bdtrc(count - 1, times, share))


def quantile_of_others(times: int, outliers: int, quantile: float) -> float:
    """Quantile of the other times under which the wanted share of all times lies.

    At most all of the others; that is half a time short of it.
    """
    others = times - outliers
    return min(quantile * times / others, 1 - 0.5 / others) if outliers else quantile


def steady_quantile(seconds: Floats, quantile: float) -> float:
    """Quantile of times (M,) of one kind of call that few outliers do not move far."""
    found = outliers_of(seconds, np.full(len(seconds), np.median(seconds)), quantile)
    count = int(found.sum())
    if outliers_belong(count, len(seconds), quantile):
        return float(np.quantile(seconds, quantile))
    wanted = quantile_of_others(len(seconds), count, quantile)
    return float(np.quantile(seconds[~found], wanted))


def _own_medians(items: NDArray[np.int64], seconds: Floats) -> Floats:
    """Median of each time's item, where it was timed often; 0 elsewhere."""
    medians = np.zeros(len(seconds))
    order = np.argsort(items, kind="stable")
    ends = np.flatnonzero(np.diff(items[order])) + 1
    for own in np.split(order, ends):
        if len(own) >= OFTEN:
            medians[own] = np.median(seconds[own])
    return medians
