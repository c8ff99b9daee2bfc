"""Validation scores: how good a trained learner is, larger being better."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from polydom.features.errors import BadInput
from polydom.features.wording import nearest

from ..measures import auc, d2_absolute, r2

Scorer = Callable[[Any, Any, Any], float]


@dataclass(frozen=True, slots=True)
class Score:
    """One validation score.

    Attributes
    ----------
    scorer
        A function (fitted estimator, X, y) -> score that can be pickled, or its name in
        scikit-learn; larger is better.
    best
        The score of a perfect learner; no bound need be above it.
    labels
        Whether the targets are classes (and draws keep their shares).
    """

    scorer: str | Scorer
    best: float
    labels: bool = True

    def make_scorer(self) -> Scorer:
        """Return the function (fitted estimator, X, y) -> score."""
        from sklearn.metrics import get_scorer

        scorer: Scorer = get_scorer(self.scorer)
        return scorer


def _auc(model: Any, X: Any, y: Any) -> float:
    """Area under the curves, of probabilities or of margins where there are none."""
    if hasattr(model, "predict_proba"):
        scores = model.predict_proba(X)
    else:
        margin = model.decision_function(X)
        scores = margin if margin.ndim == 2 else np.column_stack([-margin, margin])
    return auc(np.searchsorted(model.classes_, y), scores)


def _r2(model: Any, X: Any, y: Any) -> float:
    """Share of squared deviation that is explained; nothing where it is none.

    A learner whose first answers are a thousandfold off would else make all others
    look alike, to a strategy that reckons with what errors fall by.
    """
    return max(r2(y, np.ravel(model.predict(X))), 0.0)


def _mae(model: Any, X: Any, y: Any) -> float:
    """Share of absolute deviation, likewise."""
    return max(d2_absolute(y, np.ravel(model.predict(X))), 0.0)


SCORES = {
    "accuracy": Score("accuracy", 1.0),
    "balanced_accuracy": Score("balanced_accuracy", 1.0),
    "precision": Score("precision_macro", 1.0),
    "recall": Score("recall_macro", 1.0),
    "macro_f1": Score("f1_macro", 1.0),
    "auc": Score(_auc, 1.0),
    "log_loss": Score("neg_log_loss", 0.0),
    "squared_error": Score("neg_mean_squared_error", 0.0, labels=False),
    "r2": Score(_r2, 1.0, labels=False),
    "mae": Score(_mae, 1.0, labels=False),
}


def find_score(measure: str | Score) -> Score:
    """Look a score up by name, one itself is it; BadInput names the nearest one."""
    if isinstance(measure, Score):
        return measure
    if measure not in SCORES:
        near = nearest(measure, SCORES, cutoff=0.0)
        raise BadInput(f"there is no measure {measure!r}; the nearest is {near!r}")
    return SCORES[measure]
