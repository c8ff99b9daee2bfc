"""Schedules: the rule itself, for two classes and for more, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.qwyc.schedule import MarginSchedule, Schedule
from tests.support.models.votes import (
    SCHEDULE,
    SCORES,
    drawn_class_scores,
    drawn_scores,
)
from tests.support.oracles.early_exit import walk_early, walk_margins

Floats = NDArray[np.float64]

# Class 0 leads by 3 at once; class 2 overtakes class 1 with the second base model.
CLASS_SCORES = np.array([[[3.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [[0, 1.5, 0], [0, 0, 2]]])
BY_MARGIN = MarginSchedule(np.array([0, 1]), np.array([2.0, np.inf]), np.zeros(3))


def test_evaluate_stops_outside_the_thresholds_and_goes_on_between_them() -> None:
    decisions, used = SCHEDULE.evaluate(SCORES)
    assert decisions.tolist() == [False, False, True, False, True]
    assert used.tolist() == [1, 1, 2, 2, 1]


def test_evaluate_goes_on_exactly_at_a_threshold() -> None:
    _, used = SCHEDULE.evaluate(np.array([[-1.0, 0.0], [1.0, 0.0]]))
    assert used.tolist() == [2, 2]


def test_evaluate_is_positive_exactly_at_beta_after_the_last_model() -> None:
    decisions, _ = SCHEDULE.evaluate(np.array([[0.5, -0.5]]))
    assert decisions.tolist() == [True]


@given(drawn_scores(models=3), st.permutations(range(3)), st.data())
def test_evaluate_agrees_with_adding_up_by_hand(
    scores: Floats, order: list[int], data: st.DataObject
) -> None:
    pairs = st.tuples(st.integers(-8, 8), st.integers(-8, 8)).map(sorted)
    bounds = np.array([data.draw(pairs) for _ in order]) / 4
    schedule = Schedule(np.array(order), bounds[:, 0].copy(), bounds[:, 1].copy(), 0.25)
    decisions, used = schedule.evaluate(scores)
    slow = walk_early(scores, order, bounds[:, 0], bounds[:, 1], 0.25)
    assert (decisions.tolist(), used.tolist()) == slow


def test_stops_beyond_the_margin_and_goes_on_at_it() -> None:
    choices, used = BY_MARGIN.evaluate(CLASS_SCORES)
    assert (choices.tolist(), used.tolist()) == ([0, 2], [1, 2])
    at = MarginSchedule(np.array([0, 1]), np.array([3.0, np.inf]), np.zeros(3))
    assert at.evaluate(CLASS_SCORES)[1].tolist() == [2, 2]


@given(drawn_class_scores(), st.data())
def test_evaluate_by_margin_agrees_with_adding_up_by_hand(
    scores: Floats, data: st.DataObject
) -> None:
    models, classes = scores.shape[1:]
    order = data.draw(st.permutations(range(models)))
    quarters = st.integers(-1, 12).map(lambda q: q / 4)
    margin = data.draw(st.lists(quarters, min_size=models, max_size=models))
    bias = [0.25 * k for k in range(classes)]
    schedule = MarginSchedule(np.array(order), np.array(margin), np.array(bias))
    choices, used = schedule.evaluate(scores)
    slow = [walk_margins(row, order, margin, bias) for row in scores]
    assert list(zip(choices.tolist(), used.tolist(), strict=True)) == slow


def test_without_stops_every_row_is_evaluated_whole() -> None:
    for schedule, scores in ((SCHEDULE, SCORES), (BY_MARGIN, CLASS_SCORES)):
        whole = schedule.without_stops()
        assert set(whole.evaluate(scores)[1]) == {2}
        assert len(whole.changed(scores)) == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"order": np.array([0, 0])}, "not a permutation of 0 ... 1"),
        (
            {"order": np.array([], np.int64)},
            r"order, lower and upper have shapes \(0,\), \(2,\) and \(2,\); they must "
            "be equally long and not empty",
        ),
        ({"lower": np.array([[0.0]])}, "equally long"),
        ({"lower": np.array([0.0])}, "equally long"),
        ({"lower": np.array([np.nan, 0.0])}, r"lower\[0\] is nan"),
        (
            {"lower": np.array([0.0, 3.0]), "upper": np.full(2, 2.0)},
            r"lower\[1\] is 3.0",
        ),
        ({"threshold": np.nan}, "threshold is nan"),
    ],
)
def test_schedule_refuses_what_makes_no_sense(
    changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        replace(SCHEDULE, **changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"order": np.zeros(2, np.int64)}, "not a permutation of 0 ... 1"),
        ({"margin": np.zeros(3)}, r"order and margin have shapes \(2,\) and \(3,\)"),
        ({"margin": np.array([0.0, np.nan])}, r"margin\[1\] is nan"),
        ({"bias": np.zeros(1)}, "bias must be finite numbers"),
        ({"bias": np.array([0.0, np.inf])}, "bias must be finite numbers"),
    ],
)
def test_schedule_by_margin_refuses_what_makes_no_sense(
    changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        replace(BY_MARGIN, **changes)


def test_evaluate_refuses_another_number_of_base_models() -> None:
    with pytest.raises(BadInput, match=r"must be \(N, 2\)"):
        SCHEDULE.evaluate(np.ones((3, 4)))
