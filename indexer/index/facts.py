"""Facts about an index, as data: `facts_of`, and the skyline at a size."""

from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from polydom.features.costs.polynomials import cost_at
from polydom.features.items import Kind
from polydom.features.sizes import Size, read_size

from .fetches.fetch_facts import ToldFetches, fetches_of
from .index import Index
from .network_facts import ToldNetwork, networks_of
from .package import mean_costs
from .quality import Task, task_of

SIZES = 4  # sizes whose skylines are among the facts


class SkylineSet(msgspec.Struct):
    """One candidate on a skyline."""

    row: int  # The candidate's number in the index
    # `cost` and `mean_cost`: the cost that a budget has to cover, and the cost on
    # average, which early exits make smaller; in the skyline's unit
    cost: float
    mean_cost: float
    quality: float  # By the index's measure, in [0, 1]
    accuracy: float | None  # Share of right answers; None if answers are numbers
    features: list[str]  # Names, in computing order
    # Base models, in the order of the schedule, with which the candidate answers; 0 if
    # its model is evaluated whole
    base_models: int = 0


class SkylineFacts(msgspec.Struct):
    """The candidates on the skyline of one size, by ascending cost."""

    size: Size
    unit: str  # "us" for times, else the index's unit of cost
    measure: str
    skyline: list[SkylineSet]


class Facts(msgspec.Struct, kw_only=True):
    """All facts about an index; those of a package are unset if there is none."""

    version: str  # Checksum of the index's file; "" before it is saved
    sizes: tuple[Size, Size]  # The smallest and the largest item size
    candidates: int  # Number of feature sets kept
    task: Task
    measure: str
    # `breakpoints` and `cells`: number of parts that sizes are divided into; one of the
    # two is set
    breakpoints: int | UnsetType = UNSET
    cells: int | UnsetType = UNSET
    skylines: list[SkylineFacts]  # At a few sizes from the smallest to the largest
    kind: Kind | UnsetType = UNSET
    labels: tuple[str, ...] | UnsetType = UNSET
    coverage: float | UnsetType | None = UNSET
    features: list[str] | UnsetType = UNSET
    # By feature: the number of its terms, and of the texts that taught them
    learned: dict[str, dict[str, Any]] | UnsetType = UNSET
    networks: list[ToldNetwork] | UnsetType = UNSET  # If there are any
    # Calls that bring columns of records, if there are any
    fetches: ToldFetches | UnsetType = UNSET
    # Names of each candidate's features, in computing order
    sets: list[tuple[str, ...]] | UnsetType = UNSET
    # Of each candidate, the class and the score from which it is chosen, if this need
    # not be the class with the larger score
    thresholds: list[dict[str, float] | None] | UnsetType = UNSET
    # Microseconds that every plan takes in addition to its features
    overhead_us: float | UnsetType = UNSET
    # True if answers by models that stop early have scores; see `Package.scores_early`
    scores_early: bool | UnsetType = UNSET
    # The package's `meta`, as `MetaFacts` reads it, without items and single times
    build: dict[str, Any] | UnsetType = UNSET
    # Seconds of each stage of the build that has just ended
    stages_s: dict[str, float] | UnsetType = UNSET


def facts_of(index: Index) -> Facts:
    """Return all facts about an index, as data."""
    measure, parts = measure_of(index), index.lookup.facts()
    facts = Facts(
        version=index.version,
        sizes=index.sizes,
        candidates=len(index.qualities),
        task=task_of(measure),
        measure=measure,
        breakpoints=parts.get("breakpoints", UNSET),
        cells=parts.get("cells", UNSET),
        skylines=skylines_of(index, SIZES),
    )
    package = index.package
    if package is None:
        return facts
    return msgspec.structs.replace(
        facts,
        kind=package.kind,
        labels=package.labels,
        coverage=package.coverage,
        features=[feature.name for feature in package.features],
        learned={
            feature.name: msgspec.structs.asdict(feature.learned)
            for feature in package.features
            if feature.learned is not UNSET
        },
        networks=networks_of(package.networks, package.features) or UNSET,
        fetches=fetches_of(index) or UNSET,
        sets=[package.names(row) for row in range(len(package.masks))],
        thresholds=[*package.thresholds()],
        overhead_us=package.overhead_s * 1e6,
        scores_early=package.scores_early,
        build=_shortened(package.meta),
    )


def _shortened(meta: dict[str, Any]) -> dict[str, Any]:
    """Return `meta` without sample items and without the measured times of curves."""
    short = {key: value for key, value in meta.items() if key != "samples"}
    if "curves" in meta:
        short["curves"] = [
            {key: value for key, value in curve.items() if key != "measured"}
            for curve in meta["curves"]
        ]
    return short


def measure_of(index: Index) -> str:
    """Return the name of an index's measure of quality, such as "accuracy"."""
    return index.package.measure if index.package else "accuracy"


def skylines_of(index: Index, count: int) -> list[SkylineFacts]:
    """Return facts about the skylines at up to `count` sizes, smallest size first."""
    means = mean_coefficients(index)
    low, high = index.sizes
    if low == high:
        return [skyline_at(index, means, low)]
    sizes = np.geomspace(low, high, count).tolist()
    return [skyline_at(index, means, read_size(size)) for size in sizes]


def mean_coefficients(index: Index) -> NDArray[np.float64]:
    """Return the cost curves (C, T) of candidates, averaged over early exits."""
    if index.package is None:
        return index.coefficients
    return mean_costs(index.package, index.coefficients)


def skyline_at(index: Index, means: NDArray[np.float64], size: Size) -> SkylineFacts:
    """Return facts about the skyline at one size.

    `means` is the result of `mean_coefficients`.
    """
    package = index.package
    unit = str(package.meta.get("unit", "s")) if package else "s"
    factor = 1e6 if unit == "s" else 1.0
    counts = package.base_models if package else []
    return SkylineFacts(
        size,
        "us" if unit == "s" else unit,
        measure_of(index),
        [
            SkylineSet(
                row,
                index.cost_s(row, size) * factor,
                cost_at(means[row].tolist(), size) * factor,
                float(index.qualities[row]),
                index.accuracy(row),
                list(package.names(row)) if package else [],
                counts[row] if package else 0,
            )
            for row in index.skyline(size).tolist()
        ],
    )
