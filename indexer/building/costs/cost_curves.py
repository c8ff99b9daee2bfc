"""Cost curves that a build fits to measured times, and plans' costs from the curves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostCurve, CostTable
from polydom.features.costs.machine import Measured
from polydom.features.extract import Extractor
from polydom.features.items import Kind
from polydom.features.sizes import read_size

Seconds = NDArray[np.float64]

CURVE_POINTS = 3
# A feature that waits for at least MOSTLY of its time is warned of, if it takes at
# least WORTH_S: a shorter wait holds a thread no longer than computing does.
MOSTLY, WORTH_S = 0.5, 2e-4


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A cost curve, and the measured times that it was fitted to."""

    name: str
    fitted: CostCurve
    # (M * repeats,) or (M * repeats, 2): Sizes of the items of all measurements
    sizes: NDArray[np.float64]
    seconds: Seconds  # (M * repeats,): Measured times
    quantile: float
    waits: float = 0.0  # Share of its time that it waits of its own accord, in [0, 1]

    @property
    def typical(self) -> float:
        """Median of measured time divided by the curve's value, capped at 1."""
        fitted_s = np.asarray(self.fitted(self.sizes))
        tells = (fitted_s > 0) & (self.seconds > 0)
        if not tells.any():
            return 1.0
        return min(float(np.median(self.seconds[tells] / fitted_s[tells])), 1.0)

    @property
    def waiting(self) -> bool:
        """True if the function waits for most of its time, and for long."""
        return self.waits >= MOSTLY and float(np.median(self.seconds)) >= WORTH_S

    def facts(self) -> dict[str, Any]:
        """Return plain data of the curve, to be stored in an index.

        The data are the curve's name and coefficients, the share of the measured times
        that the curve covers, the share of its time that the function waits, measured
        and predicted times at a few sizes, and all measurements.
        """
        points = []
        distinct, own = np.unique(self.sizes, axis=0, return_inverse=True)
        volumes = distinct.reshape(len(distinct), -1).prod(axis=1)
        by_volume = np.argsort(volumes, kind="stable")
        for near in np.array_split(by_volume, min(CURVE_POINTS, len(distinct))):
            seconds = self.seconds[np.isin(own.ravel(), near)]
            size = read_size(np.median(distinct[near], axis=0).tolist())
            middle_s, high_s = np.quantile(seconds, [0.5, self.quantile]).tolist()
            points.append([size, middle_s, high_s, self.fitted.at(size)])
        fitted_s = np.asarray(self.fitted(self.sizes))
        return {
            "name": self.name,
            "coefficients": np.asarray(self.fitted.coefficients).tolist(),
            "covered": float((self.seconds <= fitted_s).mean()),
            "waits": self.waits,
            "points": points,
            "measured": {
                "sizes": np.atleast_2d(self.sizes.T).tolist(),
                "seconds": self.seconds.tolist(),
            },
        }


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """Cost curves of a project's features and steps, and of starting an extraction."""

    features: list[Curve]  # Curves of the features, in the extractor's order
    steps: list[Curve]  # Curves of the steps, in the extractor's order
    overhead: CostCurve  # Curve of reading an item and starting its extraction
    measured: Measured  # Machine of the measurement, and how busy it was

    @property
    def all(self) -> list[Curve]:
        """All curves of features, followed by all curves of steps."""
        return [*self.features, *self.steps]

    @property
    def typical(self) -> NDArray[np.float64]:
        """The ratio `typical` of each curve in `all`."""
        return np.array([curve.typical for curve in self.all])

    def facts(self, extractor: Extractor) -> list[dict[str, Any]]:
        """Return plain data of each curve in `all`.

        If a feature's seconds are declared, its measurements are None.
        """
        facts = [curve.facts() for curve in self.all]
        for own, feature in zip(facts, extractor.features, strict=False):
            if "s" in (feature.declared or {}):
                own["measured"] = None
        return facts

    def warnings(self, kind: Kind) -> list[str]:
        """Return a warning for each feature and step that mostly waits.

        `kind` is the kind of the items.
        """
        parts = [("feature", one) for one in self.features]
        parts += [("step", one) for one in self.steps]
        return [_says_it_waits(part, one, kind) for part, one in parts if one.waiting]

    def weighed(self, extractor: Extractor, weights: Mapping[str, float]) -> CostTable:
        """Return a table of costs in budget units, from measured and declared costs.

        Declared seconds of a feature replace its measured seconds. `weights` maps each
        unit of cost, such as "s" or "usd", to the number of budget units that it is
        worth.
        """
        fitted = [*(curve.fitted for curve in self.all), self.overhead]
        table = np.zeros((len(fitted), max(len(c.coefficients) for c in fitted)))
        for row, curve in zip(table, fitted, strict=True):
            measured = np.asarray(curve.coefficients)
            row[: len(measured)] = weights.get("s", 0.0) * measured
        features, steps = np.split(table[:-1], [len(self.features)])
        for row, feature in zip(features, extractor.features, strict=True):
            if "s" in feature.declared:
                row[:] = 0.0
        nodes = [*extractor.features, *extractor.steps]
        for row, node in zip(table, nodes, strict=False):
            row[0] += sum(weights.get(unit, 0) * c for unit, c in node.declared.items())
        return CostTable(features, steps, extractor.needs, table[-1])


def _says_it_waits(part: str, curve: Curve, kind: Kind) -> str:
    whole_s = float(np.median(curve.seconds))
    said = (
        f"{part} {curve.name!r} waits: {1e3 * curve.waits * whole_s:.3g} of the "
        f"{1e3 * whole_s:.3g} ms that it takes. While it waits, it holds the server's "
        f"computing thread, so one process answers at most {1 / whole_s:.0f} requests "
        "a second with it"
    )
    if kind != "record":
        return said
    return (
        f"{said}. Columns that must be fetched belong in [fetches] "
        "(docs/how-to/fetch.md): waiting for a fetch holds no thread"
    )


def cost_curves(
    costs: CostTable,
    masks: NDArray[np.uint64],
    model_costs: NDArray[np.float64],
    checks: NDArray[np.float64] | float = 0.0,
) -> NDArray[np.float64]:
    """Return the cost polynomials (C, T) of plans, one plan for each feature set.

    Each row has the T coefficients of a polynomial of the item size. A plan's cost is
    the cost of its features, plus `model_costs` (C,) for its model, plus `checks` (C,)
    for the models at its checkpoints. `masks` (C,) are the feature sets. The empty set
    costs only the overhead.
    """
    coefficients = costs.of_many(masks)
    coefficients[:, 0] += model_costs + checks
    coefficients[masks == 0] = costs.overhead  # the answer when nothing else fits
    return coefficients
