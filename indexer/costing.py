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
from ..models.model import Model
from .cache import Cache
from .data import Dataset, make_item
from .pace import Pace, compared_models, finish, pace_of, time_features
from .pace import time_models as time_rows
from .progress import Progress, Tell
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
    sizes, seconds : (M * repeats,)
        What was measured.
    """

    name: str
    fitted: CostCurve
    sizes: NDArray[np.float64]
    seconds: Seconds
    quantile: float

    def facts(self) -> dict[str, Any]:
        """Plain data: coefficients, share covered, measured against fitted by size."""
        points = []
        distinct = np.unique(self.sizes)
        for sizes in np.array_split(distinct, min(CURVE_POINTS, len(distinct))):
            seconds = self.seconds[np.isin(self.sizes, sizes)]
            size = float(np.median(sizes))
            middle_s, high_s = np.quantile(seconds, [0.5, self.quantile]).tolist()
            points.append([size, middle_s, high_s, float(self.fitted(size))])
        fitted_s = np.asarray(self.fitted(self.sizes))
        return {
            "name": self.name,
            "coefficients": np.asarray(self.fitted.coefficients).tolist(),
            "covered": float((self.seconds <= fitted_s).mean()),
            "points": points,
        }


def measuring_items(dataset: Dataset, count: int) -> list[Item]:
    """Up to `count` items, evenly spread over the data's sizes."""
    by_size = np.argsort(dataset.sizes, kind="stable")
    chosen = np.linspace(0, len(by_size) - 1, min(count, len(by_size)))
    return [dataset.items[by_size[round(i)]] for i in chosen]


def measure_curves(
    extractor: Extractor,
    dataset: Dataset,
    costs: Costs,
    seed: int,
    *,
    cache: Cache,
    name: str,
    progress: Progress,
) -> tuple[list[Curve], list[Curve], float]:
    """Measure features, steps and overhead, or recall them; fit the curves.

    Returns
    -------
    Curves of the features, curves of the steps, seconds of overhead.
    """
    stored = cache.load(name)
    if stored is None:
        items = measuring_items(dataset, costs.items)
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
    return features, steps, float(np.quantile(arrays["overhead"], quantile))


def weigh_costs(
    extractor: Extractor,
    features: Sequence[Curve],
    steps: Sequence[Curve],
    overhead_s: float,
    weights: dict[str, float],
) -> CostTable:
    """Put measured seconds and declared costs together, in budget units.

    A feature that declares seconds is charged those instead of the measured ones.
    """
    per_second = weights.get("s", 0.0)
    degree = max(len(np.asarray(c.fitted.coefficients)) for c in (*features, *steps))
    table = np.zeros((len(features), degree))
    for row, feature, curve in zip(table, extractor.features, features, strict=True):
        declared = feature.declared or {}
        if "s" not in declared:
            measured = np.asarray(curve.fitted.coefficients)
            row[: len(measured)] = per_second * measured
        row[0] += sum(weights.get(unit, 0.0) * cost for unit, cost in declared.items())
    shared = np.zeros((len(steps), degree))
    for row, curve in zip(shared, steps, strict=True):
        measured = np.asarray(curve.fitted.coefficients)
        row[: len(measured)] = per_second * measured
    overhead = np.zeros(degree)
    overhead[0] = per_second * overhead_s
    return CostTable(table, shared, extractor.needs, overhead)


def time_models(
    models: Iterable[Model],
    values: NDArray[np.float32],
    quantile: float,
    tell: Tell,
) -> Seconds:
    """Seconds of one evaluation of each model, at a quantile over different rows.

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
    """Seconds of one evaluation on each row, but for those that were interrupted."""
    model.scores(rows[0])
    times: list[float] = []
    for row in rows:
        before, start = interruptions(), time.perf_counter()
        model.choose(row)
        model.scores(row)
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
        compared = [models[row] for row in compared_models(len(models))]
        with quiet():
            rows = [extractor.extract(item) for item in items]
            parts = finish(time_features(extractor, items, limit_s=PACE_LIMIT_S))
            evaluations = finish(time_rows(compared, rows, limit_s=PACE_LIMIT_S))
        arrays = {"parts": parts, "models": evaluations}
        cache.store(name, {}, arrays)
    else:
        arrays = stored[1]
    return pace_of(arrays["parts"], arrays["models"], len(extractor.steps))


def time_overhead(extractor: Extractor, items: Sequence[Item]) -> Seconds:
    """Seconds to read an item's header and begin on it, once per call."""
    row = np.zeros(extractor.width, np.float32)
    payloads = [item.payload for item in items]
    times = np.empty(OVERHEAD_CALLS)
    for call in range(-len(payloads), OVERHEAD_CALLS):
        start = time.perf_counter()
        extractor.begin(make_item(payloads[call % len(payloads)]), row)
        if call >= 0:
            times[call] = time.perf_counter() - start
    return times
