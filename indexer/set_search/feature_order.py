"""Order the features of each set, so that an interrupted plan answers well.

An interrupted plan answers with the most accurate model whose features are all
computed. The accuracy of this answer is a staircase over time. The order maximises the
area under the staircase. Then a feature moves before others that include its work, so
that there are more points at which the work may stop. ICSP leaves the order open; the
method is polydom's own.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Orders = tuple[tuple[int, ...], ...]  # for each set, an order of features or of sets
CostOf = Callable[[int], float]

# Share of a feature's cost that may be its own, beside the work of another feature, so
# that the feature counts as computed on the way to the other.
OWN = 0.1


def order_features(
    masks: Sequence[int],
    accuracies: NDArray[np.float64],
    cost_of: CostOf,
) -> tuple[Orders, Orders]:
    """Return (orders, fallbacks): each set's order of features, and early answers.

    `orders[r]` lists the features of set `masks[r]` in the order of computing.
    `fallbacks[r][k]` is the row in `masks` of the set whose model answers after the
    first k of these features: the most accurate set that needs no other feature. Of
    equally accurate sets, it is the smallest, then the first. `masks` must include the
    empty set. `cost_of` maps a mask to the set's cost.
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
    ways = _on_the_way(max(masks).bit_length(), cost_of)
    found = tuple(_with_stops(orders[row], ways) for row in range(len(masks)))
    return found, answers_along(found, masks, accuracies)


def answers_along(
    orders: Orders, masks: Sequence[int], accuracies: NDArray[np.float64]
) -> Orders:
    """Return, for each order, the sets that answer after 0, 1, 2 ... of its features.

    Entry k is the row in `masks` of the most accurate set that needs only the first k
    features of the order.
    """
    rows = sorted(range(len(masks)), key=lambda row: masks[row].bit_count())
    preferred = sorted(rows, key=lambda row: -accuracies[row])
    return tuple(
        tuple(_answer(done, masks, preferred) for done in prefixes(order))
        for order in orders
    )


def _answer(done: int, masks: Sequence[int], preferred: Sequence[int]) -> int:
    return next(row for row in preferred if masks[row] & ~done == 0)


def _cheapest_first(
    mask: int, start: Sequence[int], cost_of: CostOf
) -> tuple[int, ...]:
    """Order the features of `mask` that `start` lacks: cheaper to add, earlier."""
    done = sum(1 << feature for feature in start)
    order = []
    while left := [f for f in range(mask.bit_length()) if (mask & ~done) >> f & 1]:
        costs = [cost_of(done | 1 << feature) for feature in left]
        added = left[int(np.argmin(costs))]
        done |= 1 << added
        order.append(added)
    return tuple(order)


def _on_the_way(m: int, cost_of: CostOf) -> list[list[int]]:
    """Return, for each of m features, the features that are computed on its way.

    They are cheaper, and share nearly all of their work with it: the earlier pieces of
    a network. The cheapest comes first.
    """
    alone = [cost_of(1 << feature) for feature in range(m)]

    def own(feature: int, beside: int) -> float:
        return cost_of(1 << feature | 1 << beside) - alone[beside]

    return [
        sorted(
            (f for f in range(m) if alone[f] < alone[g] and own(f, g) < OWN * alone[f]),
            key=alone.__getitem__,
        )
        for g in range(m)
    ]


def _with_stops(order: Sequence[int], ways: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Move each feature of an order before the first to which it is on the way."""
    moved = dict[int, None]()
    for feature in order:
        before = [other for other in ways[feature] if other in order]
        moved.update(dict.fromkeys([*before, feature]))
    return tuple(moved)


def prefixes(order: Sequence[int]) -> list[int]:
    """Return the masks of the first 0, 1, 2 ... features, up to the whole order."""
    masks = [0]
    for feature in order:
        masks.append(masks[-1] | 1 << feature)
    return masks
