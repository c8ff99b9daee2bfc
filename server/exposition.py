"""The metrics in Prometheus's text format."""

import itertools
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from .metrics import Histogram, Samples
from .repository import Repository

HELP = {
    "polydom_request_seconds": "From a request's first byte to its answer written.",
    "polydom_queue_seconds": "From a question read to work on it begun.",
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
    "polydom_exits": "Plans that were sure before their last features.",
    "polydom_exits_audited": "Those of them that were computed whole all the same.",
    "polydom_exits_changed": "Those of these whose answer that changed.",
    "polydom_exits_alarm": "1 once more change than the index promises.",
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
    return generate_latest(registry)


def samples_of(repository: Repository) -> Samples:
    """Return all that `render` writes down, for another process to do so."""
    return {
        metric.name: [
            (sample.name, sample.labels, sample.value) for sample in metric.samples
        ]
        for metric in Families(repository).collect()
    }


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
        self._counted = {n: repository.metrics(n) for n in repository.names()}

    def collect(self) -> Iterator[Metric]:
        """Say everything, once; where there are several workers, of each of them."""
        yield from map(self._of_all, self._own())

    def _of_all(self, metric: Metric) -> Metric:
        """Label what is ours, and add what the others have."""
        if self._worker is None:
            return metric
        ours = {metric.name: [(s.name, s.labels, s.value) for s in metric.samples]}
        metric.samples = []
        for worker, samples in sorted({**self._others, self._worker: ours}.items()):
            for name, labels, value in samples.get(metric.name, ()):
                metric.add_sample(name, {**labels, "worker": str(worker)}, value)
        return metric

    def _own(self) -> Iterator[Metric]:
        for name in ("request", "queue", "plan", "encode"):
            yield self._histogram(f"polydom_{name}_seconds", name)
        yield self._histogram("polydom_plan_ratio", "ratio")
        yield self._answers()
        yield self._errors()
        yield self._reloads()
        waiting = self._repository.queue.waiting
        yield GaugeMetricFamily(*_named("polydom_waiting"), waiting)
        yield from self._states()
        yield from self._costs()
        yield from self._exits()

    def _histogram(self, name: str, attribute: str) -> HistogramMetricFamily:
        """Count all values up to each bound, as Prometheus wants it."""
        family = HistogramMetricFamily(*_named(name), labels=["model"])
        for model, metrics in self._counted.items():
            histogram: Histogram = getattr(metrics, attribute)
            bounds = [*map(str, histogram.bounds), "+Inf"]
            counts = map(float, itertools.accumulate(histogram.counts))
            buckets = list(zip(bounds, counts, strict=True))
            family.add_metric([model], buckets, histogram.total)
        return family

    def _answers(self) -> CounterMetricFamily:
        labels = ["model", "features", "reason", "budget_met"]
        family = CounterMetricFamily(*_named("polydom_answers"), labels=labels)
        for model, metrics in self._counted.items():
            for (features, reason, met), count in metrics.answers.items():
                values = [model, " ".join(features), reason, str(met).lower()]
                family.add_metric(values, count)
        return family

    def _errors(self) -> CounterMetricFamily:
        labels = ["model", "code"]
        family = CounterMetricFamily(*_named("polydom_errors"), labels=labels)
        for model, metrics in {**self._counted, "": self._repository.stray}.items():
            for code, count in metrics.errors.items():
                family.add_metric([model, code], count)
        return family

    def _reloads(self) -> CounterMetricFamily:
        labels = ["model", "result"]
        family = CounterMetricFamily(*_named("polydom_reloads"), labels=labels)
        for model, metrics in self._counted.items():
            for result, count in metrics.reloads.items():
                family.add_metric([model, result], count)
        return family

    def _states(self) -> Iterator[Metric]:
        """Say which models answer, and with which version."""
        ready = GaugeMetricFamily(*_named("polydom_ready"), labels=["model"])
        index = InfoMetricFamily(*_named("polydom_index"), labels=["model"])
        for model in self._counted:
            is_ready = self._repository.state(model).state == "READY"
            ready.add_metric([model], float(is_ready))
            if is_ready:
                version = self._repository.get(model).version
                index.add_metric([model], {"version": version})
        yield ready
        yield index

    def _costs(self) -> Iterator[Metric]:
        """Say how costs differ from those in the file."""
        labels = ["model", "part", "name"]
        rescale = GaugeMetricFamily(*_named("polydom_rescale_factor"), labels=labels)
        drift = GaugeMetricFamily(*_named("polydom_drift_factor"), labels=["model"])
        hits = CounterMetricFamily(
            *_named("polydom_drift_bound_hits"), labels=["model"]
        )
        for model, metrics in self._counted.items():
            hits.add_metric([model], metrics.engines.totals().bound_hits)
            if self._repository.state(model).state == "READY":
                serving = self._repository.get(model)
                engine = serving.desk.engine
                for part in serving.warm_up.rescaling.parts():
                    rescale.add_metric([model, part.part, part.name], part.factor)
                drift.add_metric([model], engine.drift.at(engine.now()))
        yield rescale
        yield drift
        yield hits

    def _exits(self) -> Iterator[Metric]:
        """Say how often plans were sure, and what audits of them found."""
        families = {
            part: CounterMetricFamily(*_named(name), labels=["model"])
            for part, name in (
                ("exits", "polydom_exits"),
                ("audited", "polydom_exits_audited"),
                ("changed", "polydom_exits_changed"),
            )
        }
        alarm = GaugeMetricFamily(*_named("polydom_exits_alarm"), labels=["model"])
        for model, metrics in self._counted.items():
            totals = metrics.engines.totals()
            for part, family in families.items():
                family.add_metric([model], getattr(totals, part))
            if self._repository.state(model).state == "READY":
                audit = self._repository.get(model).desk.engine.audit
                alarm.add_metric([model], float(audit.alarm))
        yield from (*families.values(), alarm)


def _named(name: str) -> tuple[str, str]:
    return name, HELP[name]
