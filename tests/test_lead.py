"""Schedules for more than two classes: the rule, its fitting, its promise."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.errors import BadIndexFile, BadInput
from polydom.indexer._lead_kernels import BINS, measure_lead_doubt
from polydom.indexer.lead import LeadSchedule
from polydom.indexer.lead_fitting import AHEAD, fit_lead_schedule
from polydom.indexer.stages import cut_stages
from polydom.indexer.stopping import Stopping
from polydom.indexer.track import LeadTrack, lead
from polydom.models.sums import whole_sums

from . import oracles

Floats = NDArray[np.float64]

# Class 0 leads by 3 at once; class 2 overtakes class 1 with the second base model.
SCORES = np.array([[[3.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [[0, 1.5, 0], [0, 0, 2]]])
SCHEDULE = LeadSchedule(np.array([0, 1]), np.array([2.0, np.inf]), np.zeros(3))


@st.composite
def drawn_scores(draw: st.DrawFn, models: int | None = None) -> Floats:
    """Scores in quarters, so that sums are exact and leads often tied."""
    rows, classes = draw(st.integers(1, 10)), draw(st.integers(2, 4))
    columns = draw(st.integers(1, 4)) if models is None else models
    size = rows * columns * classes
    quarters = st.lists(st.integers(-8, 8), min_size=size, max_size=size)
    return np.array(draw(quarters)).reshape(rows, columns, classes) / 4


def noisy_rounds(rows: int, models: int, classes: int = 4, seed: int = 0) -> Floats:
    """Base models that agree with hidden class scores, more or less."""
    draws = np.random.default_rng(seed)
    hidden = draws.normal(size=(rows, 1, classes))
    return (hidden + draws.normal(size=(rows, models, classes))) / models


def test_stops_beyond_the_margin_and_goes_on_at_it() -> None:
    choices, used = SCHEDULE.evaluate(SCORES)
    assert (choices.tolist(), used.tolist()) == ([0, 2], [1, 2])
    at = LeadSchedule(np.array([0, 1]), np.array([3.0, np.inf]), np.zeros(3))
    assert at.evaluate(SCORES)[1].tolist() == [2, 2]


@given(drawn_scores(), st.data())
def test_evaluate_does_what_adding_up_by_hand_does(
    scores: Floats, data: st.DataObject
) -> None:
    models, classes = scores.shape[1:]
    order = data.draw(st.permutations(range(models)))
    quarters = st.integers(-1, 12).map(lambda q: q / 4)
    margin = data.draw(st.lists(quarters, min_size=models, max_size=models))
    bias = [0.25 * k for k in range(classes)]
    schedule = LeadSchedule(np.array(order), np.array(margin), np.array(bias))
    choices, used = schedule.evaluate(scores)
    slow = [oracles.walk_leads(row, order, margin, bias) for row in scores]
    assert list(zip(choices.tolist(), used.tolist(), strict=True)) == slow


@given(drawn_scores(models=2), st.sampled_from([0.5, 1.0, 3.0, 100.0]))
def test_stopping_finds_the_cheapest_lead_of_two_models(
    scores: Floats, price: float
) -> None:
    track = LeadTrack(scores, np.arange(2), np.zeros(scores.shape[2]))
    stopping = Stopping(track, costs=np.array([1.0, 2.0]), both=False)
    mean, wrong = stopping.outcome(stopping.cuts(price))
    leads, chosen = lead(scores[:, 0]), scores.sum(axis=1).argmax(axis=1)
    best = math.inf
    for margin in [-1.0, *leads, math.inf]:
        stops = leads > margin
        errors = (scores[:, 0].argmax(axis=1) != chosen) & stops
        cost = 1.0 * len(scores) + 2.0 * (~stops).sum() + price * errors.sum()
        best = min(best, float(cost))
    assert mean * len(scores) + price * wrong == pytest.approx(best)


@given(drawn_scores(models=3), st.integers(-4, 4))
def test_lead_doubt_agrees_with_counting_by_hand(scores: Floats, start: int) -> None:
    classes = scores.shape[2]
    sums = np.full((len(scores), classes), 0.0)
    sums[:, 0] = start / 4
    chosen = (sums + scores.sum(axis=1)).argmax(axis=1)
    doubt = np.empty(3)
    measure_lead_doubt(
        scores, np.arange(len(scores)), sums, chosen, np.arange(3), doubt
    )
    slow = [
        oracles.lead_doubt(sums + scores[:, k], chosen.tolist(), BINS) for k in range(3)
    ]
    np.testing.assert_allclose(doubt, slow)


@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.1])
def test_at_most_alpha_of_the_fitted_choices_change(alpha: float) -> None:
    scores = noisy_rounds(1000, 20)
    bias = np.array([0.1, 0.0, -0.1, 0.0])
    schedule = fit_lead_schedule(scores, alpha, bias=bias)
    choices, used = schedule.evaluate(scores)
    whole = whole_sums(scores, bias).argmax(axis=1)
    assert np.mean(choices != whole) <= alpha
    assert schedule.changed(scores) == (choices != whole).sum()
    assert used.mean() < 20


def test_a_larger_alpha_takes_fewer_base_models_and_order_can_be_kept() -> None:
    scores = noisy_rounds(2000, 30)
    means = [
        fit_lead_schedule(scores, alpha).evaluate(scores)[1].mean()
        for alpha in (0.0, 0.01, 0.05)
    ]
    assert means == sorted(means, reverse=True)
    assert means[2] < 0.6 * means[0]
    kept = fit_lead_schedule(scores, 0.01, order=range(30))
    assert kept.order.tolist() == list(range(30))


def test_the_useful_base_model_comes_first() -> None:
    scores = noisy_rounds(2000, 6) * 0.1
    scores[:, 4] += noisy_rounds(2000, 1, seed=7)[:, 0] * 5
    assert fit_lead_schedule(scores, 0.01).order[0] == 4


def test_the_next_base_model_is_one_of_the_first_that_are_left() -> None:
    scores = noisy_rounds(500, AHEAD + 10) * 0.1
    scores[:, AHEAD] += noisy_rounds(500, 1, seed=7)[:, 0] * 5
    order = fit_lead_schedule(scores, 0.01).order.tolist()
    assert order.index(AHEAD) == 1
    left = list(range(AHEAD + 10))
    for model in order:
        assert left.index(model) < AHEAD
        left.remove(model)


def test_features_are_opened_as_late_as_they_can_be() -> None:
    scores = noisy_rounds(2000, 20)
    uses = np.repeat(np.eye(2, dtype=np.bool_), 10, axis=0)
    schedule = fit_lead_schedule(
        scores, 0.02, costs=np.full(20, 1e-3), feature_costs=[50.0, 1.0], uses=uses
    )
    assert [s.features for s in cut_stages(schedule.order, uses)] == [(1,), (0,)]


def test_a_calibrated_rate_holds_on_fresh_rows() -> None:
    rows = noisy_rounds(12_000, 20)
    schedule = fit_lead_schedule(
        rows[:3000], 0.02, confidence=0.95, calibration=rows[3000:6000]
    )
    assert schedule.promise is not None
    assert (schedule.promise.bound, schedule.promise.rows) == (0.02, 3000)
    assert schedule.changed(rows[6000:]) <= 0.02 * 6000
    assert schedule.evaluate(rows[6000:])[1].mean() < 20


def test_arrays_come_back_and_damage_is_refused() -> None:
    scores = noisy_rounds(500, 5)
    schedule = fit_lead_schedule(
        scores, 0.1, confidence=0.9, calibration=noisy_rounds(300, 5, seed=1)
    )
    again = LeadSchedule.from_arrays(schedule.arrays())
    assert again.promise == schedule.promise
    for name, array in schedule.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name])
    for name, damage in {
        "order": np.zeros(5, np.int64),
        "margin": np.full(5, np.nan),
        "bias": np.zeros(1),
    }.items():
        with pytest.raises(BadIndexFile, match=name):
            LeadSchedule.from_arrays({**schedule.arrays(), name: damage})


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
        fit_lead_schedule(**arguments)
