"""Measures of probabilities and of single classes, against scikit-learn's."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from polydom.features.errors import BadInput
from polydom.models import measures

ROWS = st.lists(
    st.tuples(
        st.integers(0, 1), st.integers(0, 1), st.integers(0, 8), st.integers(1, 3)
    ),
    min_size=1,
    max_size=25,
)


@given(ROWS, st.sampled_from([0, 1]))
def test_precision_recall_and_their_curve_are_scikit_learns(
    rows: list[tuple[int, int, int, int]], positive: int
) -> None:
    labels, choices, ranks, weights = (np.array(one) for one in zip(*rows, strict=True))
    shares = np.column_stack([1 - ranks / 8, ranks / 8])
    found = measures.rates(labels, choices, 2, weights)[positive]
    terms = {"pos_label": positive, "sample_weight": weights, "zero_division": np.nan}
    for mine, score in (
        (found.precision, metrics.precision_score(labels, choices, **terms)),
        (found.recall, metrics.recall_score(labels, choices, **terms)),
        (found.f1, metrics.f1_score(labels, choices, **terms)),
    ):
        assert (mine is None) == math.isnan(score)
        assert mine is None or mine == pytest.approx(score)
    area = measures.average_precision(labels, shares, weights, positive=positive)
    own = labels == positive
    if not own.any():
        assert math.isnan(area)
        return
    scores = shares[:, positive]
    expected = metrics.average_precision_score(own, scores, sample_weight=weights)
    assert area == pytest.approx(expected)
    curve = measures.precision_recall_curve(own, scores, weights)
    precision, recall, cuts = metrics.precision_recall_curve(
        own, scores, sample_weight=weights
    )
    np.testing.assert_allclose([p.precision for p in curve], precision[:-1][::-1])
    np.testing.assert_allclose([p.recall for p in curve], recall[:-1][::-1])
    assert [p.threshold for p in curve] == cuts[::-1].tolist()


@given(ROWS)
def test_brier_and_calibration_error_are_their_definitions(
    rows: list[tuple[int, int, int, int]],
) -> None:
    labels, _, ranks, weights = (np.array(one) for one in zip(*rows, strict=True))
    shares = np.column_stack([1 - ranks / 8, ranks / 8])
    brier = metrics.brier_score_loss(labels, ranks / 8, sample_weight=weights)
    assert measures.brier(labels, shares, weights) == pytest.approx(brier)
    error, bins = 0.0, np.minimum((ranks / 8 * measures.BINS).astype(int), 14)
    for one in {*bins.tolist()}:
        at = bins == one
        gap = np.average(ranks[at] / 8 - labels[at], weights=weights[at])
        error += abs(gap) * weights[at].sum() / weights.sum()
    assert measures.calibration_error(labels, shares, weights) == pytest.approx(error)


def test_of_more_classes_the_largest_probability_is_judged() -> None:
    shares = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.7, 0.2, 0.1]])
    labels = [0, 1, 2]
    assert measures.calibration_error(labels, shares) == pytest.approx(
        2 / 3 * abs(0.7 - 0.5) + 1 / 3 * 0.2
    )
    onehot = np.eye(3)[labels]
    expected = ((shares - onehot) ** 2).sum(axis=1).mean()
    assert measures.brier(labels, shares) == pytest.approx(expected)
    each = [
        metrics.average_precision_score(onehot[:, k], shares[:, k]) for k in range(3)
    ]
    assert measures.average_precision(labels, shares) == pytest.approx(np.mean(each))
    assert len(measures.rates([0, 0], [0, 0], 3)) == 3
    assert measures.rates([0, 0], [0, 0], 3)[2] == (None, None, None)


def test_edges_of_f_beta_and_of_scores() -> None:
    assert measures.f_beta(measures.Rates(None, 0.0, 0.0), 1.0) == 0.0
    assert measures.f_beta(measures.Rates(0.5, 1.0, 2 / 3), 2.0) == pytest.approx(
        metrics.fbeta_score([1, 0], [1, 1], beta=2.0)
    )
    for measure in (measures.brier, measures.reliability, measures.calibration_error):
        with pytest.raises(BadInput, match="no probabilities"):
            measure([0], [[1.0, 1.0]])
    with pytest.raises(BadInput, match="at least two"):
        measures.average_precision([0], [[1.0]])
    with pytest.raises(BadInput, match="row 0 is not finite"):
        measures.precision_recall_curve([1], [np.nan])
