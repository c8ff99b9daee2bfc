"""Slow twins of the share-out of a batch."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction


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


def plans_at(
    menu: Sequence[tuple[int, int]], price: Fraction
) -> tuple[tuple[int, int], tuple[int, int]]:
    """The cheapest and the dearest plan of most accuracy less price times cost."""
    worth = max(accuracy - price * cost for cost, accuracy in menu)
    best = [plan for plan in menu if plan[1] - price * plan[0] == worth]
    return min(best), max(best)


def price_by_trying(
    menus: Sequence[Sequence[tuple[int, int]]], budget: int
) -> tuple[Fraction | None, Fraction]:
    """The first of all slopes, from the steepest, at which plans exceed the budget.

    And the part of the steps worth exactly that which the budget still covers. None
    where it covers no step, and (0, 1) where it covers all.
    """
    base = sum(min(menu)[0] for menu in menus)
    if budget <= base:
        return None, Fraction(0)
    slopes = {
        Fraction(v - y, u - x)
        for menu in menus
        for x, y in menu
        for u, v in menu
        if u > x and v > y
    }
    for price in sorted(slopes, reverse=True):
        pairs = [plans_at(menu, price) for menu in menus]
        low, high = (sum(pair[end][0] for pair in pairs) for end in (0, 1))
        if high > budget:
            return price, Fraction(budget - low, high - low)
    return Fraction(0), Fraction(1)
