"""A scikit-learn classifier that is an index: what it answers depends on the budget."""

import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from polydom.features.errors import BadInput, BadItem, BadProject, NothingFits
from polydom.features.extract import Extractor
from polydom.features.items import Item, Kind
from polydom.features.sizes import Size, read_size
from polydom.features.tables.records import Records, column_names
from polydom.models.scoring.model import Model

from ..building.build import build
from ..building.data.dataset import (
    Dataset,
    RowNames,
    groups_of_classes,
    number_in_turn,
    parts_of,
)
from ..building.project import Project
from ..building.template import default_features
from ..commands.progress_bars import ProgressBars
from ..commands.report import mean_coefficients, skyline_facts
from ..index.package import Package
from .items import is_array, is_table, items_of
from .values import values_of

FEWEST_PARTS = 2  # one to train on, one to test on
COST = "cost"  # the unit of costs that are given as bare numbers


class BudgetClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The most accurate classifier that a budget buys, for each item by its size.

    `fit` is `polydom.indexer.build`: it measures what features cost, searches their
    sets, and keeps the models worth their cost in an `Index`. `predict` looks up what a
    budget buys. It keeps no clock: what keeps to a deadline is `polydom serve`, with
    what `save` writes.

    Parameters
    ----------
    features
        Names of ready-made features, and files with features of your own. None for
        those that `polydom init` names; of a table every column.
    learner
        As in PROJECT.toml: a name, a mapping with a name and parameters, or "auto" for
        a race between many.
    alpha
        At least 1: a feature set that was not trained may be better by that factor at
        most, if there is time to prove it.
    search_budget_s
        Seconds of training that the search for feature sets may spend. None for two
        minutes, or less where training is fast.
    costs
        What it costs to know a table's columns, by name: a number, or amounts by unit,
        such as `{"TT4": {"usd": 22.78}}`. Budgets are then in that unit; None where
        costs are the seconds that are measured.
    held_out
        Share of the items that accuracy is measured on, in (0, 1).
    exits
        Whether the index may answer early where it is served.
    kind
        "image" where strings in X are paths of images.
    random_state
        Seed; the same seed, data and measured times give the same index.
    n_jobs
        Processes; None for one, -1 for as many as there are processors.
    cache
        Folder for finished work, from which an interrupted fit goes on; None for none.
    verbose
        Whether to show how far the fit is.

    Attributes
    ----------
    index_ : Index
    classes_ : (K,)
        Labels, ascending.
    n_features_in_ : int
        Columns of a table.
    feature_names_in_ : (n_features_in_,)
        Their names, where they are strings.
    cost_curves_ : list of dict
        Of each feature and step its `name` and `coefficients`, and by how much of the
        measured times that curve is not exceeded.
    skyline_ : list of dict
        What is worth buying at the median size, by ascending `cost`, with `accuracy`
        and `features`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = BudgetClassifier(learner="tree", search_budget_s=1).fit(X, y)
    >>> model.predict(X[:2], budget_ms=5).tolist()
    [0, 0]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "features": ["array-like", None],
        "learner": [str, dict],
        "alpha": [Interval(Real, 1, None, closed="left")],
        "search_budget_s": [Interval(Real, 0, None, closed="neither"), None],
        "costs": [dict, None],
        "held_out": [Interval(Real, 0, 1, closed="neither")],
        "exits": ["boolean"],
        "kind": [StrOptions({"image", "text", "record"}), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "cache": [str, os.PathLike, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        features: Sequence[str] | None = None,
        *,
        learner: str | Mapping[str, Any] = "auto",
        alpha: float = 1.05,
        search_budget_s: float | None = 120.0,
        costs: Mapping[str, Any] | None = None,
        held_out: float = 0.25,
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
        self.search_budget_s = search_budget_s
        self.costs = costs
        self.held_out = held_out
        self.exits = exits
        self.kind = kind
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.cache = cache
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        """Say what may be given: missing values, strings, tables of many kinds."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.non_deterministic = True  # costs are measured
        return tags

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Build an index from items and their labels.

        Parameters
        ----------
        X
            A DataFrame of pandas or Polars, an Arrow table, an array (N, d), or N
            texts, images (bytes, paths) or mappings.
        y : (N,)
            Classes.
        groups : (N,)
            Items of the same group are never split between training and testing.

        Raises
        ------
        BadInput
            If X, y, features, learner or costs are unusable, or no class has two items.
        """
        self._validate_params()
        items = self._items(X, reset=True)
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        check_consistent_length(items, labels, groups)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        dataset = self._dataset(items, codes, groups)
        with ExitStack() as stack:
            cache = self.cache
            if cache is None:
                cache = stack.enter_context(tempfile.TemporaryDirectory())
            bars = ProgressBars() if self.verbose else None
            try:
                self.index_ = build(
                    self._project(dataset),
                    dataset=dataset,
                    cache=cache,
                    progress=bars,
                    watch=bars.follow if bars else None,
                )
            except (BadProject, BadItem) as error:  # a ValueError, as is usual here
                raise BadInput(str(error)) from error
        self.__dict__.pop("_loaded", None)
        self.cost_curves_ = self._package.meta["curves"]
        size = read_size(np.median(dataset.sizes, axis=0).tolist())
        means = mean_coefficients(self.index_)
        self.skyline_ = skyline_facts(self.index_, means, size)["skyline"]
        row = np.zeros((1, self._extractor.width), np.float32)
        scores = [model.predict_scores(row)[0] for model in self._models]
        self._probabilities = all(
            (one >= 0).all() and abs(one.sum() - 1) < 1e-6 for one in scores
        )
        return self

    def _items(self, X: Any, *, reset: bool) -> Sequence[Item]:
        """Make items, and check that a table's columns are those that were fitted."""
        if is_table(X):
            _check_n_features(self, X, reset=reset)
            _check_feature_names(self, X, reset=reset)
        elif is_array(X):
            X = validate_data(
                self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan"
            )
        try:
            return items_of(X, self.kind)
        except BadItem as error:
            raise BadInput(str(error)) from error

    def _dataset(
        self, items: Sequence[Item], codes: NDArray[np.int64], groups: Any
    ) -> Dataset:
        """Put items and classes together; classes in the order of their names."""
        names = [str(label) for label in self.classes_.tolist()]
        if len(set(names)) < len(names):
            raise BadInput(f"two of the classes {self.classes_} look alike as texts")
        self._classes = np.array(sorted(range(len(names)), key=names.__getitem__))
        own = np.arange(len(items))
        if groups is not None:
            own = number_in_turn(column_or_1d(groups))
        if len(names) < 2:
            raise BadInput(
                f"y has one class, {names[0]}; a classifier needs two or more classes"
            )
        return Dataset(
            items,
            RowNames((("X", len(items)),), np.arange(len(items))),
            tuple(names[place] for place in self._classes),
            np.argsort(self._classes)[codes],
            own,
        )

    def _project(self, dataset: Dataset) -> Project:
        """Write down what PROJECT.toml would say."""
        features: dict[str, Any] = {
            "use": [name for name in self._names(dataset) if not _is_file(name)],
            "files": [str(file) for file in self._files()],
        }
        content: dict[str, Any] = {
            "data": {"on_rare_class": "train"},
            "features": features,
            "learner": self.learner,
            "search": {"alpha": float(self.alpha), "held_out": self._held_out(dataset)},
            "exits": {} if self.exits else "off",
            "seed": self._seed(),
            "workers": effective_n_jobs(self.n_jobs),
        }
        if self.search_budget_s is not None:
            content["search"]["budget_s"] = float(self.search_budget_s)
        if self.costs is not None:
            prices = {name: _amounts(cost) for name, cost in self.costs.items()}
            features["columns"] = [
                {"name": name, "columns": [name], "cost": prices.pop(name, {})}
                for name in column_names(dataset.items)
            ]
            if prices:
                raise BadInput(
                    f"costs names {next(iter(prices))!r}, which is no column of X"
                )
            units = {unit for cost in self.costs.values() for unit in _amounts(cost)}
            content["costs"] = {"weights": dict.fromkeys(sorted(units), 1.0)}
        return Project.from_mapping(content, folder=Path.cwd())

    def _names(self, dataset: Dataset) -> Sequence[str]:
        if self.features is not None:
            return [os.fspath(name) for name in self.features]
        return default_features(dataset.kind)

    def _files(self) -> list[Path]:
        names = map(os.fspath, self.features or ())
        return [Path(name).absolute() for name in names if _is_file(name)]

    def _held_out(self, dataset: Dataset) -> float:
        """Hold out what the project does, or more where a class is small."""
        parts = parts_of(self.held_out)
        counts = groups_of_classes(dataset.codes, dataset.groups, len(dataset.labels))
        # a class of one item is trained on and never tested
        least = int(counts[counts >= FEWEST_PARTS].min(initial=parts))
        return 1 / least if least < parts else float(self.held_out)

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    @property
    def _package(self) -> Package:
        package = self.index_.package
        assert package is not None
        return package

    @property
    def _extractor(self) -> Extractor:
        """The features' code, checked once: that takes longer than many answers."""
        if "_loaded" not in vars(self):
            self._loaded = self._package.extractor(self._files())
        return self._loaded

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the features' code: whoever loads the state finds it anew."""
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_loaded", None)
        return state

    @property
    def _models(self) -> tuple[Model, ...]:
        return self._package.models

    def _amount(self, budget_ms: float | None, budget: float | None) -> float:
        """Give the budget in the index's unit; infinite where there is none."""
        unit = str(self._package.meta["unit"])
        if budget_ms is not None and budget is not None:
            raise BadInput("budget_ms and budget came; one of them is needed")
        if budget_ms is not None and unit != "s":
            raise BadInput(f"budget_ms came, but costs are in {unit}: give budget")
        if budget is not None and unit == "s":
            raise BadInput("budget came, but costs are seconds: give budget_ms")
        amount = budget if budget_ms is None else budget_ms * 1e-3
        return math.inf if amount is None else float(amount)

    def _chosen(
        self, X: Any, budget_ms: float | None, budget: float | None
    ) -> tuple[Sequence[Item], NDArray[np.int64]]:
        """Make items, and look up which row of the index answers each."""
        check_is_fitted(self)
        amount = self._amount(budget_ms, budget)
        items = self._items(X, reset=False)
        if (kind := items[0].kind) != self._package.kind:
            raise BadInput(f"{kind} items came; {self._package.kind} items were fitted")
        if isinstance(items, Records):
            return items, np.full(len(items), self._best(1.0, amount))
        rows = {size: self._best(size, amount) for size in {one.size for one in items}}
        return items, np.array([rows[one.size] for one in items])

    def _best(self, size: Size, amount: float) -> int:
        try:
            return self.index_.best(size, amount).row
        except NothingFits:
            return int(np.flatnonzero(self._package.masks == 0)[0])

    def _evaluated(
        self, items: Sequence[Item], chosen: NDArray[np.int64]
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float32]]]:
        """Yield each row that answers, for which items, and their feature values."""
        for row in np.unique(chosen).tolist():
            own, order = np.flatnonzero(chosen == row), self._package.orders[row]
            yield row, own, values_of(items, own, self._extractor, order)

    def predict(
        self, X: Any, *, budget_ms: float | None = None, budget: float | None = None
    ) -> NDArray[Any]:
        """Classify items, each by the best model that a budget buys for its size.

        Parameters
        ----------
        X
            As in `fit`.
        budget_ms
            Milliseconds that one item may cost; None for the most accurate model.
        budget
            The same for an index of declared costs, in their unit.

        Returns
        -------
        Labels (N,). What nothing fits for has the class that came most often.
        """
        items, chosen = self._chosen(X, budget_ms, budget)
        places = np.empty(len(items), np.int64)
        for row, own, values in self._evaluated(items, chosen):
            places[own] = self._classes[self._models[row].predict(values)]
        found: NDArray[Any] = self.classes_[places]
        return found

    def _gives_probabilities(self) -> bool:
        """Say whether the scores of every model are such."""
        check_is_fitted(self)
        return self._probabilities

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(
        self, X: Any, *, budget_ms: float | None = None, budget: float | None = None
    ) -> NDArray[np.float64]:
        """Give the probabilities of the classes (N, K); see `predict`.

        It is there where the learner's models have probabilities.
        """
        items, chosen = self._chosen(X, budget_ms, budget)
        found = np.zeros((len(items), len(self.classes_)))
        for row, own, values in self._evaluated(items, chosen):
            model = self._models[row]
            known = self._classes[model.classes]
            found[np.ix_(own, known)] = model.predict_scores(values)
        return found

    def plan(
        self,
        *,
        size: Size | None = None,
        budget_ms: float | None = None,
        budget: float | None = None,
    ) -> dict[str, Any]:
        """Say what a budget buys for an item of a size.

        Parameters
        ----------
        size
            In pixels or characters; None for 1, as of records.
        budget_ms, budget
            As for `predict`.

        Returns
        -------
        `features` in the order they are computed, `cost` and `unit`, `accuracy`, and
        the `row` of the index.

        Raises
        ------
        NothingFits
            If the budget buys nothing.
        """
        check_is_fitted(self)
        amount = self._amount(budget_ms, budget)
        best = self.index_.best(1.0 if size is None else size, amount)
        unit = str(self._package.meta["unit"])
        factor, unit = (1e3, "ms") if unit == "s" else (1.0, unit)
        return {
            "row": best.row,
            "features": list(self._package.names(best.row)),
            "cost": best.cost_s * factor,
            "unit": unit,
            "accuracy": best.quality,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file, which `polydom serve` answers with."""
        check_is_fitted(self)
        self.index_.save(path)


def _is_file(name: str) -> bool:
    return name.endswith(".py")


def _amounts(cost: Any) -> dict[str, float]:
    """Amounts by unit of what a column costs; a bare number has no unit of its own."""
    if isinstance(cost, Mapping):
        return dict(cost)
    return {COST: float(cost)}
