"""`polydom.models.compile`: turn any fitted model or model file into arrays."""

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
    """Turn a fitted model or a model file into a compiled model.

    The compiled model consists of flat arrays, and predicts as the original does.

    Parameters
    ----------
    source
        A fitted classifier, regressor or ranker of scikit-learn, LightGBM or XGBoost; a
        `LatticeEnsembleClassifier`; a Pipeline of simple transformers with such a model
        at its end; a FrozenEstimator of such a model; or a fitted GridSearchCV or
        similar search, whose best estimator is compiled. Also a Booster of LightGBM or
        XGBoost, or the path of a LightGBM text file or an XGBoost JSON or UBJSON file
        (`save_model`); files are read without these libraries. The labels of a Booster
        or file are 0 to K - 1, and the class scores are the results of its `predict`.
        Of an XGBoost file after early stopping, only the rounds up to the best are
        used.

    Returns
    -------
    Ensemble
        For a classifier that is a sum of trees, lattices or linear terms.
    Classifier, Prior
        For naive Bayes, or a DummyClassifier.
    Regressor, Mean
        For a regressor or ranker, or a DummyRegressor. Sums of trees are bit-equal to
        scikit-learn's and LightGBM's, and within float32's rounding of XGBoost's.

    Raises
    ------
    BadModel
        If the model has no compiled form or is not fitted, or if the model and its
        compiled form disagree on one of a dozen random rows.
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
    # Otherwise the text of a model would be reported as a missing file.
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
