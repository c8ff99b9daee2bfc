"""A table of the metrics of fetches, and their export to Prometheus."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from ..fetching.fetchers import Fetchers, FetchState

# The values of a sample's labels except `fetch`, and the sample's value.
Value = tuple[tuple[str, ...], Any]


class FetchFamily(NamedTuple):
    """A metric of all fetches: its name, help text, type and values."""

    # Prometheus's name, metric class and help text
    name: str
    kind: Any
    help: str
    values: Callable[[FetchState], Iterable[Value]]  # returns the samples of one fetch
    labels: tuple[str, ...] = ("fetch",)


def _seconds(state: FetchState) -> Iterator[Value]:
    for ended, histogram in state.counts.seconds.items():
        yield (ended,), histogram.buckets()


def _hedges(state: FetchState) -> Iterator[Value]:
    for won, number in state.counts.hedges.items():
        yield (str(won).lower(),), number


FETCH_FAMILIES = (
    FetchFamily(
        "polydom_fetch_seconds",
        HistogramMetricFamily,
        "Seconds from the asking for keys until a call brought them or failed.",
        _seconds,
        ("fetch", "state"),
    ),
    FetchFamily(
        "polydom_fetches_in_flight",
        GaugeMetricFamily,
        "Calls that have not ended.",
        lambda state: [((), state.counts.in_flight)],
    ),
    FetchFamily(
        "polydom_fetch_kept",
        CounterMetricFamily,
        "Keys asked for whose values an earlier call had brought.",
        lambda state: [((), state.counts.kept)],
    ),
    FetchFamily(
        "polydom_fetch_not_sent",
        CounterMetricFamily,
        "Keys asked for that no call was sent for.",
        lambda state: [((), state.counts.not_sent)],
    ),
    FetchFamily(
        "polydom_fetch_hedges",
        CounterMetricFamily,
        "Calls that were sent a second time; `won` if the second one came first.",
        _hedges,
        ("fetch", "won"),
    ),
    FetchFamily(
        "polydom_fetch_down",
        GaugeMetricFamily,
        "1 if the source is down, so that it is only probed, else 0.",
        lambda state: [((), float(state.down))],
    ),
)


def fetch_metrics(fetchers: Fetchers) -> Iterator[Metric]:
    """Yield each metric of fetches, with a process's samples."""
    states = [*fetchers.states()]
    for family in FETCH_FAMILIES:
        metric = family.kind(family.name, family.help, labels=family.labels)
        for state in states:
            for values, value in family.values(state):
                # the value of a histogram is a tuple of buckets and sum
                counted = value if isinstance(value, tuple) else (value,)
                metric.add_metric([state.name, *values], *counted)
        yield metric
