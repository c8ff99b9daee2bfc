"""Fitted regressors and rankers to sums of trees."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadModel
from .comparison import check_values
from .compile import read_file
from .from_lightgbm import read_lightgbm_regressor
from .from_sklearn import hist_trees, read_tree
from .from_xgboost import fitted_bytes, read_xgboost_regressor
from .homes import is_one_of, named
from .nodes import Tree
from .prepare import inputs_of
from .regressor import Link, Regressor
from .trees import join


def compile_regressor(source: Any) -> Regressor:
    """Compile a regressor or a ranker whose answer is a sum of trees.

    Parameters
    ----------
    source
        A fitted regressor of scikit-learn, LightGBM or XGBoost (see `COMPILERS`), an
        `LGBMRanker` or `XGBRanker`; or the path of a LightGBM text file or of an
        XGBoost JSON or UBJSON file, which are read without their packages.

    Returns
    -------
    Regressor
        Sums bit-equal to scikit-learn's and LightGBM's, within float32's rounding of
        XGBoost's, which adds in float32.

    Raises
    ------
    BadModel
        If it is neither, or not fitted, or predicts a dozen drawn rows otherwise than
        its compiled form does.
    OSError
        If the file cannot be read.
    """
    if isinstance(source, str | Path):
        return read_file(Path(source), read_lightgbm_regressor, read_xgboost_regressor)
    kind = type(source)
    if not is_one_of(source, COMPILERS):
        raise BadModel(
            f"{named(source, COMPILERS)} has no compiled form as a regressor; "
            f"these have: {', '.join(sorted(COMPILERS))}"
        )
    if not hasattr(source, "n_features_in_"):
        raise BadModel(f"{kind.__name__} is not fitted")
    if getattr(source, "n_outputs_", 1) != 1:
        raise BadModel(f"{kind.__name__} was fitted on several outputs")
    model = COMPILERS[kind.__name__](source)
    check_values(source, model, np.arange(source.n_features_in_, dtype=np.int32))
    return model


def _values(tree: Any) -> NDArray[np.float64]:
    values: NDArray[np.float64] = tree.tree_.value[:, 0, :]
    return values


def _sum(
    regressor: Any,
    trees: Sequence[Tree],
    bias: float = 0.0,
    *,
    divisor: float = 1.0,
    single: bool = True,
    link: Link = "identity",
) -> Regressor:
    scorer = join(
        trees,
        [0] * len(trees),
        inputs_of(regressor.n_features_in_, None),
        bias=np.array([bias]),
        divisor=divisor,
        single=single,
    )
    return Regressor(scorer, link)


def _decision_tree(regressor: Any) -> Regressor:
    return _sum(regressor, [read_tree(regressor.tree_, _values(regressor))])


def _forest(regressor: Any) -> Regressor:
    trees = [read_tree(tree.tree_, _values(tree)) for tree in regressor.estimators_]
    return _sum(regressor, trees, divisor=len(trees))


def _bagging(regressor: Any) -> Regressor:
    known = ("DecisionTreeRegressor", "ExtraTreeRegressor")
    for tree in regressor.estimators_:
        if not is_one_of(tree, known):
            raise BadModel(
                f"BaggingRegressor of {type(tree).__name__} has no compiled form; of "
                f"{' or '.join(known)} it has"
            )
    pairs = zip(regressor.estimators_, regressor.estimators_features_, strict=True)
    trees = [read_tree(tree.tree_, _values(tree), inputs) for tree, inputs in pairs]
    return _sum(regressor, trees, divisor=len(trees))


def _boosting(regressor: Any) -> Regressor:
    init = regressor.init_
    if init != "zero" and not is_one_of(init, ["DummyRegressor"]):
        raise BadModel(
            "GradientBoostingRegressor with an init estimator of its own has no "
            "compiled form; init=None and init='zero' have"
        )
    empty = np.zeros((1, regressor.n_features_in_), np.float32)
    bias = float(regressor._raw_predict_init(empty)[0, 0])
    rate = regressor.learning_rate
    trees = [
        read_tree(tree.tree_, rate * _values(tree))
        for (tree,) in regressor.estimators_.tolist()
    ]
    return _sum(regressor, trees, bias)


def _hist_boosting(regressor: Any) -> Regressor:
    bias = float(np.asarray(regressor._baseline_prediction).reshape(()))
    link: Link = "exp" if regressor.loss in ("poisson", "gamma") else "identity"
    return _sum(regressor, hist_trees(regressor), bias, single=False, link=link)


def _lightgbm(regressor: Any) -> Regressor:
    return read_lightgbm_regressor(regressor.booster_.model_to_string())


def _xgboost(regressor: Any) -> Regressor:
    return read_xgboost_regressor(fitted_bytes(regressor))


COMPILERS: dict[str, Callable[[Any], Regressor]] = {
    "DecisionTreeRegressor": _decision_tree,
    "ExtraTreeRegressor": _decision_tree,
    "RandomForestRegressor": _forest,
    "ExtraTreesRegressor": _forest,
    "BaggingRegressor": _bagging,
    "GradientBoostingRegressor": _boosting,
    "HistGradientBoostingRegressor": _hist_boosting,
    "LGBMRegressor": _lightgbm,
    "LGBMRanker": _lightgbm,
    "XGBRegressor": _xgboost,
    "XGBRFRegressor": _xgboost,
    "XGBRanker": _xgboost,
}
