"""Describes a served index for responses: its feature sets, early exits and costs."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from polydom.features.items import SIZE_NAMES
from polydom.features.sizes import Size
from polydom.indexer.index.built_facts import (
    BuiltCurve,
    BuiltSchedule,
    BuiltScores,
    MetaFacts,
    exits_of,
)
from polydom.indexer.index.fetches.fetch_facts import fetches_of
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredFeature
from polydom.models.trees.self_test import TRUST

from ..engine.loading import package_of
from ..schema.facts import (
    ClassExitFacts,
    ColumnFacts,
    CurvesFacts,
    ExitFacts,
    FeatureFacts,
    FetchFacts,
    ForecastFacts,
    IndexFacts,
    MeasuredFacts,
    PartFacts,
    PlanExitFacts,
    Rescaling,
    ScheduleFacts,
    ScoreFacts,
    SetFacts,
    WaitFacts,
)

WORDS = 100  # most words of a column in a description
POINTS = 480  # most measured times of a curve in a description
T = TypeVar("T")
NOT_RESCALED = Rescaling("off")


def describe_index(
    index: Index,
    rescaling: Rescaling = NOT_RESCALED,
    drift: float = 1.0,
    *,
    shows_items: bool = False,
) -> IndexFacts:
    """Return the facts about an index that `GET /v1/index` shows.

    `drift` is the ratio of measured to predicted times. If `shows_items` is False,
    the words that occur in columns are left out, and the number of samples is 0.
    """
    package = package_of(index)
    qualities = index.qualities.tolist()
    accuracies = [index.accuracy(row) for row in range(len(qualities))]
    names = tuple(map(package.names, range(len(qualities))))
    best = max(range(len(qualities)), key=qualities.__getitem__)
    schedules, thresholds = read_schedules(package), package.thresholds()
    told = fetches_of(index)
    prior, counts = package.masks.tolist().index(0), package.base_models
    return IndexFacts(
        version=index.version,
        kind=package.kind,
        unit=str(package.meta.get("unit", "s")),
        task=package.task,
        measure=package.measure,
        labels=package.labels,
        size=SIZE_NAMES[package.kind][index.pairs],
        smallest_size=index.sizes[0],
        largest_size=index.sizes[1],
        quality=qualities[best],
        accuracy=accuracies[best],
        coverage=package.coverage,
        features=[
            FeatureFacts(one.name, one.width, _columns(one, shows_items))
            for one in package.features
        ],
        sets=[
            SetFacts(
                names[row],
                qualities[row],
                accuracies[row],
                index.coefficients[row].tolist(),
                schedules.get(row),
                counts[row] or UNSET,
                thresholds[row],
            )
            for row in sorted({prior, *index.lookup.rows.tolist()})
        ],
        rescaling=rescaling,
        drift=drift,
        kernels=TRUST.kernels,
        exits=read_exits(package, names),
        quantile=quantile_of(package),
        samples=len(package.meta.get("samples", [])) if shows_items else 0,
        measured=msgspec.convert(package.meta.get("measured"), MeasuredFacts | None),
        fetches=UNSET if told is None else _as(list[FetchFacts], told.fetches),
        waits=UNSET if told is None else _as(list[WaitFacts], told.budgets),
    )


def _as(kind: type[T], told: Any) -> T:
    return msgspec.convert(told, kind, from_attributes=True)


def quantile_of(package: Package) -> float:
    """Return the share of items whose true cost is at most the predicted cost."""
    return float(package.meta.get("quantile", MetaFacts().quantile))


def _columns(
    feature: StoredFeature, shows_items: bool
) -> list[ColumnFacts] | UnsetType:
    """Return the record's columns that a feature reads; UNSET if it reads none."""
    stored = feature.columns
    if feature.fetched is not UNSET:
        return UNSET
    if stored is None:
        return [ColumnFacts(name, "text") for name in feature.reads or ()] or UNSET
    words, dates = stored.vocabularies or {}, stored.dates or {}
    return [
        ColumnFacts(
            name,
            "words" if name in words else "date" if name in dates else "number",
            words[name][:WORDS] if shows_items and name in words else UNSET,
        )
        for name in stored.columns
    ]


def read_schedules(package: Package) -> dict[int, ScheduleFacts]:
    """Map each row of the index whose model may stop early to facts about the model.

    If the index counts time, the facts include times on the serving machine.
    """
    exits = exits_of(package.meta)
    return {
        plan.row: _with_times(plan.schedule, package, plan.row)
        for plan in (exits.plans if exits else ())
        if plan.schedule is not None
    }


def _with_times(told: BuiltSchedule, package: Package, row: int) -> ScheduleFacts:
    facts = ScheduleFacts(*msgspec.structs.astuple(told))
    counts_time = package.meta.get("unit", "s") == "s"
    if not (counts_time and package.early_exits):
        return facts
    seconds = package.mean_s[row], package.model_s[row], package.whole_s[row]
    mean_us, p99_us, whole_us = (float(one) * 1e6 for one in seconds)
    return msgspec.structs.replace(
        facts, mean_us=mean_us, p99_us=p99_us, whole_us=whole_us
    )


def read_exits(
    package: Package, names: tuple[tuple[str, ...], ...]
) -> ExitFacts | None:
    """Return the guarantee and the savings of early exits; None without early exits.

    `names[row]` are the names of the features in row `row` of the index.
    """
    built = exits_of(package.meta)
    if built is None or not built.plans:
        return None
    if not (package.margins or any(plan.schedule for plan in built.plans)):
        return None
    plans = [
        PlanExitFacts(
            names[plan.row],
            plan.early,
            plan.saved,
            plan.changed,
            [
                ClassExitFacts(label, one.bound, one.items, one.changed)
                for label, one in zip(package.labels, plan.classes, strict=False)
            ],
            None if plan.scores is None else _score_facts(plan.scores),
        )
        for plan in built.plans
    ]
    return ExitFacts(
        alpha=built.alpha,
        confidence=built.confidence,
        fitted=built.fitted,
        calibrated=built.calibrated,
        early=sum(plan.early for plan in plans) / len(plans),
        saved=sum(plan.saved for plan in plans) / len(plans),
        plans=plans,
        alphas=dict(zip(package.labels, built.alphas, strict=False)),
        sides=built.sides,
    )


def _score_facts(built: BuiltScores) -> ScoreFacts:
    early, whole = (
        ForecastFacts(one.log_loss, one.error, one.brier)
        for one in (built.early, built.whole)
    )
    return ScoreFacts(built.items, early, whole)


def describe_curves(
    index: Index,
    rescaling: Rescaling = NOT_RESCALED,
    steps: Sequence[str] | None = None,
) -> CurvesFacts:
    """Return the cost polynomials and measured times of all features and shared steps.

    `steps` are the names of the steps; by default, the names stored with the curves.
    """
    package = package_of(index)
    costs = package.costs
    # of the features, then of the steps; None if the file does not contain them
    curves: list[BuiltCurve | None] = [*MetaFacts.read(package.meta).curves]
    curves = curves or [None] * (len(costs.needs) + len(costs.step_coefficients))
    if steps is None:
        steps = [
            f"step {place}" if curve is None else curve.name
            for place, curve in enumerate(curves[len(package.features) :], start=1)
        ]
    parts = [
        PartFacts(
            "feature",
            feature.name,
            [steps[step] for step in costs.needs[position]],
            costs.feature_coefficients[position].tolist(),
            rescaling.features.get(feature.name, 1.0),
            *_fitted(curves[position]),
        )
        for position, feature in enumerate(package.features)
    ] + [
        PartFacts(
            "step",
            name,
            [],
            costs.step_coefficients[position].tolist(),
            rescaling.steps.get(name, 1.0),
            *_fitted(curves[len(package.features) + position]),
        )
        for position, name in enumerate(steps)
    ]
    return CurvesFacts(
        version=index.version,
        unit=str(package.meta.get("unit", "s")),
        quantile=quantile_of(package),
        overhead=costs.overhead.tolist(),
        parts=parts,
    )


def _fitted(
    curve: BuiltCurve | None,
) -> tuple[list[float] | None, float | None, list[tuple[Size, float]]]:
    """Return a curve's coefficients, the share of times below it, and the times.

    The times are up to `POINTS` measured pairs (size, seconds). If nothing was
    measured, return None, None and an empty list.
    """
    if curve is None or curve.measured is None:
        return None, None, []
    found = curve.measured
    if found is UNSET:
        return curve.coefficients, curve.covered, []
    sizes: list[Size] = [
        numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])
        for numbers in zip(*found.sizes, strict=True)
    ]
    count = len(sizes)
    chosen = np.linspace(0, count - 1, min(count, POINTS)).round().astype(int)
    points = [(sizes[k], found.seconds[k]) for k in chosen.tolist()]
    return curve.coefficients, curve.covered, points
