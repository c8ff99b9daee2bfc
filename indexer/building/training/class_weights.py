"""How much classes count where learners are fitted, and what wrong answers cost."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject
from polydom.features.wording import hint

from ..data.dataset import Dataset
from ..project import Quality
from .quality import Judge
from .train_sets import last_step

Floats = NDArray[np.float64]


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
        for answer, cost in answers.items():
            for label in (right, answer):
                _refuse_unknown("costs", label, places)
            matrix[places[right], places[answer]] = cost
    if not matrix.max() > 0:
        raise BadProject("[quality] costs: no answer costs anything; one must")
    return matrix


def class_weights(terms: Quality, judge: Judge, dataset: Dataset) -> Floats | None:
    """Give weights (K,) of classes, of mean 1 over items; None where all are equal.

    Raises
    ------
    BadProject
        If a class is unknown.
    """
    labels, codes, weights = dataset.labels, dataset.codes, dataset.weights
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


def takes_weights(estimator: Any) -> bool:
    """Say whether an estimator, or a pipeline's last step, can be fitted with any."""
    from sklearn.utils.validation import has_fit_parameter

    return bool(has_fit_parameter(last_step(estimator)[1], "sample_weight"))


def _refuse_unknown(key: str, label: str, known: Mapping[str, int]) -> None:
    if label not in known:
        raise BadProject(
            f"[quality] {key}: no class {label!r}; {hint(label, [*known])}"
        )
