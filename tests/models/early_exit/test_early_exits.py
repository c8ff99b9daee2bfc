"""Ensembles for more than two classes that stop by a margin."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightgbm import LGBMClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from xgboost import XGBClassifier

from polydom.features.errors import BadInput
from polydom.features.threads import one_thread
from polydom.models import Ensemble, compile
from polydom.models.lattices.estimator import LatticeEnsembleClassifier
from polydom.models.qwyc.fit_schedule import fit_margin_schedule
from polydom.models.qwyc.schedule import MarginSchedule, Schedule
from tests.support.examples import few
from tests.support.first_use import AtFirstUse
from tests.support.models.agreement import bundled
from tests.support.oracles.early_exit import walk_margins

X_WINE, Y_WINE = bundled("wine")


QUIET: dict[str, Any] = {"n_estimators": 9, "random_state": 0}
LEARNERS: dict[str, Any] = {
    "lightgbm": LGBMClassifier(**QUIET, verbose=-1, n_jobs=1),
    "xgboost": XGBClassifier(n_estimators=9, max_depth=3, n_jobs=1),
    "boosting": GradientBoostingClassifier(**QUIET, max_depth=2),
    "histogram": HistGradientBoostingClassifier(max_iter=9),
    "forest": RandomForestClassifier(**QUIET, max_depth=3),
    "extra trees": ExtraTreesClassifier(**QUIET),
    "linear": LogisticRegression(max_iter=9000),
    "lattices": LatticeEnsembleClassifier(9, 3, epochs=4, random_state=0),
    "simplices": LatticeEnsembleClassifier(
        40, 3, interpolation="simplex", epochs=4, random_state=0
    ),
}


def fitted_and_compiled(name: str) -> tuple[Any, Ensemble]:
    with one_thread():
        fitted = LEARNERS[name].fit(X_WINE, Y_WINE)
        return fitted, compile(fitted)


ENSEMBLES = AtFirstUse(LEARNERS, fitted_and_compiled)


def never(ensemble: Ensemble, seed: int = 0) -> MarginSchedule:
    T = ensemble.size
    order = np.random.default_rng(seed).permutation(T)
    return MarginSchedule(order, np.full(T, np.inf), ensemble.bias)


@pytest.mark.parametrize("name", ENSEMBLES)
def test_base_scores_and_bias_sum_to_the_decision(name: str) -> None:
    fitted, ensemble = ENSEMBLES[name]
    scores = ensemble.base_scores(X_WINE)
    assert scores.shape == (len(X_WINE), ensemble.size, 3)
    sums = scores.sum(axis=1) + ensemble.bias
    np.testing.assert_allclose(sums, ensemble.decision_function(X_WINE), atol=1e-6)
    np.testing.assert_array_equal(sums.argmax(axis=1), fitted.predict(X_WINE))


@pytest.mark.parametrize("name", ENSEMBLES)
def test_a_schedule_that_never_stops_decides_as_the_original(name: str) -> None:
    fitted, ensemble = ENSEMBLES[name]
    exit_ = ensemble.early_exit(never(ensemble))
    rows = np.vstack([X_WINE, np.zeros((2, 13)), np.full((1, 13), 1e30)])
    for X in (rows, rows.astype(np.float32)):
        np.testing.assert_array_equal(exit_.predict(X), fitted.predict(X))
        assert (exit_.choices(X)[1] == ensemble.size).all()
    for row in rows.astype(np.float32):
        assert exit_.choose(row) == exit_.choices(row[None])[0][0]


@pytest.mark.parametrize("name", ENSEMBLES)
@settings(max_examples=few(20))
@given(data=st.data())
def test_early_choices_are_those_of_a_walk_by_hand(
    name: str, data: st.DataObject
) -> None:
    ensemble = ENSEMBLES[name][1]
    T = ensemble.size
    draw = np.random.default_rng(data.draw(st.integers(0, 999)))
    X = X_WINE[draw.integers(0, len(X_WINE), 20)]
    scores = ensemble.base_scores(X)
    spread = np.abs(scores).sum(axis=1).mean() * data.draw(st.floats(0.01, 1.0))
    margin = draw.uniform(0, spread, T)
    schedule = MarginSchedule(draw.permutation(T), margin, ensemble.bias)
    exit_ = ensemble.early_exit(schedule)
    chosen, used = exit_.choices(X)
    np.testing.assert_array_equal(exit_.choices(X.astype(np.float32)), (chosen, used))
    slow = [
        walk_margins(row, schedule.order.tolist(), margin, ensemble.bias)
        for row in scores
    ]
    assert list(zip(chosen.tolist(), used.tolist(), strict=True)) == slow
    singles = [exit_.choose(row) for row in X.astype(np.float32)]
    assert singles == chosen.tolist()


def test_a_fitted_schedule_changes_what_it_may_and_uses_fewer() -> None:
    _, ensemble = ENSEMBLES["forest"]
    schedule = fit_margin_schedule(
        ensemble.base_scores(X_WINE), 0.02, bias=ensemble.bias
    )
    early = ensemble.early_exit(schedule).predict(X_WINE)
    assert np.mean(early != ensemble.predict(X_WINE)) <= 0.02
    assert ensemble.early_exit(schedule).choices(X_WINE)[1].mean() < 0.8 * 9


def test_schedules_for_other_ensembles_are_refused() -> None:
    ensemble, T = ENSEMBLES["boosting"][1], 9
    limits = np.zeros(T)
    with pytest.raises(BadInput, match="orders 3 base models; this ensemble has 9"):
        ensemble.early_exit(MarginSchedule(np.arange(3), np.zeros(3), ensemble.bias))
    with pytest.raises(BadInput, match="bias is not this ensemble's"):
        ensemble.early_exit(MarginSchedule(np.arange(T), limits, ensemble.bias + 1))
    near = ensemble.bias + np.array([0.0, 1e-6, 0.0])
    with pytest.raises(BadInput, match=r"class .*1.* begins at"):
        ensemble.early_exit(MarginSchedule(np.arange(T), limits, near))
    with pytest.raises(BadInput, match=r"shape \(2,\); this ensemble has 3 classes"):
        ensemble.early_exit(MarginSchedule(np.arange(T), limits, np.zeros(2)))
    with pytest.raises(BadInput, match="only an ensemble for two classes"):
        ensemble.early_exit(Schedule(np.arange(T), limits, limits, 0.0))
    two = compile(RandomForestClassifier(3).fit(X_WINE, Y_WINE > 0))
    with pytest.raises(BadInput, match="for more than two classes"):
        two.early_exit(MarginSchedule(np.arange(3), np.zeros(3), np.zeros(2)))
    with pytest.raises(BadInput, match="has a threshold, no bias"):
        two.bias  # noqa: B018
