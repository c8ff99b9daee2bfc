"""Curves of early exits: mean base models against changed decisions, ours and others'.

Ours is made of the schedules that a calibration chooses from: `fit_schedule` with a
confidence climbs these, from the most careful to the boldest, until one breaks the
rate that is asked for.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models.qwyc.base_model_costs import ModelCosts
from polydom.models.qwyc.fit_schedule import check_decisions
from polydom.models.qwyc.optimal_stopping import Stopping
from polydom.models.qwyc.ordering import order_by_impurity
from polydom.models.qwyc.running_sums import ScoreSums
from polydom.models.qwyc.schedule import Schedule

Point = dict[str, Any]
Points = list[Point]
Floats = NDArray[np.float64]
Order = NDArray[np.int64] | None

PLACES = 64  # shares of changed decisions at which two curves are compared


def stopping_for(
    scores: Floats, threshold: float, order: Order = None
) -> tuple[NDArray[np.int64], Stopping]:
    """Order base models as `fit_schedule` does, and what finds thresholds along it."""
    positive = check_decisions(scores, threshold, None)
    costs = ModelCosts.check(scores.shape[1], None)
    if order is None:
        order = order_by_impurity(scores, positive, threshold, costs=costs, threads=2)
    sums = ScoreSums(scores, order, positive, threshold)
    return order, Stopping(sums, costs=costs.along(order))


def schedules(
    scores: Floats, threshold: float = 0.0, order: Order = None
) -> Iterator[Schedule]:
    """Schedules of two classes, for scores (N, T), along our order or a given one."""
    order, stopping = stopping_for(scores, threshold, order)
    for lower, upper in stopping.ladder(np.ones(2)):
        yield Schedule(order, lower, upper, threshold)


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


def within_limits(points: Points, limits: Iterable[float]) -> list[Point]:
    """One row for each method: mean trees and accuracy of its cheapest points."""
    rows = []
    for method, curve in by_method(points).items():
        row: Point = {"method": method}
        for limit in limits:
            best = cheapest(curve, limit)
            row[f"<= {limit:.1%}"] = None if best is None else best["mean"]
            row[f"right at {limit:.1%}"] = None if best is None else best["accuracy"]
        rows.append(row)
    return rows


def against(points: Points, pairs: Iterable[tuple[str, str]]) -> list[Point]:
    """One row for each pair of methods: mean trees of one over the other's."""
    found, rows = by_method(points), []
    for method, rival in pairs:
        measured = equal_change(found[method], found[rival])
        ratio, low, high = measured or (None, None, None)
        rows.append(
            {"trees of": method, "over": rival, "ratio": ratio, "from": low, "to": high}
        )
    return rows
