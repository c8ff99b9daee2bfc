"""The metrics in Prometheus's text format: a table of all, and how they are written."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ..runtime.metrics import Histogram, Metrics, Samples
from ..runtime.repository import Repository
from ..runtime.served_model import ServedModel
from .cpu_throttling import CpuThrottling

# Values of the labels but the first, which is the model's; and what is counted.
Value = tuple[tuple[str, ...], Any]


class Model(NamedTuple):
    """One name that is served; `served` is None while nothing answers for it."""

    name: str
    metrics: Metrics
    served: ServedModel | None


Values = Callable[[Model], Iterable[Value]]


class Family(NamedTuple):
    """One metric of every model.

    Attributes
    ----------
    name, kind
        As Prometheus has them.
    values
        Finds a model's.
    labels
        Beside `model`.
    of_none
        Whether what is no model's has one too, as that of the model "".
    """

    name: str
    kind: Any
    values: Values
    labels: tuple[str, ...] = ()
    of_none: bool = False


def _histogram(name: str) -> Values:
    return lambda model: [((), _buckets(model.metrics.histogram(name)))]


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Count all values up to each bound, as Prometheus wants it; and sum them up."""
    bounds = [*map(str, histogram.bounds), "+Inf"]
    counts = map(float, itertools.accumulate(histogram.counts.tolist()))
    return list(zip(bounds, counts, strict=True)), histogram.total


def _counted(attribute: str) -> Values:
    return lambda model: [
        ((key,), count) for key, count in getattr(model.metrics, attribute).items()
    ]


def _total(attribute: str) -> Values:
    """Find what all planners counted that a name ever had."""
    return lambda model: [((), getattr(model.metrics.planners.totals(), attribute))]


def _base_models(model: Model) -> Iterator[Value]:
    totals = model.metrics.planners.totals()
    yield ("true",), totals.used
    yield ("false",), totals.left


def _served(find: Callable[[ServedModel], Any]) -> Values:
    """Find what only a model has that answers."""
    return lambda model: [((), find(model.served))] if model.served else []


def _answers(model: Model) -> Iterator[Value]:
    for (features, reason, met), count in model.metrics.answers.items():
        yield (" ".join(features), reason, str(met).lower()), count


def _ready(model: Model) -> Iterator[Value]:
    yield (), float(model.served is not None)


def _rescale(model: Model) -> Iterator[Value]:
    if model.served is not None:
        for part in model.served.warm_up.rescaling.parts():
            yield (part.part, part.name), part.factor


def _drift(served: ServedModel) -> float:
    planner = served.planner
    return planner.drift.at(planner.now())


def _version(served: ServedModel) -> dict[str, str]:
    return {"version": served.version}


def _alarm(served: ServedModel) -> float:
    return float(served.planner.audit.alarm)


COUNTER, GAUGE = CounterMetricFamily, GaugeMetricFamily
HISTOGRAM, INFO = HistogramMetricFamily, InfoMetricFamily
FAMILIES = (
    Family("polydom_request_seconds", HISTOGRAM, _histogram("request")),
    Family("polydom_queue_seconds", HISTOGRAM, _histogram("queue")),
    Family("polydom_plan_seconds", HISTOGRAM, _histogram("plan")),
    Family("polydom_encode_seconds", HISTOGRAM, _histogram("encode")),
    Family("polydom_plan_ratio", HISTOGRAM, _histogram("ratio")),
    Family("polydom_answers", COUNTER, _answers, ("features", "reason", "budget_met")),
    Family("polydom_errors", COUNTER, _counted("errors"), ("code",), of_none=True),
    Family("polydom_reloads", COUNTER, _counted("reloads"), ("result",)),
    Family("polydom_ready", GAUGE, _ready),
    Family("polydom_index", INFO, _served(_version)),
    Family("polydom_rescale_factor", GAUGE, _rescale, ("part", "name")),
    Family("polydom_drift_factor", GAUGE, _served(_drift)),
    Family("polydom_drift_bound_hits", COUNTER, _total("bound_hits")),
    Family("polydom_exits", COUNTER, _total("exits")),
    Family("polydom_exits_audited", COUNTER, _total("audited")),
    Family("polydom_exits_changed", COUNTER, _total("changed")),
    Family("polydom_exits_alarm", GAUGE, _served(_alarm)),
    Family("polydom_base_models", COUNTER, _base_models, ("used",)),
)
HELP = {
    "polydom_request_seconds": "From a request's first byte to its answer written.",
    "polydom_queue_seconds": "From a request read to work on it begun.",
    "polydom_plan_seconds": "Features and model of one answer.",
    "polydom_encode_seconds": "From a plan's end to its answer written.",
    "polydom_plan_ratio": "Actual over predicted time of a plan.",
    "polydom_answers": "Answers by feature set, why not the best, and budget met.",
    "polydom_errors": "Requests that got an error, by its code.",
    "polydom_reloads": "Indexes loaded while serving, or refused then.",
    "polydom_waiting": "Requests that wait for the computing thread or are in it.",
    "polydom_ready": "Whether the model's index is warm.",
    "polydom_index": "The index that is served.",
    "polydom_rescale_factor": "Time here over time where the index was built.",
    "polydom_drift_factor": "What predicted times are multiplied with at present.",
    "polydom_drift_bound_hits": "How often that would have risen over its bound.",
    "polydom_exits": "Plans that were sure before their last features or base models.",
    "polydom_exits_audited": "Those of them that were computed whole all the same.",
    "polydom_exits_changed": "Those of these whose answer that changed.",
    "polydom_exits_alarm": "1 once more change than the index promises.",
    "polydom_base_models": "Base models of schedules that answered, or were left out.",
}


def render(
    repository: Repository,
    worker: int | None = None,
    others: Mapping[int, Samples] = MappingProxyType({}),
) -> bytes:
    """Write down all that was counted, and the state of what is being served.

    Parameters
    ----------
    worker
        Number of this process, where there are others.
    others
        The samples of each of them.
    """
    registry = CollectorRegistry()
    registry.register(Families(repository, worker, others))
    registry.register(CpuThrottling())
    return generate_latest(registry)


def samples_of(repository: Repository) -> Samples:
    """Return all that `render` writes down, for another process to do so."""
    metrics = Families(repository).collect()
    return {metric.name: _samples(metric) for metric in metrics}


def _samples(metric: Metric) -> list[tuple[str, dict[str, str], float]]:
    return [(sample.name, sample.labels, sample.value) for sample in metric.samples]


class Families(Collector):
    """The metrics of every model, named and explained."""

    def __init__(
        self,
        repository: Repository,
        worker: int | None = None,
        others: Mapping[int, Samples] = MappingProxyType({}),
    ) -> None:
        self._repository = repository
        self._worker = worker
        self._others = others
        self._models = [_model(repository, name) for name in repository.names()]

    def collect(self) -> Iterator[Metric]:
        """Say everything, once; where there are several workers, of each of them."""
        yield from map(self._of_all, self._own())

    def _of_all(self, metric: Metric) -> Metric:
        """Label what is ours, and add what the others have."""
        if self._worker is None:
            return metric
        ours = {metric.name: _samples(metric)}
        metric.samples = []
        for worker, samples in sorted({**self._others, self._worker: ours}.items()):
            for name, labels, value in samples.get(metric.name, ()):
                metric.add_sample(name, {**labels, "worker": str(worker)}, value)
        return metric

    def _own(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "polydom_waiting", HELP["polydom_waiting"], self._repository.queue.waiting
        )
        none = Model("", self._repository.no_model, None)
        for family in FAMILIES:
            labels = ["model", *family.labels]
            metric = family.kind(family.name, HELP[family.name], labels=labels)
            for model in (*self._models, none) if family.of_none else self._models:
                for values, value in family.values(model):
                    counted = value if isinstance(value, tuple) else (value,)
                    metric.add_metric([model.name, *values], *counted)
            yield metric


def _model(repository: Repository, name: str) -> Model:
    ready = repository.state(name).state == "READY"
    served = repository.get(name) if ready else None
    return Model(name, repository.metrics(name), served)
