"""What there is to say of the costs that an index is made of."""

import sys
from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from polydom.features.sizes import Size
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package

from ..engine.loading import package_of
from ..schema.facts import CurvesFacts, PartFacts, Rescaling
from .describe_index import NOT_RESCALED, quantile_of

POINTS = 480  # measured times of a curve that are given

FINITE = sys.float_info.max  # JSON has no larger numbers
Seconds = Annotated[float, msgspec.Meta(ge=0, le=FINITE)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=FINITE)]


class _Measured(msgspec.Struct):
    """Sizes, one list for each number that they are of, and what each took."""

    sizes: Annotated[list[list[Positive]], msgspec.Meta(min_length=1, max_length=2)]
    seconds: list[Seconds]


class _Curve(msgspec.Struct):
    """What the build wrote down of one feature or step.

    `measured` is None where seconds are declared, absent in older files.
    """

    name: str
    coefficients: Annotated[list[Seconds], msgspec.Meta(min_length=1)]
    covered: Annotated[float, msgspec.Meta(ge=0, le=1)]
    measured: _Measured | UnsetType | None = UNSET


def describe_curves(
    index: Index,
    rescaling: Rescaling = NOT_RESCALED,
    steps: Sequence[str] | None = None,
) -> CurvesFacts:
    """Say what each feature and step costs, and what that was fitted to.

    `steps` are the names of the shared steps; without them, those of the build.
    """
    package = package_of(index)
    costs, curves = package.costs, _read_curves(package)
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
            *_fitted(curves[position], index.pairs),
        )
        for position, feature in enumerate(package.features)
    ] + [
        PartFacts(
            "step",
            name,
            [],
            costs.step_coefficients[position].tolist(),
            rescaling.steps.get(name, 1.0),
            *_fitted(curves[len(package.features) + position], index.pairs),
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


def _read_curves(package: Package) -> list[_Curve | None]:
    """Read the build's curves, of features, then of steps; None where unsaid."""
    names = [feature.name for feature in package.features]
    count = len(names) + len(package.costs.step_coefficients)
    try:
        curves = msgspec.convert(package.meta.get("curves"), list[_Curve])
    except msgspec.ValidationError:
        return [None] * count
    if len(curves) != count or [one.name for one in curves[: len(names)]] != names:
        return [None] * count
    return [*curves]


def _fitted(
    curve: _Curve | None, pairs: bool
) -> tuple[list[float] | None, float | None, list[tuple[Size, float]]]:
    """Return the fitted polynomial, the share that it covers, and what was measured."""
    if curve is None or curve.measured is None:
        return None, None, []
    found = curve.measured
    if found is UNSET or len(found.sizes) != 1 + pairs:
        return curve.coefficients, curve.covered, []
    if any(len(numbers) != len(found.seconds) for numbers in found.sizes):
        return curve.coefficients, curve.covered, []
    sizes: list[Size] = [
        numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])
        for numbers in zip(*found.sizes, strict=True)
    ]
    count = len(sizes)
    chosen = np.linspace(0, count - 1, min(count, POINTS)).round().astype(int)
    points = [(sizes[k], found.seconds[k]) for k in chosen.tolist()]
    return curve.coefficients, curve.covered, points
