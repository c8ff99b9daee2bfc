"""The order in which a set's features are computed, for plans that may be interrupted.

ICSP leaves any-time Poly-Dom open; this order is ours. An interrupted plan answers with
the most accurate stored model whose features are all computed. Its expected accuracy is
the area under accuracy over time. So an order passes stored sets from the empty set to
the plan's set, with the largest area.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Orders = tuple[tuple[int, ...], ...]  # for each set, an order of features or of sets


def order_features(
    masks: Sequence[int],
    accuracies: NDArray[np.float64],
    cost_of: Callable[[int], float],
) -> tuple[Orders, Orders]:
    """Order each set's features, and choose the model that answers after each feature.

    Returns orders and fallbacks, both by set: `fallbacks[r][k]` is the most accurate
    row whose set lies within the first k features of `orders[r]`; of equals the
    smallest set, then the first row. `masks` include the empty set.
    """
    rows = sorted(range(len(masks)), key=lambda row: masks[row].bit_count())
    preferred = sorted(rows, key=lambda row: -accuracies[row])
    costs = [cost_of(mask) for mask in masks]
    answers = {row: _answer(masks[row], masks, preferred) for row in rows}
    # Dynamic programming: small sets first, so the areas of all subsets are known.
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
    """Choose the row that answers after each feature of an order."""
    rows = sorted(range(len(masks)), key=lambda row: masks[row].bit_count())
    preferred = sorted(rows, key=lambda row: -accuracies[row])
    return tuple(
        tuple(_answer(done, masks, preferred) for done in prefixes(order))
        for order in orders
    )


def _answer(done: int, masks: Sequence[int], preferred: Sequence[int]) -> int:
    """Return the first row of `preferred` whose features are all in `done`."""
    return next(row for row in preferred if masks[row] & ~done == 0)


def _cheapest_first(
    mask: int, start: Sequence[int], cost_of: Callable[[int], float]
) -> tuple[int, ...]:
    """Order the features of `mask` outside `start`; the least added cost comes next."""
    done = sum(1 << feature for feature in start)
    order = []
    while left := [f for f in range(mask.bit_length()) if (mask & ~done) >> f & 1]:
        costs = [cost_of(done | 1 << feature) for feature in left]
        added = left[int(np.argmin(costs))]
        done |= 1 << added
        order.append(added)
    return tuple(order)


def prefixes(order: Sequence[int]) -> list[int]:
    """Return the masks of all prefixes of an order, from the empty set to the whole."""
    masks = [0]
    for feature in order:
        masks.append(masks[-1] | 1 << feature)
    return masks
