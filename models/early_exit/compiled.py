"""Any fitted model or model file to what answers as it does: the one way in."""

from pathlib import Path
from typing import Any

import numpy as np

from ..importers.classifiers import compile_model, read_file
from ..importers.comparison import check_values
from ..importers.regressors import COMPILERS as REGRESSORS
from ..importers.regressors import read_regressor
from ..scoring.classifier import Classifier
from ..scoring.known_classes import find_class
from ..scoring.scorer import SumOfTerms
from .ensemble import as_ensemble
from .regressor import Regressor


def compile(source: Any) -> Any:
    """Compile a fitted model to arrays that answer as its `predict` does.

    Parameters
    ----------
    source
        A fitted classifier, regressor or ranker of scikit-learn, LightGBM or XGBoost, a
        `LatticeEnsembleClassifier`, or a Pipeline of simple transformers with a
        classifier at its end; a FrozenEstimator of one of these; or the path of a
        LightGBM text file or of an XGBoost JSON or UBJSON file (`save_model`), which
        are read without their packages.

    Returns
    -------
    Ensemble
        Of a classifier that is a sum of trees, lattices or linear terms.
    Classifier, Prior
        Of one that is no such sum: naive Bayes, or a DummyClassifier.
    Regressor
        Of a regressor or ranker that is a sum of trees. Sums are bit-equal to
        scikit-learn's and LightGBM's, and within float32's rounding of XGBoost's.

    Raises
    ------
    BadModel
        If it has no compiled form, or is not fitted, or answers a dozen drawn rows
        otherwise than its compiled form does.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0]], ["no", "yes"])
    >>> compile(tree).predict([[2.0]])
    array(['yes'], dtype='<U3')
    """
    found: Any
    if isinstance(source, str | Path):
        found = read_file(Path(source))
        if not isinstance(found, Classifier):
            return Regressor(*found)
    elif find_class(source, ["sklearn.frozen.FrozenEstimator"]):
        return compile(source.estimator)
    elif find_class(source, REGRESSORS) or _regresses(source):
        model = Regressor(*read_regressor(source))
        columns = np.arange(source.n_features_in_, dtype=np.int32)
        check_values(source, model, columns)
        return model
    else:
        found = compile_model(source)
    if isinstance(found, Classifier) and isinstance(found.scorer, SumOfTerms):
        return as_ensemble(found)
    return found


def _regresses(source: Any) -> bool:
    from sklearn.base import RegressorMixin

    if find_class(source, ["sklearn.pipeline.Pipeline"]):
        source = source.steps[-1][1]
    return isinstance(source, RegressorMixin)
