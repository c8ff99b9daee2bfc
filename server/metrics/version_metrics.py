"""A table of the metrics by version, of models with a candidate, and their export."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from ..runtime.named_model import NamedModel
from ..runtime.repository import Repository
from ..runtime.served_model import ServedModel
from .counts import Metrics

# The values of a sample's labels except `model`, and the sample's value.
Value = tuple[tuple[str, ...], Any]


class Version(NamedTuple):
    """One of the two versions of a model: its counts, and its index if it is ready."""

    name: Literal["current", "candidate"]
    metrics: Metrics
    served: ServedModel | None
    share: float  # Share of the requests that this version gets
    # Sums over comparisons: expected quality, and seconds of plans
    quality: float
    plan_s: float


class VersionFamily(NamedTuple):
    """A metric of both versions of a model: its name, help text, type and values."""

    name: str
    kind: Any
    help: str
    values: Callable[[Version], Iterable[Value]]  # returns the samples of one version
    labels: tuple[str, ...] = ("model", "version")


def _answers(version: Version) -> Iterator[Value]:
    sums = Counter({"true": 0, "false": 0})
    for (_, _, met), count in version.metrics.answers.items():
        sums[str(met).lower()] += count
    for said, count in sums.items():
        yield (said,), count


def _errors(version: Version) -> Iterator[Value]:
    for code, count in version.metrics.errors.items():
        yield (code,), count


def _histogram(name: str) -> Callable[[Version], Iterable[Value]]:
    return lambda version: [((), version.metrics.histogram(name).buckets())]


def _cost_factor(version: Version) -> Iterator[Value]:
    if version.served is not None:
        planner = version.served.planner
        yield (), planner.drift.at(planner.now())


VERSION_FAMILIES = (
    VersionFamily(
        "polydom_version_share",
        GaugeMetricFamily,
        "Share of the requests that this version is to answer.",
        lambda version: [((), version.share)],
    ),
    VersionFamily(
        "polydom_version_answers",
        CounterMetricFamily,
        "Answers of a model by version, and by budget met.",
        _answers,
        ("model", "version", "budget_met"),
    ),
    VersionFamily(
        "polydom_version_errors",
        CounterMetricFamily,
        "Requests to a model that got an error, by version and by the error's code.",
        _errors,
        ("model", "version", "code"),
    ),
    VersionFamily(
        "polydom_version_request_seconds",
        HistogramMetricFamily,
        "Seconds from a request's first byte until its answer is written, by version.",
        _histogram("request"),
    ),
    VersionFamily(
        "polydom_version_plan_seconds",
        HistogramMetricFamily,
        "Seconds of the features and the model of one answer, by version.",
        _histogram("plan"),
    ),
    VersionFamily(
        "polydom_version_cost_factor",
        GaugeMetricFamily,
        "Factor by which predicted times of this version are multiplied now.",
        _cost_factor,
    ),
    VersionFamily(
        "polydom_shadow_expected_quality",
        CounterMetricFamily,
        "Sum of the expected quality of the answers that were compared, by version.",
        lambda version: [((), version.quality)],
    ),
    VersionFamily(
        "polydom_shadow_plan_seconds",
        CounterMetricFamily,
        "Seconds of the features and models of the answers that were compared.",
        lambda version: [((), version.plan_s)],
    ),
)
# Name, help text and labels of the counter of comparisons.
SHADOW = "polydom_shadow_comparisons"
SHADOW_HELP = "Answers of the current version compared with the candidate's, by result."
SHADOW_LABELS = ("model", "result")


def version_metrics(repository: Repository) -> Iterator[Metric]:
    """Yield each metric by version; nothing if no model may have a candidate."""
    models = [repository.model(name) for name in repository.names()]
    both = {one.name: _versions(one) for one in models if one.candidate_path}
    for family in VERSION_FAMILIES if both else ():
        metric = family.kind(family.name, family.help, labels=family.labels)
        for name, versions in both.items():
            for version in versions:
                for values, value in family.values(version):
                    counted = value if isinstance(value, tuple) else (value,)
                    metric.add_metric([name, version.name, *values], *counted)
        yield metric
    if both:
        compared = CounterMetricFamily(SHADOW, SHADOW_HELP, labels=SHADOW_LABELS)
        for model in models:
            if model.name in both:
                for result, count in model.compared.results.items():
                    compared.add_metric([model.name, result], count)
        yield compared


def _versions(model: NamedModel) -> list[Version]:
    own, whole = model.candidate_metrics, model.metrics
    served, candidate = model.served, model.candidate
    tries = served is not None and served.split and not served.split.shadow
    share = model.order.share if tries else 0.0
    ours, theirs = zip(model.compared.quality, model.compared.plan_s, strict=True)
    current = served if served is not None and served.ready else None
    tried = candidate if candidate is not None and candidate.ready else None
    return [
        Version("current", whole.without(own), current, 1.0 - share, *ours),
        Version("candidate", own, tried, share, *theirs),
    ]
