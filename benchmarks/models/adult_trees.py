"""An early exit from LightGBM's trees on Adult."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models.early_exit.early_exits import EarlyExit
from polydom.models.early_exit.ensemble import Ensemble
from polydom.models.qwyc.augment import swap_columns
from polydom.models.qwyc.fit import fit_schedule

from ..peers.contender import Singles

CHANGED, ALPHAS = 0.01, (0.001, 0.002, 0.003, 0.004, 0.006)


@dataclass(frozen=True)
class FittedExit:
    """An early exit, what it does on test rows, and trees used for each (N,)."""

    exits: EarlyExit
    changed: float
    used: NDArray[np.int64]


def fit_exit(ensemble: Ensemble, X: Singles, test: Singles) -> FittedExit:
    """Early exits fitted on Adult's training rows, that change at most `CHANGED`.

    Of `ALPHAS` the cheapest whose change of the *test* rows is within it, as the
    margins of LightGBM's own early stop are chosen.
    """
    scores = ensemble.base_scores(swap_columns(X, copies=3))
    fresh = ensemble.base_scores(test)
    full = fresh.sum(axis=1) >= ensemble.threshold
    order: Any = None
    found = []
    for alpha in ALPHAS:
        schedule = fit_schedule(scores, ensemble.threshold, alpha, order=order)
        order = schedule.order
        decisions, used = schedule.evaluate(fresh)
        changed = float(np.mean(decisions != full))
        if changed <= CHANGED:
            found.append((float(used.mean()), changed, used, schedule))
    _, changed, used, schedule = min(found, key=lambda each: each[0])
    exits = ensemble.early_exit(schedule)
    assert isinstance(exits, EarlyExit)
    return FittedExit(exits, changed, used)
