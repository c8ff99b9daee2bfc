"""Weights of classes, and costs of answers."""

import numpy as np
import pytest

from polydom.features.errors import BadProject
from polydom.features.items import text_item
from polydom.indexer.building.data.dataset import Dataset, make_dataset
from polydom.indexer.building.project import Project
from polydom.indexer.building.project_tables.quality import Quality
from polydom.indexer.building.terms import Terms
from polydom.indexer.building.training.class_weights import (
    class_weights,
    costs_by_code,
    metric_of,
)
from polydom.indexer.building.training.decisions.thresholds import Goal
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


def test_costs_of_two_classes_weigh_nothing_as_a_threshold_decides() -> None:
    costs = np.array([[0.0, 10.0], [1.0, 0.0]])
    labels = [*"aaab"]
    items = make_dataset([text_item(t) for t in labels], labels, labels, range(4))
    quality = Quality(measure="cost", costs={"a": {"b": 10}})
    metric = metric_of(Terms(Project(quality=quality), "classes"), items)
    assert metric.costs is not None
    np.testing.assert_array_equal(metric.costs, costs)
    assert metric.goal == Goal("cost", miss=1.0, alarm=10.0)  # b is the rarer class
    assert class_weights(quality, metric, items) is None
    asked = Quality(measure="cost", costs=quality.costs, class_weights="balanced")
    assert class_weights(asked, metric, items) is not None


@pytest.mark.parametrize(
    ("positive", "labels", "said"),
    [
        (None, "aabbcc", "between two classes; there are 3"),
        ("c", "aab", "no class 'c'"),
    ],
)
def test_goals_that_the_labels_do_not_fit_are_refused(
    positive: str | None, labels: str, said: str
) -> None:
    items = make_dataset([text_item(t) for t in labels], [*labels], [*labels], range(9))
    quality = Quality(measure="f_beta", positive=positive)
    with pytest.raises(BadProject, match=said):
        metric_of(Terms(Project(quality=quality), "classes"), items)


def test_who_takes_weights() -> None:
    assert takes_weights(make_learner("logistic", 0))
    assert takes_weights(make_learner("tree", 0))
    assert not takes_weights(make_learner("lda", 0))
