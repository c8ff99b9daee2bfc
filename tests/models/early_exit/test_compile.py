"""`compile`: the one way in, for every kind of source; and exits fitted in one call."""

from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler
from sklearn.svm import SVR

from polydom import models
from polydom.features.errors import BadInput, BadModel
from polydom.features.threads import one_thread
from polydom.models import (
    Classifier,
    Ensemble,
    LatticeEnsembleClassifier,
    MarginSchedule,
    Regressor,
    Schedule,
    compile,
    fit_margin_schedule,
    fit_schedule,
)
from polydom.models.early_exit.fitting_rows import shuffle_scores
from polydom.models.scoring.prior import Mean, Prior
from tests.support.models.agreement import bundled

X, Y = bundled("wine")
TWO = (Y > 0).astype(int)
FEW: dict[str, Any] = {"n_estimators": 9, "random_state": 0, "n_jobs": 1}
SOURCES: dict[str, tuple[Any, type[Any]]] = {
    "forest": (RandomForestClassifier(**FEW), Ensemble),
    "linear": (LogisticRegression(max_iter=9000), Ensemble),
    "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), Ensemble),
    "lattices": (LatticeEnsembleClassifier(4, 3, epochs=2, random_state=0), Ensemble),
    "lightgbm": (lightgbm.LGBMClassifier(**FEW, verbose=-1), Ensemble),
    "xgboost": (xgboost.XGBClassifier(**FEW), Ensemble),
    "bayes": (GaussianNB(), Classifier),
    "dummy": (DummyClassifier(strategy="prior"), Prior),
    "forest regressor": (RandomForestRegressor(**FEW), Regressor),
    "lightgbm regressor": (lightgbm.LGBMRegressor(**FEW, verbose=-1), Regressor),
    "xgboost regressor": (xgboost.XGBRegressor(**FEW), Regressor),
    "ridge": (make_pipeline(StandardScaler(), Ridge()), Regressor),
    "mean": (DummyRegressor(), Mean),
}
RANKERS: dict[str, Any] = {
    "lightgbm": lightgbm.LGBMRanker(**FEW, verbose=-1),
    "xgboost": xgboost.XGBRanker(**FEW),
}
WITH_FILES = [name for name in SOURCES if name.split()[0] in ("lightgbm", "xgboost")]


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_fitted_is_compiled_to_what_it_is(name: str) -> None:
    source, kind = SOURCES[name]
    with one_thread():
        fitted = source.fit(X, Y)
    made: Any = compile(fitted)
    assert isinstance(made, kind)
    np.testing.assert_allclose(made.predict(X), fitted.predict(X), rtol=1e-5, atol=1e-5)
    if kind not in (Regressor, Mean):
        shares = made.predict_scores(X)
        np.testing.assert_allclose(shares, fitted.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("name", RANKERS)
def test_rankers_are_regressors(name: str) -> None:
    fitted = RANKERS[name].fit(X, Y, group=[100, 78])
    made = compile(fitted)
    assert isinstance(made, Regressor)
    np.testing.assert_allclose(made.predict(X), fitted.predict(X), atol=1e-5)


@pytest.mark.parametrize("name", WITH_FILES)
@pytest.mark.parametrize("form", ["json", "ubj"])
@pytest.mark.parametrize("end", ["", ".txt", ".json", ".ubj"])
def test_files_are_told_apart_by_what_is_in_them(
    name: str, form: str, end: str, tmp_path: Path
) -> None:
    source, kind = SOURCES[name]
    path, fitted = tmp_path / f"model{end}", source.fit(X, Y)
    if name.startswith("lightgbm"):
        fitted.booster_.save_model(path)
    else:
        path.write_bytes(fitted.get_booster().save_raw(form))
    for place in (path, str(path)):
        made: Any = compile(place)
        assert isinstance(made, kind)
        np.testing.assert_allclose(made.predict(X), fitted.predict(X), atol=1e-5)


def test_what_has_no_compiled_form_is_named() -> None:
    with pytest.raises(
        BadModel, match=r"SVR has no compiled form as a regr.* have: Ba"
    ):
        compile(SVR().fit(X, Y))
    with pytest.raises(BadModel, match="dict is no model: a fitted estimator"):
        compile({})
    with pytest.raises(BadModel, match="PowerTransformer in a Pipeline has no comp"):
        compile(make_pipeline(PowerTransformer(), Ridge()).fit(X, Y))
    with pytest.raises(FileNotFoundError):
        compile("no such file")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name,age", r"model\.txt is neither a LightGBM text file nor an XGBoost JSON"),
        ("", r"model\.txt is neither a LightGBM text file nor"),
        ("{}", "not an XGBoost model: it has no 'version'"),
        ("tree\nversion=v9", "LightGBM model of version 'v9'"),
        (
            "tree\nversion=v4\nobjective=lambdamart",
            "'lambdamart' has no compiled form here; these have: binary, .*lambdarank",
        ),
    ],
)
def test_text_that_is_no_model_is_named(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text(text)
    with pytest.raises(BadModel, match=reason):
        compile(tmp_path / "model.txt")


def test_a_frozen_estimator_is_what_is_frozen() -> None:
    forest = RandomForestClassifier(**FEW).fit(X, Y)
    made = compile(FrozenEstimator(forest))
    np.testing.assert_array_equal(made.predict(X), forest.predict(X))
    trees = RandomForestRegressor(**FEW).fit(X, Y)
    assert isinstance(compile(FrozenEstimator(trees)), Regressor)

    class Frozen:
        estimator = forest

    Frozen.__name__ = "FrozenEstimator"
    with pytest.raises(BadModel, match="FrozenEstimator is no model"):
        compile(Frozen())


def fitted_ensemble(classes: int) -> Ensemble:
    y = Y if classes > 2 else TWO
    made = compile(RandomForestClassifier(20, max_depth=3, random_state=0).fit(X, y))
    assert isinstance(made, Ensemble)
    return made


@pytest.mark.parametrize("confidence", [None, 0.9])
@pytest.mark.parametrize("costly", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_fitting_in_one_call_is_the_long_way_to_the_bit(
    classes: int, costly: bool, confidence: float | None
) -> None:
    ensemble = fitted_ensemble(classes)
    scores = ensemble.base_scores(X)
    short: dict[str, Any] = {"confidence": confidence}
    long = dict(short)
    if costly:
        short["feature_costs"] = long["feature_costs"] = np.arange(13.0)
        long["uses"] = ensemble.uses(13)
    if confidence is not None:
        groups = np.arange(len(X)) // 2
        short |= {"calibration": X, "groups": groups}
        long |= {"calibration": scores, "groups": groups, "proven": ensemble._proven()}
    own = ensemble.predict(X)
    decided = own == 1 if classes == 2 else own
    long["decisions"] = decided
    if confidence is not None:
        long["calibration_decisions"] = decided
    given, share = scores, 0.1
    if not costly:  # trees of a forest keep their order, and are seen in others
        scores, long["decisions"] = shuffle_scores(scores, decided, 0)
        long["order"] = np.arange(ensemble.size)

    def fit() -> Schedule | MarginSchedule:
        if classes == 2:
            return fit_schedule(scores, ensemble.threshold, share, **long)
        return fit_margin_schedule(scores, share, bias=ensemble.bias, **long)

    def too_many() -> bool:
        changed = np.bincount(fitted.changed(given, decided), minlength=classes)
        return bool((changed > 0.1 * np.bincount(decided)).any())

    fitted = fit()
    while confidence is None and too_many():
        share /= 2
        fitted = fit()
    exits = ensemble.fit_early_exit(X, alpha=0.1, **short)
    for made, part in zip(
        exits.schedule.__reduce__()[1], fitted.__reduce__()[1], strict=True
    ):
        np.testing.assert_array_equal(made, part)
    expected = ensemble.early_exit(fitted).choices(X)
    np.testing.assert_array_equal(exits.choices(X), expected)
    assert (exits.schedule.promise is None) == (confidence is None)
    changed = np.count_nonzero(exits.predict(X) != own)
    assert changed <= 0.1 * len(X)


def test_options_of_the_fitting_are_handed_on() -> None:
    ensemble = fitted_ensemble(2)
    exits = ensemble.fit_early_exit(X, alpha=0.1, sides="negative")
    assert isinstance(exits.schedule, Schedule)
    assert np.isposinf(exits.schedule.upper).all()
    with pytest.raises(BadInput, match="sides is 'negative', and there are 3 classes"):
        fitted_ensemble(3).fit_early_exit(X, alpha=0.1, sides="negative")
    with pytest.raises(BadInput, match="without a confidence"):
        ensemble.fit_early_exit(X, alpha=0.1, calibration=X)
    with pytest.raises(BadInput, match=r"alpha is 2.*in \[0, 1\)"):
        ensemble.fit_early_exit(X, alpha=2.0)


@pytest.mark.parametrize("name", models.__all__)
def test_each_public_name_is_there_and_documented(name: str) -> None:
    found = getattr(models, name)
    assert found.__name__ == name
    assert found.__doc__
    assert name in dir(models)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        models.no_such_name  # noqa: B018
