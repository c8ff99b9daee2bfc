"""What is common to scikit-learn estimators that are indexes."""

import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import (
    check_is_fitted,
    validate_data,
)

from polydom.features.errors import BadInput, BadItem, BadProject
from polydom.features.extract import Extractor
from polydom.features.items import Item, Kind
from polydom.features.sizes import Size, read_size
from polydom.features.tables.records import Records, column_names
from polydom.models.scoring.model import Model
from polydom.models.selection.arms import last_step
from polydom.models.selection.learners import describe_learner, make_learner

from ..building.build import build
from ..building.data.dataset import (
    Dataset,
    NumberedFile,
    RowNames,
    number_in_turn,
)
from ..building.learner_race import AUTO
from ..building.project import Project
from ..building.template import default_features
from ..building.training.train_sets import takes_weights
from ..index.facts import mean_coefficients, skyline_facts
from ..index.lookup import Lookup
from ..index.package import Package
from ..index.partial_lookup import PartialLookup
from ..index.quality import Task
from ..progress_bars import ProgressBars
from .items import Kinds, in_arrow, is_array, is_table, items_of, refuse_unknown
from .labels import Counted
from .values import values_of, withheld_of

COST = "cost"  # the unit of costs that are given as bare numbers


class BudgetEstimator(BaseEstimator):  # type: ignore[misc]
    """An index that is built as estimators are fitted; see `BudgetClassifier`."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "features": ["array-like", None],
        "learner": [str, dict, HasMethods(["fit", "get_params"])],
        "alpha": [Interval(Real, 1, None, closed="left")],
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

    features: Sequence[str] | None
    learner: str | Mapping[str, Any] | BaseEstimator
    alpha: float
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
    _columns: Kinds | None  # of the records that were fitted

    def __sklearn_tags__(self) -> Any:
        """Say what may be given: missing values, strings, tables of many kinds."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True  # and made dense
        tags.non_deterministic = self.cache is None  # else measured costs are kept
        return tags

    def _build(self, dataset: Dataset) -> None:
        """Build the index, and what is told of it."""
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
        self._loaded = self._package.extractor(self._files())
        self.cost_curves_ = self._package.meta["curves"]
        size = read_size(np.median(dataset.sizes, axis=0).tolist())
        means = mean_coefficients(self.index_)
        self.skyline_ = skyline_facts(self.index_, means, size)["skyline"]

    def _items(self, X: Any, *, reset: bool) -> Sequence[Item]:
        """Make items, and check that a table's columns are those that were fitted."""
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
        """Keep what the columns of records are called, and of which kind they are."""
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
        """Refuse a learner that cannot be fitted with weights, before any work."""
        if self._setting().get("name") == AUTO:
            raise BadInput(
                "sample_weight is for a learner that is named; the race of 'auto' "
                "weighs nothing"
            )
        learner = self._unfitted()
        if not takes_weights(learner):
            raise BadInput(
                f"sample_weight came, and {type(last_step(learner)).__name__} takes "
                "none; another learner is needed"
            )

    def _setting(self) -> Mapping[str, Any]:
        """Write the learner as PROJECT.toml does."""
        learner = self.learner
        if isinstance(learner, str):
            return {"name": learner}
        return learner if isinstance(learner, Mapping) else describe_learner(learner)

    def _unfitted(self) -> Any:
        """Make the learner, which is named."""
        task: Task = self._terms()["task"]
        try:
            return make_learner(self._setting(), 0, task)
        except BadProject as error:
            raise BadInput(str(error)) from error

    def _dataset(
        self,
        counted: Counted,
        labels: Sequence[str],
        codes: NDArray[np.int64],
        numbers: NDArray[np.float64] | None = None,
    ) -> Dataset:
        """Put items and labels together."""
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
        """Write down what PROJECT.toml would say of labels and answers."""
        raise NotImplementedError

    def _held_out(self, dataset: Dataset) -> float | None:
        """Share of the items to measure quality on; None for as it is usual."""
        return None if self.held_out is None else float(self.held_out)

    def _project(self, dataset: Dataset) -> Project:
        """Write down what PROJECT.toml would say."""
        features: dict[str, Any] = {
            "use": [name for name in self._names(dataset) if not _is_file(name)],
            "files": [str(file) for file in self._files()],
        }
        content: dict[str, Any] = {
            "features": features,
            "learner": self._setting(),
            "search": {"alpha": float(self.alpha)},
            "seed": self._seed(),
            "workers": effective_n_jobs(self.n_jobs),
        }
        if (held_out := self._held_out(dataset)) is not None:
            content["search"]["held_out"] = held_out
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
        content |= self._terms()
        return Project.from_mapping(content, folder=Path.cwd())

    def _names(self, dataset: Dataset) -> Sequence[str]:
        if self.features is not None:
            return [os.fspath(name) for name in self.features]
        return default_features(dataset.kind)

    def _files(self) -> list[Path]:
        names = map(os.fspath, self.features or ())
        return [Path(name).absolute() for name in names if _is_file(name)]

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

    def _chosen(
        self, X: Any, budget_ms: float | None, budget: float | None
    ) -> tuple[Sequence[Item], NDArray[np.int64]]:
        """Make items, and look up which row of the index answers each."""
        check_is_fitted(self)
        amount = self._amount(budget_ms, budget)
        items = self._items(X, reset=False)
        if (kind := items[0].kind) != self._package.kind:
            raise BadInput(f"{kind} items came; {self._package.kind} items were fitted")
        withheld = withheld_of(items, self._package).tolist()
        sizes: list[Size] = [1.0] * len(items)
        if not isinstance(items, Records):
            sizes = [one.size for one in items]
        shapes = [*zip(sizes, withheld, strict=True)]
        rows = {shape: self._best(*shape, amount) for shape in {*shapes}}
        return items, np.array([rows[shape] for shape in shapes])

    def _best(self, size: Size, withheld: int, amount: float) -> int:
        """Row of the best model for what came of an item; the prior where none fits."""
        lookup: Lookup[Any] | PartialLookup = self.index_.lookup
        if withheld:
            lookup = PartialLookup(self.index_, withheld)
        row = lookup.best(size, amount)
        return row if row >= 0 else int(np.flatnonzero(self._package.masks == 0)[0])

    def _evaluated(
        self, items: Sequence[Item], chosen: NDArray[np.int64]
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float32]]]:
        """Yield each row that answers, for which items, and their feature values."""
        for row in np.unique(chosen).tolist():
            own, order = np.flatnonzero(chosen == row), self._package.orders[row]
            try:
                values = values_of(items, own, self._extractor, order)
            except BadItem as error:  # a ValueError, as is usual here
                raise BadInput(str(error)) from error
            yield row, own, values

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
        `features` in the order they are computed, `cost` and `unit`, `quality`, and
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
            "quality": best.quality,
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
