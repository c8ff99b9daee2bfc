"""How much classes count where learners are fitted, and what wrong answers cost."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if

from polydom.features.errors import BadProject
from polydom.features.wording import hint

from ..data.dataset import Dataset
from ..project import Quality
from ..terms import Terms
from .quality import Judge
from .train_sets import weighing

Floats = NDArray[np.float64]


def _has(name: str) -> Callable[[Any], bool]:
    def check(weighed: Any) -> bool:
        return hasattr(weighed.estimator, name)

    return check


def costs_by_code(
    costs: Mapping[str, Mapping[str, float]], labels: Sequence[str]
) -> Floats:
    """Give what it costs to answer class j for an item of class i: (K, K).

    `costs` are by right class and answer; what is not named costs 1, and what is right
    nothing.

    Raises
    ------
    BadProject
        If a class is unknown, or no answer costs anything.
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


def judge_of(terms: Terms, labels: Sequence[str]) -> Judge:
    """Make the scorer of answers by a project's measure, for K classes or numbers.

    Raises
    ------
    BadProject
        If a class in `[quality] costs` is unknown, or no answer costs anything.
    """
    quality = terms.project.quality
    costs = costs_by_code(quality.costs, labels) if quality.costs else None
    return Judge(quality.measure_of(terms.task), len(labels), costs)


def class_weights(terms: Quality, judge: Judge, dataset: Dataset) -> Floats | None:
    """Give weights (K,) of classes, of mean 1 over items; None where all are equal.

    Labels that are numbers have none.

    Raises
    ------
    BadProject
        If a class is unknown.
    """
    labels, codes, weights = dataset.labels, dataset.codes, dataset.weights
    if not labels:
        return None
    wanted: Any = terms.class_weights
    if wanted is None:
        wanted = "balanced" if judge.measure == "balanced_accuracy" else "equal"
    if judge.costs is not None and terms.class_weights is None:
        by_class = judge.costs.sum(axis=1) / (len(labels) - 1)
    elif isinstance(wanted, Mapping):
        places = {label: code for code, label in enumerate(labels)}
        for label in wanted:
            _refuse_unknown("class_weights", label, places)
        by_class = np.array([wanted.get(label, 1.0) for label in labels])
    elif wanted == "balanced":
        by_class = 1 / np.bincount(codes, weights, len(labels))
    else:
        return None
    # a class whose mistakes are free still has items
    by_class = np.maximum(by_class, 1e-6 * by_class.max())
    shares: Floats = by_class / np.average(by_class[codes], weights=weights)
    return shares


class Weighed(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that is fitted with class weights, wherever it is fitted.

    Parameters
    ----------
    estimator
        One that takes weights.
    class_weights : (K,)
        By class; classes are numbered from 0.
    """

    def __init__(self, estimator: Any, class_weights: Floats) -> None:
        self.estimator = estimator
        self.class_weights = class_weights

    def fit(self, X: Any, y: NDArray[np.int64]) -> Self:
        """Fit a copy of the estimator."""
        weights = self.class_weights[y]
        self.estimator_ = clone(self.estimator)
        self.estimator_.fit(X, y, **weighing(self.estimator_, weights / weights.mean()))
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Answer as the estimator does."""
        answers: NDArray[Any] = self.estimator_.predict(X)
        return answers

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Give the estimator's probabilities, if it has any."""
        shares: Floats = self.estimator_.predict_proba(X)
        return shares

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Floats:
        """Give the estimator's margins, if it has any."""
        margins: Floats = self.estimator_.decision_function(X)
        return margins


def _refuse_unknown(key: str, label: str, known: Mapping[str, int]) -> None:
    if label not in known:
        raise BadProject(
            f"[quality] {key}: no class {label!r}; {hint(label, [*known])}"
        )
