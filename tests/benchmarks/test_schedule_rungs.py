"""The schedules that stand for ours in the benchmarks' curves."""

import numpy as np
import pytest

from benchmarks.exits.schedule_rungs import rungs
from polydom.models.qwyc.fit import fit_schedule
from polydom.models.qwyc.fit_multiclass import fit_margin_schedule
from tests.support.votes import noisy_rounds, noisy_votes

pytestmark = pytest.mark.jit  # rivals: what they have of kernels is tested by ours


@pytest.mark.parametrize("alpha", [0.02, 0.1])
def test_a_calibrated_schedule_is_one_of_the_rungs(alpha: float) -> None:
    scores, fresh = noisy_votes(400, 12), noisy_votes(600, 12, seed=1)
    made = fit_schedule(scores, 0.0, alpha, confidence=0.9, calibration=fresh)
    assert any(
        np.array_equal(made.order, rung.order)
        and np.array_equal(made.lower, rung.lower)
        and np.array_equal(made.upper, rung.upper)
        for _, rung in rungs(scores)
    )


def test_a_calibrated_margin_schedule_is_one_of_the_rungs() -> None:
    scores, fresh = noisy_rounds(400, 8), noisy_rounds(600, 8, seed=1)
    made = fit_margin_schedule(scores, 0.05, confidence=0.9, calibration=fresh)
    assert any(
        np.array_equal(made.order, rung.order)
        and np.array_equal(made.margin, rung.margin)
        for _, rung in rungs(scores)
    )


def test_rungs_keep_an_order_that_is_given() -> None:
    order = np.array([2, 0, 1])
    _, rung = next(rungs(noisy_votes(50, 3), order))
    assert rung.order.tolist() == [2, 0, 1]
