"""What plans cost: curves fitted to measured times, models and overhead timed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..features.cost import CostCurve, CostTable
from ..features.extract import Extractor
from ..features.items import Item
from ..features.measure import DILUTED, measure, quiet
from ..features.sizes import read_size, split_near
from ..features.stopwatch import Load, Stopwatch
from ..features.strays import in_doubt, steady_quantile, strays_of
from ..models.model import Model
from .cache import Cache
from .data import Dataset
from .pace import Pace, compared_models, finish, pace_of, time_features
from .pace import time_models as time_rows
from .progress import Progress, Tell, skip
from .project import Costs
from .readers import make_item

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


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """Cost curves of all that plans are made of but models.

    Attributes
    ----------
    features, steps
        One each, in the extractor's order.
    overhead
        Of any plan.
    load
        How busy the machine was that they were measured on.
    """

    features: list[Curve]
    steps: list[Curve]
    overhead: CostCurve
    load: Load

    def weighed(self, extractor: Extractor, weights: Mapping[str, float]) -> CostTable:
        """Put them together with declared costs; see `weigh_costs`."""
        return weigh_costs(extractor, self.features, self.steps, self.overhead, weights)

    @property
    def all(self) -> list[Curve]:
        """Of features, then of steps."""
        return [*self.features, *self.steps]


def measuring_items(dataset: Dataset, count: int) -> list[Item]:
    """Up to `count` items, evenly spread over the data's sizes."""
    return [dataset.items[position] for position in spread_over_sizes(dataset, count)]


def spread_over_sizes(dataset: Dataset, count: int) -> list[int]:
    """Positions of up to `count` items, evenly spread over the data's sizes."""
    by_size = np.concatenate(split_near(dataset.sizes, count))
    chosen = np.linspace(0, len(by_size) - 1, min(count, len(by_size)))
    return [int(by_size[round(i)]) for i in chosen]


class Measured(NamedTuple):
    """Times of what plans are made of, and how busy the machine was meanwhile.

    Attributes
    ----------
    arrays
        `sizes`, `features`, `steps` and `items` as `measure` gives them, and
        `overhead`, (calls,) seconds.
    load
        What others took of the machine.
    """

    arrays: Mapping[str, NDArray[Any]]
    load: Load


def measure_curves(
    extractor: Extractor,
    dataset: Dataset,
    costs: Costs,
    seed: int,
    *,
    cache: Cache,
    name: str,
    progress: Progress,
) -> Curves:
    """Measure features, steps and overhead, or recall them; fit the curves."""
    stored = cache.load(name)
    items = measuring_items(dataset, costs.items)
    if stored is None:
        measured = measure_parts(
            extractor, items, costs.repeats, seed, costs.quantile, progress
        )
        cache.store(name, {"load": list(measured.load)}, measured.arrays)
    else:
        skip(progress, "measuring costs")
        measured = Measured(stored[1], Load(*stored[0]["load"]))
    return fit_curves(extractor, items, measured, costs.quantile, seed)


def measure_parts(
    extractor: Extractor,
    items: Sequence[Item],
    repeats: int,
    seed: int,
    quantile: float,
    progress: Progress,
) -> Measured:
    """Measure what features, steps and the overhead of some items take here."""
    watch, planned = Stopwatch(), len(items) * repeats
    with progress.stage("measuring costs", planned) as tell:

        def told(done: int, total: int) -> None:
            tell(done, None if total == planned else total - done)

        timings = measure(
            extractor,
            items,
            repeats=repeats,
            seed=seed,
            progress=told,
            quantile=quantile,
            stopwatch=watch,
        )
    arrays = {
        "sizes": timings.sizes,
        "features": timings.feature_s,
        "steps": timings.step_s,
        "items": timings.items,
        "overhead": time_overhead(extractor, items, quantile, watch),
    }
    return Measured(arrays, watch.load)


def fit_curves(
    extractor: Extractor,
    items: Sequence[Item],
    measured: Measured,
    quantile: float,
    seed: int,
) -> Curves:
    """Fit the curves to what `measure_parts` measured."""
    arrays = measured.arrays
    sizes = np.asarray(arrays["sizes"])

    def fit(label: str, seconds: Seconds) -> Curve:
        own = ~np.isnan(seconds)
        given, at, rows = seconds[own], sizes[own], np.asarray(arrays["items"])[own]
        fitted = CostCurve.fit(at, given, quantile=quantile, seed=seed, items=rows)
        return Curve(label, fitted, at, given, quantile)

    features = [
        fit(feature.name, arrays["features"][:, i])
        for i, feature in enumerate(extractor.features)
    ]
    steps = [
        fit(step.name, arrays["steps"][:, i]) for i, step in enumerate(extractor.steps)
    ]
    times = np.asarray(arrays["overhead"])
    overhead = CostCurve([steady_quantile(times, quantile)], sizes.ndim)
    if sizes.ndim == 2:  # what is counted takes longer where there is more
        called = np.resize([item.size for item in items], (len(times), 2))
        overhead = CostCurve.fit(called, times, quantile=quantile, max_degree=1)
    return Curves(features, steps, overhead, measured.load)


def weigh_costs(
    extractor: Extractor,
    features: Sequence[Curve],
    steps: Sequence[Curve],
    overhead_curve: CostCurve,
    weights: Mapping[str, float],
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


def cost_curves(
    costs: CostTable,
    masks: NDArray[np.uint64],
    model_costs: NDArray[np.float64],
    checks: NDArray[np.float64] | float = 0.0,
) -> NDArray[np.float64]:
    """Cost polynomials (C, T) of plans: features, model, and models at their exits.

    The empty set is the answer when nothing else fits, so it costs no model.
    """
    coefficients = costs.of_many(masks)
    coefficients[:, 0] += model_costs + checks
    coefficients[masks == 0] = costs.overhead
    return coefficients


def time_models(
    models: Iterable[Model],
    values: NDArray[np.float32],
    quantile: float,
    tell: Tell,
    stopwatch: Stopwatch | None = None,
) -> Seconds:
    """Seconds that each model takes to answer, at a quantile over different rows.

    The models come one at a time: all of them together may not fit into memory.
    """
    rows = [np.ascontiguousarray(row) for row in values[:MODEL_CALLS]]
    watch = stopwatch or Stopwatch()
    seconds: list[float] = []
    with threadpool_limits(1):
        for model in models:
            times = _time_model(model, rows, quantile, watch)
            seconds.append(steady_quantile(times, quantile))
            tell(len(seconds))
    return np.array(seconds)


def _time_model(
    model: Model, rows: Sequence[NDArray[np.float32]], quantile: float, watch: Stopwatch
) -> Seconds:
    """Seconds to answer row after row, by the one call that a server makes."""
    model.answer(rows[0])

    def time_one(call: int) -> float:
        return watch.time(model.answer, rows[call % len(rows)])

    return time_calls(time_one, MODEL_CALLS, quantile)


def time_calls(
    time_one: Callable[[int], float], count: int, quantile: float
) -> Seconds:
    """Time calls 0, 1, ... `count`, and more while the tail of their times is in doubt.

    As `measure` does: until it is clear whether times far above the others are fewer
    than the quantile leaves above it.
    """
    times = np.array([time_one(call) for call in range(count)])
    for _ in range(DILUTED):
        usual = np.full(len(times), np.median(times))
        strays = int(strays_of(times, usual, quantile).sum())
        if not in_doubt(strays, len(times), quantile):
            break
        more = [time_one(call) for call in range(len(times), len(times) + count)]
        times = np.concatenate([times, more])
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


def time_overhead(
    extractor: Extractor, items: Sequence[Item], quantile: float, watch: Stopwatch
) -> Seconds:
    """Seconds to read an item's header and begin on it, once per call."""
    row = np.zeros(extractor.width, np.float32)
    payloads, pair = [item.payload for item in items], items[0].pair

    def begin(payload: Any) -> None:
        extractor.begin(make_item(payload, pair=pair), row)

    for payload in payloads:
        begin(payload)
    return time_calls(
        lambda call: watch.time(begin, payloads[call % len(payloads)]),
        OVERHEAD_CALLS,
        quantile,
    )
