"""The bound of a promise, and schedules that keep it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from polydom.models.qwyc.confidence_bound import calibrate, fewest_rows, upper_bound
from polydom.models.qwyc.fit_schedule import fit_schedule
from polydom.models.qwyc.schedule import Promise
from tests.support.models.votes import SCHEDULE, SCORES, noisy_votes


@pytest.mark.parametrize("changed", [0, 1, 7, 40])
def test_upper_bound_is_the_share_that_hardly_lets_so_few_change(changed: int) -> None:
    bound = upper_bound(changed, 1000, 0.95)
    assert binom.cdf(changed, 1000, bound) == pytest.approx(0.05)
    assert upper_bound(10, 10, 0.95) == 1.0


@pytest.mark.parametrize("alpha", [0.5, 0.01, 0.001])
def test_fewest_rows_are_just_enough_when_none_changes(alpha: float) -> None:
    rows = fewest_rows(alpha, 0.95)
    assert upper_bound(0, rows, 0.95) <= alpha < upper_bound(0, rows - 1, 0.95)


def test_calibrate_ends_at_the_first_schedule_that_fails() -> None:
    never = replace(SCHEDULE, lower=np.full(2, -np.inf), upper=np.full(2, np.inf))
    always = replace(SCHEDULE, lower=np.array([9.0, 9.0]), upper=np.full(2, 9.0))
    rows = np.repeat(SCORES, 20, axis=0)
    chosen = calibrate([never, always, SCHEDULE], (rows,), 0.05, 0.95)
    assert chosen.promise == Promise(0.05, 0.95, 100, 0)
    assert (chosen.evaluate(rows)[1] == 2).all()
    assert (calibrate([always], (rows,), 0.05, 0.95).evaluate(rows)[1] == 2).all()


@pytest.mark.jit
@pytest.mark.parametrize("method", ["polydom", "qwyc", "fixed"])
def test_confidence_promises_alpha_and_keeps_it_on_the_calibration_rows(
    method: Any,
) -> None:
    fresh = noisy_votes(1500, 20, seed=1)
    schedule = fit_schedule(
        noisy_votes(800, 20),
        0.0,
        0.02,
        method=method,
        order="natural" if method == "fixed" else None,
        confidence=0.9,
        calibration=fresh,
    )
    decisions, used = schedule.evaluate(fresh)
    promise = schedule.promise
    assert promise is not None
    assert promise.changed == np.sum(decisions != (fresh.sum(axis=1) >= 0))
    assert upper_bound(promise.changed, 1500, 0.9) <= 0.02 == promise.bound
    assert used.mean() < 20
    assert str(promise).startswith("at most 2.000% of decisions change on fresh rows")


def test_a_schedule_fitted_without_calibration_rows_promises_nothing() -> None:
    assert fit_schedule(SCORES, 0.0, 0.0).promise is None
