"""Training of the index's models once more, on all labelled items.

This includes the items on which quality was measured. It excludes the items that are
set aside to calibrate early exits.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.machine import Measured
from polydom.models.scoring.model import Model

from ...progress import Progress
from ..cache import digest
from ..candidates import Candidates
from ..costs.measure_costs import MeasuredCosts
from ..prepare import Prepared
from ..resources import Resources
from .search.search_sets import SearchedSets
from .train_sets import Trainer

Floats = NDArray[np.float64]

REFITTING = 0.5  # seconds of training on all items, per second of the search


class KeptModels(NamedTuple):
    """The models in the final index, one for each of C candidates."""

    models: tuple[Model, ...]  # The models, one per candidate
    # Flags, one per candidate: True for a model that was trained on all items
    again: tuple[bool, ...]
    # (C,) float64: Costs of evaluating the models, in units of the budget
    model_costs: Floats
    # Machines that models were timed on again; None if no model was trained again
    measured: Measured | None = None


def refit(
    candidates: Candidates,
    searched: SearchedSets,
    data: Prepared,
    trainer: Trainer,
    costs: MeasuredCosts,
    resources: Resources,
) -> KeptModels:
    """Train the candidates' models on all items, and measure their times again.

    The best candidates come first. A candidate keeps the model that `trainer` trained
    if the project turns off this training, or if the time is up.
    """
    masks, old_costs = candidates.masks, candidates.model_costs
    if not data.project.refits:
        models = tuple(map(trainer.model, masks))
        return KeptModels(models, (False,) * len(masks), old_costs)
    full = make_full_trainer(data, trainer, resources)
    limit_s = _limit_s(data, trainer)
    trained = train_again(masks, searched.qualities, full, limit_s, resources.progress)
    again = tuple(mask in trained for mask in masks)
    models = tuple((full if m in trained else trainer).model(m) for m in masks)
    if not trained:
        return KeptModels(models, again, old_costs)
    final = {mask: partial(models.__getitem__, row) for row, mask in enumerate(masks)}
    key, values = trainer.task.key, data.final.values
    return KeptModels(models, again, *costs.of_models(key, final, values, again))


def make_full_trainer(
    data: Prepared, trainer: Trainer, resources: Resources
) -> Trainer:
    """Return a trainer that trains on all items and counts its time from 0."""
    key = digest(trainer.task.key, "refit")
    undivided = resources.cache.share(f"sets/{key}/division", {})
    task = replace(trainer.task, division=undivided, key=key)
    if data.final is not data.table:
        given = {**task.items, "values": data.final.values}
        task = replace(task, items=resources.cache.share(f"sets/{key}/items", given))
    own = task, resources.workers, resources.cache
    return Trainer(*own, decisions=trainer.decisions)


def train_ahead(
    searched: SearchedSets, data: Prepared, trainer: Trainer, resources: Resources
) -> None:
    """Train, on all items, the sets that the index will probably keep.

    This happens before any model is timed. If another machine times the models, the
    build then has to wait for it less often.
    """
    if data.project.refits:
        full = make_full_trainer(data, trainer, resources)
        limit_s = _limit_s(data, trainer)
        masks, qualities = searched.likely_kept(), searched.qualities
        train_again(masks, qualities, full, limit_s, resources.progress)


def _limit_s(data: Prepared, trainer: Trainer) -> float:
    """Return the maximum seconds of training on all items."""
    search = data.project.search
    # an index has one form of each learned feature, which all its models read
    if search.method != "progressive" or data.final is not data.table:
        return math.inf
    full = (1 << len(data.table.features.stored)) - 1
    return REFITTING * search.limit_s(trainer.seconds(full))


def train_again(
    masks: Sequence[int],
    qualities: Mapping[int, float],
    full: Trainer,
    limit_s: float,
    progress: Progress,
) -> frozenset[int]:
    """Train sets on all items, the best first; return the sets that were trained.

    No training starts once the trainings have taken `limit_s` seconds in total.
    """
    order = sorted(masks, key=lambda mask: -qualities[mask])
    again = set[int]()
    begun_s = full.spent.seconds
    with progress.stage("training on all", len(masks)) as on_progress:
        for mask, _ in zip(order, full.qualities(order), strict=True):
            again.add(mask)
            on_progress(len(again))
            if full.spent.seconds - begun_s >= limit_s < math.inf:
                break
    return frozenset(again)
