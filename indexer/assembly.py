"""From the sets that a build trained to an index: what is kept, timed and packed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..features.cost import CostTable
from ..features.sizes import Size, read_size
from ..features.stopwatch import Load, Stopwatch
from ..models.model import Model
from .cache import Cache, digest
from .catalogue import ProjectFeatures
from .costing import Curves, cost_curves, measure_pace, time_models
from .data import Dataset
from .exits import answers_of
from .feature_order import Rows
from .index import Index
from .package import Package
from .plan_exits import FreshAnswers, PlanExitFitter, PlanExits
from .progress import Progress, skip
from .project import Project
from .readers import make_item
from .searching import CostOf, Found
from .training import Trainer


@dataclass(frozen=True, slots=True, eq=False)
class Fresh:
    """Items that were set aside to calibrate exits on.

    Attributes
    ----------
    values : (M, width) float32
        What describes them.
    groups : (M,) int64
        Number of each one's group.
    """

    values: NDArray[np.float32]
    groups: NDArray[np.int64]

    def answers(self, models: Sequence[Model]) -> FreshAnswers:
        """Give what some models answer for them."""
        pairs = [answers_of(model, self.values) for model in models]
        leads, choices = zip(*pairs, strict=True)
        return FreshAnswers(
            np.column_stack(leads), np.column_stack(choices), self.groups
        )


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """The last hops of a build.

    Attributes
    ----------
    project, cache, progress
        As in `Builder`.
    dataset, features, values
        The items, what describes them, and with which numbers (N, width).
    curves, costs
        Of features and steps: as they were measured, and weighed.
    cost_of
        What a set's features cost at the size to order them for.
    trainer, found
        What was trained, and which of it may serve.
    fresh
        Items to calibrate exits on; None without a confidence.
    """

    project: Project
    cache: Cache
    progress: Progress
    dataset: Dataset
    features: ProjectFeatures
    values: NDArray[np.float32]
    curves: Curves
    costs: CostTable
    cost_of: CostOf
    trainer: Trainer
    found: Found
    fresh: Fresh | None = None

    def index(self, report: dict[str, Any]) -> Index:
        """Drop what is dominated, order the rest, and put all in one package.

        `report` goes into the package, with what is found out here.
        """
        costs, found, trainer = self.costs, self.found, self.trainer
        sets = found.sets
        model_costs, load = self._model_costs(sets)
        report["measured"] = self.curves.load.worse(load).facts()
        curves_of_sets = cost_curves(costs, np.array(sets, np.uint64), model_costs)
        sizes = self._sizes()
        kept = found.keep(curves_of_sets, sizes)
        masks = [sets[row] for row in kept]
        orders, fallbacks = found.order(masks, self.cost_of)
        models = tuple(trainer.model(mask) for mask in masks)
        if self.project.costs.weights.get("s"):
            key = digest(trainer.task.key, masks)
            report["pace"] = self._pace(report["samples"], models, key)
        exits = self._exits(masks, models, orders, fallbacks, model_costs[kept])
        curves_of_sets[kept, 0] += exits.checks
        report["exits"] = exits.facts
        package = Package(
            kind=self.dataset.kind,
            labels=self.dataset.labels,
            features=self.features.stored,
            costs=costs,
            masks=np.array(masks, np.uint64),
            orders=orders,
            fallbacks=fallbacks,
            models=models,
            model_s=model_costs[kept],
            overhead_s=float(costs.overhead[0]),
            meta=report,
            margins=exits.margins,
            typical=np.array([curve.typical for curve in self.curves.all]),
        )
        return Index.from_candidates(
            curves_of_sets[kept],
            [found.accuracies[mask] for mask in masks],
            sizes,
            package,
        )

    def _model_costs(self, sets: Sequence[int]) -> tuple[NDArray[np.float64], Load]:
        """Cost of evaluating each set's model, measured once and then recalled."""
        quantile = self.project.costs.quantile
        key = digest(self.trainer.task.key, list(sets), quantile, "answer")
        name = f"times/{key}"
        stored = self.cache.load(name)
        if stored is None:
            with self.progress.stage("timing models", len(sets)) as tell:
                models, watch = map(self.trainer.model, sets), Stopwatch()
                seconds = time_models(models, self.values, quantile, tell, watch)
            load = watch.load
            self.cache.store(name, {"load": list(load)}, {"models": seconds})
        else:
            skip(self.progress, "timing models")
            load, seconds = Load(*stored[0]["load"]), np.asarray(stored[1]["models"])
        return seconds * self.project.costs.weights.get("s", 0.0), load

    def _exits(
        self,
        masks: Sequence[int],
        models: Sequence[Model],
        orders: Rows,
        fallbacks: Rows,
        model_costs: NDArray[np.float64],
    ) -> PlanExits:
        """Say where each plan may answer early, if the project asks for that."""
        terms = self.project.exits
        if terms.alpha is None:
            return PlanExits((), np.zeros(len(masks)), {})
        with self.progress.stage("fitting exits", len(masks)) as tell:
            leads, choices = self.trainer.answers(masks)
            fresh = None if self.fresh is None else self.fresh.answers(models)
            fitter = PlanExitFitter(terms, leads, choices, fresh)
            return fitter.all(orders, fallbacks, model_costs, self.cost_of, tell)

    def _pace(
        self, samples: Sequence[Any], models: Sequence[Model], key: str
    ) -> dict[str, Any]:
        """Time the samples, by which a server will tell its machine from this one."""
        return measure_pace(
            self.features.extractor,
            [make_item(one, pair=self.project.costs.pair) for one in samples],
            models,
            cache=self.cache,
            name=f"paces/{key}",
            progress=self.progress,
        ).facts()

    def _sizes(self) -> tuple[Size, Size]:
        """Return the range of sizes to choose for."""
        if (bounds := self.project.search.bounds) is not None:
            return bounds
        sizes = self.dataset.sizes
        return read_size(sizes.min(axis=0).tolist()), read_size(
            sizes.max(axis=0).tolist()
        )
