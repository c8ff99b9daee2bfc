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
