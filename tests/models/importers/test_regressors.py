"""Regressors and rankers answer as their libraries do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    ElasticNet,
    ElasticNetCV,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LassoCV,
    LinearRegression,
    PoissonRegressor,
    Ridge,
    RidgeCV,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR, LinearSVR
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from polydom.features.errors import BadModel, BadRow
from polydom.models import compile
from tests.support.models.agreement import assert_values_agree, bundled, edge_rows
from tests.support.models.boosters import FEW, REGRESSIONS, lightgbm, xgboost

SKLEARN: dict[str, Any] = {
    "tree": DecisionTreeRegressor(random_state=0),
    "extra tree": ExtraTreeRegressor(random_state=0),
    "forest": RandomForestRegressor(12, random_state=0),
    "extra trees": ExtraTreesRegressor(12, random_state=0),
    "bagging": BaggingRegressor(n_estimators=5, max_features=0.5, random_state=0),
    "boosting": GradientBoostingRegressor(n_estimators=20, random_state=0),
    "boosting from zero": GradientBoostingRegressor(n_estimators=9, init="zero"),
    "boosting of medians": GradientBoostingRegressor(loss="huber", n_estimators=9),
    "histograms": HistGradientBoostingRegressor(max_iter=12, min_samples_leaf=3),
    "histograms of counts": HistGradientBoostingRegressor(
        loss="poisson", max_iter=12, min_samples_leaf=3
    ),
    "histograms of categories": HistGradientBoostingRegressor(
        max_iter=12, min_samples_leaf=3, categorical_features=[0]
    ),
}


def table() -> tuple[Any, Any]:
    """A number for each row of wine, above 0; column 0 holds a few whole numbers."""
    X, y = bundled("wine")
    X[:, 0] = np.rint(X[:, 0]) % 5
    return X, 1.0 + y + X[:, 9] / 7 + X[:, 0] / 3


@pytest.mark.parametrize("name", SKLEARN)
def test_scikit_learns_regressors_to_the_bit(name: str) -> None:
    X, y = table()
    fitted = SKLEARN[name].fit(X, y)
    missing = "histograms" in name or name in ("tree", "forest")
    rows = edge_rows(X, X[0], 300, missing=missing)
    rows[:, 0] = np.abs(np.nan_to_num(np.rint(rows[:, 0]))) % 9
    regressor = compile(fitted)
    np.testing.assert_array_equal(regressor.predict(rows), fitted.predict(rows))
    singles = rows.astype(np.float32)
    np.testing.assert_array_equal(regressor.predict(singles), fitted.predict(rows))


LINEAR: dict[str, Any] = {
    "least squares": LinearRegression(),
    "ridge": Ridge(),
    "ridge, chosen": RidgeCV(),
    "lasso": Lasso(0.1),
    "lasso, chosen": LassoCV(alphas=[0.1, 1.0], cv=3),
    "elastic net": ElasticNet(0.1),
    "elastic net, chosen": ElasticNetCV(alphas=[0.1, 1.0], cv=3),
    "sgd": SGDRegressor(random_state=0),
    "huber": HuberRegressor(max_iter=999),
    "svm": LinearSVR(random_state=0, max_iter=9999),
    "poisson": PoissonRegressor(),
    "gamma": GammaRegressor(),
    "tweedie": TweedieRegressor(power=1.5),
    "tweedie of identity": TweedieRegressor(power=0),
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear_regressors_to_rounding(name: str) -> None:
    X, y = table()
    fitted = make_pipeline(StandardScaler(), LINEAR[name]).fit(X, y)
    rows = np.rint(np.concatenate([X, X * 3 - 5]))
    model = assert_values_agree(fitted, rows, tolerance=1e-12)
    assert model.kind == "linear"
    model = assert_values_agree(
        LINEAR[name].fit(X[:, :1], y), X[:, :1], tolerance=1e-12
    )
    with pytest.raises(BadRow, match="row 0 has nan in column"):
        model.predict(np.full((1, 4), np.nan, np.float32))


def test_gaps_are_filled_before_regressors_as_before_classifiers() -> None:
    X, y = table()
    X[::5, 3] = np.nan
    for last in (Ridge(), GradientBoostingRegressor(n_estimators=5, random_state=0)):
        fitted = make_pipeline(SimpleImputer(), StandardScaler(), last).fit(X, y)
        rows = edge_rows(np.nan_to_num(X), X[0, :2], 200)
        rows[::3, 3] = np.nan
        rows = np.where(np.abs(rows) > 1e6, 0.0, rows)
        assert_values_agree(fitted, rows, tolerance=1e-12)


@pytest.mark.parametrize("strategy", ["mean", "median", "constant"])
def test_dummies_become_one_value(strategy: str) -> None:
    X, y = table()
    dummy = DummyRegressor(strategy=strategy, constant=2.5).fit(X, y)
    assert assert_values_agree(dummy, X).kind == "mean"


@pytest.mark.parametrize("name", ["tree", "forest", "bagging", "histograms"])
def test_regressors_find_their_columns(name: str) -> None:
    X, y = table()
    assert_values_agree(SKLEARN[name].fit(X, y), X)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_labels_that_are_all_alike_and_few_rows(rows: int) -> None:
    X, _ = table()
    y = np.full(rows, 0.1)
    for fitted in (DecisionTreeRegressor(), RandomForestRegressor(2), Ridge()):
        assert_values_agree(fitted.fit(X[:rows, :1], y), X[:, :1], tolerance=1e-15)


def test_largest_numbers() -> None:
    """The library rounds to float32, and so do we; sums stay in float64."""
    X, y = table()
    X[0, 0] = np.finfo(np.float32).max
    for scale in (1e300, 1e-300):
        for name in ("tree", "forest"):
            assert_values_agree(SKLEARN[name].fit(X, scale * y), X)


@pytest.mark.parametrize("objective", [*REGRESSIONS, "sqrt", "forest"])
def test_lightgbms_regressors_to_the_bit(objective: str, tmp_path: Path) -> None:
    X, y = table()
    options: dict[str, Any] = FEW | {"min_child_samples": 3, "verbose": -1}
    if objective == "sqrt":
        options["reg_sqrt"] = True
    elif objective == "forest":
        options |= {"boosting": "rf", "subsample": 0.6, "subsample_freq": 1}
    else:
        options["objective"] = objective
    fitted = lightgbm.LGBMRegressor(**options).fit(X, y)
    rows = edge_rows(X, X[0], 300, missing=True, infinite=True)
    path = tmp_path / "model.txt"
    fitted.booster_.save_model(path)
    for source in (fitted, path):
        regressor = compile(source)
        np.testing.assert_allclose(
            regressor.predict(rows), fitted.predict(rows), rtol=1e-14
        )
        if objective != "forest":
            np.testing.assert_array_equal(
                regressor.decision_function(rows), fitted.predict(rows, raw_score=True)
            )


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg"])
def test_lightgbms_rankers_to_the_bit(objective: str) -> None:
    X, _ = table()
    _, relevance = bundled("wine")
    options = FEW | {"min_child_samples": 3, "verbose": -1, "objective": objective}
    fitted = lightgbm.LGBMRanker(**options).fit(X, relevance, group=[89, 89])
    np.testing.assert_array_equal(compile(fitted).predict(X), fitted.predict(X))


XGBOOST = (
    "reg:squarederror",
    "reg:squaredlogerror",
    "reg:absoluteerror",
    "reg:pseudohubererror",
    "reg:logistic",
    "reg:gamma",
    "reg:tweedie",
    "count:poisson",
)


@pytest.mark.parametrize("objective", XGBOOST)
@pytest.mark.parametrize("kind", ["json", "ubj"])
def test_xgboosts_regressors_within_float32(
    objective: str, kind: str, tmp_path: Path
) -> None:
    X, y = table()
    y = y / y.max() * 0.9 if objective == "reg:logistic" else y
    fitted = xgboost.XGBRegressor(**FEW, objective=objective).fit(X, y)
    rows = edge_rows(X, X[0], 300, missing=True)
    path = tmp_path / f"model.{kind}"
    fitted.save_model(path)
    for source in (fitted, path):
        np.testing.assert_allclose(
            compile(source).predict(rows), fitted.predict(rows), rtol=1e-5
        )


@pytest.mark.parametrize("objective", ["rank:ndcg", "rank:map", "rank:pairwise"])
def test_xgboosts_rankers_within_float32(objective: str) -> None:
    X, _ = table()
    _, relevance = bundled("wine")
    relevance = np.minimum(relevance, 1)  # rank:map knows two
    groups = np.repeat([0, 1], 89)
    fitted = xgboost.XGBRanker(**FEW, objective=objective)
    fitted.fit(X, relevance, qid=groups)
    np.testing.assert_allclose(compile(fitted).predict(X), fitted.predict(X), atol=1e-5)


@pytest.mark.parametrize("objective", ["reg:squarederror", "count:poisson"])
def test_xgboosts_linear_terms_within_float32(objective: str) -> None:
    X, y = table()
    X = X / np.abs(X).max(axis=0)
    few = xgboost.XGBRegressor(**FEW, booster="gblinear", objective=objective)
    X[::5, 3] = np.nan
    assert_values_agree(few.fit(X, y), X, tolerance=1e-5)


def test_xgboosts_forest_within_float32() -> None:
    X, y = table()
    fitted = xgboost.XGBRFRegressor(**FEW).fit(X, y)
    np.testing.assert_allclose(compile(fitted).predict(X), fitted.predict(X), rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda X, y: SVR().fit(X, y), "sklearn.svm._classes.SVR has no compiled form"),
        (lambda X, y: Ridge(), "Ridge is not fitted"),
        (lambda X, y: Ridge().fit(X, np.column_stack([y, y])), "on several outputs"),
        (lambda X, y: AdaBoostRegressor(n_estimators=2).fit(X, y), "AdaBoostRegressor"),
        (lambda X, y: RandomForestRegressor(), "RandomForestRegressor is not fitted"),
        (lambda X, y: lightgbm.LGBMRegressor(), "LGBMRegressor is not fitted"),
        (
            lambda X, y: RandomForestRegressor(2).fit(X, np.column_stack([y, y])),
            "fitted on several outputs",
        ),
        (
            lambda X, y: BaggingRegressor(n_estimators=2).fit(
                X, np.column_stack([y, y])
            ),
            "fitted on several outputs",
        ),
        (
            lambda X, y: BaggingRegressor(Ridge(), n_estimators=2).fit(X, y),
            "BaggingRegressor of Ridge has no compiled form",
        ),
        (
            lambda X, y: GradientBoostingRegressor(init=DecisionTreeRegressor()).fit(
                X, y
            ),
            "with an init estimator of its own",
        ),
        (
            lambda X, y: xgboost.XGBRegressor(**FEW, missing=0.0).fit(X, y),
            r"XGBRegressor\(missing=0.0\) has no compiled form",
        ),
        (
            lambda X, y: xgboost.XGBRegressor(**FEW).fit(X, np.column_stack([y, y])),
            "several outputs",
        ),
        (
            lambda X, y: lightgbm.LGBMRegressor(
                **FEW, verbose=-1, objective="cross_entropy_lambda"
            ).fit(X, y > 3),
            "objective 'cross_entropy_lambda' has no compiled form",
        ),
    ],
)
def test_what_has_no_compiled_form_is_named(make: Any, reason: str) -> None:
    with pytest.raises(BadModel, match=reason):
        compile(make(*table()))


def test_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"\xff\x00" * 50)
    with pytest.raises(BadModel, match=r"model\.bin is neither a LightGBM text file"):
        compile(path)
