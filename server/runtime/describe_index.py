"""What there is to say of an index that is served."""

import msgspec
from msgspec import UNSET, UnsetType

from polydom.features.items import SIZE_NAMES
from polydom.indexer.index.built_facts import BuiltSchedule, MetaFacts, exits_of
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredFeature
from polydom.models.trees.self_test import TRUST

from ..engine.loading import package_of
from ..schema.facts import (
    ColumnFacts,
    ExitFacts,
    FeatureFacts,
    IndexFacts,
    MeasuredFacts,
    PlanExitFacts,
    Rescaling,
    ScheduleFacts,
    SetFacts,
)

WORDS = 100  # of a column that are listed
NOT_RESCALED = Rescaling("off")


def describe_index(
    index: Index,
    rescaling: Rescaling = NOT_RESCALED,
    drift: float = 1.0,
    *,
    shows_items: bool = False,
) -> IndexFacts:
    """Say what an index answers with, and with what costs.

    `shows_items` tells whether what comes from single training items may be shown: how
    many samples there are, and the words of columns.
    """
    package = package_of(index)
    qualities = index.qualities.tolist()
    accuracies = [index.accuracy(row) for row in range(len(qualities))]
    names = tuple(map(package.names, range(len(qualities))))
    best = max(range(len(qualities)), key=qualities.__getitem__)
    schedules = read_schedules(package)
    prior = package.masks.tolist().index(0)
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
            )
            for row in sorted({prior, *index.lookup.rows.tolist()})
        ],
        rescaling=rescaling,
        drift=drift,
        kernels=TRUST.kernels,
        exits=read_exits(package, names),
        quantile=quantile_of(package),
        samples=len(package.meta.get("samples", [])) if shows_items else 0,
        measured=_read_measured(package),
    )


def quantile_of(package: Package) -> float:
    """Share of items that keep to the costs."""
    return float(package.meta.get("quantile", MetaFacts().quantile))


def _columns(
    feature: StoredFeature, shows_items: bool
) -> list[ColumnFacts] | UnsetType:
    """Say which columns a feature reads, where it is one of a record."""
    stored = feature.columns
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
    """Read what a build reported of its schedules, by row.

    Of seconds, what models take is the package's, which knows of other machines.
    """
    exits = exits_of(package.meta)
    return {
        plan.row: _with_times(_read_schedule(plan.schedule), package, plan.row)
        for plan in (exits.plans if exits else ())
        if plan.schedule is not None
    }


def _read_schedule(told: BuiltSchedule) -> ScheduleFacts:
    return ScheduleFacts(*msgspec.structs.astuple(told))


def _with_times(facts: ScheduleFacts, package: Package, row: int) -> ScheduleFacts:
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
    """Read what a build reported of its exits; None where there are none.

    `names` (C,) are the features of each candidate's set.
    """
    built = exits_of(package.meta)
    if built is None or not built.plans:
        return None
    if not (package.margins or any(plan.schedule for plan in built.plans)):
        return None
    plans = [
        PlanExitFacts(names[plan.row], plan.early, plan.saved, plan.changed)
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
    )


def _read_measured(package: Package) -> MeasuredFacts | None:
    """Read how busy the machine was that costs were measured on; None if unsaid."""
    told = package.meta.get("measured")
    return None if told is None else msgspec.convert(told, MeasuredFacts)
