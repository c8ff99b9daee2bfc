"""The common base of the scikit-learn estimators that build an index."""

import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, get_args

import msgspec
import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from polydom.features.errors import BadInput, BadItem, BadProject
from polydom.features.extract import Extractor
from polydom.features.items import Item, Kind
from polydom.features.networks.terms import NetworkTerms
from polydom.features.sizes import Size, read_size
from polydom.features.tables.records import Records, column_names
from polydom.models.scoring.model import Model
from polydom.models.selection.arms import last_step, takes_weights
from polydom.models.selection.learners import describe_learner, make_learner

from ..building.build import build
from ..building.data.dataset import (
    Dataset,
    NumberedFile,
    RowNames,
    number_in_turn,
)
from ..building.project import Project
from ..building.project_tables.learner import AUTO
from ..building.template import default_features
from ..index.facts import mean_coefficients, skyline_at
from ..index.package import Package
from ..index.quality import AlphaOf, Task
from ..progress_bars import ProgressBars
from .answers import values_by_row
from .items import Kinds, in_arrow, is_array, is_table, items_of, refuse_unknown
from .labels import Counted

COST = "cost"  # unit of costs without a unit


class BudgetEstimator(BaseEstimator):  # type: ignore[misc]
    """The base class of `BudgetClassifier` and `BudgetRegressor`.

    `fit` builds an index. Each prediction keeps to the budget for one item.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "features": ["array-like", None],
        "learner": [str, dict, HasMethods(["fit", "get_params"])],
        "alpha": [Interval(Real, 1, None, closed="left"), None],
        "alpha_of": [StrOptions({*get_args(AlphaOf)})],
        "search_budget_s": [Interval(Real, 0, None, closed="neither"), None],
        "costs": [dict, None],
        "budget_ms": [Interval(Real, 0, None, closed="left"), None],
        "budget": [Interval(Real, 0, None, closed="left"), None],
        "held_out": [Interval(Real, 0, 1, closed="neither"), None],
        "kind": [StrOptions({"image", "text", "record"}), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "cache": [str, os.PathLike, None],
        "verbose": ["verbose"],
    }

    features: Sequence[str | NetworkTerms] | None
    learner: str | Mapping[str, Any] | BaseEstimator
    alpha: float | None
    alpha_of: AlphaOf
    search_budget_s: float | None
    costs: Mapping[str, Any] | None
    budget_ms: float | None
    budget: float | None
    held_out: float | None
    kind: Kind | None
    random_state: Any
    n_jobs: int | None
    cache: str | os.PathLike[str] | None
    verbose: bool
    _task: ClassVar[Task]
    _columns: Kinds | None  # kinds of columns by name, if records were fitted

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: missing values and strings are allowed in X."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True  # `_items` makes sparse arrays dense
        tags.non_deterministic = self.cache is None  # a cache keeps measured costs
        return tags

    def _build(self, dataset: Dataset) -> None:
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
            except (BadProject, BadItem) as error:  # scikit-learn expects a ValueError
                raise BadInput(str(error)) from error
        self._loaded = self._package.extractor(self._files())
        self.cost_curves_ = self._package.meta["curves"]
        size = read_size(np.median(dataset.sizes, axis=0).tolist())
        means = mean_coefficients(self.index_)
        at_size = skyline_at(self.index_, means, size)
        self.skyline_ = msgspec.to_builtins(at_size.skyline)

    def _items(self, X: Any, *, reset: bool) -> Sequence[Item]:
        """Convert X to items.

        With `reset`, as in `fit`, X may have any columns. Otherwise it must have the
        columns that `fit` got.
        """
        if is_table(X):
            X = in_arrow(X)
            validate_data(self, X, reset=reset, skip_check_array=True)
        elif is_array(X):
            X = validate_data(
                self,
                X,
                reset=reset,
                dtype=None,
                accept_sparse="csr",
                ensure_all_finite="allow-nan",
            )
            X = X.toarray() if issparse(X) else X
        try:
            items = items_of(X, self.kind, None if reset else self._columns)
        except BadItem as error:
            raise BadInput(str(error)) from error
        if reset:
            self._name_columns(items)
        elif self._columns is not None and not isinstance(items, Records):
            refuse_unknown(items, [*self._columns])
        return items

    def _name_columns(self, items: Sequence[Item]) -> None:
        self._columns = None
        if isinstance(items, Records):
            self._columns = {name: one.kind for name, one in items.columns.items()}
            return
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)
        if items[0].kind == "record":
            names = column_names(items)
            self._columns = dict.fromkeys(names)
            self.n_features_in_ = len(names)
            self.feature_names_in_ = np.array(names, object)

    def _check_takes_weights(self) -> None:
        if self._setting().get("name") == AUTO:  # races those that take weights
            return
        learner = self._unfitted()
        if not takes_weights(learner):
            raise BadInput(
                f"sample_weight came, and {type(last_step(learner)).__name__} takes "
                "none; another learner is needed"
            )

    def _setting(self) -> Mapping[str, Any]:
        """Return the learner in the form of PROJECT.toml's table `[learner]`."""
        learner = self.learner
        if isinstance(learner, str):
            return {"name": learner}
        return learner if isinstance(learner, Mapping) else describe_learner(learner)

    def _unfitted(self) -> Any:
        try:
            setting = {k: v for k, v in self._setting().items() if k != "tune_s"}
            return make_learner(setting, 0, self._task)
        except BadProject as error:
            raise BadInput(str(error)) from error

    def _dataset(
        self,
        counted: Counted,
        labels: Sequence[str],
        codes: NDArray[np.int64],
        numbers: NDArray[np.float64] | None = None,
    ) -> Dataset:
        if counted.weights is not None:
            self._check_takes_weights()
        items, groups = counted.items, np.arange(len(counted.items))
        if counted.groups is not None:
            groups = number_in_turn(counted.groups)
        names = RowNames((NumberedFile("X", len(items)),), counted.rows)
        return Dataset(
            items,
            names,
            tuple(labels),
            codes,
            groups,
            weights=counted.weights,
            numbers=numbers,
        )

    def _terms(self) -> dict[str, Any]:
        """Return the settings of PROJECT.toml that a subclass decides."""
        raise NotImplementedError

    def _held_out(self, dataset: Dataset) -> float | None:
        """Return the share of items to hold out; None for the default share."""
        return None if self.held_out is None else float(self.held_out)

    def _project(self, dataset: Dataset) -> Project:
        features: dict[str, Any] = {
            "use": [name for name in self._names(dataset) if not _is_file(name)],
            "files": [str(file) for file in self._files()],
            "networks": [
                one for one in self.features or () if isinstance(one, NetworkTerms)
            ],
        }
        search: dict[str, Any] = {"alpha_of": self.alpha_of}
        if self.alpha is not None:
            search["alpha"] = float(self.alpha)
        if (held_out := self._held_out(dataset)) is not None:
            search["held_out"] = held_out
        if self.search_budget_s is not None:
            search["budget_s"] = float(self.search_budget_s)
        content: dict[str, Any] = {
            "features": features,
            "learner": self._setting(),
            "search": search,
            "seed": self._seed(),
            "workers": effective_n_jobs(self.n_jobs),
        }
        if self.costs is not None:
            costs = {name: _amounts(cost) for name, cost in self.costs.items()}
            names = column_names(dataset.items)
            if unknown := [name for name in costs if name not in names]:
                raise BadInput(f"costs names {unknown[0]!r}, which is no column of X")
            features["columns"] = [
                {"name": name, "columns": [name], "cost": costs.get(name, {})}
                for name in names
            ]
            units = {unit for amounts in costs.values() for unit in amounts}
            content["costs"] = {"weights": dict.fromkeys(sorted(units), 1.0)}
        terms = {"task": self._task, **self._terms()}
        return Project.from_mapping(content | terms, folder=Path.cwd())

    def _names(self, dataset: Dataset) -> Sequence[str]:
        return default_features(dataset.kind) if self.features is None else self._given

    def _files(self) -> list[Path]:
        return [Path(name).absolute() for name in self._given if _is_file(name)]

    @property
    def _given(self) -> list[str]:
        """Names and paths among `features`, without the networks."""
        given = self.features or ()
        return [os.fspath(one) for one in given if not isinstance(one, NetworkTerms)]

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
        """The extractor of the index's features.

        Only the first use checks the features' code, because the check is slow.
        """
        if "_loaded" not in vars(self):
            self._loaded = self._package.extractor(self._files())
        return self._loaded

    def __getstate__(self) -> dict[str, Any]:
        """Leave the features' code out of a pickle; `_extractor` loads it again."""
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_loaded", None)
        return state

    @property
    def _models(self) -> tuple[Model, ...]:
        return self._package.models

    def _amount(self, budget_ms: float | None, budget: float | None) -> float:
        """Return the budget for one item, in the index's unit.

        If both arguments are None, the estimator's parameters `budget_ms` and `budget`
        apply. If these are None too, the result is infinite.
        """
        unit = str(self._package.meta["unit"])
        if budget_ms is None and budget is None:
            budget_ms, budget = self.budget_ms, self.budget
        if budget_ms is not None and budget is not None:
            raise BadInput("budget_ms and budget came; one of them is needed")
        if budget_ms is not None and unit != "s":
            raise BadInput(f"budget_ms came, but costs are in {unit}: give budget")
        if budget is not None and unit == "s":
            raise BadInput("budget came, but costs are seconds: give budget_ms")
        name, given = ("budget_ms", budget_ms) if unit == "s" else ("budget", budget)
        if given is not None and not given >= 0:
            raise BadInput(f"{name} is {given!r}; it must be a number, 0 or more")
        amount = budget if budget_ms is None else budget_ms * 1e-3
        return math.inf if amount is None else float(amount)

    def _answers(
        self, X: Any, budget_ms: float | None, budget: float | None
    ) -> tuple[int, Iterator[tuple[int, NDArray[np.int64], NDArray[np.float32]]]]:
        """Choose a model for each item of X, and compute the features that it reads.

        Returns the number of items, and the iterator of `values_by_row`.
        """
        check_is_fitted(self)
        amount, package = self._amount(budget_ms, budget), self._package
        items = self._items(X, reset=False)
        if (kind := items[0].kind) != package.kind:
            raise BadInput(f"{kind} items came; {package.kind} items were fitted")
        known = self.index_, package, self._extractor
        return len(items), values_by_row(*known, items, amount)

    def plan(
        self,
        *,
        size: Size | None = None,
        budget_ms: float | None = None,
        budget: float | None = None,
    ) -> dict[str, Any]:
        """Return the features that are computed for an item of `size` in a budget.

        Parameters
        ----------
        size
            Size of the item in pixels or characters; None for 1, the size of a record.
        budget_ms, budget
            Budget for the item; see `predict`.

        Returns
        -------
        A dict with the `features` in the order in which they are computed, their
        expected `cost` in `unit`, the expected `quality`, and the `row` of the index.

        Raises
        ------
        NothingFits
            If no plan fits the budget.
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
            "quality": best.quality,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a `.pdx` file, which `polydom serve` can serve."""
        check_is_fitted(self)
        self.index_.save(path)


def _is_file(name: str) -> bool:
    return name.endswith(".py")


def _amounts(cost: Any) -> dict[str, float]:
    """Return a column's cost, by unit. The unit of a bare number is `COST`."""
    if isinstance(cost, Mapping):
        return dict(cost)
    return {COST: float(cost)}
