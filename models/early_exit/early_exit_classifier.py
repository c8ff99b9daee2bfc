"""A scikit-learn classifier that evaluates a fitted ensemble with early exits."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from polydom.features.errors import BadInput, BadModel

from ..qwyc.confidence_bound import number_groups
from ..qwyc.promise import ALPHA, Sides
from ..scoring.frames import open_frame
from ..scoring.model import Floats
from ..scoring.stopping_rule import Codes
from .compile import compile
from .early_exits import EarlyExit, MarginExit
from .ensemble import Ensemble

TINY = np.nextafter(0.0, 1.0)  # least sum for which the second class is chosen


def _gives_probabilities(classifier: Any) -> bool:
    """Return True if `classifier.estimator` predicts probabilities.

    A Booster or a model file always does.
    """
    given = classifier.estimator
    return hasattr(given, "predict_proba") or not hasattr(given, "fit")


class EarlyExitClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that evaluates a fitted ensemble only in part for most rows.

    For each row, base models are added until the decision is sure enough. As with
    scikit-learn's TunedThresholdClassifierCV(cv="prefit"), the ensemble is already
    fitted, and `fit` gets held-out rows. Labels and sample weights are not used.
    `clone` keeps the fitted ensemble. For more control see `compile` and
    `Ensemble.fit_early_exit`.

    Parameters
    ----------
    estimator
        Model that `compile` turns into an `Ensemble`: a fitted classifier that is a sum
        of trees, lattices or linear terms, a Pipeline with such a classifier at its
        end, a FrozenEstimator of either, a Booster, or the path of a model file.
    alpha
        Share of decisions that may differ from the whole ensemble's, in [0, 1), of the
        rows that it decides as each class. One number for all classes, or a dict by
        label, such as `{"fraud": 0.0, "*": 0.01}`, where `"*"` stands for all labels
        that are not named and is 0.005 by default. The shares refer to the rows passed
        to `fit`, or to fresh rows if `confidence` is given.
    confidence
        Confidence in (0, 1) with which `alpha` holds on fresh rows for all classes
        together. To prove this promise, half of the rows passed to `fit` are set aside;
        `schedule_.promise` states it. A class with too few of these rows is never left
        early. If None, nothing is promised about fresh rows.
    sides
        For two classes: "both", or "negative" if only rows that are answered as the
        first class may stop early, as in QWYC's filter-and-score, or "positive" for the
        second.
    feature_costs
        (d,) cost of each column, >= 0; None for no costs.
    probabilities
        "whole": `predict_proba` evaluates all base models. "early": it evaluates the
        base models that `predict` evaluates. A row that stops early then has the mean
        probabilities that the whole ensemble gives rows which stop there with such a
        sum. They are as well calibrated as the whole ensemble's, but rank rows less
        sharply.
    random_state
        Seed that divides the rows into halves; used only with `confidence`.

    Attributes
    ----------
    classes_ : (K,)
        Labels, ascending.
    n_features_in_ : int
        Number of columns in `fit`.
    ensemble_ : Ensemble
        Compiled classifier.
    exits_ : EarlyExit or MarginExit
        Evaluator that stops early; it also reports how many base models were used.
    schedule_ : Schedule or MarginSchedule
        Schedule that the evaluator follows.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(30, random_state=0).fit(X[:300], y[:300])
    >>> sooner = EarlyExitClassifier(forest, alpha=0.01).fit(X[300:])
    >>> bool((sooner.predict(X[300:]) != forest.predict(X[300:])).mean() <= 0.01)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": "no_validation",
        "alpha": [Interval(Real, 0, 1, closed="left"), dict],
        "confidence": [Interval(Real, 0, 1, closed="neither"), None],
        "sides": [StrOptions({"both", "negative", "positive"})],
        "feature_costs": ["array-like", None],
        "probabilities": [StrOptions({"whole", "early"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        alpha: float | Mapping[Any, float] = ALPHA,
        confidence: float | None = None,
        sides: Sides = "both",
        feature_costs: Sequence[float] | NDArray[np.float64] | None = None,
        probabilities: Literal["whole", "early"] = "whole",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.confidence = confidence
        self.sides = sides
        self.feature_costs = feature_costs
        self.probabilities = probabilities
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Compile the fitted estimator, and fit the schedule by which rows stop early.

        Parameters
        ----------
        X
            (N, d) rows that the estimator was not fitted on, or a data frame.
        y
            Not used.
        groups
            (N,) number or name of each row's group, if some rows belong together,
            such as the rows of one patient. Groups need a `confidence`: all rows of a
            group go to the same half of the rows, and the promise allows for dependence
            within groups.

        Raises
        ------
        BadModel
            If the estimator is not an ensemble with a compiled form.
        BadInput
            If the rows cannot be used, or are too few for the confidence.
        """
        self._validate_params()
        ensemble = _compiled(self.estimator)
        X = self._taken(X, reset=True)
        own = getattr(self.estimator, "n_features_in_", X.shape[1])
        if own != X.shape[1]:
            raise BadInput(
                f"rows of {X.shape[1]} columns; the estimator was fitted on {own}"
            )
        terms: dict[str, Any] = {"confidence": self.confidence, "groups": groups}
        if self.sides != "both":
            terms["sides"] = self.sides
        if self.confidence is not None:
            numbers = np.arange(X.shape[0])
            if groups is not None:
                numbers = number_groups(groups, X.shape[0])
            fitted = self._half(numbers)
            if not fitted.any():
                raise BadInput("one group cannot be halved: a confidence takes two")
            terms["groups"] = None if groups is None else numbers[~fitted]
            terms["calibration"], X = (
                _safe_indexing(X, np.flatnonzero(half)) for half in (~fitted, fitted)
            )
        self.ensemble_ = ensemble
        self.classes_ = ensemble.classes
        self.exits_: EarlyExit | MarginExit = ensemble.fit_early_exit(
            X, alpha=self.alpha, feature_costs=self.feature_costs, **terms
        )
        self.schedule_ = self.exits_.schedule
        return self

    def _half(self, groups: NDArray[Any]) -> NDArray[np.bool_]:
        """Draw half of the groups at random; return a mask (N,) of the rows in them.

        `groups` (N,) are the numbers of the rows' groups, from 0.
        """
        count = groups.max() + 1
        drawn = check_random_state(self.random_state).permutation(count)
        half: NDArray[np.bool_] = drawn[groups] < count // 2
        return half

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the labels (N,) of rows X (N, d)."""
        check_is_fitted(self)
        return self.exits_.predict(self._taken(X, reset=False))

    def _taken(self, X: Any, *, reset: bool) -> Any:
        if open_frame(X) is None:
            return validate_data(self, X, reset=reset, ensure_all_finite=False)
        return validate_data(self, X, reset=reset, skip_check_array=True)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the sums over all base models: (N,) for two classes, else (N, K).

        Rows do not stop early here. If `predict` chooses a class other than the whole
        ensemble's, the sums of these two classes are swapped (for two classes, the sign
        is changed). So the largest sum always belongs to the class from `predict`.
        """
        check_is_fitted(self)
        X = self._taken(X, reset=False)
        sums, chosen = self.ensemble_.decision_function(X), self.exits_.choices(X)[0]
        if sums.ndim == 2:
            return _swapped(sums, chosen)
        sums[(sums > 0) != chosen] *= -1
        return np.where((sums == 0) & (chosen == 1), TINY, sums)

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the class probabilities (N, K), as `probabilities` says.

        This method exists if the estimator has it. If `predict` chooses a class that is
        not the most probable, the probabilities of these two classes are swapped.
        """
        check_is_fitted(self)
        X = self._taken(X, reset=False)
        scores = self.ensemble_.predict_scores
        if self.probabilities == "early":
            scores = self.exits_.predict_scores
        return _swapped(scores(X), self.exits_.choices(X)[0])

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy that has the same fitted `estimator`."""
        parameters = self.get_params(deep=False)
        given = parameters.pop("estimator")
        copied = {name: clone(one, safe=False) for name, one in parameters.items()}
        return type(self)(given, **copied)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _compiled(source: Any) -> Ensemble:
    if isinstance(source, BaseEstimator) and not isinstance(source, type):
        check_is_fitted(source)
    ensemble = compile(source)
    if not isinstance(ensemble, Ensemble):
        raise BadModel(f"a {type(ensemble).__name__} has no base models to leave out")
    if len(ensemble.classes) < 2:
        raise BadInput("the estimator has seen one class: nothing is to be decided")
    return ensemble


def _swapped(scores: Floats, chosen: Codes) -> Floats:
    """Swap each row's largest score with the score of its chosen class, in place.

    Then argmax returns the chosen class, even if scores tie.
    """
    rows, best = np.arange(len(scores)), scores.argmax(axis=1)
    largest = scores[rows, best]
    scores[rows, best] = scores[rows, chosen]
    tied = (best != chosen) & (scores[rows, best] == largest)
    # In a tie argmax takes the first class, so the chosen class gets the next float.
    scores[rows, chosen] = np.where(tied, np.nextafter(largest, np.inf), largest)
    return scores
