"""What people give to `compile`: boosters, searches, files, and what is no model."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import lightgbm
import numpy as np
import pytest
import xgboost
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

from polydom.features.errors import BadModel
from polydom.models import EarlyExitClassifier, compile, exact_schedule
from tests.support.models.agreement import bundled

X, Y = bundled("breast_cancer")
MANY, KINDS = bundled("iris")
FOREST = RandomForestClassifier(3, random_state=0).fit(X, Y)

SCALERS = (StandardScaler(), MinMaxScaler(), RobustScaler(), MaxAbsScaler())
LIGHTGBM = {"binary": {}, "multiclass": {"num_class": 3}, "regression": {}}
XGBOOST = {
    "binary:logistic": {},
    "multi:softprob": {"num_class": 3},
    "reg:squarederror": {},
}


def lightgbm_booster(objective: str, **options: Any) -> tuple[Any, Any]:
    rows, y = (MANY, KINDS) if objective == "multiclass" else (X, Y)
    terms = {"objective": objective, "verbose": -1, "num_threads": 1}
    return lightgbm.train(
        terms | LIGHTGBM[objective], lightgbm.Dataset(rows, y), 9, **options
    ), rows


def test_lightgbm_boosters_give_their_scores() -> None:
    for objective in LIGHTGBM:
        booster, rows = lightgbm_booster(objective)
        scores = booster.predict(rows)
        compiled = compile(booster)
        if objective == "regression":
            np.testing.assert_array_equal(compiled.predict(rows), scores)
            continue
        given = compiled.predict_scores(rows)
        own = scores if scores.ndim == 2 else np.column_stack([1 - scores, scores])
        np.testing.assert_allclose(given, own, atol=1e-12)
        np.testing.assert_array_equal(compiled.predict(rows), own.argmax(axis=1))


def test_lightgbm_boosters_stop_where_their_training_was_best() -> None:
    held = lightgbm.Dataset(X[::2], 1 - Y[::2])
    early = lightgbm.early_stopping(1, verbose=False)
    booster, rows = lightgbm_booster("binary", valid_sets=[held], callbacks=[early])
    assert compile(booster).size == booster.best_iteration < 9
    own = booster.predict(rows)
    np.testing.assert_allclose(compile(booster).predict_scores(rows)[:, 1], own)


def test_xgboost_boosters_give_their_scores() -> None:
    for objective, options in XGBOOST.items():
        rows, y = (MANY, KINDS) if options else (X, Y)
        data = xgboost.DMatrix(rows, y)
        booster = xgboost.train({"objective": objective, **options}, data, 9)
        scores, compiled = booster.predict(data), compile(booster)
        if objective == "reg:squarederror":
            np.testing.assert_allclose(compiled.predict(rows), scores, atol=1e-5)
            continue
        own = scores if scores.ndim == 2 else np.column_stack([1 - scores, scores])
        np.testing.assert_allclose(compiled.predict_scores(rows), own, atol=1e-5)


def test_xgboost_boosters_predict_with_all_rounds_their_estimators_with_the_best() -> (
    None
):
    estimator = xgboost.XGBClassifier(n_estimators=40, early_stopping_rounds=1)
    estimator.fit(X, Y, eval_set=[(X[::2], 1 - Y[::2])], verbose=False)
    booster = estimator.get_booster()
    assert booster.num_boosted_rounds() > booster.best_iteration + 1
    for original, own in (
        (booster, booster.predict(xgboost.DMatrix(X))),
        (estimator, estimator.predict_proba(X)[:, 1]),
    ):
        given = compile(original).predict_scores(X)[:, 1]
        np.testing.assert_allclose(given, own, atol=1e-5)


def test_early_exits_take_boosters() -> None:
    booster, rows = lightgbm_booster("binary")
    sooner = EarlyExitClassifier(booster, alpha=0.0).fit(rows)
    np.testing.assert_array_equal(sooner.predict(rows), booster.predict(rows) > 0.5)
    assert sooner.predict_proba(rows).shape == (len(rows), 2)


def test_searches_give_their_best_estimator() -> None:
    forests = GridSearchCV(
        RandomForestClassifier(random_state=0), {"n_estimators": [2, 5]}, cv=2
    )
    lines = RandomizedSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression()),
        {"logisticregression__C": [0.1, 1.0]},
        n_iter=2,
        cv=2,
    )
    for search in (forests, lines):
        with pytest.raises(BadModel, match="has no best_estimator_: fit it, with re"):
            compile(search)
        search.fit(X, Y)
        np.testing.assert_array_equal(compile(search).predict(X), search.predict(X))
        EarlyExitClassifier(search).fit(X)


def dump_lightgbm(path: Path) -> None:
    path.write_text(json.dumps(lightgbm_booster("binary")[0].dump_model()))


def dump_xgboost(path: Path) -> None:
    booster = xgboost.train({}, xgboost.DMatrix(X, Y), 1)
    booster.dump_model(path, dump_format="json")


FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a pickle": (
        lambda path: path.write_bytes(pickle.dumps(FOREST)),
        "a pickle, which is not read as it may run any code: load it yourself",
    ),
    "joblib's": (lambda path: joblib.dump(FOREST, path), "a pickle"),
    "joblib's, packed": (lambda path: joblib.dump(FOREST, path, 3), "a pickle"),
    "a dump of LightGBM": (dump_lightgbm, "LightGBM's dump_model; its save_model can"),
    "a dump of XGBoost": (dump_xgboost, "what dump_model writes .*: use save_model"),
    "nothing": (lambda path: path.touch(), "is neither a LightGBM text file nor an"),
}


@pytest.mark.parametrize("kind", FILES)
def test_files_of_other_kinds_are_told_what_to_do(kind: str, tmp_path: Path) -> None:
    write, message = FILES[kind]
    write(tmp_path / "model")
    for source in (tmp_path / "model", str(tmp_path / "model")):
        with pytest.raises(BadModel, match=message):
            compile(source)


def others() -> list[tuple[Any, str]]:
    rows = lightgbm.Dataset(X, Y)
    terms = {"objective": "binary", "verbose": -1}
    several = lightgbm.cv(terms, rows, 2, return_cvbooster=True)["cvbooster"]
    calibrated = CalibratedClassifierCV(FOREST, cv=2).fit(X, Y)
    text = lightgbm_booster("binary")[0].model_to_string()
    return [
        (["a.txt", "b.txt"], "list is no model: a fitted estimator, a Booster of"),
        (None, "NoneType is no model"),
        (b"tree", "bytes is no model"),
        (X, "ndarray is no model"),
        (RandomForestClassifier, "is a class: give an object of it"),
        (text, "a model's text came; the path of its file is needed"),
        (several, "lightgbm.engine.CVBooster has no compiled form"),
        (calibrated, "CalibratedClassifierCV has no compiled form"),
        (LGBMClassifier(), "LGBMClassifier is not fitted"),
    ]


def test_what_is_no_fitted_model_is_refused_in_a_sentence() -> None:
    for source, message in others():
        with pytest.raises(BadModel, match=message):
            compile(source)
    for source, message in others()[:-1]:
        with pytest.raises(BadModel, match=message):
            EarlyExitClassifier(source).fit(X)


def epochs(kind: str) -> Any:
    """Numbers of which float32 keeps few digits."""
    draws = np.random.default_rng(5)
    made: dict[str, Any] = {
        "seconds": 1.7e9 + draws.integers(0, 100, 900),
        "milliseconds": 1.7e12 + draws.integers(0, 100_000, 900),
        "beyond 2^24": 16_777_217.0 + draws.integers(0, 9, 900),
        "degrees": 52.5 + draws.integers(0, 200, 900) * 1e-5,
        "beyond 2^53": 2.0**53 + 2 * draws.integers(0, 40, 900),
    }
    return made[kind]


LEARNERS: dict[str, Any] = {
    "lightgbm": LGBMClassifier(n_estimators=9, verbose=-1, n_jobs=1),
    "xgboost": xgboost.XGBClassifier(n_estimators=9, n_jobs=1),
    "forest": RandomForestClassifier(5, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=5, random_state=0),
    "histogram": HistGradientBoostingClassifier(max_iter=9),
}


@pytest.mark.jit
@pytest.mark.parametrize("scaler", [None, *SCALERS])
@pytest.mark.parametrize("name", LEARNERS)
def test_numbers_of_many_digits_are_compared_as_the_library_does(
    name: str, scaler: Any
) -> None:
    kinds = "seconds", "milliseconds", "beyond 2^24", "degrees", "beyond 2^53"
    other = np.random.default_rng(6).normal(size=300)
    for kind in kinds[::3] if scaler else kinds:
        column = epochs(kind)[:300]
        y = (column > np.median(column)) ^ (other > 1)
        for dtype in (np.float64, np.float32):
            rows: Any = np.column_stack([column, other]).astype(dtype)
            learner = clone(LEARNERS[name])
            steps = [learner] if scaler is None else [clone(scaler), learner]
            original = make_pipeline(*steps).fit(rows, y)
            rows[1:, 0] = (rows[1:, 0] + rows[:-1, 0]) / 2
            compiled = pickle.loads(pickle.dumps(compile(original)))
            exits = compiled.early_exit(exact_schedule(compiled))
            for given in (rows, rows.astype(np.float64)):
                expected = original.predict(given)
                np.testing.assert_array_equal(compiled.predict(given), expected)
                np.testing.assert_array_equal(exits.predict(given), expected)
