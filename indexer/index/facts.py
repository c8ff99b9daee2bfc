"""What an index says of itself, as plain data: `facts_of`, and skylines at a size."""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.polynomials import cost_at
from polydom.features.sizes import Size, read_size

from .index import Index
from .mean_costs import mean_costs
from .quality import task_of

SKYLINE_SIZES = 4  # sizes whose skylines are among the facts


def facts_of(index: Index) -> dict[str, Any]:
    """Describe an index as plain data, the same facts that `show` prints."""
    low, high = index.sizes
    means = mean_coefficients(index)
    facts: dict[str, Any] = {
        "version": index.version,
        "sizes": [low, high],
        "candidates": len(index.qualities),
        "task": task_of(measure_of(index)),
        "measure": measure_of(index),
        **index.lookup.facts(),
        "skylines": [
            skyline_facts(index, means, n)
            for n in sizes_between(low, high, SKYLINE_SIZES)
        ],
    }
    if index.package is not None:
        package = index.package
        facts |= {
            "kind": package.kind,
            "labels": list(package.labels),
            "coverage": package.coverage,
            "features": [feature.name for feature in package.features],
            "learned": {
                feature.name: msgspec.structs.asdict(feature.learned)
                for feature in package.features
                if feature.learned is not msgspec.UNSET
            },
            "sets": [list(package.names(row)) for row in range(len(package.masks))],
            "overhead_us": package.overhead_s * 1e6,
            "build": _shortened(package.meta),
        }
    return facts


def _shortened(meta: dict[str, Any]) -> dict[str, Any]:
    """Leave out items, and every single time that was measured."""
    short = {key: value for key, value in meta.items() if key != "samples"}
    if "curves" in meta:
        short["curves"] = [_without_times(curve) for curve in meta["curves"]]
    return short


def _without_times(curve: dict[str, Any]) -> dict[str, Any]:
    """Leave out a curve's measured times."""
    return {key: value for key, value in curve.items() if key != "measured"}


def mean_coefficients(index: Index) -> NDArray[np.float64]:
    """Cost curves of what candidates take on average, early exits counted."""
    if index.package is None:
        return index.coefficients
    return mean_costs(index.package, index.coefficients)


def measure_of(index: Index) -> str:
    """Return what quality is."""
    return index.package.measure if index.package else "accuracy"


def unit_of(index: Index) -> tuple[float, str]:
    """Return the factor and the name to show costs in: seconds as microseconds."""
    unit = str(index.package.meta.get("unit", "s")) if index.package else "s"
    return (1e6, "us") if unit == "s" else (1.0, unit)


def skyline_facts(
    index: Index, means: NDArray[np.float64], size: Size
) -> dict[str, Any]:
    """List what is worth buying at one size, by ascending cost; `means` on average."""
    rows = index.skyline(size).tolist()
    package = index.package
    factor, unit = unit_of(index)
    return {
        "size": size,
        "unit": unit,
        "measure": measure_of(index),
        "skyline": [
            {
                "row": row,
                "cost": index.cost_s(row, size) * factor,
                "mean_cost": cost_at(means[row].tolist(), size) * factor,
                "quality": float(index.qualities[row]),
                "accuracy": index.accuracy(row),
                "features": list(package.names(row)) if package else [],
            }
            for row in rows
        ],
    }


def sizes_between(low: Size, high: Size, count: int) -> list[Size]:
    """Return a few sizes that show how the skyline changes, each once."""
    if low == high:
        return [low]
    return [read_size(n) for n in np.geomspace(low, high, count).tolist()]
