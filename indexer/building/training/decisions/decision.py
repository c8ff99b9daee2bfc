"""What a build adds to a candidate's models: a calibration and a threshold."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.models.scoring.calibration import Calibration
from polydom.models.scoring.classifier import Classifier
from polydom.models.scoring.model import Model
from polydom.models.scoring.prior import Prior

from ...cache import digest
from .fit_calibration import FittedCalibration
from .thresholds import Found

Floats = NDArray[np.float64]


class Decision(NamedTuple):
    """How models of one candidate turn raw scores into class scores and a class."""

    classes: int = 0  # Number of classes, K
    calibration: Calibration | None = None  # Map of class scores; None leaves them
    # Score of the second of two classes from which it is chosen; None leaves the choice
    # to the model
    threshold: float | None = None
    # (K,): Weights of the classes in training, which a prior takes back; None if equal
    class_weights: Floats | None = None
    fitted: FittedCalibration | None = None  # Facts about the calibration
    found: Found | None = None  # What the threshold finds among held-out items

    @property
    def key(self) -> str:
        """A text that tells decisions apart; empty for one that changes nothing."""
        table = None if self.calibration is None else self.calibration.table.tolist()
        known = [table, self.threshold]
        return "" if known == [None, None] else f"-{digest(known)}"

    def applied(self, model: Model) -> Model:
        """Return a model that decides so; models of fewer classes stay as they are."""
        if len(model.classes) != self.classes:
            return model
        if isinstance(model, Prior):
            return self._applied_to_prior(model)
        if not isinstance(model, Classifier):
            return model
        if self.calibration is None and self.threshold is None:
            return model
        head = replace(
            model.head, calibration=self.calibration, threshold=self.threshold
        )
        return replace(model, head=head)

    def _applied_to_prior(self, model: Prior) -> Prior:
        shares, chosen = model.shares, model.chosen
        if self.class_weights is not None:
            chosen = model.choose(np.empty(0))
            shares = shares / self.class_weights
            shares = shares / shares.sum()
        if self.threshold is not None:
            chosen = int(shares[1] >= self.threshold)
        return Prior(model.classes, shares, chosen)
