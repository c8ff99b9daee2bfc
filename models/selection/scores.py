"""Validation measures: how good a trained learner is, larger being better."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from polydom.features.errors import BadInput
from polydom.features.wording import nearest

Scorer = Callable[[Any, Any, Any], float]


@dataclass(frozen=True, slots=True)
class Measure:
    """One validation measure.

    Attributes
    ----------
    scorer
        Its name in scikit-learn, signed so that larger is better.
    best
        The score of a perfect learner; no bound need be above it.
    labels
        Whether the targets are classes (and draws keep their shares).
    """

    name: str
    scorer: str
    best: float
    labels: bool = True

    def make_scorer(self) -> Scorer:
        """Return the function (fitted estimator, X, y) -> score."""
        from sklearn.metrics import get_scorer

        scorer: Scorer = get_scorer(self.scorer)
        return scorer


MEASURES = {
    measure.name: measure
    for measure in (
        Measure("accuracy", "accuracy", 1.0),
        Measure("balanced_accuracy", "balanced_accuracy", 1.0),
        Measure("precision", "precision_macro", 1.0),
        Measure("recall", "recall_macro", 1.0),
        Measure("f1", "f1_macro", 1.0),
        Measure("auc", "roc_auc_ovr", 1.0),
        Measure("log_loss", "neg_log_loss", 0.0),
        Measure("squared_error", "neg_mean_squared_error", 0.0, labels=False),
    )
}


def find_measure(name: str) -> Measure:
    """Look a measure up by name; BadInput names the nearest one."""
    if name not in MEASURES:
        near = nearest(name, MEASURES, cutoff=0.0)
        raise BadInput(f"there is no measure {name!r}; the nearest is {near!r}")
    return MEASURES[name]
