"""Schedules for more than two classes: their fitting, their promise."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.early_exit.feature_stages import cut_stages
from polydom.models.qwyc.fit_multiclass import fit_margin_schedule
from polydom.models.qwyc.kernels.next_model import MARGIN_BINS, measure_margin_impurity
from polydom.models.qwyc.optimal_stopping import Stopping
from polydom.models.qwyc.ordering import AHEAD
from polydom.models.qwyc.running_sums import MarginSums
from polydom.models.scoring.stopping_rule import margins_of
from polydom.models.scoring.whole_sums import whole_sums
from tests.support.examples import few
from tests.support.oracles.qwyc import margin_impurity
from tests.support.votes import drawn_class_scores, noisy_rounds

Floats = NDArray[np.float64]


@given(drawn_class_scores(models=2), st.sampled_from([0.5, 1.0, 3.0, 100.0]))
def test_stopping_finds_the_cheapest_margin_of_two_models(
    scores: Floats, price: float
) -> None:
    chosen = scores.sum(axis=1).argmax(axis=1)
    sums = MarginSums(scores, np.arange(2), chosen, bias=np.zeros(scores.shape[2]))
    stopping = Stopping(sums, costs=np.array([1.0, 2.0]), both=False)
    mean, wrong = stopping.outcome(stopping.cuts(price))
    margins = margins_of(scores[:, 0])
    best = math.inf
    for margin in [-1.0, *margins, math.inf]:
        stops = margins > margin
        errors = (scores[:, 0].argmax(axis=1) != chosen) & stops
        cost = 1.0 * len(scores) + 2.0 * (~stops).sum() + price * errors.sum()
        best = min(best, float(cost))
    assert mean * len(scores) + price * wrong == pytest.approx(best)


@given(drawn_class_scores(models=3), st.integers(-4, 4))
def test_margin_impurity_agrees_with_counting_by_hand(
    scores: Floats, start: int
) -> None:
    classes = scores.shape[2]
    sums = np.full((len(scores), classes), 0.0)
    sums[:, 0] = start / 4
    chosen = (sums + scores.sum(axis=1)).argmax(axis=1)
    impurity = np.empty(3)
    measure_margin_impurity(
        scores, np.arange(len(scores)), sums, chosen, np.arange(3), impurity
    )
    slow = [
        margin_impurity(sums + scores[:, k], chosen.tolist(), MARGIN_BINS)
        for k in range(3)
    ]
    np.testing.assert_allclose(impurity, slow)


@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.1])
def test_at_most_alpha_of_the_fitted_choices_change(alpha: float) -> None:
    scores = noisy_rounds(few(1000), 20)
    bias = np.array([0.1, 0.0, -0.1, 0.0])
    schedule = fit_margin_schedule(scores, alpha, bias=bias)
    choices, used = schedule.evaluate(scores)
    whole = whole_sums(scores, bias).argmax(axis=1)
    assert np.mean(choices != whole) <= alpha
    assert schedule.changed(scores) == (choices != whole).sum()
    assert used.mean() < 20


@pytest.mark.jit
def test_a_larger_alpha_takes_fewer_base_models_and_order_can_be_kept() -> None:
    scores = noisy_rounds(2000, 30)
    means = [
        fit_margin_schedule(scores, alpha).evaluate(scores)[1].mean()
        for alpha in (0.0, 0.01, 0.05)
    ]
    assert means == sorted(means, reverse=True)
    assert means[2] < 0.6 * means[0]
    kept = fit_margin_schedule(scores, 0.01, order=range(30))
    assert kept.order.tolist() == list(range(30))


def test_the_useful_base_model_comes_first() -> None:
    scores = noisy_rounds(2000, 6) * 0.1
    scores[:, 4] += noisy_rounds(2000, 1, seed=7)[:, 0] * 5
    assert fit_margin_schedule(scores, 0.01).order[0] == 4


def test_the_next_base_model_is_one_of_the_first_that_are_left() -> None:
    scores = noisy_rounds(500, AHEAD + 10) * 0.1
    scores[:, AHEAD] += noisy_rounds(500, 1, seed=7)[:, 0] * 5
    order = fit_margin_schedule(scores, 0.01).order.tolist()
    assert order.index(AHEAD) == 1
    left = list(range(AHEAD + 10))
    for model in order:
        assert left.index(model) < AHEAD
        left.remove(model)


@pytest.mark.jit
def test_features_are_opened_as_late_as_they_can_be() -> None:
    scores = noisy_rounds(2000, 20)
    uses = np.repeat(np.eye(2, dtype=np.bool_), 10, axis=0)
    schedule = fit_margin_schedule(
        scores, 0.02, costs=np.full(20, 1e-3), feature_costs=[50.0, 1.0], uses=uses
    )
    assert [s.features for s in cut_stages(schedule.order, uses)] == [(1,), (0,)]


@pytest.mark.jit
def test_a_calibrated_rate_holds_on_fresh_rows() -> None:
    rows = noisy_rounds(12_000, 20)
    schedule = fit_margin_schedule(
        rows[:3000], 0.02, confidence=0.95, calibration=rows[3000:6000]
    )
    assert schedule.promise is not None
    assert (schedule.promise.bound, schedule.promise.rows) == (0.02, 3000)
    assert schedule.changed(rows[6000:]) <= 0.02 * 6000
    assert schedule.evaluate(rows[6000:])[1].mean() < 20


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": np.zeros((3, 2))}, r"must be \(N, T, K\)"),
        ({"scores": np.zeros((3, 2, 1))}, r"must be \(N, T, K\)"),
        ({"scores": np.full((3, 2, 2), np.nan)}, r"scores\[0, 0, 0\] is nan"),
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"bias": [0.0]}, "one per class"),
        ({"order": [0, 0]}, "permutation of the 2"),
        ({"confidence": 0.9}, "needs calibration rows"),
        ({"calibration": np.zeros((9, 2, 2))}, "without a confidence"),
        ({"confidence": 0.9, "calibration": np.zeros((3, 2, 2))}, "needs at least 22"),
        ({"confidence": 0.9, "calibration": np.zeros((50, 3, 2))}, r"\(N, 2, 2\)"),
    ],
)
def test_what_cannot_be_fitted(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"scores": np.ones((3, 2, 2)), "alpha": 0.1} | changes
    with pytest.raises(BadInput, match=message):
        fit_margin_schedule(**arguments)
