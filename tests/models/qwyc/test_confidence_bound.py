"""The bound of a promise, and schedules that keep it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from polydom.models.qwyc.confidence_bound import fewest_rows, upper_bound
from polydom.models.qwyc.fit_schedule import fit_schedule
from polydom.models.qwyc.fixed_sequence import ClassTests, FreshRows, calibrate
from polydom.models.qwyc.promise import Promise
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
    rows = np.repeat(SCORES, 40, axis=0)
    whole = rows.sum(axis=1) >= 0
    fresh = FreshRows.of(whole, rows, whole)
    tests = ClassTests.of(whole, np.full(2, 0.05), 0.95)
    counts = tuple(np.bincount(whole).tolist())
    chosen = calibrate([never, always, SCHEDULE], fresh, tests)
    assert chosen.promise == Promise((0.05, 0.05), 0.95, counts, (0, 0))
    assert (chosen.evaluate(rows)[1] == 2).all()
    nothing = calibrate([always], fresh, tests)
    assert (nothing.evaluate(rows)[1] == 2).all()
    assert nothing.promise == Promise((0.0, 0.0), 0.95, counts, (0, 0))


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
        order=range(20) if method == "fixed" else None,
        confidence=0.9,
        calibration=fresh,
    )
    decisions, used = schedule.evaluate(fresh)
    promise = schedule.promise
    assert promise is not None
    whole = fresh.sum(axis=1) >= 0
    changed = np.bincount(whole[decisions != whole], minlength=2)
    # each side is counted as if the other did not stop rows before
    assert (changed <= promise.changed).all()
    assert promise.rows == tuple(np.bincount(whole).tolist())
    for wrong, rows in zip(promise.changed, promise.rows, strict=True):
        assert upper_bound(wrong, rows, 0.9) <= 0.02
    assert promise.bounds == (0.02, 0.02)
    assert used.mean() < 20


def test_a_schedule_fitted_without_calibration_rows_promises_nothing() -> None:
    assert fit_schedule(SCORES, 0.0, 0.0).promise is None


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ((0.005,), "at most 0.5% of the whole ensemble's decisions, with"),
        (
            (0.05,) * 2,
            "at most 5% of the whole ensemble's decisions for each class, with",
        ),
        (
            (0.0, 0.05),
            "none of the whole ensemble's decisions for class 0 and at most 5% of "
            "those for class 1, with",
        ),
        ((0.0,) * 3, "none of the whole ensemble's decisions, with"),
        (
            (0.01, 0.005, 0.0, 0.005),
            "at most 1% of the whole ensemble's decisions for class 0, none of those "
            "for class 2 and at most 0.5% of those for each of the classes 1 and 3, "
            "with",
        ),
        (
            (0.005,) * 9 + (0.0,),
            "none of the whole ensemble's decisions for class 9 and at most 0.5% of "
            "those for each other class, with",
        ),
    ],
)
def test_a_promise_is_a_sentence_for_a_stranger(
    bounds: tuple[float, ...], said: str
) -> None:
    count = len(bounds)
    promise = Promise(bounds, 0.95, (600,) * count, (1,) + (0,) * (count - 1))
    assert str(promise) == (
        f"on new rows, early exits change {said} 95% confidence "
        f"(1 of {600 * count:,} calibration rows changed)"
    )
