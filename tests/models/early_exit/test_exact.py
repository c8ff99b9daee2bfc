"""Schedules that change no decision."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

from polydom.features.errors import BadInput
from polydom.models import compile
from polydom.models.early_exit.remaining_scores import exact_schedule
from tests.support.agreement import bundled, edge_rows


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


def test_more_than_two_classes_have_no_exact_schedule() -> None:
    ensemble = compile(GradientBoostingClassifier(n_estimators=2).fit(*bundled("iris")))
    with pytest.raises(BadInput, match="only an ensemble for two classes"):
        exact_schedule(ensemble)
