"""Feature sets that look better than a larger set only by luck.

A set is measured on finitely many items, so of many sets some beat a larger set by
chance. Where the larger set costs next to nothing more, its own quality is the better
guess: information does not hurt (ICSP, axiom 2.1). This is a step of polydom's own
before candidates are compared; the comparison itself has no tolerance.
"""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

NORMAL = NormalDist()


def level_lucky_sets(
    masks: Sequence[int],
    qualities: Floats,
    costs: Floats,
    parts: Callable[[list[int]], NDArray[Any]],
    groups: Rows,
    weights: Floats,
    negligible: float,
) -> Floats:
    """Return qualities (E,) by which no lucky set is better than a larger set.

    `masks` are E feature sets with measured `qualities` (E,), and `costs` (E,) at the
    largest item size. A set is lucky beside a larger set, one with all its features
    and more, if two conditions hold. The larger set costs at most `negligible` more.
    And the set's lead is at most `luck_of` standard errors of the lead, over the items
    that both sets answered. A lucky set's quality becomes the next number below that of
    the larger set. The empty set is never lucky.

    `parts` returns the contributions (K, N) of N items to the qualities of K sets;
    `groups` (N,) and `weights` (N,) are the items' groups and weights.
    """
    sets, levelled = np.array(masks, np.uint64), qualities.copy()
    for row in np.argsort(-np.bitwise_count(sets).astype(np.int64), kind="stable"):
        within = (sets & ~sets[row] == 0) & (sets != sets[row]) & (sets != 0)
        within &= costs[row] - costs <= negligible
        ahead = np.flatnonzero(within & (levelled >= levelled[row]))
        if not ahead.size:
            continue
        luck = luck_of(ahead.size)
        own, *others = parts([masks[at] for at in (row, *ahead)])
        for at, other in zip(ahead, others, strict=True):
            leads = other.astype(np.float64) - own
            lead = qualities[at] - qualities[row]
            if lead <= luck * standard_error(leads, groups, weights):
                levelled[at] = np.nextafter(levelled[row], 0.0)
    return levelled


def luck_of(ahead: int) -> float:
    """Return how many standard errors luck explains, if `ahead` > 0 sets are ahead.

    Of sets that are equal to a larger one, a sixth are ahead of it by more than one
    standard error. With the returned number, a sixth is the chance that any of them is
    (Bonferroni). Luck puts as many equal sets behind as ahead, so twice as many sets
    are counted as are ahead.
    """
    return -NORMAL.inv_cdf(NORMAL.cdf(-1.0) / (2 * ahead))


def standard_error(values: Floats, groups: Rows, weights: Floats) -> float:
    """Return the standard error of a weighted mean of values (N,).

    Only values of different groups are independent.
    """
    mean = np.average(values, weights=weights)
    sums = np.bincount(groups, weights * (values - mean))
    return float(math.sqrt(sums @ sums) / weights.sum())
