"""Measures of quality, against scikit-learn's."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from polydom.features.errors import BadInput
from polydom.models import measures


@st.composite
def answers(draw: st.DrawFn) -> dict[str, Any]:
    """Few rows of few classes, some of which none has; scores with many ties."""
    count, classes = draw(st.integers(1, 12)), draw(st.integers(2, 4))
    codes = st.lists(st.integers(0, classes - 1), min_size=count, max_size=count)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    raw = rng.integers(0, 4, (count, classes)) + (np.arange(classes) == 0)
    weights = draw(st.sampled_from([None, rng.integers(1, 4, count).astype(float)]))
    return {
        "labels": np.array(draw(codes)),
        "choices": np.array(draw(codes)),
        "scores": raw / raw.sum(axis=1, keepdims=True),
        "weights": weights,
    }


@given(answers())
def test_measures_of_choices_are_those_of_scikit_learn(drawn: dict[str, Any]) -> None:
    own, chosen, weights = (drawn[k] for k in ("labels", "choices", "weights"))
    exact = {"sample_weight": weights}
    with warnings.catch_warnings():  # of classes that are chosen and absent
        warnings.simplefilter("ignore")
        balanced = metrics.balanced_accuracy_score(own, chosen, **exact)
        macro = metrics.f1_score(
            own,
            chosen,
            labels=np.unique(own),
            average="macro",
            zero_division=0,
            **exact,
        )
    right = metrics.accuracy_score(own, chosen, **exact)
    matrix = metrics.confusion_matrix(own, chosen, labels=range(4), **exact)
    assert measures.accuracy(own, chosen, weights) == pytest.approx(right)
    assert measures.balanced_accuracy(own, chosen, weights) == pytest.approx(balanced)
    assert measures.macro_f1(own, chosen, weights) == pytest.approx(macro)
    assert measures.confusion(own, chosen, 4, weights) == pytest.approx(matrix)


@given(answers())
def test_measures_of_scores_are_those_of_scikit_learn(drawn: dict[str, Any]) -> None:
    own, scores, weights = (drawn[k] for k in ("labels", "scores", "weights"))
    classes = scores.shape[1]
    loss = metrics.log_loss(own, scores, sample_weight=weights, labels=range(classes))
    assert measures.log_loss(own, scores, weights) == pytest.approx(loss)
    tested = [1] if classes == 2 else range(classes)
    areas = [
        metrics.roc_auc_score(own == k, scores[:, k], sample_weight=weights)
        for k in tested
        if 0 < (own == k).sum() < len(own)
    ]
    precisions = [
        metrics.average_precision_score(own == k, scores[:, k], sample_weight=weights)
        for k in tested
        if (own == k).any()
    ]
    if precisions:
        found = measures.average_precision(own, scores, weights)
        assert found == pytest.approx(np.mean(precisions))
    area = measures.auc(own, scores, weights)
    if areas:
        assert area == pytest.approx(np.mean(areas))
    else:
        assert np.isnan(area)
    if len(np.unique(own)) == classes > 2:
        macro = metrics.roc_auc_score(
            own, scores, multi_class="ovr", sample_weight=weights
        )
        assert area == pytest.approx(macro)


def test_a_class_without_a_column_is_never_right_and_another_to_all() -> None:
    scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    loss = measures.log_loss([0, 1, 2], scores)
    assert loss == pytest.approx(-(np.log(0.9) + np.log(0.8) + np.log(2**-52)) / 3)
    assert measures.auc([0, 1, 2], scores) == 1.0
    assert measures.auc([1, 0, 2], scores) == 0.0


def test_weights_of_nothing_leave_a_class_out() -> None:
    own, chosen, weights = [0, 1, 2], [0, 1, 0], [1.0, 1.0, 0.0]
    assert measures.balanced_accuracy(own, chosen, weights) == 1.0
    assert measures.macro_f1(own, chosen, weights) == 1.0


NAN = float("nan")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: measures.accuracy([], []), r"labels have the shape \(0,\)"),
        (lambda: measures.accuracy([0, 1], [0]), "2 labels for 1 answers"),
        (lambda: measures.accuracy([0.5], [0]), "labels must be whole numbers"),
        (lambda: measures.accuracy([0], [-1]), "choices must be whole numbers"),
        (lambda: measures.accuracy([0], [0], [NAN]), "weights: row 0 is not finite"),
        (lambda: measures.accuracy([0], [0], [0.0]), "not all 0"),
        (lambda: measures.accuracy([0, 0], [0, 0], [2.0, -1.0]), "0 or more"),
        (lambda: measures.accuracy([0], [0], [1.0, 1.0]), r"weights have the shape"),
        (lambda: measures.confusion([0, 3], [0, 1], 3), "class 3; all must be below 3"),
        (lambda: measures.log_loss([0], [[NAN, 1.0]]), "scores: row 0 is not finite"),
        (lambda: measures.log_loss([0], [[-2.0, 2.0]]), "no probabilities"),
        (lambda: measures.log_loss([0], [0.5]), r"scores have the shape \(1,\)"),
        (lambda: measures.auc([0, 1], [[0.0, 1.0], [NAN, 0.0]]), "scores: row 1"),
        (lambda: measures.auc([0], [[1.0]]), "1 classes have scores"),
    ],
)
def test_measures_say_what_they_cannot_use(
    call: Callable[[], float], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        call()


@st.composite
def numbers(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    """Labels with ties, answers, and weights, of which some are 0; in any unit."""
    count, seed = draw(st.integers(2, 12)), draw(st.integers(0, 999))
    rng = np.random.default_rng(seed)
    scale = draw(st.sampled_from([1e-9, 1.0, 1e9]))
    labels = scale * rng.integers(-2, 3, count)
    values = np.where(rng.random(count) < 0.5, labels, scale * rng.normal(size=count))
    weights = draw(st.sampled_from([None, rng.integers(0, 4, count) + 0.0]))
    if weights is not None:
        weights[rng.integers(count)] = 0.5
    return labels, values, weights


@given(numbers())
def test_measures_of_numbers_are_those_of_scikit_learn(drawn: Any) -> None:
    labels, values, weights = drawn
    each = {"sample_weight": weights}
    error = metrics.mean_absolute_error(labels, values, **each)
    assert measures.mae(labels, values, weights) == pytest.approx(error, rel=1e-12)
    counted = np.ones(len(labels)) if weights is None else weights
    there = counted > 0
    if len(np.unique(labels[there])) == 1:
        right = float((labels == values)[there].all())
        assert measures.r2(labels, values, weights) == right
        assert measures.d2_absolute(labels, values, weights) == right
        return
    explained = metrics.r2_score(labels, values, **each)
    assert measures.r2(labels, values, weights) == pytest.approx(explained, rel=1e-9)
    # the least sum of absolute deviations is at one of the labels
    least = min(counted @ np.abs(labels - one) for one in labels)
    share = 1 - counted @ np.abs(labels - values) / least
    assert measures.d2_absolute(labels, values, weights) == pytest.approx(share)
    if weights is None:
        its = metrics.d2_absolute_error_score(labels, values)
        assert share == pytest.approx(its)


MEASURES = [measures.r2, measures.d2_absolute]


@pytest.mark.parametrize("measure", MEASURES)
def test_numbers_that_are_all_alike_are_answered_or_not(measure: Any) -> None:
    alike = np.full(3, 0.1)
    assert measure(alike, alike) == 1.0
    assert measure(alike, [0.1, 0.1, 0.2]) == 0.0
    assert measure([5.0], [5.0]) == 1.0
    assert measure([5.0], [4.0]) == 0.0
    assert measure([0, 0], [0, 0]) == 1.0
    assert measure([1, 2, 7], [1, 2, 9], [1, 0, 0]) == 1.0


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("size", [1e-300, 1e-5, 1e160, 8e307])
def test_measures_of_numbers_have_no_unit(measure: Any, size: float) -> None:
    labels, values = np.array([1.0, -2.0, 0.5]), np.array([0.5, -1.0, 0.5])
    assert measure(size * labels, size * values) == pytest.approx(
        measure(labels, values)
    )
    assert measure(labels, values, [size] * 3) == pytest.approx(measure(labels, values))


def test_answers_beyond_all_bounds_explain_nothing() -> None:
    assert measures.r2([1.0, 2.0], [1e200, 0.0]) == -np.inf
    assert measures.r2([1e-300, 0.0], [1e308, 0.0]) == -np.inf
    assert measures.mae([-1.7e308], [1.7e308]) == np.inf


@pytest.mark.parametrize(
    ("labels", "values", "weights", "message"),
    [
        ([], [], None, r"labels have the shape \(0,\)"),
        ([[1.0]], [[1.0]], None, r"labels have the shape \(1, 1\)"),
        ([1.0], [[1.0]], None, r"values have the shape \(1, 1\)"),
        ([1.0, 2.0], [1.0], None, "there are 2 labels for 1 answers"),
        ([1.0, np.nan], [1.0, 2.0], None, "labels: row 1 is not finite"),
        ([1.0, 2.0], [np.inf, 2.0], None, "values: row 0 is not finite"),
        ([1.0, 2.0], [1.0, 2.0], [1.0], r"weights have the shape \(1,\)"),
        ([1.0, 2.0], [1.0, 2.0], [1.0, -1.0], "weights must be 0 or more"),
        ([1.0, 2.0], [1.0, 2.0], [0.0, 0.0], "weights must be 0 or more, and not all"),
        ([1.0, 2.0], [1.0, 2.0], [1.0, np.nan], "weights: row 1 is not finite"),
    ],
)
@pytest.mark.parametrize("measure", [*MEASURES, measures.mae])
def test_numbers_that_cannot_be_measured_are_refused(
    measure: Any, labels: Any, values: Any, weights: Any, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        measure(labels, values, weights)
