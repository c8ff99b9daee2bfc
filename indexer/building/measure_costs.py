"""What plans cost: curves fitted to measured times, models and overhead timed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostCurve, CostTable
from polydom.features.costs.machine import Machine, Measured
from polydom.features.costs.measure import DILUTED, measure, quiet
from polydom.features.costs.outliers import (
    outliers_in_doubt,
    outliers_of,
    steady_quantile,
)
from polydom.features.costs.stopwatch import Load, Stopwatch
from polydom.features.extract import Extractor
from polydom.features.items import Item, make_item
from polydom.features.sizes import read_size, split_near
from polydom.features.threads import one_thread
from polydom.models.scoring.model import Model

from ..index.machine_speed import (
    MachineTimes,
    compared_models,
    finish,
    medians_of,
    time_features,
    time_models,
)
from ..progress import OnProgress, Progress, skip
from .cache import Cache, Read
from .data.dataset import Dataset
from .text_features import text_lengths

Seconds = NDArray[np.float64]
Times = tuple[dict[str, Any], Mapping[str, NDArray[Any]]]
Answering = Callable[[NDArray[np.float32]], object]  # a full row

# Enough to place a 0.99 quantile; rows differ so that branches cannot be learnt.
MODEL_CALLS = 200
OVERHEAD_CALLS = 400
CURVE_POINTS = 3
LIMIT_S = 10.0  # of timing samples; and as much for models
COMPARED = 500  # rows that a model answers whole and by its schedule


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
        """Plain data: coefficients, share covered, measured against fitted by size.

        And all that was measured: of sizes one list for each number that they are of.
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
            "points": points,
            "measured": {
                "sizes": np.atleast_2d(self.sizes.T).tolist(),
                "seconds": self.seconds.tolist(),
            },
        }


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """Cost curves of all that plans are made of but models.

    Attributes
    ----------
    features, steps
        One each, in the extractor's order.
    measured
        How busy the machine was that they were measured on, and which it was.
    """

    features: list[Curve]
    steps: list[Curve]
    overhead: CostCurve
    measured: Measured

    @property
    def all(self) -> list[Curve]:
        """Of features, then of steps."""
        return [*self.features, *self.steps]

    @property
    def typical(self) -> NDArray[np.float64]:
        """The `Curve.typical` of all."""
        return np.array([curve.typical for curve in self.all])

    def facts(self, extractor: Extractor) -> list[dict[str, Any]]:
        """Plain data of all; nothing was measured of what declares its seconds."""
        facts = [curve.facts() for curve in self.all]
        for own, feature in zip(facts, extractor.features, strict=False):
            if "s" in (feature.declared or {}):
                own["measured"] = None
        return facts

    def weighed(self, extractor: Extractor, weights: Mapping[str, float]) -> CostTable:
        """Put measured seconds and declared costs together, in budget units.

        A feature that declares seconds is charged those instead of the measured ones;
        what a step declares is charged beside.
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


def spread_over_sizes(dataset: Dataset, count: int) -> list[int]:
    """Positions of up to `count` items, evenly spread over the data's sizes.

    Records have one size, whatever their free texts. Of these each item stands for as
    many that are about as long, so that a quantile of times is one of texts.
    """
    if dataset.kind == "record":
        lengths = text_lengths(dataset.items)
        if lengths is not None:
            near = np.array_split(np.argsort(lengths, kind="stable"), count)
            return [int(part[len(part) // 2]) for part in near if len(part)]
    by_size = np.concatenate(split_near(dataset.sizes, count))
    chosen = np.linspace(0, len(by_size) - 1, min(count, len(by_size)))
    return [int(by_size[round(i)]) for i in chosen]


def measuring_items(dataset: Dataset, count: int) -> list[Item]:
    """Return the items that `spread_over_sizes` names."""
    return [dataset.items[position] for position in spread_over_sizes(dataset, count)]


@dataclass(frozen=True, slots=True)
class Measurer:
    """Measures what plans are made of, or recalls what was measured.

    Attributes
    ----------
    quantile
        Share of the times that curves and the costs of models lie above.
    cache
        Where times are kept; None to measure anew whatever was measured before.
    """

    extractor: Extractor
    quantile: float
    cache: Cache | None
    progress: Progress

    def _times(
        self,
        name: str,
        stage: str,
        total: int | None,
        take: Callable[[OnProgress], Times],
        read: Callable[[dict[str, Any], Mapping[str, NDArray[Any]]], Read],
    ) -> Read:
        """Read the times of that name, or take them and keep them, if it has any."""
        cache = self.cache if name else None
        if cache is not None and (found := cache.recall(name, read)) is not None:
            skip(self.progress, stage)
            return found
        with self.progress.stage(stage, total) as on_progress:
            meta, arrays = take(on_progress)
        if cache is not None:
            cache.store(name, meta, arrays)
        return read(meta, arrays)

    def _recall(
        self,
        name: str,
        read: Callable[[dict[str, Any], Mapping[str, NDArray[Any]]], Read],
    ) -> Read | None:
        return None if self.cache is None else self.cache.recall(name, read)

    def curves(
        self, items: Sequence[Item], repeats: int, seed: int, *, name: str = ""
    ) -> Curves:
        """Measure features, steps and overhead on some items; fit their curves."""
        planned = len(items) * repeats

        def take(on_progress: OnProgress) -> Times:
            def told(done: int, total: int) -> None:
                on_progress(done, None if total == planned else total - done)

            watch = Stopwatch()
            timings = measure(
                self.extractor,
                items,
                repeats=repeats,
                seed=seed,
                progress=told,
                quantile=self.quantile,
                stopwatch=watch,
            )
            overhead = time_overhead(self.extractor, items, self.quantile, watch)
            return conditions(watch), {
                "sizes": timings.sizes,
                "features": timings.feature_s,
                "steps": timings.step_s,
                "items": timings.items,
                "overhead": overhead,
            }

        def read(meta: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Curves:
            features = [feature.name for feature in self.extractor.features]
            steps = [step.name for step in self.extractor.steps]
            return Curves(
                self._fitted(features, arrays["features"], arrays, seed),
                self._fitted(steps, arrays["steps"], arrays, seed),
                self._overhead(items, np.asarray(arrays["overhead"])),
                read_conditions(meta),
            )

        return self._times(name, "measuring costs", planned, take, read)

    def _fitted(
        self,
        names: Sequence[str],
        times: Seconds,
        arrays: Mapping[str, NDArray[Any]],
        seed: int,
    ) -> list[Curve]:
        """Fit a curve to each column of times, where it has any."""
        curves = []
        for name, column in zip(names, times.T, strict=True):
            own = ~np.isnan(column)
            sizes, items = np.asarray(arrays["sizes"])[own], arrays["items"][own]
            fitted = CostCurve.fit(
                sizes, column[own], quantile=self.quantile, seed=seed, items=items
            )
            curves.append(Curve(name, fitted, sizes, column[own], self.quantile))
        return curves

    def _overhead(self, items: Sequence[Item], times: Seconds) -> CostCurve:
        """Fit what reading an item and beginning on it costs."""
        if not items[0].pair:
            return CostCurve([steady_quantile(times, self.quantile)])
        # what is counted takes longer where there is more
        called = np.resize([item.size for item in items], (len(times), 2))
        return CostCurve.fit(called, times, quantile=self.quantile, max_degree=1)

    def models(
        self, models: Mapping[str, Callable[[], Model]], values: NDArray[np.float32]
    ) -> tuple[Seconds, Measured]:
        """Seconds of models by name, under which each is kept; see `time_answer`.

        They are called for one at a time: all of them may not fit into memory.
        """
        rows = [np.ascontiguousarray(row) for row in values[:MODEL_CALLS]]
        found = [self._recall(name, _read_seconds) for name in models]
        total = 0 if all(found) else len(models)
        with self.progress.stage("timing models", total) as on_progress:
            for place, (name, make) in enumerate(models.items()):
                if found[place] is not None:
                    continue
                watch = Stopwatch()
                taken_s = time_answer(make(), rows, self.quantile, watch)
                meta = {**conditions(watch), "seconds": taken_s}
                if self.cache is not None:
                    self.cache.store(name, meta, {})
                found[place] = _read_seconds(meta, {})
                on_progress(place + 1)
        seconds, measured = zip(*(one for one in found if one), strict=True)
        return np.array(seconds), reduce(Measured.joined, measured)

    def compare_answers(
        self,
        whole: Answering,
        early: Answering,
        values: NDArray[np.float32],
        *,
        name: str,
    ) -> tuple[float, float, float]:
        """Mean seconds of a whole model's answers, and of those of its schedule.

        And a high quantile of the latter. Both answer the same rows, spread evenly over
        the values (N, width), in turn.
        """
        if (kept := self._recall(name, _read_compared)) is not None:
            return kept
        places = np.linspace(0, len(values) - 1, min(COMPARED, len(values)))
        rows = [np.ascontiguousarray(values[int(place)]) for place in places]
        watch, seconds = Stopwatch(), np.empty((2, len(rows)))
        with one_thread():
            for answer in (whole, early):
                answer(rows[0])
            for i, row in enumerate(rows):
                seconds[:, i] = watch.time(whole, row), watch.time(early, row)
        high_s = steady_quantile(seconds[1], self.quantile)
        arrays = {"seconds": np.array([*seconds.mean(axis=1), high_s])}
        if self.cache is not None:
            self.cache.store(name, {}, arrays)
        return _read_compared({}, arrays)

    def machine_times(
        self, items: Sequence[Item], models: Sequence[Model], *, name: str = ""
    ) -> MachineTimes:
        """Time an index's samples, and a few of its models, as a server will.

        When it starts, to tell its machine from this one.
        """

        def take(on_progress: OnProgress) -> Times:
            rows = [self.extractor.extract(item) for item in items]
            compared = [models[row] for row in compared_models(len(models))]
            with quiet():
                parts = finish(time_features(self.extractor, items, limit_s=LIMIT_S))
                on_progress(len(parts))
                evaluations = finish(time_models(compared, rows, limit_s=LIMIT_S))
                on_progress(len(parts) + len(evaluations))
            return {}, {"parts": parts, "models": evaluations}

        def read(_: object, arrays: Mapping[str, NDArray[Any]]) -> MachineTimes:
            steps, parts = len(self.extractor.steps), arrays["parts"]
            columns = 1 + steps + len(self.extractor.features)
            if parts.shape[1:] != (len(items), columns):
                raise ValueError(f"times of shape {parts.shape}")
            return medians_of(parts, arrays["models"], steps)

        return self._times(name, "timing samples", None, take, read)


def conditions(watch: Stopwatch) -> dict[str, Any]:
    """Plain data of how busy this machine was meanwhile, and of which it is."""
    return {"load": list(watch.load), "machines": [list(Machine.here())]}


def _read_seconds(
    meta: dict[str, Any], _: Mapping[str, NDArray[Any]]
) -> tuple[float, Measured]:
    """Read what a model takes, and how busy the machine was."""
    return float(meta["seconds"]), read_conditions(meta)


def _read_compared(
    _: dict[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> tuple[float, float, float]:
    """Read what `Measurer.compare_answers` gives."""
    mean_s, early_s, high_s = arrays["seconds"].tolist()
    return mean_s, early_s, high_s


def read_conditions(meta: Mapping[str, Any]) -> Measured:
    """Take what `conditions` gave out of plain data; older ones name no machine."""
    machines = tuple(Machine(*one) for one in meta.get("machines", ()))
    return Measured(Load(*meta["load"]), machines)


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


def time_answer(
    model: Model,
    rows: Sequence[NDArray[np.float32]],
    quantile: float,
    watch: Stopwatch,
) -> float:
    """Seconds that a model takes to answer, at a quantile over different rows."""

    def time_one(call: int) -> float:
        return watch.time(model.answer, rows[call % len(rows)])

    with one_thread():
        model.answer(rows[0])
        return steady_quantile(time_calls(time_one, MODEL_CALLS, quantile), quantile)


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
        outliers = int(outliers_of(times, usual, quantile).sum())
        if not outliers_in_doubt(outliers, len(times), quantile):
            break
        more = [time_one(call) for call in range(len(times), len(times) + count)]
        times = np.concatenate([times, more])
    return times


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
