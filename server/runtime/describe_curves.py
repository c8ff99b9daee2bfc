"""What there is to say of the costs that an index is made of."""

from collections.abc import Sequence

import numpy as np
from msgspec import UNSET

from polydom.features.sizes import Size
from polydom.indexer.index.built_facts import BuiltCurve, MetaFacts
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package

from ..engine.loading import package_of
from ..schema.facts import CurvesFacts, PartFacts, Rescaling
from .describe_index import NOT_RESCALED, quantile_of

POINTS = 480  # measured times of a curve that are given


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


def _read_curves(package: Package) -> list[BuiltCurve | None]:
    """Read the build's curves, of features, then of steps; None where unsaid."""
    count = len(package.features) + len(package.costs.step_coefficients)
    return [*MetaFacts.read(package.meta).curves] or [None] * count


def _fitted(
    curve: BuiltCurve | None,
) -> tuple[list[float] | None, float | None, list[tuple[Size, float]]]:
    """Return the fitted polynomial, the share that it covers, and what was measured."""
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
