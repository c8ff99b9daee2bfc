"""Compile fitted estimators, boosters and model files."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel

from ..scoring.classifier import Classifier
from ..scoring.fitted_columns import FittedColumns
from ..scoring.model import Model
from ..scoring.preparation import Preparation
from ..scoring.regressor import Regressor
from . import from_lightgbm, from_sklearn_linear, from_sklearn_trees, from_xgboost
from .comparison import check_decisions, check_values
from .from_lightgbm import lightgbm_text, read_lightgbm
from .from_sklearn_trees import text_categories
from .from_xgboost import read_xgboost
from .known_classes import find_class, named, short
from .transformers import TRANSFORMERS, check_transformer, compile_preparation
from .ubjson import is_ubj


def compile_model(estimator: Any, columns: NDArray[Any] | None = None) -> Model:
    """Compile a fitted estimator to a model that predicts as the estimator does.

    `columns` (d,) are the positions of the estimator's columns in the full row; by
    default 0 to d - 1. A regressor's sums of trees equal those of scikit-learn and
    LightGBM to the bit, and those of XGBoost up to rounding in float32. Sums of linear
    terms may differ in the last bits, as BLAS may add the terms in a different order.
    Raises BadModel if the estimator is not fitted or has no compiled form, or if it
    disagrees with the model on one of a dozen random rows.
    """
    transformers, last = _split(estimator)
    name = _find(last)
    _check_fitted(last, "n_features_in_" if name in REGRESSORS else "classes_")
    places = _columns(estimator, columns)
    # The last bit of an input may matter in a tree, but not in a linear sum.
    rounded = columns is None and name not in LINEAR
    preparation = compile_preparation(transformers, places, rounded=rounded)
    model = {**CLASSIFIERS, **REGRESSORS}[name](last, preparation)
    if isinstance(model, Classifier | Regressor):
        direct = all(step in (None, "passthrough") for step in transformers)
        fitted = model.fitted if direct else None
        if columns is None and fitted is None:
            fitted = _fitted_columns(estimator, last, len(places), direct)
        model = replace(model, fitted=None if columns is not None else fitted)
        check = check_decisions if isinstance(model, Classifier) else check_values
        check(estimator, model, places)
    return model


def _fitted_columns(
    estimator: Any, last: Any, count: int, direct: bool
) -> FittedColumns:
    names = getattr(estimator, "feature_names_in_", None)
    texts = text_categories(last) if direct else {}
    return FittedColumns(
        "scikit-learn",
        count,
        None if names is None else tuple(map(str, names)),
        tuple(texts.values()),
        tuple(texts),
        # HistGradientBoosting's ColumnTransformer finds its columns by their names.
        by_name=direct and getattr(last, "_preprocessor", None) is not None,
    )


def _check_fitted(estimator: Any, attribute: str) -> None:
    kind = type(estimator).__name__
    if not hasattr(estimator, attribute):
        raise BadModel(f"{kind} is not fitted")
    several = getattr(estimator, "n_outputs_", 1) != 1
    if several or np.ndim(getattr(estimator, "classes_", ())) != 1:
        raise BadModel(f"{kind} was fitted on several outputs")


def read_booster(booster: Any) -> Classifier | Regressor:
    """Compile a Booster of LightGBM or XGBoost, with all its rounds.

    The class scores equal the results of the Booster's `predict`.
    """
    if find_class(booster, ["lightgbm.Booster"]):
        return read_lightgbm(lightgbm_text(booster))
    return read_xgboost(bytes(booster.save_raw("ubj")), to_best=False)


def read_file(path: Path) -> Classifier | Regressor:
    """Compile a model file of LightGBM or XGBoost; the format is detected."""
    data = path.read_bytes()
    if is_ubj(data):
        return read_xgboost(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text.lstrip()[:1] == "{":
        return read_xgboost(text)
    if text.startswith("tree"):
        return read_lightgbm(text)
    cure = next((cure for start, cure in OTHER_FILES if data.startswith(start)), "")
    raise BadModel(
        f"{path.name} is neither a LightGBM text file nor an XGBoost JSON or UBJSON "
        f"file{cure}"
    )


RUNS_CODE = (
    ", but a pickle, which is not read as it may run any code: load it yourself, as by "
    "joblib.load, and give the object"
)
# First bytes of files in formats that cannot be read, and advice for each format.
OTHER_FILES = (
    (b"\x80", RUNS_CODE),
    (b"x\x01", RUNS_CODE),  # a zlib-compressed file of joblib
    (b"x^", RUNS_CODE),
    (b"x\x9c", RUNS_CODE),
    (b"x\xda", RUNS_CODE),
    (b"\x1f\x8b", RUNS_CODE),
    (b"[", "; of what dump_model writes nothing can be made: use save_model"),
    (b"booster[", "; of what dump_model writes nothing can be made: use save_model"),
    (b"binf", "; load it by XGBoost, and save_model it as .json or .ubj"),
)


def compilable(estimator: Any) -> str | None:
    """Return the full name of an estimator's class, or None for a Pipeline.

    The estimator need not be fitted. Raises BadModel if its class has no compiled form.
    """
    transformers, last = _split(estimator)
    for transformer in transformers:
        if transformer not in (None, "passthrough"):
            check_transformer(transformer)
    found = _find(last)
    return found if last is estimator else None


def _split(estimator: Any) -> tuple[Sequence[Any], Any]:
    if not find_class(estimator, ["sklearn.pipeline.Pipeline"]):
        return (), estimator
    *steps, (_, last) = estimator.steps
    return [transformer for _, transformer in steps], last


def _find(estimator: Any) -> str:
    if isinstance(estimator, type):
        raise BadModel(f"{estimator.__name__} is a class: give an object of it")
    every = {**CLASSIFIERS, **REGRESSORS}
    name = find_class(estimator, every)
    if name is None and not hasattr(estimator, "predict"):
        raise BadModel(
            f"{type(estimator).__name__} is no model: a fitted estimator, a Booster of "
            "LightGBM or XGBoost, or the path of one model file is needed"
        )
    if name is None:
        numbers = is_regressor(estimator)
        known = sorted(short(REGRESSORS if numbers else CLASSIFIERS))
        raise BadModel(
            f"{named(estimator, every)} has no compiled form"
            f"{' as a regressor' if numbers else ''}; these have: {', '.join(known)}, "
            f"and Pipelines that put {', '.join(short(TRANSFORMERS))} before one of "
            "them"
        )
    return name


def is_regressor(estimator: Any) -> bool:
    """Return True if an estimator, fitted or not, predicts numbers."""
    from sklearn.base import RegressorMixin

    return isinstance(estimator, RegressorMixin)


def _columns(estimator: Any, columns: NDArray[Any] | None) -> NDArray[np.int32]:
    d = getattr(estimator, "n_features_in_", None)
    if columns is None:
        return np.arange(0 if d is None else d, dtype=np.int32)
    if d is not None and len(columns) != d:
        raise BadModel(
            f"{len(columns)} columns given for {type(estimator).__name__}, "
            f"which was fitted on {d}"
        )
    return np.asarray(columns, np.int32)


def _lattices(classifier: Any, preparation: Preparation) -> Model:
    lattices = replace(classifier.lattices_, preparation=preparation)
    return Classifier(lattices.with_packed(), classifier.head())


BOOSTERS = ("lightgbm.Booster", "xgboost.Booster")
CLASSIFIERS: dict[str, Callable[[Any, Preparation], Model]] = {
    **from_sklearn_linear.CLASSIFIERS,
    **from_sklearn_trees.CLASSIFIERS,
    **from_lightgbm.CLASSIFIERS,
    **from_xgboost.CLASSIFIERS,
    "polydom.models.lattices.estimator.LatticeEnsembleClassifier": _lattices,
}
REGRESSORS: dict[str, Callable[[Any, Preparation], Model]] = {
    **from_sklearn_linear.REGRESSORS,
    **from_sklearn_trees.REGRESSORS,
    **from_lightgbm.REGRESSORS,
    **from_xgboost.REGRESSORS,
}
LINEAR = {*from_sklearn_linear.CLASSIFIERS, *from_sklearn_linear.REGRESSORS}
