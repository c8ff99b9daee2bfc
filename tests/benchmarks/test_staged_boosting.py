"""Boosting in stages: against boosting by hand, and what each stage reads."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from benchmarks.exits.staged_boosting import train_staged
from polydom.models.early_exit.feature_stages import cut_stages
from polydom.models.qwyc.fit import fit_schedule
from polydom.models.qwyc.fit_multiclass import fit_margin_schedule
from tests.support.agreement import bundled
from tests.support.oracles.staged_boosting import boost_in_stages

STAGES, ROUNDS = [[4, 9], [0], [2, 7, 12]], [3, 2, 4]
STARTS = [slice(0, 3), slice(3, 5), slice(5, 9)]


def learners() -> dict[str, Any]:
    """A booster of each library."""
    lightgbm = pytest.importorskip("lightgbm")
    return {
        "sklearn": GradientBoostingClassifier(max_depth=2, random_state=0),
        "lightgbm": lightgbm.LGBMClassifier(
            min_child_samples=5, num_leaves=4, verbose=-1, n_jobs=1
        ),
    }


NAMES = ["sklearn", "lightgbm"]


def test_each_round_is_what_boosting_by_hand_adds() -> None:
    X, y = bundled("breast_cancer")
    stages, rounds = [[3, 1], [20], [7, 27]], [4, 3, 5]
    learner = GradientBoostingClassifier(max_depth=2, learning_rate=0.3, random_state=0)
    staged = train_staged(learner, X, y, stages, rounds)
    expected = boost_in_stages(X, y, stages, rounds, 2, 0.3)
    np.testing.assert_allclose(staged.ensemble.base_scores(X), expected, atol=1e-9)
    odds = y.mean() / (1 - y.mean())
    assert staged.ensemble.threshold == pytest.approx(-np.log(odds))


def test_one_stage_of_everything_is_the_booster_itself() -> None:
    X, y = bundled("wine")
    for learner in learners().values():
        staged = train_staged(learner, X, y, [range(13)], [6])
        plain = clone(learner).set_params(n_estimators=6).fit(X, y)
        np.testing.assert_array_equal(
            staged.fitted.predict_proba(X), plain.predict_proba(X)
        )
        assert staged.stages == (slice(0, 6),)
        assert staged.uses(13).all()


def test_lightgbm_goes_on_from_the_scores_so_far() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    X, y = bundled("breast_cancer")
    learner = lightgbm.LGBMClassifier(n_jobs=1, verbose=-1)
    staged = train_staged(learner, X, y, [[3, 1], [20, 27]], [4, 5])
    scores = staged.ensemble.base_scores(X)
    first = clone(learner).set_params(n_estimators=4).fit(X[:, [1, 3]], y)
    so_far = first.predict_proba(X[:, [1, 3]], raw_score=True)
    both = X[:, [1, 3, 20, 27]]
    second = clone(learner).set_params(n_estimators=5).fit(both, y, init_score=so_far)
    more = second.predict_proba(both, raw_score=True)
    np.testing.assert_allclose(scores[:, :4].sum(axis=1), so_far, atol=1e-9)
    np.testing.assert_allclose(scores[:, 4:].sum(axis=1), more, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("classes", [2, 3])
def test_stages_read_their_columns_and_those_before(name: str, classes: int) -> None:
    X, y = bundled("wine")
    y = np.minimum(y, classes - 1)
    learner = learners()[name]
    before = learner.get_params()
    staged = train_staged(learner, X, y, STAGES, ROUNDS)
    assert list(staged.stages) == STARTS
    assert staged.ensemble.size == 9
    may, do = staged.uses(13), staged.ensemble.uses(13)
    assert not (do & ~may).any()
    for k, stage in enumerate(STARTS):
        allowed = [column for own in STAGES[: k + 1] for column in own]
        np.testing.assert_array_equal(
            may[stage], np.tile(np.isin(range(13), allowed), (ROUNDS[k], 1))
        )
    assert do[5:, [2, 7, 12]].any()
    np.testing.assert_array_equal(staged.ensemble.predict(X), staged.fitted.predict(X))
    assert learner.get_params() == before
    with pytest.raises(NotFittedError):
        check_is_fitted(learner)


def test_first_stages_do_not_depend_on_later_columns() -> None:
    X, y = bundled("wine")
    other = X.copy()
    other[:, [2, 7, 12]] = np.random.default_rng(0).normal(size=(len(X), 3))
    for learner in learners().values():
        scores = [
            train_staged(learner, rows, y, STAGES, ROUNDS).ensemble.base_scores(rows)
            for rows in (X, other)
        ]
        np.testing.assert_array_equal(scores[0][:, :5], scores[1][:, :5])
        assert (scores[0][:, 5:] != scores[1][:, 5:]).any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("classes", [2, 3])
def test_schedules_stop_before_later_stages(name: str, classes: int) -> None:
    X, y = bundled("wine")
    staged = train_staged(
        learners()[name], X, np.minimum(y, classes - 1), [[6], [12], [0]], [20, 10, 10]
    )
    ensemble, costs = staged.ensemble, np.zeros(13)
    costs[[6, 12, 0]] = 1.0, 1e3, 1e6
    scores, uses = ensemble.base_scores(X), staged.uses(13)
    schedule: Any
    if classes == 2:
        schedule = fit_schedule(
            scores, ensemble.threshold, 0.02, feature_costs=costs, uses=uses
        )
    else:
        schedule = fit_margin_schedule(
            scores, 0.02, bias=ensemble.bias, feature_costs=costs, uses=uses
        )
    first, *rest = cut_stages(schedule.order, uses)
    assert [stage.features for stage in (first, *rest)] == [(6,), (12,), (0,)]
    used = ensemble.early_exit(schedule).choices(X)[1]
    assert (used <= first.stop).any()
    assert schedule.changed(scores) <= 0.02 * len(X)


def test_lightgbm_may_find_nothing_in_a_stage() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    X, y = bundled("wine")
    X[:, 5] = 1.0
    learner = lightgbm.LGBMClassifier(verbose=-1, n_jobs=1)
    staged = train_staged(learner, X, y, [[5], [6]], [4, 4])
    found = staged.stages[0].stop
    assert found < 4
    assert staged.stages[1] == slice(found, found + 4)
    assert staged.ensemble.size == found + 4
