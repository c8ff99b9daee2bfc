"""In which order to compute a set's features, so that stopping early costs least.

ICSP leaves an any-time Poly-Dom open; this is ours. A plan that is interrupted answers
with the most accurate stored model whose features are all computed. What it can then
expect is the area under accuracy over time, so an order is a chain of stored sets, from
the empty one to the plan's, with the largest such area.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Orders = tuple[tuple[int, ...], ...]  # of features, or of sets, by set


def order_features(
    masks: Sequence[int],
    accuracies: NDArray[np.float64],
    cost_of: Callable[[int], float],
) -> tuple[Orders, Orders]:
    """Order each set's features, and say what answers after each of them.

    Parameters
    ----------
    masks : C
        Different feature sets, the empty one among them.
    accuracies : (C,)
        Of each set's model.
    cost_of
        Cost of a set's features and steps, at the size to optimise for.

    Returns
    -------
    orders
        For each row the positions of its features.
    fallbacks
        `fallbacks[r][k]`: the most accurate row whose set lies within the first k
        features of `orders[r]`; among equals the smallest set, then the first row.
    """
    rows = sorted(range(len(masks)), key=lambda row: masks[row].bit_count())
    preferred = sorted(rows, key=lambda row: -accuracies[row])
    costs = [cost_of(mask) for mask in masks]
    answers = {row: _answer(masks[row], masks, preferred) for row in rows}
    area, before = {rows[0]: 0.0}, dict[int, int]()
    for place, row in enumerate(rows[1:], 1):
        below = [r for r in rows[:place] if masks[r] & ~masks[row] == 0]
        areas = [
            area[r] + (costs[row] - costs[r]) * accuracies[answers[r]] for r in below
        ]
        best = int(np.argmax(areas))
        area[row], before[row] = areas[best], below[best]
    orders = {rows[0]: tuple[int, ...]()}
    for row in rows[1:]:
        start = orders[before[row]]
        orders[row] = start + _cheapest_first(masks[row], start, cost_of)
    found = tuple(orders[row] for row in range(len(masks)))
    return found, answers_along(found, masks, accuracies)


def answers_along(
    orders: Orders, masks: Sequence[int], accuracies: NDArray[np.float64]
) -> Orders:
    """Say what answers after each feature of the orders: `order_features`' fallbacks.

    Parameters
    ----------
    orders : C
        Positions of each set's features, in the order they are computed.
    masks, accuracies
        As for `order_features`.
    """
    rows = sorted(range(len(masks)), key=lambda row: masks[row].bit_count())
    preferred = sorted(rows, key=lambda row: -accuracies[row])
    return tuple(
        tuple(_answer(done, masks, preferred) for done in prefixes(order))
        for order in orders
    )


def _answer(done: int, masks: Sequence[int], preferred: Sequence[int]) -> int:
    """Return the first row of `preferred` that needs nothing but what is done."""
    return next(row for row in preferred if masks[row] & ~done == 0)


def _cheapest_first(
    mask: int, start: Sequence[int], cost_of: Callable[[int], float]
) -> tuple[int, ...]:
    """Order the features of `mask` that are not in `start`, each by what it adds."""
    done = sum(1 << feature for feature in start)
    order = []
    while left := [f for f in range(mask.bit_length()) if (mask & ~done) >> f & 1]:
        costs = [cost_of(done | 1 << feature) for feature in left]
        added = left[int(np.argmin(costs))]
        done |= 1 << added
        order.append(added)
    return tuple(order)


def prefixes(order: Sequence[int]) -> list[int]:
    """Masks of the sets that an order passes: the empty one first, its own last."""
    masks = [0]
    for feature in order:
        masks.append(masks[-1] | 1 << feature)
    return masks
