"""Weights of classes, and costs of answers."""

import numpy as np
import pytest

from polydom.features.errors import BadProject
from polydom.features.items import text_item
from polydom.indexer.building.data.dataset import Dataset, make_dataset
from polydom.indexer.building.project import Quality
from polydom.indexer.building.training.class_weights import (
    class_weights,
    costs_by_code,
)
from polydom.indexer.building.training.quality import Metric
from polydom.models.selection.arms import takes_weights
from polydom.models.selection.learners import make_learner

LABELS = ("a", "b", "c")
COSTS = {"a": {"b": 4.0, "a": 1.0}, "c": {"a": 0.0, "b": 0.0}}


def dataset() -> Dataset:
    labels = [*"aaaaaabbbc"]
    return make_dataset([text_item(t) for t in labels], labels, labels, range(10))


def test_costs_that_are_not_named_are_those_of_any_mistake() -> None:
    assert costs_by_code(COSTS, LABELS).tolist() == [[1, 4, 1], [1, 0, 1], [0, 0, 0]]
    with pytest.raises(BadProject, match="no class 'd'"):
        costs_by_code({"d": {"a": 1}}, LABELS)
    with pytest.raises(BadProject, match="no answer costs anything"):
        costs_by_code({"a": {"b": 0}, "b": {"a": 0}}, LABELS[:2])


@pytest.mark.parametrize(
    ("terms", "measure", "expected"),
    [
        (Quality(), "accuracy", None),
        (Quality(), "macro_f1", None),
        (Quality(class_weights="equal"), "balanced_accuracy", None),
        (Quality(), "balanced_accuracy", [1 / 6, 1 / 3, 1]),
        (Quality(class_weights="balanced"), "accuracy", [1 / 6, 1 / 3, 1]),
        (Quality(class_weights={"c": 5.0}), "accuracy", [1, 1, 5]),
        (Quality(costs=COSTS), "cost", [6, 2, 6e-6]),
        (Quality(costs=COSTS, class_weights="equal"), "cost", None),
    ],
)
def test_weights_follow_the_measure_or_what_is_asked_for(
    terms: Quality, measure: str, expected: list[float] | None
) -> None:
    costs = costs_by_code(terms.costs, LABELS) if terms.costs else None
    found = class_weights(terms, Metric(measure, 3, costs), dataset())
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert found / found[0] == pytest.approx(np.array(expected) / expected[0])
    assert found[dataset().codes].mean() == pytest.approx(1)


def test_weights_of_two_classes_are_the_costs_of_the_other(  # Elkan, 2001
) -> None:
    costs = np.array([[0.0, 10.0], [1.0, 0.0]])
    labels = [*"aaab"]
    items = make_dataset([text_item(t) for t in labels], labels, labels, range(4))
    found = class_weights(
        Quality(costs={"a": {"b": 10}}), Metric("cost", 2, costs), items
    )
    assert found is not None
    assert found[0] / found[1] == pytest.approx(10)


def test_who_takes_weights() -> None:
    assert takes_weights(make_learner("logistic", 0))
    assert takes_weights(make_learner("tree", 0))
    assert not takes_weights(make_learner("lda", 0))
