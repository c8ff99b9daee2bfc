"""The model of most benchmarks: LightGBM's trees, compiled, and an early exit."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models import compile
from polydom.models.early_exit.early_exits import EarlyExit
from polydom.models.early_exit.ensemble import Ensemble
from polydom.models.early_exit.fitting_rows import swap_columns
from polydom.models.qwyc.fit_schedule import fit_schedule

from ..data.tables import Codes, Rows

TREES, DEPTH, RATE = 500, 5, 0.05
BINARY = {
    "objective": "binary",
    "max_depth": DEPTH,
    "num_leaves": 2**DEPTH,
    "learning_rate": RATE,
}
SAME = {"deterministic": True, "force_row_wise": True}  # the same trees in every run
CHANGED, ALPHAS = 0.01, (0.001, 0.002, 0.003, 0.004, 0.006)


def boost(
    X: NDArray[Any], y: NDArray[np.int64], rounds: int = TREES, **options: Any
) -> tuple[Any, Any]:
    """Train, and compile what LightGBM writes; the booster is read back from it too."""
    import lightgbm

    options = {"verbosity": -1, **options}
    booster = lightgbm.train(options, lightgbm.Dataset(X, y), rounds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.txt")
        booster.save_model(path)
        return lightgbm.Booster(model_file=path), compile(path)


@dataclass(frozen=True)
class FittedExit:
    """An early exit, what it does on test rows, and trees used for each (N,)."""

    exits: EarlyExit
    changed: float
    used: Codes


def fit_exit(ensemble: Ensemble, X: Rows, test: Rows) -> FittedExit:
    """Fit early exits to training rows and copies of them.

    Of `ALPHAS` the cheapest that changes at most `CHANGED` of the *test* rows, as the
    margins of LightGBM's own early stop are chosen; where there is none, the one that
    changes least.
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
        found.append((float(np.mean(decisions != full)), used, schedule))
    changed, used, schedule = min(
        found, key=lambda each: (max(each[0], CHANGED), float(each[1].mean()))
    )
    exits = ensemble.early_exit(schedule)
    assert isinstance(exits, EarlyExit)
    return FittedExit(exits, changed, used)
