"""Schedules for the models of an index: each stops early where that is sure.

They are fitted on items that no kept model was trained on, and calibrated on others
that nothing else of a build saw.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import AllAlike
from polydom.models.early_exit.early_exits import EarlyExit, MarginExit
from polydom.models.early_exit.ensemble import as_ensemble
from polydom.models.early_exit.stored_schedule import load_early_exit
from polydom.models.qwyc.confidence_bound import Groups
from polydom.models.scoring.classifier import Classifier
from polydom.models.scoring.model import Model
from polydom.models.scoring.scorer import SumOfTerms

from ..cache import Cache
from ..data.split import draw_groups
from ..project import ExitGoal

Evaluator = EarlyExit | MarginExit

FEWEST_FITTED = 100  # rows that an order of base models can be learnt from


@dataclass(frozen=True, slots=True, eq=False)
class ScheduleFitter:
    """Fits the schedule of any one model.

    Attributes
    ----------
    values : (N, width) float32
        Full rows to fit on.
    fresh : (M, width) float32
        Full rows to calibrate on, used for nothing else; None without a confidence.
    groups : (M,)
        Group of each of these.
    cache
        Where schedules are kept.
    key
        Names the rows and all that models depend on.
    """

    values: NDArray[np.float32]
    fresh: NDArray[np.float32] | None
    groups: Groups | None
    cache: Cache
    key: str

    def fit(self, model: Model, mask: int, goal: ExitGoal) -> Evaluator | None:
        """Give what follows a schedule of the model of a set; None if it has none.

        A model has none that is no sum of base models, or decides all rows alike, or
        whose base models have no compiled form that stops.
        """
        if not can_stop(model):
            return None
        name = f"schedules/{self.key}/{mask:x}/{goal.alpha:g}-{goal.confidence or 0:g}"
        kept = self.cache.recall(name, partial(_read, model))
        if kept is not None:
            return kept[0]
        fitted = self._fit(model, goal)
        self.cache.store(name, {}, {} if fitted is None else fitted.arrays())
        return fitted

    def _fit(self, model: Any, goal: ExitGoal) -> Evaluator | None:
        options: dict[str, Any] = {}
        if goal.confidence is not None:
            options = {
                "confidence": goal.confidence,
                "calibration": self.fresh,
                "groups": self.groups,
            }
        try:
            fitted = as_ensemble(model).fit_early_exit(
                self.values, alpha=goal.alpha, **options
            )
        except AllAlike:
            return None
        return fitted if fitted.packed is not None else None


def _read(
    model: Model, _: object, arrays: Mapping[str, NDArray[Any]]
) -> tuple[Evaluator | None]:
    """Read what follows a model's schedule; None where it was found to have none."""
    return (load_early_exit(model, arrays) if arrays else None,)


def divide_aside(
    groups: Groups, fewest: int, seed: int
) -> tuple[Groups, Groups] | None:
    """Divide items set aside into those to fit schedules on and those to calibrate on.

    They are halves, but at least `fewest` calibrate. None where too few are left to fit
    on. `groups` (N,) stay whole; positions come back.
    """
    share = max(0.5, fewest / len(groups))
    calibrates = draw_groups(groups, min(share, 1.0), seed)
    fit, calibrate = np.flatnonzero(~calibrates), np.flatnonzero(calibrates)
    return (fit, calibrate) if len(fit) >= FEWEST_FITTED else None


def can_stop(model: Model) -> bool:
    """Say whether a model is a sum of base models that decides something."""
    return (
        isinstance(model, Classifier)
        and isinstance(model.scorer, SumOfTerms)
        and len(model.classes) > 1
    )
