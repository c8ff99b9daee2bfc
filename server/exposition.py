"""The metrics in Prometheus's text format."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from .metrics import Histogram, Metrics
from .serving import Serving

HELP = {
    "polydom_request_seconds": "From a request's first byte to its answer sent.",
    "polydom_queue_seconds": "From a question read to work on it begun.",
    "polydom_plan_seconds": "Features and model of one answer.",
    "polydom_encode_seconds": "From a plan's end to its answer sent.",
    "polydom_plan_ratio": "Actual over predicted time of a plan.",
    "polydom_answers": "Answers by feature set, why not the best, and budget met.",
    "polydom_errors": "Requests that got an error, by its code.",
    "polydom_waiting": "Requests that wait for the computing thread or are in it.",
    "polydom_ready": "Whether the index is warm.",
    "polydom_index": "The index that is served.",
}


def render(metrics: Metrics, serving: Serving) -> bytes:
    """Write down all that was counted, and the state of what is being served."""
    registry = CollectorRegistry()
    registry.register(Families(metrics, serving))
    return generate_latest(registry)


class Families(Collector):
    """The metrics, named and explained."""

    def __init__(self, metrics: Metrics, serving: Serving) -> None:
        self._metrics = metrics
        self._serving = serving

    def collect(self) -> Iterator[Metric]:
        """Say everything, once."""
        metrics, serving = self._metrics, self._serving
        for name in ("request", "queue", "plan", "encode"):
            yield _histogram(f"polydom_{name}_seconds", getattr(metrics, name))
        yield _histogram("polydom_plan_ratio", metrics.ratio)
        yield self._answers()
        errors = CounterMetricFamily(*_named("polydom_errors"), labels=["code"])
        for code, count in metrics.errors.items():
            errors.add_metric([code], count)
        yield errors
        yield GaugeMetricFamily(*_named("polydom_waiting"), serving.waiting)
        yield GaugeMetricFamily(*_named("polydom_ready"), float(serving.ready))
        version = {"version": serving.desk.engine.index.version}
        yield InfoMetricFamily(*_named("polydom_index"), version)

    def _answers(self) -> CounterMetricFamily:
        labels = ["features", "reason", "budget_met"]
        family = CounterMetricFamily(*_named("polydom_answers"), labels=labels)
        for (row, reason, met), count in self._metrics.answers.items():
            features = " ".join(self._serving.desk.names[row])
            family.add_metric([features, reason, str(met).lower()], count)
        return family


def _named(name: str) -> tuple[str, str]:
    return name, HELP[name]


def _histogram(name: str, histogram: Histogram) -> HistogramMetricFamily:
    """Count all values up to each bound, as Prometheus wants it."""
    buckets, count = [], 0
    bounds = [*map(str, histogram.bounds), "+Inf"]
    for bound, more in zip(bounds, histogram.counts, strict=True):
        count += more
        buckets.append((bound, float(count)))
    return HistogramMetricFamily(*_named(name), buckets, histogram.total)
