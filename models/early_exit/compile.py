"""Any fitted model or model file to what answers as it does: the one way in."""

from pathlib import Path
from typing import Any

from polydom.features.errors import BadModel

from ..importers.compile_model import BOOSTERS, compile_model, read_booster, read_file
from ..importers.known_classes import find_class
from ..scoring.classifier import Classifier
from ..scoring.scorer import SumOfTerms
from .ensemble import as_ensemble

SEARCHES = (
    "sklearn.model_selection.GridSearchCV",
    "sklearn.model_selection.RandomizedSearchCV",
    "sklearn.model_selection.HalvingGridSearchCV",
    "sklearn.model_selection.HalvingRandomSearchCV",
)


def compile(source: Any) -> Any:
    """Compile a fitted model to arrays that answer as its `predict` does.

    Parameters
    ----------
    source
        A fitted classifier, regressor or ranker of scikit-learn, LightGBM or XGBoost, a
        `LatticeEnsembleClassifier`, or a Pipeline of simple transformers with one of
        these at its end; a FrozenEstimator of one, or a fitted GridSearchCV and the
        like, whose best estimator is taken; a Booster of LightGBM or XGBoost, or the
        path of a LightGBM text file or of an XGBoost JSON or UBJSON file
        (`save_model`), which are read without their packages. A Booster's labels, and
        those of a file, are 0 to K - 1, and its class scores what its `predict` gives.

    Returns
    -------
    Ensemble
        Of a classifier that is a sum of trees, lattices or linear terms.
    Classifier, Prior
        Of one that is no such sum: naive Bayes, or a DummyClassifier.
    Regressor, Mean
        Of a regressor or ranker; or of a DummyRegressor. Sums of trees are bit-equal to
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
    if find_class(source, ["sklearn.frozen.FrozenEstimator"]):
        return compile(source.estimator)
    if find_class(source, SEARCHES):
        if not hasattr(source, "best_estimator_"):
            raise BadModel(
                f"{type(source).__name__} has no best_estimator_: fit it, with refit"
            )
        return compile(source.best_estimator_)
    if isinstance(source, str) and "\n" in source:
        raise BadModel("a model's text came; the path of its file is needed")
    if isinstance(source, str | Path):
        found: Any = read_file(Path(source))
    elif find_class(source, BOOSTERS):
        found = read_booster(source)
    else:
        found = compile_model(source)
    if isinstance(found, Classifier) and isinstance(found.scorer, SumOfTerms):
        return as_ensemble(found)
    return found
