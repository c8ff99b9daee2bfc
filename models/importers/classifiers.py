"""Fitted classifiers to compiled models."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel

from ..scoring.classifier import Classifier
from ..scoring.known_classes import find_class, named, short
from ..scoring.model import Model
from ..scoring.preparation import (
    TRANSFORMERS,
    Preparation,
    check_transformer,
    compile_preparation,
)
from ..trees.trees import SumOfTrees
from .comparison import check_decisions
from .from_lightgbm import read_lightgbm, read_lightgbm_file
from .from_sklearn_linear import COMPILERS as LINEAR
from .from_sklearn_trees import COMPILERS as TREES
from .from_xgboost import fitted_bytes, read_xgboost, read_xgboost_file
from .regressors import COMPILERS as REGRESSORS
from .ubjson import is_ubj


def compile_model(estimator: Any, columns: NDArray[Any] | None = None) -> Model:
    """Compile a fitted classifier to arrays that answer as its `predict` does.

    Parameters
    ----------
    estimator
        A fitted classifier of scikit-learn, LightGBM or XGBoost, a
        `LatticeEnsembleClassifier`, or a Pipeline of simple transformers (see
        `scoring.preparation.TRANSFORMERS`) with such a one at its end.
    columns
        (d,) positions in the full row of the columns it was fitted on; by default the
        first d, in order.

    Raises
    ------
    BadModel
        If the estimator is not fitted, has no compiled form, or decides a dozen drawn
        rows otherwise than that does.
    """
    transformers, classifier = _split(estimator)
    name = _find(classifier)
    if not hasattr(classifier, "classes_"):
        raise BadModel(f"{type(classifier).__name__} is not fitted")
    if np.asarray(classifier.classes_).ndim != 1:
        raise BadModel(f"{type(classifier).__name__} was fitted on several outputs")
    places = _columns(estimator, columns)
    preparation = compile_preparation(transformers, places)
    model = COMPILERS[name](classifier, preparation)
    if isinstance(model, Classifier):
        check_decisions(estimator, model, model.scorer, places)
    return model


def read_file(path: Path) -> Classifier | SumOfTrees:
    """Read a booster's model file by what is in it, whatever its name."""
    data = path.read_bytes()
    if is_ubj(data):
        return read_xgboost_file(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text.lstrip()[:1] == "{":
        return read_xgboost_file(text)
    if text.startswith("tree"):
        return read_lightgbm_file(text)
    raise BadModel(
        f"{path.name} is neither a LightGBM text file nor an XGBoost JSON or UBJSON "
        "file"
    )


def compilable(estimator: Any) -> None:
    """Raise BadModel unless `compile_model` has a form for this unfitted estimator.

    What only fitting shows (an odd option, a category that is no integer) is not seen.
    """
    transformers, classifier = _split(estimator)
    for transformer in transformers:
        if transformer not in (None, "passthrough"):
            check_transformer(transformer)
    _find(classifier)


def _split(estimator: Any) -> tuple[Sequence[Any], Any]:
    if not find_class(estimator, ["sklearn.pipeline.Pipeline"]):
        return (), estimator
    *steps, (_, classifier) = estimator.steps
    return [transformer for _, transformer in steps], classifier


def _find(classifier: Any) -> str:
    name = find_class(classifier, COMPILERS)
    if name is None:
        raise BadModel(
            f"{named(classifier, COMPILERS)} has no compiled form; these have: "
            f"{', '.join(sorted(short(COMPILERS)))}, and Pipelines that put "
            f"{', '.join(short(TRANSFORMERS))} before one of them; as regressors "
            f"{', '.join(sorted(short(REGRESSORS)))}"
        )
    return name


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


def _lightgbm(classifier: Any, preparation: Preparation) -> Model:
    text = classifier.booster_.model_to_string()
    return read_lightgbm(text, preparation, classifier.classes_)


def _xgboost(classifier: Any, preparation: Preparation) -> Model:
    return read_xgboost(fitted_bytes(classifier), preparation, classifier.classes_)


COMPILERS: dict[str, Callable[[Any, Preparation], Model]] = {
    **LINEAR,
    **TREES,
    "lightgbm.LGBMClassifier": _lightgbm,
    "xgboost.XGBClassifier": _xgboost,
    "xgboost.XGBRFClassifier": _xgboost,
    "polydom.models.lattices.estimator.LatticeEnsembleClassifier": _lattices,
}
