"""Dividing items into parts, whole groups at a time."""

import numpy as np
from numpy.typing import NDArray

from ._dealing_kernels import deal_in_order

Rows = NDArray[np.int64]


def deal(codes: Rows, groups: Rows, parts: int, seed: int) -> Rows:
    """Give every item one of some parts, in which classes have about equal shares.

    Groups stay whole. The largest come first, those of one size in random order, and
    each goes where there is least of its classes: where the squares of the parts'
    shares of the classes grow least, and of such parts to the smallest. So each part
    has every class that comes in as many groups as there are parts, where no group is
    of several classes.

    Parameters
    ----------
    codes, groups : (N,)
        Class of each item, from 0; number of its group.
    parts
        At least 1.
    seed
        Of the random order.

    Returns
    -------
    (N,) the part of each item, from 0.
    """
    names, own = np.unique(groups, return_inverse=True)
    kinds = int(codes.max()) + 1
    cells, counts = np.unique(own * kinds + codes, return_counts=True)
    starts = np.searchsorted(cells, np.arange(len(names) + 1) * kinds)
    shuffled = np.random.default_rng(seed).permutation(len(names))
    largest_first = np.argsort(-np.bincount(own)[shuffled], kind="stable")
    totals = np.maximum(np.bincount(codes, minlength=kinds), 1)
    dealt = np.empty(len(names), np.int64)
    deal_in_order(
        shuffled[largest_first],
        starts,
        cells % kinds,
        counts,
        1 / totals.astype(np.float64) ** 2,
        np.zeros((parts, kinds)),
        np.zeros(parts, np.int64),
        dealt,
    )
    return dealt[own]


def draw_groups(groups: Rows, share: float, seed: int) -> NDArray[np.bool_]:
    """Draw a share of the groups, each as likely as any other: True for their items.

    What they hold plays no part, so items drawn are to the others as fresh ones are.
    """
    names, own = np.unique(groups, return_inverse=True)
    drawn = np.zeros(len(names), np.bool_)
    order = np.random.default_rng([seed, 1]).permutation(len(names))
    drawn[order[: round(share * len(names))]] = True
    return drawn[own]


def groups_of_classes(codes: Rows, groups: Rows, count: int) -> Rows:
    """Count the groups, (count,), in which each of so many classes comes."""
    names, own = np.unique(groups, return_inverse=True)
    cells = np.unique(codes * len(names) + own)
    return np.bincount(cells // len(names), minlength=count)
