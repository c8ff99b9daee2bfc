"""Schedules for the models of an index, which let sums of base models stop early.

A schedule is fitted on items that the model was not trained on. It is calibrated on
other items, and no other stage of the build uses these calibration items.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import AllAlike, TooFewRows
from polydom.models.early_exit.early_exits import EarlyExit, MarginExit
from polydom.models.early_exit.ensemble import as_ensemble
from polydom.models.early_exit.stored_schedule import load_early_exit
from polydom.models.qwyc.confidence_bound import Groups
from polydom.models.scoring.classifier import Classifier
from polydom.models.scoring.model import Model
from polydom.models.scoring.scorer import SumOfTerms

from ..cache import Cache, digest
from ..data.split import draw_groups
from ..prepare import ExitItems, Prepared
from ..resources import Resources
from ..training.train_sets import Trainer
from .exit_goal import ExitGoal

Evaluator = EarlyExit | MarginExit

FEWEST_FITTED = 100  # least rows to learn an order of base models from
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)  # shares of groups to calibrate on, tried in turn


@dataclass(frozen=True, slots=True, eq=False)
class ScheduleFitter:
    """Fits schedules, which let an index's models stop after some base models."""

    values: NDArray[np.float32]  # (N, width) float32: Full rows to fit on
    # (M, width) float32: Full rows to calibrate on; None without a confidence
    fresh: NDArray[np.float32] | None
    groups: Groups | None  # (M,): Numbers of the groups of the rows to calibrate on
    labels: tuple[str, ...]  # (K,): Names of the classes; models answer positions
    cache: Cache  # Cache of fitted schedules
    key: str  # Name of the rows, and of all that models depend on

    def fit(self, model: Model, mask: int, goal: ExitGoal) -> Evaluator | None:
        """Fit a schedule to a model; return its evaluator, or None without a schedule.

        `mask` is the model's feature set. A model gets no schedule if it is not a sum
        of base models, if it answers all rows with the same class, or if there are too
        few rows of every class for the goal.
        """
        if not can_stop(model):
            return None
        name = f"schedules/{self.key}/{mask:x}/{digest(*goal)}"
        kept = self.cache.recall(name, partial(_read, model))
        if kept is not None:
            return kept[0]
        fitted = self._fit(model, goal)
        self.cache.store(name, {}, {} if fitted is None else fitted.arrays())
        return fitted

    def _fit(self, model: Any, goal: ExitGoal) -> Evaluator | None:
        classes = model.classes.tolist()
        shares = goal.shares(self.labels)
        options: dict[str, Any] = {} if goal.sides == "both" else {"sides": goal.sides}
        if len(classes) < len(self.labels) and options:
            return None  # it answers one of two classes
        if goal.confidence is not None:
            options |= {
                "confidence": goal.confidence,
                "calibration": self.fresh,
                "groups": self.groups,
            }
        try:
            fitted = as_ensemble(model).fit_early_exit(
                self.values, alpha={code: shares[code] for code in classes}, **options
            )
        except (AllAlike, TooFewRows):
            return None
        return fitted if fitted.packed is not None else None


def _read(
    model: Model, _: object, arrays: Mapping[str, NDArray[Any]]
) -> tuple[Evaluator | None]:
    """Read an evaluator from a cache entry; None if the entry has no arrays."""
    return (load_early_exit(model, arrays) if arrays else None,)


def divide_aside(
    items: ExitItems, goal: ExitGoal, seed: int
) -> tuple[Groups, Groups] | None:
    """Divide items into (positions to fit on, positions to calibrate on).

    Half of the groups, drawn at random, are for calibration. If these are too few for
    the goal's confidence, a larger share is tried. Returns None if too few items are
    left to fit on.
    """
    goal = goal.of_known(items.labels)
    for share in SHARES:
        calibrates = draw_groups(items.groups, share, seed)
        fit, calibrate = np.flatnonzero(~calibrates), np.flatnonzero(calibrates)
        groups, codes = items.groups[calibrate], items.codes[calibrate]
        if not goal.lacking(groups, codes, items.labels):
            return (fit, calibrate) if len(fit) >= FEWEST_FITTED else None
    return None


def make_schedule_fitter(
    goal: ExitGoal, data: Prepared, trainer: Trainer, resources: Resources
) -> ScheduleFitter | None:
    """Return a fitter of schedules, or None if no items are left to fit them on."""
    project, fresh = data.project, data.fresh
    if project.search.folds is not None and fresh is None:
        return None
    key = digest(trainer.task.key, project.refits, fresh and fresh.digest)
    values = data.table.values[trainer.tested]
    labels = data.table.dataset.labels
    if fresh is None or goal.confidence is None:
        if fresh is not None:
            values = fresh.values  # the kept models may have seen the tested items
        return ScheduleFitter(values, None, None, labels, resources.times, key)
    calibration, groups = fresh.values, fresh.groups
    if project.refits:  # the kept models were trained on the tested items
        parts = divide_aside(fresh, goal, project.seed)
        if parts is None:
            return None
        values, calibration = calibration[parts[0]], calibration[parts[1]]
        groups = groups[parts[1]]
    return ScheduleFitter(values, calibration, groups, labels, resources.times, key)


def can_stop(model: Model) -> bool:
    """Return True if a model is a sum of base models and has more than one class."""
    return (
        isinstance(model, Classifier)
        and isinstance(model.scorer, SumOfTerms)
        and len(model.classes) > 1
    )
