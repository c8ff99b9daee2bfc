"""Columns that base models read: those whose change can change their scores."""

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polydom.models import compile
from polydom.models.early_exit.ensemble import Ensemble, as_ensemble
from polydom.models.importers.estimators import compile_model
from polydom.models.lattices.estimator import LatticeEnsembleClassifier
from tests.support.agreement import bundled

few: dict[str, Any] = {"n_estimators": 4, "random_state": 0}
MADE = {
    "boosting": GradientBoostingClassifier(**few),
    "forest": RandomForestClassifier(**few),
    "scaled": make_pipeline(StandardScaler(), RandomForestClassifier(**few)),
    "linear": LogisticRegression(max_iter=5000),
    "lattices": LatticeEnsembleClassifier(4, 2, epochs=2, random_state=0),
}


def wiggled(ensemble: Ensemble, width: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which scores move when a column takes other values, tried column by column."""
    X, _ = bundled("wine")
    rows = np.zeros((len(X), width))
    rows[:, :13] = X
    before = ensemble.base_scores(rows)
    moved = np.zeros((ensemble.size, width), bool)
    for column in range(width):
        other = rows.copy()
        other[:, column] = np.random.default_rng(0).permutation(rows[:, column])
        after = ensemble.base_scores(other).reshape(len(X), ensemble.size, -1)
        apart = after != before.reshape(after.shape)
        moved[:, column] = apart.any(axis=(0, 2))
    return moved


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("classes", [2, 3])
def test_only_columns_that_are_used_move_scores(name: str, classes: int) -> None:
    X, y = bundled("wine")
    ensemble = compile(MADE[name].fit(X, np.minimum(y, classes - 1)))
    used = ensemble.uses(15)
    assert used.shape == (ensemble.size, 15)
    assert not (wiggled(ensemble, 15) & ~used).any()
    assert not used[:, 13:].any()
    if name in ("linear", "lattices"):
        assert used.sum() == ensemble.size * (1 if name == "linear" else 2)
    else:
        assert (wiggled(ensemble, 15) == used).mean() > 0.9


def test_columns_are_those_of_the_full_row() -> None:
    X, y = bundled("wine")
    fitted = make_pipeline(StandardScaler(), RandomForestClassifier(**few)).fit(X, y)
    columns = np.arange(13)[::-1] + 4
    model: Any = compile_model(fitted, columns.astype(np.int32))
    used = as_ensemble(model).uses(17)
    here = compile(fitted).uses(13)
    np.testing.assert_array_equal(used[:, columns], here)
    assert not used[:, :4].any()
