"""The trainer of a build: of sets on the training items, or on all items."""

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from polydom.models.selection.learners import make_learner
from polydom.models.selection.portfolio import Setting

from ..cache import digest
from ..prepare import Prepared
from ..resources import Resources
from .train_sets import Trainer, TrainingTask, division_of, takes_weights


def make_trainer(data: Prepared, learner: Setting, own: Resources) -> Trainer:
    """Make the trainer that measures the quality of feature sets."""
    project, table, weights = data.project, data.table, data.class_weights
    if project.quality.class_weights is None:  # the project wants none
        estimator = make_learner(learner, project.seed, data.task)
        weights = weights if takes_weights(estimator) else None
    weighed = None if weights is None else weights.tolist()
    key = data.keys.sets(learner, data.metric.facts(), weighed)
    arrays: dict[str, NDArray[Any] | None] = {
        "values": table.values,
        "codes": table.dataset.codes,
        "weights": table.dataset.weights,
        "class_weights": weights,
        "numbers": table.dataset.numbers,
    }
    given = {name: array for name, array in arrays.items() if array is not None}
    task = TrainingTask(
        items=own.cache.share(f"sets/{key}/items", given),
        division=own.cache.share(f"sets/{key}/division", division_of(data.splits)),
        metric=data.metric,
        learner=learner,
        seed=project.seed,
        starts=table.features.starts,
        key=key,
    )
    return Trainer(task, own.workers, own.cache)


def make_full_trainer(data: Prepared, trainer: Trainer, own: Resources) -> Trainer:
    """Make a trainer on all items, for the same sets; its spent time starts at 0."""
    key = digest(trainer.task.key, "refit")
    undivided = own.cache.share(f"sets/{key}/division", {})
    task = replace(trainer.task, division=undivided, key=key)
    if data.final is not data.table:
        given = {**task.items, "values": data.final.values}
        task = replace(task, items=own.cache.share(f"sets/{key}/items", given))
    return Trainer(task, own.workers, own.cache)
