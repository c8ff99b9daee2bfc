"""What an index tells of its build, and the items that it carries along."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from .choosing import Choice
from .costing import Curve, measuring_items
from .data import Dataset
from .project import Project
from .searching import Found
from .training import Trainer

SAMPLES = 6
SAMPLES_BYTES = 1 << 20


def describe(
    project: Project,
    dataset: Dataset,
    curves: Sequence[Curve],
    choice: Choice,
    trainer: Trainer,
    found: Found,
) -> dict[str, Any]:
    """Plain data for `polydom inspect`, and samples to warm a server up with."""
    weights = {unit: w for unit, w in project.costs.weights.items() if w}
    return {
        "unit": "s" if set(weights) == {"s"} else " + ".join(sorted(weights)),
        "weights": weights,
        "learner": choice.setting,
        "selection": choice.facts,
        "seed": project.seed,
        "items": len(dataset.items),
        "tested": sum(len(test) for _, test in trainer.task.splits),
        "skipped": [list(one) for one in dataset.skipped],
        "testing": msgspec.to_builtins(project.search),
        "quantile": project.costs.quantile,
        "curves": [curve.facts() for curve in curves],
        "search": found.facts,
        "remarks": trainer.remarks(sorted(found.accuracies)),
        "samples": _samples(dataset),
    }


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
