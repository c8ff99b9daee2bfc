"""A table of all metrics of the server, and their export to Prometheus."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
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

from ..engine.monitoring.traffic_counts import MOST
from ..runtime.repository import Repository
from ..runtime.served_model import ServedModel
from .counts import Metrics, Samples
from .fetch_metrics import fetch_metrics
from .version_metrics import version_metrics

# The values of a sample's labels except `model`, and the sample's value.
Value = tuple[tuple[str, ...], Any]


class Model(NamedTuple):
    """A model's name, its counts, and the loaded model.

    `served`, the loaded model, is None until it is ready.
    """

    name: str
    metrics: Metrics
    served: ServedModel | None


Values = Callable[[Model], Iterable[Value]]


class Family(NamedTuple):
    """A metric of all models: its name, help text, type and values."""

    # Prometheus's name, metric class and help text
    name: str
    kind: Any
    help: str
    values: Values  # Function that returns the samples of one model
    labels: tuple[str, ...] = ()  # Names of the labels except `model`
    # True to export requests that reached no model, too, with `model=""`
    of_none: bool = False


def _histogram(name: str) -> Values:
    return lambda model: [((), model.metrics.histogram(name).buckets())]


def _counted(attribute: str) -> Values:
    return lambda model: [
        ((key,), count) for key, count in getattr(model.metrics, attribute).items()
    ]


def _total(name: str) -> Values:
    return lambda model: [((), model.metrics.planners.totals()[name, ""])]


def _totals_by_label(name: str) -> Values:
    return lambda model: [
        ((label,), count)
        for (of, label), count in model.metrics.planners.totals().items()
        if of == name
    ]


def _base_models(model: Model) -> Iterator[Value]:
    totals = model.metrics.planners.totals()
    yield ("true",), totals["used", ""]
    yield ("false",), totals["left", ""]


def _served(read: Callable[[ServedModel], Any]) -> Values:
    """Return a function that applies `read` to a model that is ready.

    For other models, that function returns no values.
    """
    return lambda model: [((), read(model.served))] if model.served else []


def _answers(model: Model) -> Iterator[Value]:
    for (features, reason, met), count in model.metrics.answers.items():
        yield (" ".join(features), reason, str(met).lower()), count


def _ready(model: Model) -> Iterator[Value]:
    yield (), float(model.served is not None)


def _rescale(model: Model) -> Iterator[Value]:
    if model.served is not None:
        for part in model.served.warm_up.rescaling.parts():
            yield (part.part, part.name), part.factor


def _cost_factor(served: ServedModel) -> float:
    planner = served.planner
    return planner.drift.at(planner.now())


def _version(served: ServedModel) -> dict[str, str]:
    return {"version": served.version}


def _alarms(model: Model) -> Iterator[Value]:
    if model.served is not None:
        for label, alarm in model.served.planner.audit.alarms.items():
            yield (label or "",), float(alarm)


def _stability(model: Model) -> Iterator[Value]:
    if model.served is not None and (sketch := model.served.sketch) is not None:
        for shift in sketch.shifts(model.served.now())[:MOST]:
            if shift.psi is not None:
                yield (shift.name,), shift.psi


def _sampled(model: Model) -> Iterator[Value]:
    if model.served is not None and (sketch := model.served.sketch) is not None:
        yield (), float(sketch.sampled(model.served.now()))


def _unseen_words(model: Model) -> Iterator[Value]:
    if model.served is not None and (sketch := model.served.sketch) is not None:
        share = sketch.unseen_words(model.served.now())
        if share is not None:
            yield (), share


COUNTER, GAUGE = CounterMetricFamily, GaugeMetricFamily
HISTOGRAM, INFO = HistogramMetricFamily, InfoMetricFamily
FAMILIES = (
    Family(
        "polydom_request_seconds",
        HISTOGRAM,
        "Seconds from a request's first byte until its answer is written.",
        _histogram("request"),
    ),
    Family(
        "polydom_queue_seconds",
        HISTOGRAM,
        "Seconds from the time a request is read until work on it begins.",
        _histogram("queue"),
    ),
    Family(
        "polydom_plan_seconds",
        HISTOGRAM,
        "Seconds of the features and the model of one answer.",
        _histogram("plan"),
    ),
    Family(
        "polydom_encode_seconds",
        HISTOGRAM,
        "Seconds from the end of a plan until its answer is written.",
        _histogram("encode"),
    ),
    Family(
        "polydom_plan_ratio",
        HISTOGRAM,
        "Actual time of a plan divided by the predicted time.",
        _histogram("ratio"),
    ),
    Family(
        "polydom_answers",
        COUNTER,
        "Answers by feature set, by why no better set answered, and by budget met.",
        _answers,
        ("features", "reason", "budget_met"),
    ),
    Family(
        "polydom_errors",
        COUNTER,
        "Requests that got an error, by the error's code.",
        _counted("errors"),
        ("code",),
        of_none=True,
    ),
    Family(
        "polydom_feature_failures",
        COUNTER,
        "Items on which a feature failed, by feature.",
        _totals_by_label("failures"),
        ("feature",),
    ),
    Family(
        "polydom_labels",
        COUNTER,
        "Answers by class, of an index whose answers are classes.",
        _totals_by_label("labels"),
        ("label",),
    ),
    Family(
        "polydom_missing_values",
        COUNTER,
        "Items without a value in a column, by column.",
        _totals_by_label("missing"),
        ("column",),
    ),
    Family(
        "polydom_unknown_values",
        COUNTER,
        "Items with a word in a column that no training item had, by column.",
        _totals_by_label("unknown"),
        ("column",),
    ),
    Family(
        "polydom_sizes_outside",
        COUNTER,
        "Items smaller or larger than all for which the build measured costs.",
        _total("outside"),
    ),
    Family(
        "polydom_input_psi",
        GAUGE,
        "Population stability index of recent items against the build's, above chance.",
        _stability,
        ("column",),
    ),
    Family(
        "polydom_input_sampled_items",
        GAUGE,
        "Recent items that were sampled to compare them with the build's.",
        _sampled,
    ),
    Family(
        "polydom_unseen_words_share",
        GAUGE,
        "Mean share of a recent text's words that the build did not learn.",
        _unseen_words,
    ),
    Family(
        "polydom_reloads",
        COUNTER,
        "Indexes that were loaded or refused while serving.",
        _counted("reloads"),
        ("result",),
    ),
    Family("polydom_ready", GAUGE, "1 if the model's index is warm, else 0.", _ready),
    Family("polydom_index", INFO, "The index that is served.", _served(_version)),
    Family(
        "polydom_rescale_factor",
        GAUGE,
        "Time on this machine divided by time on the machine that built the index.",
        _rescale,
        ("part", "name"),
    ),
    Family(
        "polydom_cost_factor",
        GAUGE,
        "Factor by which predicted times are multiplied now.",
        _served(_cost_factor),
    ),
    Family(
        "polydom_cost_factor_bound_hits",
        COUNTER,
        "Times that the cost factor would have risen above its bound.",
        _total("bound_hits"),
    ),
    Family(
        "polydom_exits",
        COUNTER,
        "Plans that exited early, before their last feature or base model.",
        _total("exits"),
    ),
    Family(
        "polydom_exits_drawn",
        COUNTER,
        "Answers drawn for an audit, early or not, by the class of the whole plan.",
        _totals_by_label("drawn"),
        ("class",),
    ),
    Family(
        "polydom_exits_audited",
        COUNTER,
        "Drawn answers that were early, so that an audit computed the whole plan.",
        _totals_by_label("audited"),
        ("class",),
    ),
    Family(
        "polydom_exits_changed",
        COUNTER,
        "Audited answers of which the early class was not the whole plan's class.",
        _totals_by_label("changed"),
        ("class",),
    ),
    Family(
        "polydom_exits_alarm",
        GAUGE,
        "1 if more of a class's drawn answers changed than is promised, else 0.",
        _alarms,
        ("class",),
    ),
    Family(
        "polydom_base_models",
        COUNTER,
        "Base models of schedules, by whether they were evaluated or skipped.",
        _base_models,
        ("used",),
    ),
)
# Names of metrics that belong to no model: a gauge, and two counters.
WAITING = "polydom_waiting"
WAITING_HELP = "Requests that wait for the computing thread or are in it."
DROPPED = "polydom_record_dropped"
DROPPED_HELP = "Lines that the access log or the record lacks, by `file`."
THROTTLED = "polydom_cpu_throttled_seconds"
THROTTLED_HELP = "Time that a CPU quota kept the container's processes from running."


def render(
    repository: Repository,
    worker: int | None = None,
    others: Mapping[int, Samples] = MappingProxyType({}),
) -> bytes:
    """Return all metrics in Prometheus's text format.

    `worker` is this worker process's number, or None if there is a single process.
    `others` has the samples of the other workers by their numbers.
    """
    registry = CollectorRegistry()
    registry.register(Families(repository, worker, others))
    registry.register(CpuThrottling())
    return generate_latest(registry)


def samples_of(repository: Repository) -> Samples:
    """Return this worker's samples, to be sent to the worker that is scraped."""
    metrics = Families(repository).collect()
    return {metric.name: _samples(metric) for metric in metrics}


def _samples(metric: Metric) -> list[tuple[str, dict[str, str], float]]:
    return [(sample.name, sample.labels, sample.value) for sample in metric.samples]


class Families(Collector):
    """Prometheus collector of the metrics of all models, and of all fetches.

    The parameters are described in `render`.
    """

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
        """Yield each metric, with the samples of all workers."""
        yield from map(self._of_all_workers, self._own())

    def _of_all_workers(self, metric: Metric) -> Metric:
        """Label this worker's samples, and add the other workers' samples."""
        if self._worker is None:
            return metric
        ours = {metric.name: _samples(metric)}
        metric.samples = []
        for worker, samples in sorted({**self._others, self._worker: ours}.items()):
            for name, labels, value in samples.get(metric.name, ()):
                metric.add_sample(name, {**labels, "worker": str(worker)}, value)
        return metric

    def _own(self) -> Iterator[Metric]:
        waiting = self._repository.queue.waiting
        yield GaugeMetricFamily(WAITING, WAITING_HELP, waiting)
        none = Model("", self._repository.no_model, None)
        for family in FAMILIES:
            labels = ["model", *family.labels]
            metric = family.kind(family.name, family.help, labels=labels)
            for model in (*self._models, none) if family.of_none else self._models:
                for values, value in family.values(model):
                    # the value of a histogram is a tuple of buckets and sum
                    counted = value if isinstance(value, tuple) else (value,)
                    metric.add_metric([model.name, *values], *counted)
            yield metric
        yield from fetch_metrics(self._repository.fetchers)
        if (log := self._repository.answer_log) is not None:
            dropped = CounterMetricFamily(DROPPED, DROPPED_HELP, labels=["file"])
            for file, count in log.dropped.items():
                dropped.add_metric([file], count)
            yield dropped
        yield from version_metrics(self._repository)


def _model(repository: Repository, name: str) -> Model:
    ready = repository.state(name).state == "READY"
    served = repository.get(name) if ready else None
    return Model(name, repository.metrics(name), served)


class CpuThrottling(Collector):
    """Collects how long the kernel has throttled this process's control group.

    The counter covers all workers, because they share the group. It is absent without
    control groups of version 2, or if the group has no CPU limit.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def collect(self) -> Iterator[Metric]:
        """Yield the counter with its current value, unless it is absent."""
        throttled_s = read_throttled_s(self._root)
        if throttled_s is not None:
            yield CounterMetricFamily(THROTTLED, THROTTLED_HELP, value=throttled_s)


def read_throttled_s(root: Path) -> float | None:
    """Return how many seconds the control group was throttled; None if not counted.

    The value is `throttled_usec` of `cpu.stat`: the sum over all processors (Linux,
    Documentation/admin-guide/cgroup-v2.rst).
    """
    try:
        groups = (root / "proc/self/cgroup").read_text()
        (group,) = (line[4:] for line in groups.split("\n") if line.startswith("0::/"))
        stat = (root / "sys/fs/cgroup" / group / "cpu.stat").read_text()
        counts = dict(line.split() for line in stat.splitlines())
        return int(counts["throttled_usec"]) / 1e6
    except (OSError, ValueError, KeyError):
        return None
