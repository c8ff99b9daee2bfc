"""A scikit-learn classifier with a budget for each prediction."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from polydom.features.errors import BadInput, PolydomError
from polydom.features.items import Kind
from polydom.features.networks.terms import NetworkTerms
from polydom.features.wording import hint

from ..building.data.dataset import Dataset
from ..building.data.split import groups_of_classes
from ..building.project_tables.learner import AUTO
from ..building.project_tables.quality import OF_THRESHOLDS
from ..building.project_tables.search import HELD_OUT, parts_of
from ..index.quality import OF_CLASSES, AlphaOf
from .base import BudgetEstimator
from .labels import count_items, labels_of

FEWEST_PARTS = 2  # of a cross-validation: one to train on, one to test on


class BudgetClassifier(ClassifierMixin, BudgetEstimator):  # type: ignore[misc]
    """A classifier that answers with the most accurate model within a budget.

    `fit` calls `polydom.indexer.build`: it measures the cost of features, searches
    feature sets, and keeps the models that are worth their cost in an `Index`.
    `predict` looks up the most accurate model whose expected cost, for the size of the
    item, is within the budget. `predict` does not measure time: to keep deadlines,
    `save` the index to a file for `polydom serve`.

    Parameters
    ----------
    features
        Names of ready-made features, paths of files with features of your own, and
        networks, made by `polydom.features.network`. None for the features that
        `polydom init` names; for a table, every column. The columns of a table are
        features beside networks, too, unless a name or a file is given.
    learner
        Name, or mapping with a name and parameters, as in PROJECT.toml; or "auto" for a
        race between many learners. Or an unfitted estimator that polydom can compile;
        its parameters must be numbers, strings and lists.
    alpha
        Factor, at least 1. The search stops once it has proven that no untrained
        feature set gains more than `alpha` times as much quality over the prior, the
        answer without features, as a trained subset of it. None for 1: the search goes
        on until no other set can be better, or `search_budget_s` is spent.
    alpha_of
        "gain", or "accuracy" for a factor of the quality itself.
    search_budget_s
        Maximum seconds of training in the search for feature sets. None for three times
        the seconds of training on all features, but at least 30 s and at most 120 s.
    costs
        Declared costs of a table's columns: a mapping from names to numbers, or to
        amounts by unit, such as `{"TT4": {"usd": 22.78}}`. Budgets are then in that
        unit. None to measure costs in seconds.
    budget_ms, budget
        Default budget for one item: milliseconds, or an amount in the unit of `costs`.
        It applies if a method is called without a budget, as scikit-learn's tools do,
        and may be changed after `fit`. If both are None, the most accurate model
        answers.
    held_out
        Share of the items, in (0, 1), that is held out to measure quality. None for a
        quarter, or for five-fold cross-validation if there are few items.
    measure
        Quality to maximise: "accuracy", "balanced_accuracy", "macro_f1", "auc",
        "average_precision", "log_loss" or "cost". A learner that accepts class
        weights is trained with weights that suit the measure; see `[quality]` of
        PROJECT.toml.
    confusion_costs
        Costs for the measure "cost": `confusion_costs[right][answer]` is the cost of an
        answer. Costs that are not named are 0 for right answers, and 1 for wrong ones.
    class_weight
        Weights of the classes for fitting the learner, above 0, as in scikit-learn:
        "balanced", or a mapping from classes to weights, in which 1 is the weight of
        the others. None for weights that suit the measure. The learner must accept
        weights.
    exits
        If False, a server always evaluates the whole plan. If True, it may answer
        early; see `[exits]` of PROJECT.toml.
    kind
        Kind of the items; "image" if strings in X are paths of images. None for the
        kind that the types in X imply.
    random_state
        Seed; the same seed, data and measured times give the same index.
    n_jobs
        Number of processes; None for one, -1 for one for each processor.
    cache
        Folder for finished work, so that an interrupted fit can continue; None to keep
        nothing.
    verbose
        True to show the progress of a fit.

    Attributes
    ----------
    index_ : Index
        The index that `fit` built.
    classes_ : (K,)
        Labels, ascending.
    n_features_in_ : int
        Number of a table's columns.
    feature_names_in_ : (n_features_in_,)
        Names of a table's columns, if the names are strings.
    cost_curves_ : list of dict
        The cost curve of each feature, then of each step: `name`, `coefficients`, and
        `covered`, the share of measured times that are not above the curve.
    skyline_ : list of dict
        The candidates on the skyline of the median item size, by ascending `cost`, with
        `quality` and `features`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = BudgetClassifier(learner="tree", search_budget_s=1).fit(X, y)
    >>> model.predict(X[:2], budget_ms=5).tolist()
    [0, 0]
    """

    _task = "classes"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BudgetEstimator._parameter_constraints,
        "measure": [StrOptions({*OF_CLASSES} - OF_THRESHOLDS.keys())],
        "confusion_costs": [dict, None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "exits": ["boolean"],
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
        measure: str = "accuracy",
        confusion_costs: Mapping[Any, Mapping[Any, float]] | None = None,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        exits: bool = True,
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
        self.confusion_costs = confusion_costs
        self.class_weight = class_weight
        self.exits = exits
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
            DataFrame of pandas or Polars, Arrow table, array (N, d), or N texts, images
            (bytes, paths) or mappings.
        y : (N,)
            Classes.
        groups : (N,)
            Group of each item. No group is split between training and testing.
        sample_weight : (N,)
            Weight of each item, 0 or more, in training and in measuring quality. Items
            of weight 0 are left out.

        Raises
        ------
        BadInput
            If X, y, features, learner or costs are unusable, if every class has only
            one item, or if the learner does not accept weights.
        """
        self._validate_params()
        items = self._items(X, reset=True)
        labels = labels_of(y)
        check_classification_targets(labels)
        counted = count_items(items, labels, groups, sample_weight)
        self.classes_, codes = np.unique(counted.labels, return_inverse=True)
        names = [str(label) for label in self.classes_]
        if len(set(names)) < len(names):
            raise BadInput(f"two of the classes {self.classes_} look alike as texts")
        if len(names) < 2:
            raise BadInput(
                f"y has one class, {names[0]}; a classifier needs two or more classes"
            )
        # an index orders its classes by their names, scikit-learn by their values
        self._classes = np.array(sorted(range(len(names)), key=names.__getitem__))
        ordered = [names[place] for place in self._classes]
        self._build(self._dataset(counted, ordered, np.argsort(self._classes)[codes]))
        row = np.zeros((1, self._extractor.width), np.float32)
        scores = [model.predict_scores(row)[0] for model in self._models]
        self._probabilities = all(
            (one >= 0).all() and abs(one.sum() - 1) < 1e-6 for one in scores
        )
        return self

    def _terms(self) -> dict[str, Any]:
        quality: dict[str, Any] = {"measure": self.measure}
        if self.confusion_costs is not None:
            quality["costs"] = {
                str(right): {str(answer): float(cost) for answer, cost in own.items()}
                for right, own in self.confusion_costs.items()
            }
        if self.class_weight is not None:
            quality["class_weights"] = self._class_weights()
        return {
            "data": {"on_rare_class": "train"},
            "quality": quality,
            "exits": {} if self.exits else "off",
        }

    def _class_weights(self) -> str | dict[str, float]:
        """Return `class_weight` as in PROJECT.toml, by the names of the classes."""
        given = self.class_weight
        if not isinstance(given, Mapping):
            return "balanced"
        known = self.classes_.tolist()
        for label in given:
            if label not in known:
                raise BadInput(
                    f"class_weight has the class {label!r}, which is not in y; "
                    f"{hint(str(label), [*map(str, known)])}"
                )
        return {
            str(label): float(given[value])
            for label, value in zip(self.classes_, known, strict=True)
            if value in given
        }

    def _held_out(self, dataset: Dataset) -> float | None:
        """Return the share of items to hold out, or None for the default share.

        Items are divided into about 1 / share parts. If the items of a class form only
        g groups, fewer than the parts but at least two, the share is raised to 1 / g,
        so that each part contains the class.
        """
        share = super()._held_out(dataset)
        parts = parts_of(HELD_OUT if share is None else share)
        counts = groups_of_classes(dataset.codes, dataset.groups, len(dataset.labels))
        # a class of one group is used for training only
        least = int(counts[counts >= FEWEST_PARTS].min(initial=parts))
        return 1 / least if least < parts else share

    def predict(
        self, X: Any, *, budget_ms: float | None = None, budget: float | None = None
    ) -> NDArray[Any]:
        """Classify items, each with the most accurate model within the budget.

        Parameters
        ----------
        X
            Items, as in `fit`.
        budget_ms
            Milliseconds for one item. If both arguments are None, the estimator's
            parameters `budget_ms` and `budget` apply. If these are None too, the most
            accurate model answers.
        budget
            Budget for one item in the unit of `costs`, if costs were declared.

        Returns
        -------
        Labels (N,). If the budget is too small for any model, the label is the most
        frequent class.
        """
        count, parts = self._answers(X, budget_ms, budget)
        places = np.empty(count, np.int64)
        for row, own, values in parts:
            places[own] = self._classes[self._models[row].predict(values)]
        found: NDArray[Any] = self.classes_[places]
        return found

    def _gives_probabilities(self) -> bool:
        """Return True if the models' scores are probabilities.

        Scikit-learn's tools call this before `fit`. For the learner "auto", the result
        is then True, because some of its learners have probabilities.
        """
        if "_probabilities" in vars(self):
            return self._probabilities
        return self._learns_probabilities()

    def _learns_probabilities(self) -> bool:
        """Return True if the learner predicts probabilities, or may, as "auto"."""
        try:
            if self._setting().get("name") == AUTO:
                return True
            return hasattr(self._unfitted(), "predict_proba")
        except PolydomError:
            return True  # `fit` will raise the error

    def _gives_margins(self) -> bool:
        """Return True if the learner has only margins, or the models turned out so.

        Tools that choose a method before `fit` must find it after `fit`. So a learner
        with margins keeps the method, even if all its margins were calibrated.
        """
        return not (self._learns_probabilities() and self._gives_probabilities())

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(
        self, X: Any, *, budget_ms: float | None = None, budget: float | None = None
    ) -> NDArray[np.float64]:
        """Return the probabilities of the classes, shape (N, K).

        This method exists if the learner predicts probabilities, and after a fit that
        has calibrated all of its margins. For the arguments see `predict`.
        """
        return self._scores(X, budget_ms, budget)

    @available_if(_gives_margins)  # type: ignore[untyped-decorator]
    def decision_function(
        self, X: Any, *, budget_ms: float | None = None, budget: float | None = None
    ) -> NDArray[np.float64]:
        """Return the scores of the classes, shape (N, K).

        For two classes, the shape is (N,): half the difference of the two scores, above
        0 for the second class. This method exists only if the learner predicts no
        probabilities. For the arguments see `predict`.
        """
        found = self._scores(X, budget_ms, budget)
        return (found[:, 1] - found[:, 0]) / 2 if found.shape[1] == 2 else found

    def _scores(
        self, X: Any, budget_ms: float | None, budget: float | None
    ) -> NDArray[np.float64]:
        """Return scores (N, K) of all classes.

        A class that the model was not trained on gets 0 if scores are probabilities,
        otherwise the model's lowest score.
        """
        count, parts = self._answers(X, budget_ms, budget)
        found = np.empty((count, len(self.classes_)))
        for row, own, values in parts:
            model = self._models[row]
            scores = model.predict_scores(values)
            found[own] = 0.0 if self._probabilities else scores.min()
            found[np.ix_(own, self._classes[model.classes])] = scores
        return found
