"""The budget that most requests have at least."""

import math

import numpy as np
import pytest

from polydom.server.runtime.admission_control.usual_budget import SHARE, UsualBudget


@pytest.mark.parametrize("spread", [0.2, 0.5, 1.0])
def test_about_a_tenth_of_the_budgets_is_smaller(spread: float) -> None:
    draw = np.random.default_rng(3)
    budgets_s = 0.02 * np.exp(spread * draw.standard_normal(6_000))
    usual = UsualBudget(0.05)
    smaller = []
    for budget_s in budgets_s.tolist():
        usual.add(budget_s)
        smaller.append(budget_s < usual.seconds)
    assert np.mean(smaller[1_000:]) == pytest.approx(SHARE, abs=0.05)


def test_one_odd_budget_changes_little_and_none_nothing() -> None:
    usual = UsualBudget(0.05)
    for budget_s in (math.inf, -math.inf, 0.0, 0.05):
        usual.add(budget_s)
    assert usual.seconds == 0.05
    usual.add(1e-6)
    assert 0.049 < usual.seconds < 0.05
