"""What plans cost: curves fitted to measured times, models and overhead timed."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..features.cost import CostCurve, CostTable
from ..features.extract import Extractor
from ..features.items import Item
from ..features.measure import interruptions, measure, quiet
from ..features.sizes import read_size, split_near
from ..models.model import Model
from .cache import Cache
from .data import Dataset, make_item
from .pace import Pace, compared_models, finish, pace_of, time_features
from .pace import time_models as time_rows
from .progress import Progress, Tell, skip
from .project import Costs

Seconds = NDArray[np.float64]

# Enough to place a 0.99 quantile; rows differ so that branches cannot be learnt.
MODEL_CALLS = 200
OVERHEAD_CALLS = 400
CURVE_POINTS = 3
PACE_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A cost curve beside the measurements it was fitted to.

    Attributes
    ----------
    sizes, seconds
        What was measured: (M * repeats,), sizes (M * repeats, 2) if of two numbers.
    """

    name: str
    fitted: CostCurve
    sizes: NDArray[np.float64]
    seconds: Seconds
    quantile: float

    @property
    def typical(self) -> float:
        """Median time as a share of what the curve says, above 0 and at most 1."""
        fitted_s = np.asarray(self.fitted(self.sizes))
        tells = (fitted_s > 0) & (self.seconds > 0)
        if not tells.any():
            return 1.0
        return min(float(np.median(self.seconds[tells] / fitted_s[tells])), 1.0)

    def facts(self) -> dict[str, Any]:
        """Plain data: coefficients, share covered, measured against fitted by size."""
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
            "points": points,
        }


def measuring_items(dataset: Dataset, count: int) -> list[Item]:
    """Up to `count` items, evenly spread over the data's sizes."""
    return [dataset.items[position] for position in spread_over_sizes(dataset, count)]


def spread_over_sizes(dataset: Dataset, count: int) -> list[int]:
    """Positions of up to `count` items, evenly spread over the data's sizes."""
    by_size = np.concatenate(split_near(dataset.sizes, count))
    chosen = np.linspace(0, len(by_size) - 1, min(count, len(by_size)))
    return [int(by_size[round(i)]) for i in chosen]


def measure_curves(
    extractor: Extractor,
    dataset: Dataset,
    costs: Costs,
    seed: int,
    *,
    cache: Cache,
    name: str,
    progress: Progress,
) -> tuple[list[Curve], list[Curve], CostCurve]:
    """Measure features, steps and overhead, or recall them; fit the curves.

    Returns
    -------
    Curves of the features, curves of the steps, curve of the overhead.
    """
    stored = cache.load(name)
    items = measuring_items(dataset, costs.items)
    if stored is None:
        total = len(items) * costs.repeats
        with progress.stage("measuring costs", total) as tell:
            timings = measure(
                extractor,
                items,
                repeats=costs.repeats,
                seed=seed,
                progress=lambda done, _: tell(done),
            )
        arrays = {
            "sizes": timings.sizes,
            "features": timings.feature_s,
            "steps": timings.step_s,
            "overhead": time_overhead(extractor, items),
        }
        cache.store(name, {}, arrays)
    else:
        skip(progress, "measuring costs")
        arrays = stored[1]
    sizes, quantile = np.asarray(arrays["sizes"]), costs.quantile

    def fit(label: str, seconds: Seconds) -> Curve:
        fitted = CostCurve.fit(sizes, seconds, quantile=quantile, seed=seed)
        return Curve(label, fitted, sizes, seconds, quantile)

    features = [
        fit(feature.name, arrays["features"][:, i])
        for i, feature in enumerate(extractor.features)
    ]
    steps = [
        fit(step.name, arrays["steps"][:, i]) for i, step in enumerate(extractor.steps)
    ]
    times = arrays["overhead"]
    overhead = CostCurve([np.quantile(times, quantile)], sizes.ndim)
    if sizes.ndim == 2:  # what is counted takes longer where there is more
        called = np.resize([item.size for item in items], (len(times), 2))
        overhead = CostCurve.fit(called, times, quantile=quantile, max_degree=1)
    return features, steps, overhead


def weigh_costs(
    extractor: Extractor,
    features: Sequence[Curve],
    steps: Sequence[Curve],
    overhead_curve: CostCurve,
    weights: dict[str, float],
) -> CostTable:
    """Put measured seconds and declared costs together, in budget units.

    A feature that declares seconds is charged those instead of the measured ones.
    """
    per_second = weights.get("s", 0.0)
    fitted = (*(curve.fitted for curve in (*features, *steps)), overhead_curve)
    terms = max(len(curve.coefficients) for curve in fitted)
    table = np.zeros((len(features), terms))
    for row, feature, curve in zip(table, extractor.features, features, strict=True):
        declared = feature.declared or {}
        if "s" not in declared:
            measured = np.asarray(curve.fitted.coefficients)
            row[: len(measured)] = per_second * measured
        row[0] += sum(weights.get(unit, 0.0) * cost for unit, cost in declared.items())
    shared = np.zeros((len(steps), terms))
    for row, curve in zip(shared, steps, strict=True):
        measured = np.asarray(curve.fitted.coefficients)
        row[: len(measured)] = per_second * measured
    overhead = np.zeros(terms)
    overhead[: len(overhead_curve.coefficients)] = overhead_curve.coefficients
    overhead *= per_second
    return CostTable(table, shared, extractor.needs, overhead)


def time_models(
    models: Iterable[Model],
    values: NDArray[np.float32],
    quantile: float,
    tell: Tell,
) -> Seconds:
    """Seconds that each model takes to answer, at a quantile over different rows.

    The models come one at a time: all of them together may not fit into memory.
    """
    rows = [np.ascontiguousarray(row) for row in values[:MODEL_CALLS]]
    seconds: list[float] = []
    with threadpool_limits(1):
        for model in models:
            seconds.append(float(np.quantile(_time_model(model, rows), quantile)))
            tell(len(seconds))
    return np.array(seconds)


def _time_model(model: Model, rows: Sequence[NDArray[np.float32]]) -> list[float]:
    """Seconds to answer each row as a server does, but for those interrupted."""
    model.answer(rows[0])
    times: list[float] = []
    for row in rows:
        before, start = interruptions(), time.perf_counter()
        model.answer(row)
        taken_s = time.perf_counter() - start
        if interruptions() == before or not times:
            times.append(taken_s)
    return times


def measure_pace(
    extractor: Extractor,
    items: Sequence[Item],
    models: Sequence[Model],
    *,
    cache: Cache,
    name: str,
    progress: Progress,
) -> Pace:
    """Time samples and models as a server will when it starts, or recall the times.

    Parameters
    ----------
    items
        The samples that the index carries.
    models
        Of all candidates; a few of them are timed.
    """
    stored = cache.load(name)
    if stored is None:
        with progress.stage("timing samples", None) as tell, quiet():
            arrays = time_samples(extractor, items, models, tell)
        cache.store(name, {}, arrays)
    else:
        skip(progress, "timing samples")
        arrays = stored[1]
    return pace_of(arrays["parts"], arrays["models"], len(extractor.steps))


def time_samples(
    extractor: Extractor, items: Sequence[Item], models: Sequence[Model], tell: Tell
) -> dict[str, Seconds]:
    """Time the samples' features, then a few models on them, round after round."""
    compared = [models[row] for row in compared_models(len(models))]
    rows = [extractor.extract(item) for item in items]
    parts = finish(time_features(extractor, items, limit_s=PACE_LIMIT_S))
    tell(len(parts))
    evaluations = finish(time_rows(compared, rows, limit_s=PACE_LIMIT_S))
    tell(len(parts) + len(evaluations))
    return {"parts": parts, "models": evaluations}


def time_overhead(extractor: Extractor, items: Sequence[Item]) -> Seconds:
    """Seconds to read an item's header and begin on it, once per call."""
    row = np.zeros(extractor.width, np.float32)
    payloads, pair = [item.payload for item in items], items[0].pair
    times = np.empty(OVERHEAD_CALLS)
    for call in range(-len(payloads), OVERHEAD_CALLS):
        start = time.perf_counter()
        extractor.begin(make_item(payloads[call % len(payloads)], pair=pair), row)
        if call >= 0:
            times[call] = time.perf_counter() - start
    return times
