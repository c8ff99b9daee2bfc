"""Slow twins of the share-out of a batch."""

import itertools
import math
from collections.abc import Sequence


def knapsack(menus: Sequence[Sequence[tuple[int, float]]], budget: int) -> float:
    """Best sum of accuracies with one (whole cost, accuracy) of each menu (DP)."""
    best = {0: 0.0}
    for menu in menus:
        grown: dict[int, float] = {}
        for spent, value in best.items():
            for cost, accuracy in menu:
                total = spent + cost
                if total <= budget:
                    grown[total] = max(grown.get(total, 0.0), value + accuracy)
        best = grown
    return max(best.values(), default=-math.inf)


def concave_hull(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points that some price per unit of cost makes the one best choice, or the ends.

    Whole numbers only: a point is left out if it is not above the line through some
    cheaper and some dearer one, or if one at most as dear is at least as good.
    """
    kept = []
    for x, y in sorted(set(points)):
        others = [p for p in set(points) if p != (x, y)]
        if any(u <= x and v >= y for u, v in others):
            continue
        if not any(
            (y - v) * (t - u) <= (w - v) * (x - u)
            for u, v in others
            for t, w in others
            if u < x < t
        ):
            kept.append((x, y))
    return kept


def relaxed_knapsack(
    menus: Sequence[Sequence[tuple[float, float]]], budget: float
) -> float:
    """Most accuracy where the last step on a concave hull may be taken in part."""
    hulls = [concave_hull(menu) for menu in menus]
    steps = [
        ((b[1] - a[1]) / (b[0] - a[0]), b[0] - a[0])
        for hull in hulls
        for a, b in itertools.pairwise(hull)
    ]
    left = budget - sum(hull[0][0] for hull in hulls)
    accuracy = sum(hull[0][1] for hull in hulls)
    for slope, cost in sorted(steps, reverse=True):
        taken = min(cost, max(left, 0.0))
        accuracy += slope * taken
        left -= taken
    return accuracy
