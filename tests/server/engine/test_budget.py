"""Time runs out from the first byte; money does not."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.server.engine.budget import Deadline, MoneyBudget


def test_deadline_counts_from_the_first_byte_and_keeps_its_reserve() -> None:
    deadline = Deadline(arrived_s=100.0, amount=0.005, reserve_s=0.001)
    assert deadline.due_s == 100.005
    assert deadline.whole == pytest.approx(0.004)
    assert deadline.left(100.0) == pytest.approx(0.004)
    assert deadline.left(100.003) == pytest.approx(0.001)
    assert deadline.left(100.006) < 0


@given(st.floats(0, 1e6))
def test_allowance_is_the_same_at_any_time(now_s: float) -> None:
    allowance = MoneyBudget(22.78)
    assert allowance.left(now_s) == allowance.whole == allowance.amount == 22.78
    assert allowance.due_s == math.inf
