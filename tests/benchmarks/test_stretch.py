"""The stretch is what its definition says."""

import numpy as np
import pytest

from benchmarks.serving.stretch import Asked, by_budget

pytestmark = pytest.mark.jit  # of no kernel


def made(right: list[float], in_time: list[float]) -> Asked:
    """100 answers to one item at 1, 2, ... ms of shares; those without limit take 2."""
    count = len(right)
    budgets_ms = np.array([*range(1, count + 1), 1000.0])
    turns = np.arange(100)[:, np.newaxis, np.newaxis]
    took_s = np.where(turns < 100 * np.array([*in_time, 1.0]), 0.5, 1.5) * budgets_ms
    took_s[..., -1] = 2.0
    return Asked(
        budgets_ms,
        np.ones(1),
        turns < 100 * np.array([*right, 1.0]),
        took_s / 1e3,
        np.full(took_s.shape, "best"),
    )


@pytest.mark.parametrize(
    ("right", "in_time", "stretch"),
    [
        ([0.5, 0.99, 1.0], [1.0, 1.0, 1.0], 1.0),
        ([0.5, 0.98, 1.0], [1.0, 1.0, 1.0], 1.5),
        ([1.0, 1.0, 1.0], [0.97, 0.97, 0.98], 1.5),
        ([1.0, 1.0, 1.0], [0.98, 0.9, 1.0], 0.5),
        ([1.0, 1.0, 0.9], [0.9, 0.9, 1.0], np.inf),
    ],
    ids=["right", "nearly right", "in time", "the least", "never both"],
)
def test_stretch_is_the_least_budget_that_is_enough_over_the_median(
    right: list[float], in_time: list[float], stretch: float
) -> None:
    asked = made(right, in_time)
    assert asked.stretch() == stretch
    assert asked.interval() == [stretch, stretch]  # of one item
    rows = by_budget(asked)
    assert [row["right"] for row in rows] == pytest.approx([*right, 1.0])
    assert [row["in time"] for row in rows] == pytest.approx([*in_time, 1.0])
