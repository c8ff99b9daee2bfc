"""LightGBM's and XGBoost's classifiers, small and quick to fit."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polydom.models.early_exit.ensemble import Ensemble

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

FEW = {"n_estimators": 12, "n_jobs": 1, "random_state": 0}
# LightGBM's objectives that have no classes
REGRESSIONS = (
    "regression",
    "regression_l1",
    "huber",
    "fair",
    "poisson",
    "quantile",
    "mape",
    "gamma",
    "tweedie",
)


def lgbm(**options: Any) -> Any:
    few: dict[str, Any] = FEW | {"verbose": -1, "min_child_samples": 3}
    return lightgbm.LGBMClassifier(**(few | options))


def xgb(**options: Any) -> Any:
    return xgboost.XGBClassifier(**(FEW | options))


def thresholds(ensemble: Ensemble) -> NDArray[np.float64]:
    """Finite thresholds of the numeric splits."""
    nodes = ensemble.classifier.scorer.nodes  # type: ignore[attr-defined]
    found: NDArray[np.float64] = nodes["threshold"][nodes["column"] >= 0]
    return found[np.isfinite(found)]


def beside(rows: NDArray[np.float64], near: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows with thresholds and their float64 neighbours in some places."""
    draw = np.random.default_rng(4)
    rows = rows.copy()
    swapped = draw.random(rows.shape) < 0.3
    pool = [near, np.nextafter(near, 1e300), np.nextafter(near, -1e300)]
    rows[swapped] = draw.choice(np.concatenate(pool), swapped.sum())
    return rows
