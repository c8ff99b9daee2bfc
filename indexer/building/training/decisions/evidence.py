"""What a calibration reads of models' answers for items not trained on."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from polydom.models.scoring.calibration import Calibration
from polydom.models.scoring.classifier import Classifier
from polydom.models.scoring.kernels.link import LOGISTIC, MARGIN, SOFTMAX
from polydom.models.scoring.model import Model
from polydom.models.scoring.scorer import SumOfTerms

Floats = NDArray[np.float64]


class Evidence(NamedTuple):
    """What a calibration reads of N items, and how the model's own scores follow."""

    z: Floats  # (N, K): Raw scores times the gain, or logarithms of class scores
    logs: bool  # True for logarithms of class scores
    probable: bool  # True if the model's own scores are probabilities

    def scores(self, calibration: Calibration | None) -> Floats:
        """Return class scores (N, K), calibrated if there is a calibration."""
        z = self.z
        if calibration is None:
            return np.exp(z) if self.logs else softmax(z, axis=1)
        scores = np.exp(z) if self.logs else np.empty_like(z)
        calibration.apply(np.ascontiguousarray(z), 1.0, scores)
        return scores


def evidence_of(
    model: Model, values: NDArray[np.float32], classes: int
) -> Evidence | None:
    """Return what a calibration reads of a model's answers for rows of values.

    Returns None for a model that has no raw scores, or not all of `classes` classes.
    """
    if not isinstance(model, Classifier) or len(model.classes) != classes:
        return None
    head, scorer = model.head, model.scorer
    shares = isinstance(scorer, SumOfTerms) and scorer.gives_shares()
    one = head.inputs == 1
    logs = head.link not in (SOFTMAX, MARGIN) and not (head.link == LOGISTIC and one)
    logs = logs or (head.link == MARGIN and shares)
    raw = scorer.raw(model.rows(values))
    if logs:
        scores = head.scores(raw)
        probable = bool(abs(scores.sum(axis=1) - 1).max(initial=0.0) < 1e-6)
        with np.errstate(divide="ignore"):
            return Evidence(np.log(scores), True, probable)
    z = head.gain * raw
    if one:
        z = np.column_stack([np.zeros(len(z)), z])
    return Evidence(z, False, head.link != MARGIN)


def join_evidence(parts: Sequence[Evidence | None]) -> Evidence | None:
    """Return the evidence of models of one kind for all items; None if unknown."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts) or len({one.logs for one in known}) > 1:
        return None
    z = np.concatenate([one.z for one in known])
    return Evidence(z, known[0].logs, all(one.probable for one in known))
