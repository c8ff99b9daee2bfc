"""From the sets that a build trained to an index: what is kept, timed and packed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.features.costs.stopwatch import Load
from polydom.features.items import make_item
from polydom.features.sizes import Size, read_size
from polydom.models.scoring.model import Model

from ..exits.checkpoints import answers_of
from ..index.index import Index
from ..index.machine_times import MachineTimes
from ..index.package import Package, Rows
from ..progress import Progress
from .cache import digest
from .dataset import Dataset
from .feature_values import FeatureTable
from .learner_race import LearnerChoice
from .measure_costs import Curves, Measurer, cost_curves, measuring_items
from .plan_exits import FreshAnswers, PlanExitFitter, PlanExits
from .project import Project
from .search_sets import CostOf, SearchedSets
from .train_sets import Trainer

SAMPLES = 6
SAMPLES_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Assembler:
    """The last hops of a build, with what those before them gave.

    `fresh` are items to calibrate exits on; None without a confidence.
    """

    project: Project
    progress: Progress
    table: FeatureTable
    fresh: FeatureTable | None
    measurer: Measurer
    curves: Curves
    costs: CostTable
    cost_of: CostOf
    choice: LearnerChoice
    trainer: Trainer
    searched: SearchedSets

    def index(self) -> Index:
        """Drop what is dominated, order the rest, and put all in one package."""
        costs, searched = self.costs, self.searched
        sets = searched.sets
        model_costs, load = self._model_costs(sets)
        curves_of_sets = cost_curves(costs, np.array(sets, np.uint64), model_costs)
        sizes = self._sizes()
        kept = searched.keep(curves_of_sets, sizes, self.project.search.budget_range)
        masks = [sets[row] for row in kept]
        orders, fallbacks = searched.order(masks, self.cost_of)
        models = tuple(self.trainer.model(mask) for mask in masks)
        report = self._report() | {"measured": self.curves.load.worse(load).facts()}
        if self.project.costs.weights.get("s"):
            report["pace"] = self._machine_times(
                report["samples"], masks, models
            ).facts()
        exits = self._exits(masks, models, orders, fallbacks, model_costs[kept])
        curves_of_sets[kept, 0] += exits.checks
        report["exits"] = exits.facts
        package = Package(
            kind=self.table.dataset.kind,
            labels=self.table.dataset.labels,
            features=self.table.features.stored,
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
            [searched.accuracies[mask] for mask in masks],
            sizes,
            package,
        )

    def _model_costs(self, sets: Sequence[int]) -> tuple[NDArray[np.float64], Load]:
        """Cost of evaluating each set's model."""
        costs = self.project.costs
        key = digest(self.trainer.task.key, list(sets), costs.quantile, "answer")
        models = map(self.trainer.model, sets)
        seconds, load = self.measurer.models(
            models, len(sets), self.table.values, name=f"times/{key}"
        )
        return seconds * costs.weights.get("s", 0.0), load

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
        with self.progress.stage("fitting exits", len(masks)) as on_progress:
            margins, choices = self.trainer.answers(masks)
            fresh = None if self.fresh is None else _answers(models, self.fresh)
            fitter = PlanExitFitter(terms, margins, choices, fresh)
            return fitter.all(orders, fallbacks, model_costs, self.cost_of, on_progress)

    def _machine_times(
        self, samples: Sequence[Any], masks: Sequence[int], models: Sequence[Model]
    ) -> MachineTimes:
        """Time the samples, by which a server will tell its machine from this one."""
        pair = self.project.costs.pair
        items = [make_item(one, pair=pair) for one in samples]
        key = digest(self.trainer.task.key, list(masks))
        return self.measurer.machine_times(items, models, name=f"paces/{key}")

    def _sizes(self) -> tuple[Size, Size]:
        """Give the smallest and the largest size to choose for."""
        if (bounds := self.project.search.bounds) is not None:
            return bounds
        sizes = self.table.dataset.sizes
        low, high = sizes.min(axis=0).tolist(), sizes.max(axis=0).tolist()
        return read_size(low), read_size(high)

    def _report(self) -> dict[str, Any]:
        """Plain data for `polydom inspect`, and samples to warm a server up with."""
        project, dataset, trainer = self.project, self.table.dataset, self.trainer
        weights = {unit: w for unit, w in project.costs.weights.items() if w}
        return {
            "unit": "s" if set(weights) == {"s"} else " + ".join(sorted(weights)),
            "weights": weights,
            "learner": self.choice.setting,
            "selection": self.choice.facts,
            "seed": project.seed,
            "items": len(dataset.items),
            "tested": sum(len(test) for _, test in trainer.task.splits),
            "skipped": [list(one) for one in dataset.skipped],
            "testing": msgspec.to_builtins(project.search),
            "quantile": project.costs.quantile,
            "curves": [curve.facts() for curve in self.curves.all],
            "search": self.searched.facts,
            "remarks": trainer.remarks(sorted(self.searched.accuracies)),
            "samples": _samples(dataset),
        }


def _answers(models: Sequence[Model], table: FeatureTable) -> FreshAnswers:
    """Give what some models answer for items that none of them was made with."""
    pairs = [answers_of(model, table.values) for model in models]
    margins, choices = map(np.column_stack, zip(*pairs, strict=True))
    return FreshAnswers(margins, choices, table.dataset.groups)


def _samples(dataset: Dataset) -> list[Any]:
    """Items of different sizes, small ones first as far as they fit."""
    samples: list[Any] = []
    left = SAMPLES_BYTES
    for item in measuring_items(dataset, SAMPLES):
        payload = item.payload
        left -= len(payload) if isinstance(payload, (bytes, str)) else 0
        if left < 0 and samples:
            break
        samples.append(dict(payload) if isinstance(payload, Mapping) else payload)
    return samples
