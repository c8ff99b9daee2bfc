"""Schedules that change no decision."""

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression

from polydom.features.errors import BadInput
from polydom.models import compile
from polydom.models.early_exit.exact_schedule import exact_schedule
from polydom.models.qwyc.schedule import MarginSchedule
from tests.support.models.agreement import bundled, edge_rows


@pytest.mark.parametrize(
    "estimator",
    [
        GradientBoostingClassifier(n_estimators=60, random_state=0),
        RandomForestClassifier(n_estimators=30, max_depth=4, random_state=0),
    ],
    ids=["boosting", "forest"],
)
def test_exact_exits_are_sooner_and_change_nothing(estimator: object) -> None:
    X, y = bundled("breast_cancer")
    fitted = estimator.fit(X[::2], y[::2])  # type: ignore[attr-defined]
    ensemble = compile(fitted)
    rows = np.concatenate([X, edge_rows(X, X[0], 500)]).astype(np.float32)
    exits = ensemble.early_exit(exact_schedule(ensemble))
    np.testing.assert_array_equal(exits.predict(rows), fitted.predict(rows))
    assert [exits.choose(row) for row in rows[:50]] == [
        ensemble.classifier.choose(row) for row in rows[:50]
    ]
    _, used = exits.choices(rows)
    assert used.mean() < 0.9 * ensemble.size


def test_rows_at_the_threshold_keep_their_decision() -> None:
    # 1 and -1 cancel in the second half of the rows, whose sums are exactly 0.
    X = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 20, axis=0)
    y = np.tile([0, 1], 40)
    y[:20], y[60:] = 0, 1
    fitted = RandomForestClassifier(
        n_estimators=20, max_depth=1, max_features=1, bootstrap=False, random_state=0
    ).fit(X, y)
    ensemble = compile(fitted)
    rows = X[::20].astype(np.float32)
    exits = ensemble.early_exit(exact_schedule(ensemble))
    np.testing.assert_array_equal(exits.predict(rows), fitted.predict(rows))


@pytest.mark.parametrize("name", ["iris", "wine"])
@pytest.mark.parametrize(
    "estimator",
    [
        GradientBoostingClassifier(n_estimators=25, max_depth=2, random_state=0),
        HistGradientBoostingClassifier(max_iter=20, random_state=0),
        RandomForestClassifier(n_estimators=30, max_depth=4, random_state=0),
    ],
    ids=["boosting", "hist_boosting", "forest"],
)
def test_more_classes_stop_where_no_other_can_catch_up(
    estimator: object, name: str
) -> None:
    X, y = bundled(name)
    ensemble = compile(estimator.fit(X[::2], y[::2]))  # type: ignore[attr-defined]
    rows = np.concatenate([X[:600], edge_rows(X, X[0], 100)]).astype(np.float32)
    exits = ensemble.early_exit(exact_schedule(ensemble))
    np.testing.assert_array_equal(exits.predict(rows), ensemble.predict(rows))
    _, used = exits.choices(rows)
    assert used.mean() < ensemble.size


def test_margins_are_what_the_base_models_left_can_make_up_for() -> None:
    ensemble = compile(
        GradientBoostingClassifier(n_estimators=4, max_depth=1).fit(*bundled("iris"))
    )
    schedule = exact_schedule(ensemble)
    assert isinstance(schedule, MarginSchedule)
    least, most = ensemble.terms.bounds()
    for r in range(3):
        left = schedule.order[r + 1 :]
        slow = max(
            most[left, b].sum() - least[left, a].sum()
            for a in range(3)
            for b in range(3)
            if a != b
        )
        assert schedule.margin[r] == pytest.approx(slow)
        assert schedule.margin[r] >= slow
    assert schedule.margin[3] == np.inf


def test_what_nothing_proves_is_refused() -> None:
    from lightgbm import LGBMClassifier

    against = LGBMClassifier(n_estimators=3, objective="multiclassova", verbose=-1)
    with pytest.raises(BadInput, match="each against the rest may tie"):
        exact_schedule(compile(against.fit(*bundled("iris"))))
    linear = compile(LogisticRegression(max_iter=2000).fit(*bundled("iris")))
    with pytest.raises(BadInput, match="no bounds"):
        exact_schedule(linear)
