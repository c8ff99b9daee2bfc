"""Measure an index's costs on this machine, and keep its candidates and models."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.features.errors import BadInput, BadProject
from polydom.features.extract import Extractor
from polydom.features.items import Item, make_item

from ...index.built_facts import MetaFacts
from ...index.index import Index
from ...index.package import Package, exit_costs
from ...progress import Progress
from ..data.read_items import load_data
from ..project import Project
from .cost_curves import Curves, cost_curves
from .measure_costs import Measurer
from .measured_items import measuring_items

Floats = NDArray[np.float64]

TIMES = 240  # least measurements of each feature: enough for a high quantile
LEAST_REPEATS = 5
SEED = 0


def carried_items(index: Index) -> list[Item]:
    """Return the sample items inside an index; raise BadInput if it has none."""
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
    """Read the items of a project on which a build would time features.

    Raises BadProject if the items are of another kind than the index's items, or if
    item sizes have one number in the project and two in the index, or vice versa.
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
    return measuring_items(dataset, project.costs.items)


def remeasure(
    index: Index,
    items: Sequence[Item],
    progress: Progress,
    *,
    files: Sequence[Path] = (),
    repeats: int | None = None,
) -> Index:
    """Return the index with costs of features, steps and models on this machine.

    Candidates, models, feature orders and exits stay the same; sets that the build
    dropped are not considered again. So features that no candidate computes keep the
    costs of the build. Each item is timed at least `repeats` times; by
    default, each feature gets at least `TIMES` measurements. `files` are the Python
    files with the user's features. Raises BadInput if the index's costs do not include
    time.
    """
    package = _package(index)
    weights = package.meta.get("weights", {"s": 1.0})
    if not weights.get("s"):
        raise BadInput("the index counts no time, so there is nothing to measure")
    quantile = float(package.meta.get("quantile", MetaFacts().quantile))
    extractor, used = package.extractor(files), package.used
    if not used:
        raise BadInput("the index computes no feature, so there is nothing to measure")
    items = [*map(extractor.filled, items)]
    measurer = Measurer(extractor, quantile, None, progress)
    repeats = repeats or max(LEAST_REPEATS, math.ceil(TIMES / len(items)))
    part = extractor.part(used)
    curves = replace(measurer, extractor=part).curves(items, repeats, SEED)
    package = _with_curves(package, curves, extractor, part)
    rows = np.stack([extractor.extract(item, features=used) for item in items])
    owners = package.owners
    whole, own = np.unique(owners, return_inverse=True)
    named = {
        str(row): partial(package.models.__getitem__, row) for row in whole.tolist()
    }
    seconds, measured = measurer.models(named, rows)
    model_costs = seconds[own] * weights["s"]
    # so few rows cannot show how soon a schedule stops: its share remains as it was
    high, mean = (
        _shares(part, package.checked_s) for part in (package.model_s, package.mean_s)
    )
    meta = {**package.meta, "measured": curves.measured.joined(measured).facts()}
    if meta.get("samples"):
        carried = [*map(extractor.filled, carried_items(index))]
        times = measurer.machine_times(carried, package.whole_models, used)
        meta["pace"] = times.facts()
    checks = exit_costs(package.margins, package.fallbacks, model_costs)
    package = replace(
        package,
        model_s=high * model_costs,
        whole_s=model_costs if package.early_exits else package.whole_s,
        mean_s=mean * model_costs if package.early_exits else package.mean_s,
        meta=meta,
    )
    return Index.from_candidates(
        cost_curves(package.costs, package.masks, package.model_s, checks),
        index.qualities,
        index.sizes,
        package,
    )


def _with_curves(
    package: Package, curves: Curves, extractor: Extractor, part: Extractor
) -> Package:
    """Replace the curves of the features and steps of `part`, a part of `extractor`."""
    old = package.costs
    new = curves.weighed(part, package.meta.get("weights", {"s": 1.0}))
    features, steps = [*package.used], [*map(extractor.steps.index, part.steps)]
    tables = [
        _replaced(old.feature_coefficients, new.feature_coefficients, features),
        _replaced(old.step_coefficients, new.step_coefficients, steps),
        _replaced(np.zeros((1, len(old.overhead))), new.overhead[np.newaxis], [0]),
    ]
    m = len(extractor.features)
    places = features + [m + step for step in steps]
    every = np.ones(m + len(extractor.steps))
    typical = package.typical if len(package.typical) else every
    facts = np.array(package.meta.get("curves") or [None] * len(every), object)
    facts[places] = curves.facts(part)
    typical = typical.copy()
    typical[places] = curves.typical
    return replace(
        package,
        costs=CostTable(tables[0], tables[1], old.needs, tables[2][0]),
        typical=typical,
        overhead_s=float(tables[2][0, 0]),
        meta=package.meta | {"curves": [] if None in facts else facts.tolist()},
    )


def _replaced(old: Floats, new: Floats, rows: Sequence[int]) -> Floats:
    """Replace some rows of coefficients, of which either table may have more."""
    made = np.zeros((len(old), max(old.shape[1], new.shape[1])))
    made[:, : old.shape[1]] = old
    made[rows] = 0.0
    made[rows, : new.shape[1]] = new
    return made


def _shares(
    part_s: NDArray[np.float64], whole_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return `part_s / whole_s` (C,), or ones where this ratio is undefined."""
    ones = np.ones(len(whole_s))
    if not len(part_s):
        return ones
    return np.divide(part_s, whole_s, ones, where=whole_s > 0)


def _package(index: Index) -> Package:
    if index.package is None:
        raise BadInput(
            "bare candidates have no features to measure: this index was made of "
            "cost curves and qualities alone; `polydom build` makes one of data"
        )
    return index.package
