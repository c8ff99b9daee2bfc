"""LazyGBM's certificate and bounds by pairs of classes, in the benchmarks."""

import lightgbm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.exits.residual_certificates import (
    Leaves,
    as_two_classes,
    certified,
    certified_by_pairs,
    leaves_of,
)
from benchmarks.models.boosting import boost
from polydom.models.qwyc.schedule import Schedule
from polydom.models.scoring.remaining_bounds import bound_remaining
from tests.support.oracles.exit_rules import stages_until_certain
from tests.support.votes import drawn_class_scores, drawn_scores

pytestmark = pytest.mark.jit  # rivals: what they have of kernels is tested by ours

Floats = NDArray[np.float64]


def bounds_of(scores: Floats) -> Leaves:
    return Leaves(scores.min(axis=0), scores.max(axis=0))


@given(drawn_class_scores(), st.randoms(use_true_random=False))
def test_certificates_agree_with_rows_one_by_one(scores: Floats, draws: object) -> None:
    leaves, bias = bounds_of(scores), np.arange(scores.shape[2]) / 4
    order = np.arange(scores.shape[1])
    draws.shuffle(order)  # type: ignore[attr-defined]
    parts = leaves.least[order], leaves.most[order]
    for pairs, certify in ((False, certified), (True, certified_by_pairs)):
        slow = [stages_until_certain(row[order], bias, *parts, pairs) for row in scores]
        assert certify(scores, bias, leaves, order).tolist() == slow


@given(drawn_class_scores())
def test_what_is_certain_changes_nothing_and_pairs_are_never_later(
    scores: Floats,
) -> None:
    leaves, bias = bounds_of(scores), np.zeros(scores.shape[2])
    order = np.arange(scores.shape[1])
    used = [
        certify(scores, bias, leaves, order)
        for certify in (certified, certified_by_pairs)
    ]
    assert (used[1] <= used[0]).all()
    sums = np.cumsum(scores, axis=1)
    for stages in used:
        answers = sums[np.arange(len(sums)), stages - 1].argmax(axis=1)
        assert answers.tolist() == sums[:, -1].argmax(axis=1).tolist()


@given(drawn_scores())
def test_an_exact_schedule_of_two_classes_is_never_later(
    scores: Floats,
) -> None:
    remaining = bound_remaining(scores.min(axis=0), scores.max(axis=0))
    lower, upper = remaining.limits(0.0)
    schedule = Schedule(remaining.order, lower, upper, 0.0)
    two = as_two_classes(scores)
    ours = schedule.evaluate(scores)[1]
    leaves = bounds_of(two)
    theirs = certified_by_pairs(two, np.zeros(2), leaves, remaining.order)
    assert (ours <= theirs).all()  # a sum exactly at a bound is sure for one class only
    assert (theirs <= certified(two, np.zeros(2), leaves, remaining.order)).all()


@pytest.mark.jit
@pytest.mark.parametrize("classes", [2, 3])
def test_leaves_are_those_of_the_booster(classes: int) -> None:
    draws = np.random.default_rng(0)
    X = draws.normal(size=(300, 4))
    y = (X[:, 0] * 2).astype(np.int64) % classes
    options = {"objective": "multiclass", "num_class": 3} if classes == 3 else {}
    if classes == 2:
        options = {"objective": "binary"}
    booster, ensemble = boost(X, y, 4, num_leaves=5, num_threads=1, **options)
    leaves, scores = leaves_of(booster, classes), ensemble.base_scores(X)
    if classes == 2:
        scores = as_two_classes(scores)
    assert isinstance(booster, lightgbm.Booster)
    assert scores.min(axis=0) == pytest.approx(leaves.least)
    assert scores.max(axis=0) == pytest.approx(leaves.most)
