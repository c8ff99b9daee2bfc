"""Comparing early exits whose curves have points at different shares of changes."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Point = dict[str, Any]
Points = list[Point]
Floats = NDArray[np.float64]

PLACES = 64  # shares of changed decisions at which two curves are compared


def by_method(points: Points) -> dict[str, Points]:
    """Points of each method, in order of first appearance."""
    found: dict[str, Points] = {}
    for point in points:
        found.setdefault(point["method"], []).append(point)
    return found


def cheapest(points: Iterable[Point], limit: float) -> Point | None:
    """Return the point of fewest mean trees that changes at most `limit`."""
    inside = (p for p in points if p["changed"] <= limit)
    return min(inside, key=lambda p: float(p["mean"]), default=None)


def within(points: Iterable[Point], limit: float) -> float | None:
    """Fewest mean trees among the points that change at most `limit`."""
    best = cheapest(points, limit)
    return None if best is None else float(best["mean"])


def frontier(points: Iterable[Point]) -> tuple[Floats, Floats]:
    """Shares of changed decisions above 0, ascending, and the least mean up to each."""
    pairs = sorted((p["changed"], p["mean"]) for p in points)
    changed, mean = np.array(pairs, np.float64).reshape(-1, 2).T
    least = np.minimum.accumulate(mean)
    last = np.append(changed[1:] > changed[:-1], True)[: len(changed)]
    kept = last & (changed > 0)
    return changed[kept], least[kept]


def equal_change(
    ours: Iterable[Point], theirs: Iterable[Point]
) -> tuple[float, float, float] | None:
    """(ratio, from, to): our mean trees over theirs at equal test change.

    The geometric mean of the ratio over `PLACES` shares, evenly spaced by logarithm
    between the least and the largest share that both curves reach; between points a
    curve is a straight line of logarithms. None where the curves share no range.
    """
    (changed, mean), (other, reference) = frontier(ours), frontier(theirs)
    if not len(changed) or not len(other):
        return None
    low, high = max(changed[0], other[0]), min(changed[-1], other[-1])
    if low >= high:
        return None
    places = np.linspace(np.log(low), np.log(high), PLACES)
    mine = np.interp(places, np.log(changed), np.log(mean))
    yours = np.interp(places, np.log(other), np.log(reference))
    return float(np.exp((mine - yours).mean())), float(low), float(high)
