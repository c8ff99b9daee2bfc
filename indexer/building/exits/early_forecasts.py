"""How good the class scores of early answers are, beside those of whole plans."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models import measures
from polydom.models.scoring.classifier import Classifier
from polydom.models.scoring.prior import Prior

from .schedules import Evaluator

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def compare_forecasts(
    codes: Codes,
    values: NDArray[np.float32],
    answering: Sequence[Classifier | Prior],
    at: Codes,
    evaluator: Evaluator | None,
    classes: int,
) -> dict[str, Any] | None:
    """Compare the class scores of a plan's early answers with those of the whole plan.

    Only items that are answered early count. Returns plain data: their number `items`,
    and for `early` and `whole` answers to them the measures of `measure`. Returns None
    if no item is answered early, or scores are no probabilities.

    Parameters
    ----------
    codes
        (N,) classes of items that no model was trained on, 0 to `classes` - 1.
    values
        (N, width) full rows of the items.
    answering
        (K + 1,) models that answer at the plan's checkpoints; the last is its own.
    at
        (N,) checkpoint, 0 to K, at which each item is answered.
    evaluator
        Evaluator of the last model, which stops early; None without a schedule.
    """
    last = len(answering) - 1
    whole = _scores(answering[-1], values, classes)
    early, sure = whole.copy(), at < last
    for k in np.unique(at[sure]):
        early[at == k] = _scores(answering[k], values[at == k], classes)
    if evaluator is not None and evaluator.lines is not None:
        stopped = ~sure & (evaluator.choices(values)[1] < evaluator.size)
        scores = evaluator.predict_scores(values[stopped])
        early[np.ix_(stopped, evaluator.classifier.classes)] = scores
        sure |= stopped
    said = early[sure], whole[sure]
    if not sure.any() or not all(map(measures.are_probabilities, said)):
        return None
    early_facts, whole_facts = (measure(codes[sure], scores) for scores in said)
    return {"items": int(sure.sum()), "early": early_facts, "whole": whole_facts}


def measure(codes: Codes, scores: Floats) -> dict[str, float]:
    """Return log loss, expected calibration error and Brier score, by name."""
    return {
        "log_loss": measures.log_loss(codes, scores),
        "error": measures.calibration_error(codes, scores),
        "brier": measures.brier(codes, scores),
    }


def _scores(
    model: Classifier | Prior, values: NDArray[np.float32], classes: int
) -> Floats:
    """Return class scores (N, `classes`); 0 for a class that the model never saw."""
    scores = np.zeros((len(values), classes))
    scores[:, model.classes] = model.predict_scores(values)
    return scores
