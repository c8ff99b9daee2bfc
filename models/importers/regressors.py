"""Fitted regressors and rankers to compiled models."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polydom.features.errors import BadModel

from ..linear.linear import Linear
from ..scoring.model import Model
from ..scoring.preparation import Preparation
from ..scoring.prior import Mean
from ..scoring.regressor import Link, Regressor
from ..trees.nodes import Tree
from ..trees.trees import join
from .from_lightgbm import lightgbm_text, read_lightgbm_regressor
from .from_sklearn_trees import boosted_trees, fitted_trees, hist_trees, node_values
from .from_xgboost import fitted_bytes, read_xgboost_regressor


def _linear(regressor: Any, preparation: Preparation) -> Model:
    return _weighted(regressor, preparation, "identity")


def _generalised(regressor: Any, preparation: Preparation) -> Model:
    """Poisson, gamma, Tweedie: their own link, by its class."""
    link = type(regressor._base_loss.link).__name__
    if link not in LINKS:
        raise BadModel(f"{type(regressor).__name__} with a {link} has no compiled form")
    return _weighted(regressor, preparation, LINKS[link])


LINKS: dict[str, Link] = {"IdentityLink": "identity", "LogLink": "exp"}


def _weighted(regressor: Any, preparation: Preparation, link: Link) -> Model:
    weights = np.asarray(regressor.coef_, np.float64)
    if weights.ndim > 1 and len(weights) != 1:
        raise BadModel(f"{type(regressor).__name__} was fitted on several outputs")
    intercepts = np.asarray(regressor.intercept_, np.float64).reshape(-1)
    if not (np.isfinite(weights).all() and np.isfinite(intercepts).all()):
        raise BadModel(
            f"{type(regressor).__name__} has NaN or infinite coefficients; more "
            "regularisation, or inputs of like size, avoid them"
        )
    by_input = np.ascontiguousarray(weights.reshape(-1, 1))
    return Regressor(Linear(preparation, by_input, intercepts.copy()), link)


def _sum(
    trees: Sequence[Tree],
    preparation: Preparation,
    bias: float = 0.0,
    *,
    divisor: float = 1.0,
    single: bool = True,
    link: Link = "identity",
) -> Model:
    targets, start = [0] * len(trees), np.array([bias])
    sums = join(trees, targets, preparation, bias=start, divisor=divisor, single=single)
    return Regressor(sums, link)


def _averaged(regressor: Any, preparation: Preparation) -> Model:
    trees = fitted_trees(regressor, node_values)
    return _sum(trees, preparation, divisor=len(trees))


def _boosting(regressor: Any, preparation: Preparation) -> Model:
    trees, bias = boosted_trees(regressor)
    return _sum(trees, preparation, float(bias[0]))


def _hist_boosting(regressor: Any, preparation: Preparation) -> Model:
    bias = float(np.asarray(regressor._baseline_prediction).reshape(()))
    link: Link = "exp" if regressor.loss in ("poisson", "gamma") else "identity"
    return _sum(hist_trees(regressor), preparation, bias, single=False, link=link)


def _lightgbm(regressor: Any, preparation: Preparation) -> Model:
    return read_lightgbm_regressor(lightgbm_text(regressor.booster_), preparation)


def _xgboost(regressor: Any, preparation: Preparation) -> Model:
    return read_xgboost_regressor(fitted_bytes(regressor), preparation)


def _dummy(regressor: Any, preparation: Preparation) -> Model:
    """Mean, median, quantile or constant: one value whatever the row."""
    return Mean(float(np.asarray(regressor.constant_).reshape(())))


COMPILERS: dict[str, Callable[[Any, Preparation], Model]] = {
    "sklearn.dummy.DummyRegressor": _dummy,
    "sklearn.linear_model.LinearRegression": _linear,
    "sklearn.linear_model.Ridge": _linear,
    "sklearn.linear_model.RidgeCV": _linear,
    "sklearn.linear_model.Lasso": _linear,
    "sklearn.linear_model.LassoCV": _linear,
    "sklearn.linear_model.ElasticNet": _linear,
    "sklearn.linear_model.ElasticNetCV": _linear,
    "sklearn.linear_model.SGDRegressor": _linear,
    "sklearn.linear_model.HuberRegressor": _linear,
    "sklearn.linear_model.PoissonRegressor": _generalised,
    "sklearn.linear_model.GammaRegressor": _generalised,
    "sklearn.linear_model.TweedieRegressor": _generalised,
    "sklearn.svm.LinearSVR": _linear,
    "sklearn.tree.DecisionTreeRegressor": _averaged,
    "sklearn.tree.ExtraTreeRegressor": _averaged,
    "sklearn.ensemble.RandomForestRegressor": _averaged,
    "sklearn.ensemble.ExtraTreesRegressor": _averaged,
    "sklearn.ensemble.BaggingRegressor": _averaged,
    "sklearn.ensemble.GradientBoostingRegressor": _boosting,
    "sklearn.ensemble.HistGradientBoostingRegressor": _hist_boosting,
    "lightgbm.LGBMRegressor": _lightgbm,
    "lightgbm.LGBMRanker": _lightgbm,
    "xgboost.XGBRegressor": _xgboost,
    "xgboost.XGBRFRegressor": _xgboost,
    "xgboost.XGBRanker": _xgboost,
}
