"""Scores, by name, that validate learners. A larger score is better."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from polydom.features.errors import BadInput
from polydom.features.wording import nearest

from ..measures import auc, average_precision, d2_absolute, r2

Scorer = Callable[..., float]  # (fitted estimator, X, y, sample_weight=None)


@dataclass(frozen=True, slots=True)
class Score:
    """A measure of a fitted learner on validation rows; larger is better."""

    # Picklable function (fitted estimator, X, y) -> score, or the name of a scorer of
    # scikit-learn; larger is better. It gets `sample_weight` (N,) if rows have weights.
    scorer: str | Scorer
    best: float  # Score of a perfect model
    # True if targets are classes (draws are then stratified), False if numbers
    labels: bool = True

    def make_scorer(self) -> Scorer:
        """Return the function that maps (fitted estimator, X, y) to the score."""
        from sklearn.metrics import get_scorer

        scorer: Scorer = get_scorer(self.scorer)
        return scorer


def _auc(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    return auc(
        np.searchsorted(model.classes_, y), class_scores(model, X), sample_weight
    )


def _average_precision(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Return the average precision; with two classes that of the rarer one in `y`."""
    codes, count = np.searchsorted(model.classes_, y), len(model.classes_)
    rarer = int(np.bincount(codes, minlength=2).argmin()) if count == 2 else 1
    return average_precision(
        codes, class_scores(model, X), sample_weight, positive=rarer
    )


def class_scores(model: Any, X: Any) -> Any:
    """Return probabilities of the classes; if there are none, decision values."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    # Two classes have one decision function, but measures take a column per class.
    margin = model.decision_function(X)
    return margin if margin.ndim == 2 else np.column_stack([-margin, margin])


def _r2(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Return R^2, but at least 0: a very low score makes all others look equal."""
    return max(r2(y, np.ravel(model.predict(X)), sample_weight), 0.0)


def _mae(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Return D^2, which is R^2 with absolute errors, but at least 0 as in `_r2`."""
    return max(d2_absolute(y, np.ravel(model.predict(X)), sample_weight), 0.0)


SCORES = {
    "accuracy": Score("accuracy", 1.0),
    "balanced_accuracy": Score("balanced_accuracy", 1.0),
    "precision": Score("precision_macro", 1.0),
    "recall": Score("recall_macro", 1.0),
    "macro_f1": Score("f1_macro", 1.0),
    "auc": Score(_auc, 1.0),
    "average_precision": Score(_average_precision, 1.0),
    "log_loss": Score("neg_log_loss", 0.0),
    "squared_error": Score("neg_mean_squared_error", 0.0, labels=False),
    "r2": Score(_r2, 1.0, labels=False),
    "mae": Score(_mae, 1.0, labels=False),
}


def find_score(measure: str | Score) -> Score:
    """Return the score of this name; a `Score` is returned unchanged.

    Raises BadInput for an unknown name.
    """
    if isinstance(measure, Score):
        return measure
    if measure not in SCORES:
        near = nearest(measure, SCORES, cutoff=0.0)
        raise BadInput(f"there is no measure {measure!r}; the nearest is {near!r}")
    return SCORES[measure]
