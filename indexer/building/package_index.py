"""The last stage of a build: combines all results in an index."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from polydom.features.costs.machine import Measured
from polydom.features.items import make_item
from polydom.features.tables.column_features import Columns

from ..index.built_facts import BuiltGaps
from ..index.file.pdx_file import MAX_HEADER_BYTES
from ..index.index import Index
from ..index.package import Package, exit_costs
from ..index.stored_features import StoredFeature
from .cache import digest
from .candidates import Candidates, expected_of, intervals_of, may_lack
from .costs.cost_curves import cost_curves
from .costs.measure_costs import MeasuredCosts
from .costs.measured_items import measuring_items
from .data.dataset import Dataset
from .describe_inputs import describe_inputs
from .exits.plan_exits import PlanExits
from .exits.rungs import Rung, add_rungs
from .features.feature_values import FeatureTable
from .features.network_features import without_unneeded
from .features.text_features import lacks
from .fetched import Fetched
from .learner_race import LearnerChoice
from .prepare import Prepared
from .training.decisions.decision import Decision
from .training.item_gains import fit_item_gains
from .training.refit import KeptModels
from .training.search.search_sets import SearchedSets
from .training.train_sets import Trainer

SAMPLES = 6
SAMPLES_BYTES = 1 << 20  # bytes of all samples, unless the first alone has more
ONLY_PRIOR = (
    "THIS INDEX HOLDS ONLY THE PRIOR: it answers every item alike, because no set of "
    "features was better by the measure of quality. Better features, another learner, "
    "or another [quality] measure is needed"
)
LARGEST_SAMPLE = MAX_HEADER_BYTES // 2


def package_index(
    data: Prepared,
    choice: LearnerChoice,
    trainer: Trainer,
    costs: MeasuredCosts,
    fetched: Fetched,
    searched: SearchedSets,
    candidates: Candidates,
    kept: KeptModels,
    exits: PlanExits,
    rungs: Sequence[Rung],
) -> Index:
    """Combine the results of all stages in an index."""
    masks, fallbacks = candidates.masks, candidates.fallbacks
    qualities, accuracies = expected_of(
        masks, candidates.qualities, data, trainer, costs
    )
    measured = candidates.measured
    if kept.measured is not None:
        measured = measured.joined(kept.measured)
    measured = costs.curves.measured.joined(measured)
    report = _report(data, choice, trainer, costs, searched, candidates)
    report |= _facts_of_kept(data, trainer, searched, candidates, kept, measured)
    if costs.weight and report["samples"]:
        report["pace"] = _pace(report["samples"], data, trainer, costs, kept, masks)
    report["exits"] = exits.facts
    report["warnings"] += fetched.warnings
    package = Package(
        kind=data.table.dataset.kind,
        labels=data.table.dataset.labels,
        features=tuple(_with_gaps(data)),
        costs=costs.table,
        masks=np.array(masks, np.uint64),
        orders=candidates.orders,
        fallbacks=fallbacks,
        models=kept.models,
        model_s=exits.model_costs,
        overhead_s=float(costs.table.overhead[0]),
        meta=report,
        margins=exits.margins,
        typical=costs.curves.typical,
        early_exits=exits.evaluators,
        whole_s=kept.model_costs if exits.evaluators else np.empty(0),
        mean_s=exits.mean_costs if exits.evaluators else np.empty(0),
        ends=exits.ends,
        learned=data.final.features.learned,
        networks=data.final.features.networks,
        measure=data.metric.name,
        accuracies=accuracies,
        intervals=intervals_of(masks, data, trainer),
        fetches=fetched.stored,
        arrivals=fetched.draws,
        gains=fit_item_gains(fetched.stored, masks, qualities, data, trainer),
    )
    package, qualities = add_rungs(package, qualities, rungs)
    package = without_unneeded(package)
    checks = exit_costs(package.margins, package.fallbacks, package.checked_s)
    curves = cost_curves(costs.table, package.masks, package.model_s, checks)
    return Index.from_candidates(curves, qualities, candidates.sizes, package)


def _with_gaps(data: Prepared) -> list[StoredFeature]:
    """Return the features, with the columns of functions that NaN occurs in."""
    tables = [data.final.values, *([data.fresh.values] if data.fresh else [])]
    stored = []
    for position, one in enumerate(data.final.features.stored):
        columns = data.final.features.extractor.columns(position)
        own = [np.isnan(values[:, columns]).any(axis=0) for values in tables]
        gaps = np.flatnonzero(np.any(own, axis=0)).tolist()
        if gaps and one.columns is None:
            one = msgspec.structs.replace(one, gaps=gaps)
        stored.append(one)
    return stored


def _report(
    data: Prepared,
    choice: LearnerChoice,
    trainer: Trainer,
    costs: MeasuredCosts,
    searched: SearchedSets,
    candidates: Candidates,
) -> dict[str, Any]:
    project, dataset = data.project, data.table.dataset
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
        "columns": msgspec.to_builtins(data.facts.columns),
        "warnings": [
            *([ONLY_PRIOR] if candidates.masks == [0] else []),
            *data.facts.warnings,
            *costs.curves.warnings(dataset.kind),
        ],
        "testing": msgspec.to_builtins(project.search),
        "quantile": project.costs.quantile,
        "curves": costs.curves.facts(data.table.features.extractor),
        "search": searched.facts,
        "remarks": trainer.remarks(sorted(searched.qualities)),
        "samples": _samples(data.table.sound()),
        "inputs": msgspec.to_builtins(describe_inputs(data)),
    }


def _facts_of_kept(
    data: Prepared,
    trainer: Trainer,
    searched: SearchedSets,
    candidates: Candidates,
    kept: KeptModels,
    measured: Measured,
) -> dict[str, Any]:
    masks = candidates.masks
    facts: dict[str, Any] = {
        "measured": measured.facts(),
        "observed": [searched.qualities[mask] for mask in masks],
        "refitted": [bool(one) for one in kept.again],
    }
    if may_lack(data):
        facts["gaps"] = msgspec.to_builtins(count_gaps(data.table))
    if data.table.dataset.numbers is not None:
        facts |= _facts_of_numbers(masks, data, trainer)
    if data.metric.classes == 2:
        facts["positive"] = data.metric.positive
    if (goal := data.metric.goal) is not None:
        named = ("least", "confidence", "beta")
        facts["goal"] = {name: getattr(goal, name) for name in named}
    decided = [trainer.decisions.get(mask, Decision()) for mask in masks]
    if any(one.fitted for one in decided):
        facts["calibration"] = [one.fitted and one.fitted.facts() for one in decided]
    if any(one.found for one in decided):
        facts["found"] = [one.found and one.found.facts() for one in decided]
    if data.metric.costs is not None:
        facts["confusion_costs"] = data.metric.costs.tolist()
    return facts


def _pace(
    samples: Sequence[Any],
    data: Prepared,
    trainer: Trainer,
    costs: MeasuredCosts,
    kept: KeptModels,
    masks: Sequence[int],
) -> dict[str, Any]:
    """Time the samples and models on this machine, so that servers can compare."""
    pair = data.project.costs.pair
    extractor = data.final.features.extractor
    served = replace(costs.measurer, extractor=extractor)
    key = digest(trainer.task.key, masks, kept.again)
    return served.machine_times(
        [extractor.filled(make_item(one, pair=pair)) for one in samples],
        kept.models,
        name=f"machine_times/{key}",
    ).facts()


def _facts_of_numbers(
    masks: Sequence[int], data: Prepared, trainer: Trainer
) -> dict[str, Any]:
    numbers = data.table.dataset.numbers
    assert numbers is not None
    weights = trainer.task.weights_of(trainer.tested)
    errors = [
        float(np.average(abs(trainer.residuals(mask)), weights=weights))
        for mask in masks
    ]
    facts = {"mean": float(numbers.mean()), "deviation": float(numbers.std())}
    coverage = data.project.quality.coverage
    return {"coverage": coverage, "numbers": {**facts, "mae": errors}}


def _samples(dataset: Dataset) -> list[Any]:
    """Choose items from small to large, with at most `SAMPLES_BYTES` in total."""
    samples: list[Any] = []
    left = SAMPLES_BYTES
    for item in measuring_items(dataset, SAMPLES):
        payload = item.payload
        sample = dict(payload) if isinstance(payload, Mapping) else payload
        size = len(msgspec.msgpack.encode(sample))
        left -= size
        if size > LARGEST_SAMPLE or (left < 0 and samples):
            break
        samples.append(sample)
    return samples


def count_gaps(table: FeatureTable) -> BuiltGaps:
    """Return how often records lacked columns and features.

    The result has, for each column that was ever empty, the share of records without
    it. It has, for each feature, the share of records that lacked all columns of the
    feature.
    """
    extractor, shares = table.features.extractor, BuiltGaps({}, {})
    for stored in table.features.stored:
        if stored.columns is not None or stored.reads is None:
            continue
        if stored.fetched is not UNSET:  # vectors, which are not among the items
            continue
        empty = np.array([lacks(table.dataset.items, name) for name in stored.reads])
        for name, own in zip(stored.reads, empty, strict=True):
            if share := float(own.mean()):
                shares.columns[name] = share
        if share := float(empty.all(axis=0).mean()):
            shares.features[stored.name] = share
    for position, feature in enumerate(extractor.features):
        if not isinstance(feature.function, Columns):
            continue
        empty = np.isnan(table.values[:, extractor.columns(position)])
        for number, name in enumerate(feature.function.sources):
            if share := float(empty[:, number].mean()):
                shares.columns[name] = share
        if share := float(empty.all(axis=1).mean()):
            shares.features[feature.name] = share
    return shares
