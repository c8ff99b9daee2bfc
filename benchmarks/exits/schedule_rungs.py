"""Our curve against the rivals' curves: the schedules that a calibration chooses from.

`fit_schedule` and `fit_margin_schedule` with a confidence climb these rungs, from the
most careful to the boldest, until one breaks the rate that is asked for.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models.qwyc.costs import ModelCosts
from polydom.models.qwyc.fit import check_decisions
from polydom.models.qwyc.optimal_stopping import Stopping
from polydom.models.qwyc.ordering import order_by_impurity, order_by_margin_impurity
from polydom.models.qwyc.running_sums import MarginSums, ScoreSums
from polydom.models.qwyc.schedule import MarginSchedule, Schedule
from polydom.models.scoring.whole_sums import whole_sums

Floats = NDArray[np.float64]
Order = NDArray[np.int64] | None


def rungs(
    scores: Floats, order: Order = None, threshold: float = 0.0
) -> Iterator[tuple[int, Any]]:
    """(number, schedule) for scores (N, T) or (N, T, K), along our order or a given.

    More than two classes have no `threshold`.
    """
    if scores.ndim == 2:
        made: Iterator[Any] = limits(scores, order, threshold)
    else:
        made = margins(scores, order)
    return enumerate(made)


def limits(scores: Floats, order: Order, threshold: float) -> Iterator[Schedule]:
    """Schedules for two classes."""
    costs = ModelCosts.check(scores.shape[1], None)
    positive = check_decisions(scores, threshold, None)
    if order is None:
        order = order_by_impurity(scores, positive, threshold, costs=costs)
    sums = ScoreSums(scores, order, positive, threshold)
    for lower, upper in Stopping(sums, costs=costs.along(order)).ladder():
        yield Schedule(order, lower, upper, threshold)


def margins(scores: Floats, order: Order) -> Iterator[MarginSchedule]:
    """Schedules for more classes, that begin with nothing."""
    costs = ModelCosts.check(scores.shape[1], None)
    bias = np.zeros(scores.shape[2])
    chosen = whole_sums(scores, bias).argmax(axis=1)
    if order is None:
        order = order_by_margin_impurity(scores, chosen, bias=bias, costs=costs)
    sums = MarginSums(scores, order, chosen, bias=bias)
    stopping = Stopping(sums, costs=costs.along(order), both=False)
    for lower, _ in stopping.ladder():
        yield MarginSchedule(order, -lower, bias)
