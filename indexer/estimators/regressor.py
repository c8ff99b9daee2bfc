"""A scikit-learn regressor with a budget for each prediction."""

import os
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions

from polydom.features.errors import BadInput
from polydom.features.items import Kind
from polydom.features.networks.terms import NetworkTerms

from ..building.project_tables.learner import AUTO
from ..index.quality import OF_NUMBERS, AlphaOf
from .base import BudgetEstimator
from .labels import count_items, labels_of

Floats = NDArray[np.float64]


class BudgetRegressor(RegressorMixin, BudgetEstimator):  # type: ignore[misc]
    """A regressor that answers with the most accurate model within a budget.

    For how `fit` and `predict` work, see `BudgetClassifier`.

    Parameters
    ----------
    features, learner, alpha, alpha_of, search_budget_s, costs
        See `BudgetClassifier`.
    budget_ms, budget, held_out, kind
        See `BudgetClassifier`.
    measure
        Quality to maximise: "r2", from squared errors, or "mae", from absolute errors.
    coverage
        Share, in (0, 1), of new items whose label shall lie within the bounds of
        `predict_interval`.
    random_state, n_jobs, cache, verbose
        See `BudgetClassifier`.

    Attributes
    ----------
    index_ : Index
        The index that `fit` built.
    n_features_in_, feature_names_in_, cost_curves_, skyline_
        See `BudgetClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BudgetRegressor(learner="ridge", search_budget_s=1).fit(X, y)
    >>> model.predict(X[:2], budget_ms=5).round(-2).tolist()
    [200.0, 100.0]
    """

    _task = "regression"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BudgetEstimator._parameter_constraints,
        "measure": [StrOptions({*OF_NUMBERS})],
        "coverage": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        features: Sequence[str | NetworkTerms] | None = None,
        *,
        learner: str | Mapping[str, Any] | BaseEstimator = AUTO,
        alpha: float | None = None,
        alpha_of: AlphaOf = "gain",
        search_budget_s: float | None = None,
        costs: Mapping[str, Any] | None = None,
        budget_ms: float | None = None,
        budget: float | None = None,
        held_out: float | None = None,
        measure: str = "r2",
        coverage: float = 0.9,
        kind: Kind | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.features = features
        self.learner = learner
        self.alpha = alpha
        self.alpha_of = alpha_of
        self.search_budget_s = search_budget_s
        self.costs = costs
        self.budget_ms = budget_ms
        self.budget = budget
        self.held_out = held_out
        self.measure = measure
        self.coverage = coverage
        self.kind = kind
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.cache = cache
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None
    ) -> Self:
        """Build an index from items and their labels, and return the estimator.

        Parameters
        ----------
        X
            Items; see `BudgetClassifier.fit`.
        y : (N,)
            Numbers, not all equal.
        groups : (N,)
            Group of each item. No group is split between training and testing.
        sample_weight : (N,)
            Weight of each item; see `BudgetClassifier.fit`.

        Raises
        ------
        BadInput
            If X, y, features, learner or costs are unusable, or the learner does not
            accept weights.
        """
        self._validate_params()
        items = self._items(X, reset=True)
        numbers = labels_of(y, np.float64)
        counted = count_items(items, numbers, groups, sample_weight)
        numbers = counted.labels
        if (numbers == numbers[0]).all():
            samples = "1 sample" if len(numbers) == 1 else f"{len(numbers)} samples"
            raise BadInput(
                f"y of {samples} is {numbers[0]:g} throughout; it must hold two numbers"
            )
        codes = np.zeros(len(numbers), np.int64)
        self._build(self._dataset(counted, (), codes, numbers))
        return self

    def _terms(self) -> dict[str, Any]:
        quality = {"measure": self.measure, "coverage": float(self.coverage)}
        return {"quality": quality}

    def predict(
        self, X: Any, *, budget_ms: float | None = None, budget: float | None = None
    ) -> Floats:
        """Predict numbers (N,), each with the most accurate model within the budget.

        If the budget is too small for any model, the prediction is the mean of the
        labels. For the arguments see `BudgetClassifier.predict`.
        """
        count, parts = self._answers(X, budget_ms, budget)
        numbers = np.empty(count)
        for row, own, values in parts:
            numbers[own] = self._models[row].predict(values)
        return numbers

    def predict_interval(
        self, X: Any, *, budget_ms: float | None = None, budget: float | None = None
    ) -> Floats:
        """Return a lower and an upper bound for the label of each item, shape (N, 2).

        For at least the share `coverage` of new items, the label is expected to lie
        within the bounds. They follow from the chosen model's residuals on held-out
        items (split conformal prediction). For the arguments see
        `BudgetClassifier.predict`.
        """
        count, parts = self._answers(X, budget_ms, budget)
        found = np.empty((count, 2))
        for row, own, values in parts:
            ends = self._package.intervals[row]
            found[own] = self._models[row].predict(values)[:, None] + ends
        return found
