"""Timing of features, steps, models and overhead, and fitting of cost curves."""

import logging
import time
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
from polydom.features.costs.polynomials import cost_at
from polydom.features.costs.stopwatch import Load, Stopwatch
from polydom.features.extract import Extractor
from polydom.features.items import Item, make_item
from polydom.features.sizes import Size, read_size
from polydom.features.threads import one_thread
from polydom.models.scoring.model import Model

from ...index.machine_speed import (
    MachineTimes,
    compared_models,
    finish,
    medians_of,
    time_features,
    time_models,
)
from ...progress import OnProgress, Progress, skip
from ..cache import Cache, Read, digest
from ..prepare import Prepared
from ..resources import Resources
from .cost_curves import Curve, Curves
from .measured_items import measuring_items

Seconds = NDArray[np.float64]
Times = tuple[dict[str, Any], Mapping[str, NDArray[Any]]]
Answering = Callable[[NDArray[np.float32]], object]  # answers a full row

# Calls per model, enough for a 0.99 quantile. Rows differ, so that the processor's
# branch predictor learns none.
MODEL_CALLS = 200
OVERHEAD_CALLS = 400
LIMIT_S = 10.0  # seconds for timing samples, and as many for models
COMPARED = 500  # rows answered by a whole model and by its schedule, in turn
# Rounds in which each row is answered; after COMPARED_S seconds, none begins.
COMPARED_ROUNDS = 7
COMPARED_S = 1.0

log = logging.getLogger("polydom")


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredCosts:
    """Measured costs of a project's features and steps, with methods to time models."""

    measurer: "Measurer"  # Stopwatch of models, with the features of training
    curves: Curves  # Cost curves in seconds
    table: CostTable  # Costs in units of the budget, with what features declare
    middle: Size  # Median size of the items
    weight: float  # Units of the budget that a second costs

    def of_set(self, mask: int) -> float:
        """Return the cost of a set's features in budget units, at median item size."""
        return cost_at(self.table.of(mask).tolist(), self.middle)

    def of_models(
        self,
        key: str,
        models: Mapping[int, Callable[[], Model]],
        values: NDArray[np.float32],
        again: Sequence[bool] | None = None,
    ) -> tuple[Seconds, Measured]:
        """Time models; return their costs of one answer (C,), and timing conditions.

        Costs are in units of the budget. `models` maps each feature set's mask to a
        function that loads its model. `again` says of each model whether it was trained
        on all items. Measured times are cached under names that contain a hash of
        `key`, so `key` has to identify the trainings.
        """
        named = {}
        flags = again or [False] * len(models)
        for (mask, make), refitted in zip(models.items(), flags, strict=True):
            own = digest(key, self.measurer.quantile, "answer", refitted)
            named[f"times/{own}/{mask:x}"] = make
        seconds, measured = self.measurer.models(named, values)
        return seconds * self.weight, measured


def measure_costs(data: Prepared, resources: Resources) -> MeasuredCosts:
    """Time the features and steps of a project, or read their times from the cache."""
    terms, dataset = data.project.costs, data.table.dataset
    extractor = data.table.features.extractor
    measurer = Measurer(extractor, terms.quantile, resources.times, resources.progress)
    curves = measurer.curves(
        measuring_items(data.table.sound(), terms.items),
        terms.repeats,
        data.project.seed,
        name=data.keys.times,
    )
    for warning in curves.warnings(data.table.dataset.kind):
        log.warning("%s", warning)
    return MeasuredCosts(
        measurer,
        curves,
        curves.weighed(extractor, terms.weights),
        read_size(np.median(dataset.sizes, axis=0).tolist()),
        terms.weights.get("s", 0.0),
    )


@dataclass(frozen=True, slots=True)
class Measurer:
    """Times features, steps and models, or reads their times from the cache."""

    extractor: Extractor
    # Quantile of the measured times that a cost has to cover, in (0, 1)
    quantile: float
    cache: Cache | None  # Cache of measured times; None to measure again each time
    progress: Progress

    def _times(
        self,
        name: str,
        stage: str,
        total: int | None,
        take: Callable[[OnProgress], Times],
        read: Callable[[dict[str, Any], Mapping[str, NDArray[Any]]], Read],
    ) -> Read:
        """Return the times in the cache entry `name`; if it is absent, measure them.

        `take` measures the times. `read` converts the new or stored data to the result.
        """
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
        """Time features, steps and overhead on some items, and fit cost curves.

        Each item is timed at least `repeats` times, in a random order that depends on
        `seed`. If `name` is not empty, the times are stored in the cache under this
        name.
        """
        planned, extractor = len(items) * repeats, self.extractor

        def take(on_progress: OnProgress) -> Times:
            def told(done: int, total: int) -> None:
                on_progress(done, None if total == planned else total - done)

            watch = Stopwatch()
            timings = measure(
                extractor,
                items,
                repeats=repeats,
                seed=seed,
                progress=told,
                quantile=self.quantile,
                stopwatch=watch,
            )
            overhead = time_overhead(extractor, items, self.quantile, watch)
            return conditions(watch), {
                "sizes": timings.sizes,
                "features": timings.feature_s,
                "steps": timings.step_s,
                "items": timings.items,
                "waits": timings.waits,
                "overhead": overhead,
            }

        def read(meta: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Curves:
            names = [one.name for one in (*extractor.features, *extractor.steps)]
            times = np.hstack([arrays["features"], arrays["steps"]])
            fitted = self._fitted(names, times, arrays, seed)
            return Curves(
                fitted[: len(extractor.features)],
                fitted[len(extractor.features) :],
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
        """Fit a curve to each column of `times`; NaN marks a missing time."""
        curves = []
        shares = arrays["waits"].tolist()
        for name, column, waits in zip(names, times.T, shares, strict=True):
            own = ~np.isnan(column)
            sizes, items = np.asarray(arrays["sizes"])[own], arrays["items"][own]
            fitted = CostCurve.fit(
                sizes, column[own], quantile=self.quantile, seed=seed, items=items
            )
            own_s = column[own]
            curves.append(Curve(name, fitted, sizes, own_s, self.quantile, waits))
        return curves

    def _overhead(self, items: Sequence[Item], times: Seconds) -> CostCurve:
        """Fit a curve to the times of reading an item and starting its extraction."""
        if not items[0].pair:
            return CostCurve([steady_quantile(times, self.quantile)])
        # counting words and sentences takes longer for longer texts
        called = np.resize([item.size for item in items], (len(times), 2))
        return CostCurve.fit(called, times, quantile=self.quantile, max_degree=1)

    def models(
        self, models: Mapping[str, Callable[[], Model]], values: NDArray[np.float32]
    ) -> tuple[Seconds, Measured]:
        """Time models; return their seconds per answer (C,), and timing conditions.

        `models` maps names of cache entries to functions that load the models. The
        models answer rows of `values` (N, width).
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

    def compare(
        self, answers: Sequence[Answering], values: NDArray[np.float32], *, name: str
    ) -> tuple[Seconds, Seconds]:
        """Time A functions that answer a row, in turn on each of some rows of `values`.

        Returns the mean seconds (A,), and a high quantile of the seconds (A,). The
        means are of each row's median over several rounds, so that neither an
        interruption nor a slow second of the machine moves them.
        """
        kept = self._recall(name, lambda _, arrays: (arrays["mean"], arrays["high"]))
        if kept is not None:
            return kept
        places = np.linspace(0, len(values) - 1, min(COMPARED, len(values)))
        rows = [np.ascontiguousarray(values[int(place)]) for place in places]
        watch, rounds = Stopwatch(), list[Seconds]()
        with one_thread():
            for answer in answers:
                answer(rows[0])
            end_s = time.monotonic() + COMPARED_S
            while not rounds or (
                len(rounds) < COMPARED_ROUNDS and time.monotonic() < end_s
            ):
                timed = [[watch.time(answer, r) for answer in answers] for r in rows]
                rounds.append(np.array(timed))
        seconds = np.array(rounds)  # (rounds, rows, A)
        ordered = seconds.reshape(-1, len(answers)).T
        high_s = np.array([steady_quantile(own, self.quantile) for own in ordered])
        mean_s = np.median(seconds, axis=0).mean(axis=0)
        if self.cache is not None:
            self.cache.store(name, {}, {"mean": mean_s, "high": high_s})
        return mean_s, high_s

    def machine_times(
        self,
        items: Sequence[Item],
        models: Sequence[Model],
        used: Sequence[int] | None = None,
        *,
        name: str = "",
    ) -> MachineTimes:
        """Time sample items and some models of an index, for servers to compare.

        Only features at the positions `used` are timed, by default all.
        """
        extractor = self.extractor

        def take(on_progress: OnProgress) -> Times:
            rows = [extractor.extract(item, features=used) for item in items]
            compared = [models[row] for row in compared_models(len(models))]
            with quiet():
                parts = finish(time_features(extractor, items, used, limit_s=LIMIT_S))
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
    """Return plain data of this machine, and of its load during a measurement."""
    return {"load": list(watch.load), "machines": [list(Machine.here())]}


def _read_seconds(
    meta: dict[str, Any], _: Mapping[str, NDArray[Any]]
) -> tuple[float, Measured]:
    return float(meta["seconds"]), read_conditions(meta)


def read_conditions(meta: Mapping[str, Any]) -> Measured:
    """Convert the result of `conditions`; older versions did not record the machine."""
    machines = tuple(Machine(*one) for one in meta.get("machines", ()))
    return Measured(Load(*meta["load"]), machines)


def time_answer(
    model: Model,
    rows: Sequence[NDArray[np.float32]],
    quantile: float,
    watch: Stopwatch,
) -> float:
    """Return the given quantile of a model's measured seconds to answer one row."""

    def time_one(call: int) -> float:
        return watch.time(model.answer, rows[call % len(rows)])

    with one_thread():
        model.answer(rows[0])
        return steady_quantile(time_calls(time_one, MODEL_CALLS, quantile), quantile)


def time_calls(
    time_one: Callable[[int], float], count: int, quantile: float
) -> Seconds:
    """Return the seconds of each call `time_one(0)`, `time_one(1)` and so on.

    At least `count` calls are timed. More calls follow while it is unclear whether some
    times are outliers.
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
    """Time calls that read an item's size and start its extraction; return seconds."""
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
