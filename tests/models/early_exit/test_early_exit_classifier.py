"""The scikit-learn classifier that stops a fitted one early."""

import itertools
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from xgboost import XGBClassifier

from polydom.features.errors import BadInput, BadModel
from polydom.models import EarlyExitClassifier, compile
from polydom.models.early_exit.early_exits import MarginExit
from tests.support.models.agreement import bundled

X, Y = bundled("breast_cancer")
FOREST = RandomForestClassifier(30, random_state=0).fit(X[:200], Y[:200])
HELD = X[200:]


class Prefit(EarlyExitClassifier):
    """Fits what it stops on the same rows: for checks that bring their own."""

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> "Prefit":
        given: BaseEstimator = self.estimator
        try:
            self.estimator = clone(given).fit(X, y)
            return super().fit(X, y, groups=groups)
        finally:
            self.estimator = given


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [Prefit(RandomForestClassifier(10, random_state=0), alpha=0.01)]
)
def test_it_is_a_scikit_learn_classifier(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("classes", [2, 3])
def test_exits_are_those_of_the_compiled_ensemble(classes: int) -> None:
    rows, y = make_classification(
        600, 8, n_informative=6, n_classes=classes, random_state=0
    )
    fitted = LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(
        rows[:300], y[:300]
    )
    held = rows[300:]
    made = EarlyExitClassifier(fitted, alpha=0.02).fit(held, y[300:])
    exits = compile(fitted).fit_early_exit(held, alpha=0.02)
    np.testing.assert_array_equal(made.predict(held), exits.predict(held))
    np.testing.assert_array_equal(made.classes_, fitted.classes_)
    assert made.n_features_in_ == 8
    assert isinstance(made.exits_, MarginExit) == (classes == 3)
    assert made.score(held, y[300:]) > 0.6


def test_a_confidence_takes_half_of_the_rows() -> None:
    made = EarlyExitClassifier(FOREST, alpha=0.05, confidence=0.9, random_state=0)
    promise = made.fit(HELD).schedule_.promise
    assert promise is not None
    assert (sum(promise.rows), promise.confidence) == (185, 0.9)
    again = clone(made).set_params(estimator=FOREST).fit(HELD)
    np.testing.assert_array_equal(again.schedule_.order, made.schedule_.order)
    with pytest.raises(BadInput, match="at least 2302"):
        EarlyExitClassifier(FOREST, alpha=0.001, confidence=0.9).fit(HELD)


def test_groups_stay_together() -> None:
    groups = np.arange(len(HELD)) // 3
    drawn: list[NDArray[np.bool_]] = []

    class Watched(EarlyExitClassifier):
        def _half(self, groups: NDArray[Any]) -> NDArray[np.bool_]:
            drawn.append(super()._half(groups))
            return drawn[-1]

    made = Watched(FOREST, alpha=0.1, confidence=0.9, random_state=0)
    made.fit(HELD, groups=groups)
    assert set(groups[drawn[0]]).isdisjoint(groups[~drawn[0]])
    assert made.schedule_.promise is not None
    assert sum(made.schedule_.promise.rows) == np.count_nonzero(~drawn[0])


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        (np.arange(9), r"groups have shape \(9,\); one of each of the 369 rows"),
        (None, None),
        ([None] * 100 + [1] * 269, "groups must all be numbers, or all be texts"),
        (np.zeros(369), "one group cannot be halved"),
        (np.arange(369) % 2, "in 1 groups|185 to calibrate on"),
    ],
    ids=["short", "none", "some none", "one", "two"],
)
def test_groups_that_cannot_be_used_are_named(groups: Any, reason: str | None) -> None:
    made = EarlyExitClassifier(FOREST, alpha=0.1, confidence=0.9, random_state=0)
    if reason is None:
        assert made.fit(HELD, groups=groups).schedule_.promise is not None
        return
    with pytest.raises(BadInput, match=reason):
        made.fit(HELD, groups=groups)


def test_groups_need_a_confidence_and_a_confidence_needs_rows() -> None:
    with pytest.raises(BadInput, match="groups are given without a confidence"):
        EarlyExitClassifier(FOREST).fit(HELD, groups=np.arange(len(HELD)))
    with pytest.raises(BadInput, match=r"there are \d+ to calibrate on"):
        EarlyExitClassifier(FOREST, confidence=0.9).fit(HELD[:40])


def test_groups_may_be_texts() -> None:
    texts = np.repeat([f"patient {i}" for i in range(123)], 3)
    made = EarlyExitClassifier(FOREST, alpha=0.1, confidence=0.9, random_state=0)
    numbers = clone(made).set_params(estimator=FOREST)
    made.fit(HELD, groups=texts)
    numbers.fit(HELD, groups=np.unique(texts, return_inverse=True)[1])
    np.testing.assert_array_equal(made.schedule_.order, numbers.schedule_.order)


def test_frames_need_the_columns_that_the_estimator_was_fitted_on() -> None:
    frame = pandas.DataFrame(X, columns=[f"c{j}" for j in range(30)])
    forest = RandomForestClassifier(9, random_state=0).fit(frame[:200], Y[:200])
    held = frame[200:]
    made = EarlyExitClassifier(forest, alpha=0.0).fit(held)
    np.testing.assert_array_equal(made.predict(held), forest.predict(held))
    for other in (held[held.columns[::-1]], held.rename(columns={"c3": "d"})):
        with pytest.raises(
            BadInput, match=r"was fitted on 30: c0, c1, .*in this order"
        ):
            EarlyExitClassifier(forest).fit(other)
        with pytest.raises(ValueError, match="feature names should match"):
            made.predict(other)
    for width in (29, 31):
        rows = np.zeros((9, width))
        with pytest.raises(BadInput, match=f"of {width} columns; .* fitted on 30"):
            EarlyExitClassifier(FOREST).fit(rows)


def test_frames_with_columns_that_boosters_name_otherwise() -> None:
    spaced, numbered = [f"of {j}" for j in range(30)], range(30)
    boosters = (
        LGBMClassifier(n_estimators=9, verbose=-1, n_jobs=1),
        XGBClassifier(n_estimators=9, n_jobs=1),
    )
    for booster, names in itertools.product(boosters, (spaced, numbered)):
        frame = pandas.DataFrame(X, columns=names)
        fitted, held = clone(booster).fit(frame[:200], Y[:200]), frame[200:]
        made = EarlyExitClassifier(fitted, alpha=0.0).fit(held)
        np.testing.assert_array_equal(made.predict(held), fitted.predict(held))
        if names is spaced:
            other = held[spaced[::-1]]
            with pytest.raises(
                BadInput, match=r"fitted on 30: of.0, of.1, .*this order"
            ):
                EarlyExitClassifier(fitted).fit(other)


def test_it_can_be_pickled() -> None:
    made = EarlyExitClassifier(FOREST, alpha=0.01).fit(HELD)
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again.predict(HELD), made.predict(HELD))
    assert repr(again.schedule_) == repr(made.schedule_)


def test_what_it_takes_as_an_estimator(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    booster = LGBMClassifier(n_estimators=9, verbose=-1, n_jobs=1)
    booster.fit(X[:200], Y[:200]).booster_.save_model(path)
    for source in (str(path), FrozenEstimator(booster), booster):
        made = EarlyExitClassifier(source, alpha=0.0).fit(HELD)
        np.testing.assert_array_equal(made.predict(HELD), booster.predict(HELD))
    frozen = clone(EarlyExitClassifier(FrozenEstimator(booster), alpha=0.0))
    np.testing.assert_array_equal(frozen.fit(HELD).classes_, [0, 1])


def test_costs_of_columns_order_the_base_models() -> None:
    costs = np.where(np.arange(30) < 20, 1.0, 500.0)
    made = EarlyExitClassifier(FOREST, alpha=0.01, feature_costs=costs).fit(HELD)
    plain = EarlyExitClassifier(FOREST, alpha=0.01).fit(HELD)
    assert made.schedule_.order.tolist() != plain.schedule_.order.tolist()


def test_what_cannot_be_stopped_early_is_refused() -> None:
    with pytest.raises(NotFittedError):
        EarlyExitClassifier(RandomForestClassifier()).fit(HELD)
    with pytest.raises(BadModel, match="Classifier has no base models"):
        EarlyExitClassifier(GaussianNB().fit(X, Y)).fit(HELD)
    with pytest.raises(ValueError, match="'alpha' parameter"):
        EarlyExitClassifier(FOREST, alpha=1.5).fit(HELD)
    with pytest.raises(NotFittedError):
        EarlyExitClassifier(FOREST).predict(HELD)


@pytest.mark.parametrize("name", ["breast_cancer", "iris"])
def test_scores_decide_as_predict_does(name: str) -> None:
    rows, y = bundled(name)
    forest = RandomForestClassifier(25, random_state=0).fit(rows[::2], y[::2])
    made = EarlyExitClassifier(forest, alpha=0.1).fit(rows)
    chosen, whole = made.predict(rows), forest.predict(rows)
    assert (chosen != whole).any()
    np.testing.assert_array_equal(made.predict_proba(rows).argmax(axis=1), chosen)
    sums = made.decision_function(rows)
    binary = sums.ndim == 1
    decided = (sums > 0) if binary else sums.argmax(axis=1)
    np.testing.assert_array_equal(decided, chosen)
    same = chosen == whole
    np.testing.assert_array_equal(
        made.predict_proba(rows)[same], forest.predict_proba(rows)[same]
    )
    made.set_params(probabilities="early")
    early = made.predict_proba(rows)
    np.testing.assert_array_equal(early.argmax(axis=1), chosen)
    np.testing.assert_allclose(early.sum(axis=1), 1.0)
    stopped = made.exits_.choices(rows)[1] < 25
    assert stopped.any()
    assert (early[stopped] != forest.predict_proba(rows)[stopped]).any()
    svm = make_pipeline(StandardScaler(), LinearSVC()).fit(rows, y)
    margins = EarlyExitClassifier(svm, alpha=0.0).fit(rows)
    assert not hasattr(margins, "predict_proba")
    np.testing.assert_allclose(
        margins.decision_function(rows), svm.decision_function(rows), atol=1e-9
    )


def test_scikit_learns_tools_take_it() -> None:
    y = Y[200:]
    sooner = EarlyExitClassifier(FOREST, alpha=0.01)
    calibrated = CalibratedClassifierCV(sooner, cv=3).fit(HELD, y)
    assert calibrated.score(HELD, y) > 0.9
    assert TunedThresholdClassifierCV(sooner, cv=3).fit(HELD, y).score(HELD, y) > 0.9
    assert cross_val_score(sooner, HELD, y, cv=3, scoring="roc_auc").min() > 0.9
    search = GridSearchCV(
        Pipeline([("as it is", "passthrough"), ("sooner", sooner)]),
        {"sooner__alpha": [0.0, 0.01]},
        cv=3,
    )
    assert search.fit(HELD, y).score(HELD, y) > 0.9
    best = compile(search.best_estimator_[-1].estimator)
    np.testing.assert_array_equal(best.predict(HELD), FOREST.predict(HELD))


def test_columns_of_a_transformer_may_have_names(tmp_path: Path) -> None:
    names = [f"c{j}" for j in range(30)]
    frame, y = pandas.DataFrame(X, columns=names), Y[200:]
    scaled = make_column_transformer(
        (StandardScaler(), names[:9]), remainder="passthrough"
    ).set_output(transform="pandas")
    fitted = LGBMClassifier(n_estimators=9, verbose=-1, n_jobs=1)
    fitted.fit(scaled.fit_transform(frame[:200]), Y[:200])
    steps = make_pipeline(scaled, EarlyExitClassifier(fitted, alpha=0.01))
    steps.fit(frame[200:], y)
    joblib.dump(steps, tmp_path / "steps.joblib")
    again = joblib.load(tmp_path / "steps.joblib")
    np.testing.assert_array_equal(
        again.predict(frame[200:]), steps.predict(frame[200:])
    )


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_frames_of_every_library_are_taken(confidence: float | None) -> None:
    frame = pandas.DataFrame(X, columns=[f"c{j}" for j in range(30)])
    forest = RandomForestClassifier(9, random_state=0).fit(frame[:200], Y[:200])
    made = EarlyExitClassifier(forest, alpha=0.1, confidence=confidence, random_state=0)
    expected = made.fit(frame[200:]).predict(frame[200:])
    for held in (
        polars.from_pandas(frame[200:]),
        pyarrow.Table.from_pandas(frame[200:], preserve_index=False),
        frame[200:].convert_dtypes(),
        frame[200:].convert_dtypes(dtype_backend="pyarrow"),
    ):
        np.testing.assert_array_equal(made.fit(held).predict(held), expected)
        assert list(made.feature_names_in_[:2]) == ["c0", "c1"]


def test_a_copy_keeps_the_fitted_estimator() -> None:
    made = EarlyExitClassifier(FOREST, alpha=0.25, random_state=3)
    copied = clone(made)
    assert copied.estimator is FOREST
    assert (copied.alpha, copied.random_state) == (0.25, 3)
    assert not hasattr(copied, "exits_")


def test_a_class_may_have_a_share_of_its_own() -> None:
    label = FOREST.classes_[1]
    made = EarlyExitClassifier(FOREST, alpha={label: 0.0, "*": 0.1}).fit(HELD)
    whole = made.ensemble_.predict(HELD)
    changed = whole[made.predict(HELD) != whole]
    assert label not in changed
    assert clone(made).alpha == {label: 0.0, "*": 0.1}
    with pytest.raises(BadInput, match=r"names the class 'x'; the classes are .*"):
        EarlyExitClassifier(FOREST, alpha={"x": 0.0}).fit(HELD)
    with pytest.raises(BadInput, match=r"alpha is nan; it must be in \[0, 1\)"):
        EarlyExitClassifier(FOREST, alpha={label: float("nan")}).fit(HELD)


def test_one_of_two_classes_may_be_barred_from_early_answers() -> None:
    barring: list[tuple[Any, int]] = [("negative", 0), ("positive", 1)]
    for sides, place in barring:
        made = EarlyExitClassifier(FOREST, alpha=0.1, sides=sides).fit(HELD)
        codes, used = made.exits_.choices(HELD)
        early = used < made.exits_.size
        assert early.any()
        assert {*codes[early].tolist()} == {place}
    with pytest.raises(ValueError, match="The 'sides' parameter"):
        made.set_params(sides="one").fit(HELD)
