"""Curves of early exits in the benchmarks: which are ours, how two compare."""

import numpy as np
import pytest

from benchmarks.exits.curves import cheapest, equal_change, frontier, schedules
from polydom.models.qwyc.fit_schedule import fit_schedule
from tests.support.models.votes import noisy_votes

pytestmark = pytest.mark.jit  # rivals: what they have of kernels is tested by ours


@pytest.mark.parametrize("alpha", [0.02, 0.1])
def test_each_side_of_a_calibrated_schedule_is_one_of_the_curve(alpha: float) -> None:
    scores, fresh = noisy_votes(400, 12), noisy_votes(600, 12, seed=1)
    made = fit_schedule(scores, 0.0, alpha, confidence=0.9, calibration=fresh)
    curve = list(schedules(scores))
    assert np.array_equal(made.order, curve[0].order)
    assert any(np.array_equal(made.lower, one.lower) for one in curve)
    assert any(np.array_equal(made.upper, one.upper) for one in curve)


def test_schedules_keep_an_order_that_is_given() -> None:
    order = np.array([2, 0, 1])
    assert next(schedules(noisy_votes(50, 3), order=order)).order.tolist() == [2, 0, 1]


def points(*pairs: tuple[float, float]) -> list[dict[str, float]]:
    return [{"changed": changed, "mean": mean} for changed, mean in pairs]


def test_a_frontier_has_the_least_mean_up_to_each_change() -> None:
    curve = points((0.02, 8), (0, 40), (0.01, 10), (0.01, 12), (0.015, 11))
    changed, mean = frontier(curve)
    assert changed.tolist() == [0.01, 0.015, 0.02]
    assert mean.tolist() == [10, 10, 8]
    assert cheapest(curve, 0.015) == {"changed": 0.01, "mean": 10}
    assert cheapest(points((0.02, 8)), 0.01) is None


def test_curves_are_compared_where_both_reach() -> None:
    ours, theirs = points((0.001, 40), (0.01, 10)), points((0.002, 60), (0.02, 30))
    ratio, low, high = equal_change(ours, theirs) or (0, 0, 0)
    assert (low, high) == (0.002, 0.01)
    # straight lines of logarithms: the mean is at the middle of the range
    middle = np.log10((0.002 * 0.01) ** 0.5)
    mine = np.log(40) + (middle + 3) * np.log(10 / 40)
    yours = np.log(60) + (middle - np.log10(0.002)) * np.log(30 / 60)
    assert ratio == pytest.approx(np.exp(mine - yours))
    assert equal_change(ours, points((0.02, 30), (0.03, 20))) is None
