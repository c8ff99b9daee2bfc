"""Validation scores: how good a trained learner is, larger being better."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from polydom.features.errors import BadInput
from polydom.features.wording import nearest

Scorer = Callable[[Any, Any, Any], float]


@dataclass(frozen=True, slots=True)
class Score:
    """One validation score.

    Attributes
    ----------
    scorer
        Its name in scikit-learn, signed so that larger is better.
    best
        The score of a perfect learner; no bound need be above it.
    labels
        Whether the targets are classes (and draws keep their shares).
    """

    scorer: str
    best: float
    labels: bool = True

    def make_scorer(self) -> Scorer:
        """Return the function (fitted estimator, X, y) -> score."""
        from sklearn.metrics import get_scorer

        scorer: Scorer = get_scorer(self.scorer)
        return scorer


SCORES = {
    "accuracy": Score("accuracy", 1.0),
    "balanced_accuracy": Score("balanced_accuracy", 1.0),
    "precision": Score("precision_macro", 1.0),
    "recall": Score("recall_macro", 1.0),
    "f1": Score("f1_macro", 1.0),
    "auc": Score("roc_auc_ovr", 1.0),
    "log_loss": Score("neg_log_loss", 0.0),
    "squared_error": Score("neg_mean_squared_error", 0.0, labels=False),
}


def find_score(name: str) -> Score:
    """Look a score up by name; BadInput names the nearest one."""
    if name not in SCORES:
        near = nearest(name, SCORES, cutoff=0.0)
        raise BadInput(f"there is no measure {name!r}; the nearest is {near!r}")
    return SCORES[name]
