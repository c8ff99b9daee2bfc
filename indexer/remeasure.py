"""Measuring an index anew: the same candidates with what they cost here and now."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadInput, BadProject
from ..features.extract import Extractor
from ..features.items import Item
from ..features.stopwatch import Load, Stopwatch
from .costing import (
    Curves,
    cost_curves,
    fit_curves,
    measure_parts,
    spread_over_sizes,
    time_models,
    time_samples,
)
from .index import Index
from .pace import pace_of
from .package import MetaFacts, Package
from .progress import Progress
from .project import Project
from .readers import load_data, make_item

TIMES = 240  # of each feature at least, of which a high quantile is to be told
LEAST_REPEATS = 5
SEED = 0


def carried_items(index: Index) -> list[Item]:
    """Items that an index carries along.

    Raises
    ------
    BadInput
        If it carries none.
    """
    package = _package(index)
    samples = [
        make_item(one, pair=index.pairs) for one in package.meta.get("samples", [])
    ]
    if not samples:
        raise BadInput(
            "the index carries no samples to measure on; give the project it was "
            "built from with --data PROJECT.toml"
        )
    return samples


def project_items(index: Index, project: Project) -> list[Item]:
    """Items of a project to measure an index on: as many as a build would take.

    Raises
    ------
    BadProject
        If they are of another kind than the index's, or sized otherwise.
    """
    dataset = load_data(project)
    kind = _package(index).kind
    if dataset.kind != kind or project.costs.pair != index.pairs:
        numbers = {False: "one number", True: "two numbers"}
        raise BadProject(
            f"the project's items are {dataset.kind}s with sizes of "
            f"{numbers[project.costs.pair]}; the index is of {kind}s with sizes of "
            f"{numbers[index.pairs]}"
        )
    chosen = spread_over_sizes(dataset, project.costs.items)
    return [dataset.items[position] for position in chosen]


def remeasure(
    index: Index,
    extractor: Extractor,
    items: Sequence[Item],
    progress: Progress,
    *,
    repeats: int | None = None,
) -> Index:
    """Measure what an index's features, steps and models cost on this machine.

    Candidates, their models, orders and exits stay as they were built. Sets that the
    build dropped, since others were as good and cheaper there, stay dropped.

    Parameters
    ----------
    extractor
        The index's features.
    items
        At least one; curves are fitted to their sizes.
    repeats
        Times that each item is measured; by default as many as make `TIMES` of all.

    Raises
    ------
    BadInput
        If the index is of bare candidates, or counts no time.
    BadItem, BadFeature
        If an item cannot be used, or a feature fails on it.
    """
    package = _package(index)
    weights = package.meta.get("weights", {"s": 1.0})
    if not weights.get("s"):
        raise BadInput("the index counts no time, so there is nothing to measure")
    quantile = float(package.meta.get("quantile", MetaFacts().quantile))
    repeats = repeats or max(LEAST_REPEATS, math.ceil(TIMES / len(items)))
    measured = measure_parts(extractor, items, repeats, SEED, quantile, progress)
    curves = fit_curves(extractor, items, measured, quantile, SEED)
    costs = curves.weighed(extractor, weights)
    rows = np.stack([extractor.extract(item) for item in items])
    watch = Stopwatch()
    with progress.stage("timing models", len(package.models)) as tell:
        seconds = time_models(package.models, rows, quantile, tell, watch)
    load = curves.load.worse(watch.load)
    model_costs = seconds * weights["s"]
    package = replace(
        package,
        costs=costs,
        model_s=model_costs,
        overhead_s=float(costs.overhead[0]),
        meta=_meta(index, extractor, curves, load, progress),
        typical=np.array([curve.typical for curve in curves.all]),
    )
    return Index.from_candidates(
        cost_curves(costs, package.masks, model_costs, _checks(package)),
        index.accuracies,
        index.sizes,
        package,
    )


def _package(index: Index) -> Package:
    if index.package is None:
        raise BadInput("bare candidates have no features to measure")
    return index.package


def _checks(package: Package) -> NDArray[np.float64]:
    """Cost of the models at each plan's exits."""
    checks = np.zeros(len(package.masks))
    for row, margins in enumerate(package.margins):
        stops = np.flatnonzero(np.isfinite(margins))
        checks[row] = package.model_s[[package.fallbacks[row][k] for k in stops]].sum()
    return checks


def _meta(
    index: Index, extractor: Extractor, curves: Curves, load: Load, progress: Progress
) -> dict[str, Any]:
    """Say in the index's report what was measured instead."""
    package = _package(index)
    meta = {
        **package.meta,
        "curves": [curve.facts() for curve in curves.all],
        "measured": load.facts(),
    }
    if package.meta.get("samples"):
        with progress.stage("timing samples", None) as tell:
            samples = carried_items(index)
            times = time_samples(extractor, samples, package.models, tell)
        steps = len(extractor.steps)
        meta["pace"] = pace_of(times["parts"], times["models"], steps).facts()
    return meta
