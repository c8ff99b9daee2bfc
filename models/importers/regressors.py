"""Fitted regressors and rankers, and their files, to sums of trees."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polydom.features.errors import BadModel

from ..scoring.known_classes import find_class, named, short
from ..scoring.preparation import inputs_of
from ..trees.nodes import Tree
from ..trees.trees import Link, SumOfTrees, Trees, join
from .from_lightgbm import read_lightgbm_regressor
from .from_sklearn_trees import boosted_trees, fitted_trees, hist_trees, node_values
from .from_xgboost import fitted_bytes, read_xgboost_regressor


def read_regressor(source: Any) -> SumOfTrees:
    """Read a fitted regressor or ranker; BadModel if it is no sum of trees."""
    kind, name = type(source).__name__, find_class(source, COMPILERS)
    if name is None:
        raise BadModel(
            f"{named(source, COMPILERS)} has no compiled form as a regressor; "
            f"these have: {', '.join(sorted(short(COMPILERS)))}"
        )
    if not hasattr(source, "n_features_in_"):
        raise BadModel(f"{kind} is not fitted")
    if getattr(source, "n_outputs_", 1) != 1:
        raise BadModel(f"{kind} was fitted on several outputs")
    return COMPILERS[name](source)


def _sum(
    regressor: Any,
    trees: Sequence[Tree],
    bias: float = 0.0,
    *,
    divisor: float = 1.0,
    single: bool = True,
) -> Trees:
    inputs, start = inputs_of(regressor.n_features_in_, None), np.array([bias])
    targets = [0] * len(trees)
    return join(trees, targets, inputs, bias=start, divisor=divisor, single=single)


def _averaged(regressor: Any) -> SumOfTrees:
    trees = fitted_trees(regressor, node_values)
    return _sum(regressor, trees, divisor=len(trees)), "identity"


def _boosting(regressor: Any) -> SumOfTrees:
    trees, bias = boosted_trees(regressor)
    return _sum(regressor, trees, float(bias[0])), "identity"


def _hist_boosting(regressor: Any) -> SumOfTrees:
    bias = float(np.asarray(regressor._baseline_prediction).reshape(()))
    link: Link = "exp" if regressor.loss in ("poisson", "gamma") else "identity"
    return _sum(regressor, hist_trees(regressor), bias, single=False), link


def _lightgbm(regressor: Any) -> SumOfTrees:
    return read_lightgbm_regressor(regressor.booster_.model_to_string())


def _xgboost(regressor: Any) -> SumOfTrees:
    return read_xgboost_regressor(fitted_bytes(regressor))


COMPILERS: dict[str, Callable[[Any], SumOfTrees]] = {
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
