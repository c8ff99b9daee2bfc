"""Class weights for fitting learners, and the costs of wrong answers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject
from polydom.features.wording import hint

from ..data.dataset import Dataset
from ..project_tables.quality import OF_THRESHOLDS, Quality
from ..terms import Terms
from .decisions.thresholds import Goal
from .quality import Metric

Floats = NDArray[np.float64]


def costs_by_code(
    costs: Mapping[str, Mapping[str, float]], labels: Sequence[str]
) -> Floats:
    """Return a matrix (K, K): the cost of answering class j for an item of class i.

    `costs[right][answer]` has the cost of an answer. Costs that it does not name are 0
    for right answers and 1 for wrong ones.
    """
    matrix = 1.0 - np.eye(len(labels))
    places = {label: code for code, label in enumerate(labels)}
    for right, answers in costs.items():
        for label in (right, *answers):
            _refuse_unknown("costs", label, places)
        for answer, cost in answers.items():
            matrix[places[right], places[answer]] = cost
    if not matrix.max() > 0:
        raise BadProject("[quality] costs: no answer costs anything; one must")
    return matrix


def metric_of(terms: Terms, dataset: Dataset) -> Metric:
    """Return the project's metric of quality, for the items of a data set.

    Raises BadProject if its goal is for two classes, and there are more.
    """
    quality, labels = terms.project.quality, dataset.labels
    costs = costs_by_code(quality.costs, labels) if quality.costs else None
    name = quality.measure_of(terms.task)
    positive, count = 1, len(labels)
    if quality.positive is not None:
        places = {label: code for code, label in enumerate(labels)}
        _refuse_unknown("positive", quality.positive, places)
        positive = places[quality.positive]
    elif count == 2:
        positive = int(np.bincount(dataset.codes, minlength=2).argmin())
    if name in OF_THRESHOLDS and count != 2:
        raise BadProject(
            f"[quality] measure = {name!r} chooses a threshold between two classes; "
            f"there are {count}"
        )
    goal = None
    if name in OF_THRESHOLDS:
        goal = Goal(name, quality.least, quality.sure, quality.beta)
    elif costs is not None and count == 2:
        right = costs.diagonal()
        wrong = costs[[0, 1], [1, 0]] - right
        miss, alarm = wrong[positive], wrong[1 - positive]
        goal = Goal("cost", miss=float(miss), alarm=float(alarm))
    return Metric(name, count, costs, goal, positive)


def class_weights(terms: Quality, metric: Metric, dataset: Dataset) -> Floats | None:
    """Return class weights (K,) for fitting; None if all classes have equal weight.

    The mean weight over all items is 1.
    """
    labels, codes, weights = dataset.labels, dataset.codes, dataset.weights
    if not labels:
        return None
    wanted: Any = terms.class_weights
    if wanted is None:
        wanted = "balanced" if metric.name == "balanced_accuracy" else "equal"
    if metric.goal is not None and terms.class_weights is None:
        return None  # a threshold decides
    if metric.costs is not None and terms.class_weights is None:
        by_class = metric.costs.sum(axis=1) / (len(labels) - 1)
    elif isinstance(wanted, Mapping):
        places = {label: code for code, label in enumerate(labels)}
        for label in wanted:
            _refuse_unknown("class_weights", label, places)
        by_class = np.array([wanted.get(label, 1.0) for label in labels])
    elif wanted == "balanced":
        by_class = 1 / np.bincount(codes, weights, len(labels))
    else:
        return None
    # learners refuse the weight 0 of a class whose mistakes cost nothing
    by_class = np.maximum(by_class, 1e-6 * by_class.max())
    shares: Floats = by_class / np.average(by_class[codes], weights=weights)
    return shares


def _refuse_unknown(key: str, label: str, known: Mapping[str, int]) -> None:
    if label not in known:
        raise BadProject(
            f"[quality] {key}: no class {label!r}; {hint(label, [*known])}"
        )
