"""Learners by name: they fit, they compile, and mistakes are named."""

import sys
import warnings
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBRegressor

from polydom.features.errors import BadModel, BadProject
from polydom.features.threads import one_thread
from polydom.models import make_learner
from polydom.models.importers.compile_model import compile_model
from polydom.models.selection.learners import (
    CLASSIFIERS,
    LEARNERS,
    REGRESSORS,
    Task,
    describe_learner,
)
from tests.support.models.agreement import assert_agrees, assert_values_agree, bundled

FEW = {
    "boosting": {"n_estimators": 5},
    "hist_boosting": {"max_iter": 5},
    "forest": {"n_estimators": 10},
    "extra_trees": {"n_estimators": 10},
    "ada_boost": {"n_estimators": 5},
    "lightgbm": {"n_estimators": 5},
    "xgboost": {"n_estimators": 5},
    "lattices": {"n_lattices": 6, "epochs": 4},
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_named_learner_fits_and_compiles(name: str) -> None:
    X, y = bundled("wine")
    with one_thread():
        fitted = make_learner({"name": name, **FEW.get(name, {})}, seed=0).fit(X, y)
        assert_agrees(fitted, X)


@pytest.mark.parametrize("name", sorted(set(CLASSIFIERS) - {"prior"}))
def test_every_named_learner_takes_missing_values(name: str) -> None:
    X, y = bundled("iris")
    X[::4, 1] = np.nan
    with one_thread():
        fitted = make_learner({"name": name, **FEW.get(name, {})}, seed=0).fit(X, y)
        assert_agrees(fitted, X)


def test_learner_by_class_takes_parameters_and_seed() -> None:
    path = "sklearn.ensemble:RandomForestClassifier"
    learner = make_learner({"name": path, "n_estimators": 7}, seed=5)
    assert isinstance(learner, RandomForestClassifier)
    assert learner.get_params()["n_estimators"] == 7
    assert learner.get_params()["random_state"] == 5


@pytest.mark.parametrize(
    ("library", "name"), [("lightgbm", "LGBMClassifier"), ("xgboost", "XGBClassifier")]
)
def test_learner_may_be_of_another_library(library: str, name: str) -> None:
    pytest.importorskip(library)
    X, y = bundled("iris")
    spec = {"name": f"{library}:{name}", "n_estimators": 5, "verbosity": 0}
    learner = make_learner(spec, seed=7).fit(X, y)
    assert (learner.n_estimators, learner.random_state) == (5, 7)
    assert_agrees(learner, X)


def test_learner_keeps_a_seed_of_its_own() -> None:
    assert make_learner({"name": "tree", "random_state": 9}, seed=5).random_state == 9


def test_equal_seeds_give_equal_models() -> None:
    X, y = bundled("wine")
    first, second = (
        compile_model(make_learner("forest", seed=3).fit(X, y)).arrays()
        for _ in range(2)
    )
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("logistik", "'logistik' is unknown; did you mean 'logistic'?"),
        ("RandomForest", "'RandomForest' is unknown; did you mean 'forest'?"),
        ("random_forest", "did you mean 'forest'?"),
        ("Logistic-Regression", "did you mean 'logistic'?"),
        ("GaussianNB", "did you mean 'naive_bayes'?"),
        ("HistGradientBoosting", "did you mean 'hist_boosting'?"),
        ("LightGBM", "did you mean 'lightgbm'?"),
        ("xgb_classifier", "did you mean 'xgboost'?"),
        ("Hist Boosting", "did you mean 'hist_boosting'?"),
        ("zzz", "known: logistic, sgd"),
        ({"name": 3}, "name is 3; it must be a text"),
        ({}, "name is None"),
        ({"name": "forest", "n_estimator": 3}, "did you mean 'n_estimators'"),
        ({"name": "forest", "n_estimators": -3}, "'n_estimators' parameter of"),
        ({"name": "lightgbm", "max_dpeth": 3}, "did you mean 'max_depth'?"),
        ({"name": "lightgbm", "lamda_l1": 1.0}, "did you mean 'lambda_l1'?"),
        ({"name": "lightgbm:LGBMClassifier", "zzz": 1}, "has no parameter 'zzz'$"),
        ({"name": "xgboost", "max_dpeth": 3}, "did you mean 'max_depth'?"),
        ({"name": "xgboost", "verbosity": 0, "zzz": 1}, "has no parameter 'zzz', or"),
        ({"name": "xgboost", "rate_drop": 0.1}, "or not with this booster and obj"),
        ({"name": "xgboost:XGBRFClassifier", "n_tres": 3}, "no parameter 'n_tres'"),
        ("sklearn.ensemble:Nothing", "cannot be imported"),
        ("no_such_module:Thing", "cannot be imported"),
        (":Thing", "cannot be imported"),
    ],
)
def test_unusable_spec_is_refused(spec: object, message: str) -> None:
    with pytest.raises(BadProject, match=message.replace("?", r"\?")):
        make_learner(spec, seed=0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        *(
            ("lightgbm", alias, 3)
            for alias in ("n_estimators", "num_round", "num_iterations", "nrounds")
        ),
        ("lightgbm", "eta", 0.1),
        ("lightgbm", "feature_fraction", 0.5),
        ("lightgbm", "class_weight", "balanced"),
        ("xgboost", "eta", 0.1),
        ("xgboost", "lambda", 2.0),
        ("xgboost", "max_depth", 2),
        ("xgboost", "nthread", 1),
    ],
)
def test_aliases_of_boosters_are_parameters(
    name: str, parameter: str, value: object
) -> None:
    X, y = bundled("iris")
    learner = make_learner({"name": name, parameter: value}, seed=0)
    assert learner.get_params()[parameter] == value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM tells of an alias
        assert_agrees(learner.fit(X, y), X)


def test_what_xgboost_knows_depends_on_the_booster() -> None:
    spec = {"name": "xgboost", "booster": "dart", "rate_drop": 0.5}
    assert make_learner(spec, seed=0).get_params()["rate_drop"] == 0.5


ESTIMATORS: list[tuple[Any, Task, dict[str, Any]]] = [
    (
        RandomForestClassifier(n_estimators=np.int64(7), max_features=None),
        "classes",
        {
            "name": "sklearn.ensemble:RandomForestClassifier",
            "n_estimators": 7,
            "max_features": None,
        },
    ),
    (
        LGBMClassifier(num_leaves=4, feature_fraction=0.5),
        "classes",
        {"name": "lightgbm:LGBMClassifier", "num_leaves": 4, "feature_fraction": 0.5},
    ),
    (
        XGBRegressor(max_depth=2),
        "regression",
        {"name": "xgboost:XGBRegressor", "max_depth": 2},
    ),
    (RidgeCV((0.1, 1.0)), "regression", {"alphas": [0.1, 1.0]}),
]


@pytest.mark.parametrize(("estimator", "task", "spec"), ESTIMATORS)
def test_estimators_are_written_as_specs(
    estimator: Any, task: Task, spec: dict[str, Any]
) -> None:
    name = spec.get("name", "sklearn.linear_model:RidgeCV")
    assert describe_learner(estimator) == {"name": name, **spec}
    made = make_learner(describe_learner(estimator), 5, task)
    made = made[-1] if isinstance(made, Pipeline) else made
    assert type(made) is type(estimator)
    assert made.get_params().get("random_state", 5) == 5


def test_estimators_that_cannot_be_written_are_refused() -> None:
    with pytest.raises(BadModel, match="a Pipeline came as learner: give the estima"):
        describe_learner(make_pipeline(StandardScaler(), LogisticRegression()))
    with pytest.raises(BadModel, match="MLPClassifier has no compiled form"):
        describe_learner(MLPClassifier())
    stumps = AdaBoostClassifier(DecisionTreeClassifier(max_depth=2))
    with pytest.raises(BadProject, match=r"estimator is DecisionTreeClassifier\(max_"):
        describe_learner(stumps)


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_learner_that_is_not_installed_says_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BadProject, match=r"pip install 'polydom\[boosting\]'"):
        make_learner(name, seed=0)


def test_named_lightgbm_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    X, y = bundled("iris")
    make_learner({"name": "lightgbm", "n_estimators": 2}, seed=0).fit(
        X[:30], y[:30] + np.arange(30) % 2
    )
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "path",
    ["sklearn.neighbors:KNeighborsClassifier", "sklearn.neural_network:MLPClassifier"],
)
def test_learner_without_compiled_form_is_refused_with_what_is_possible(
    path: str,
) -> None:
    with pytest.raises(BadModel, match=r"no compiled form; these have:.*Logistic"):
        make_learner(path, seed=0)


def test_learner_that_is_no_classifier_is_refused() -> None:
    with pytest.raises(BadModel, match="is not an estimator of scikit-learn"):
        make_learner("pathlib:Path", seed=0)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", REGRESSORS)
def test_every_named_learner_of_numbers_fits_and_compiles(
    name: str, missing: bool
) -> None:
    X, y = bundled("wine")
    values = y + X[:, 0] / 10
    if missing:
        X[::4, 1] = np.nan
    spec = {"name": name, **FEW.get(name, {})}
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LassoCV's steps
        fitted = make_learner(spec, 0, "regression").fit(X, values)
        tolerance = 1e-5 if name == "xgboost" else 1e-12
        assert_values_agree(fitted, X, tolerance=tolerance)


@pytest.mark.parametrize(
    ("spec", "task", "message"),
    [
        ("logistic", "regression", "'logistic' is for classes; for numbers there are:"),
        ("prior", "regression", "'prior' is for classes; .* linear, ridge, lasso"),
        ("lasso", "classes", "'lasso' is for numbers; for classes there are: logistic"),
        (
            "sklearn.linear_model:Ridge",
            "classes",
            "'sklearn.linear_model:Ridge' is for numbers; .* of a classifier$",
        ),
        (
            "sklearn.svm:LinearSVC",
            "regression",
            "'sklearn.svm:LinearSVC' is for classes; .* of a regressor$",
        ),
        ("ridg", "regression", "did you mean 'ridge'.*'module:Class' of a regressor"),
        ("Ridge", "regression", "did you mean 'ridge'"),
        ("Elastic Net", "regression", "did you mean 'elastic_net'"),
        ("RandomForestRegressor", "regression", "did you mean 'forest'"),
        ("LGBMRegressor", "regression", "did you mean 'lightgbm'"),
        ({"name": "lasso", "alpha": 1.0}, "regression", "did you mean 'alphas'"),
        ({"name": "ridge", "alpha": -1.0}, "regression", "'alpha' parameter of Ridge"),
    ],
)
def test_learner_of_the_other_task_is_refused(
    spec: object, task: Task, message: str
) -> None:
    with pytest.raises(BadProject, match=message):
        make_learner(spec, seed=0, task=task)  # type: ignore[arg-type]


def test_learner_of_numbers_without_compiled_form_is_refused() -> None:
    with pytest.raises(BadModel, match=r"as a regressor; these have:.*Ridge"):
        make_learner("sklearn.neighbors:KNeighborsRegressor", 0, "regression")


@pytest.mark.parametrize("task", LEARNERS)
def test_ranker_is_no_learner(task: Task) -> None:
    with pytest.raises(BadModel, match="neither a classifier nor a regressor"):
        make_learner("lightgbm:LGBMRanker", 0, task)


def test_names_of_both_tasks_are_of_one_kind() -> None:
    """What is called alike is made by the same module, for either task."""
    shared = set(CLASSIFIERS) & set(REGRESSORS)
    assert {"ridge", "sgd", "linear_svm", "tree", "forest", "lightgbm"} <= shared
    for name in shared:
        modules = {known[name][0].partition(":")[0] for known in LEARNERS.values()}
        assert len(modules) == 1
