"""Fetches are counted by what they brought, and the counts reach Prometheus."""

import asyncio
import time

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from polydom.indexer.index.fetches.stored_fetches import StoredFetch
from polydom.server.fetching.breaker import FAILURES
from polydom.server.fetching.fetchers import Fetchers
from polydom.server.metrics.fetch_metrics import FETCH_FAMILIES, fetch_metrics
from tests.support.fetch_sources import FOREVER_S, Source, ended, run, until

DOUBLED = StoredFetch("doubled", ["n"], ["twice"])


def shown(fetchers: Fetchers) -> dict[tuple[str, str], float]:
    """The samples of the fetch, by name and state; buckets left out."""

    class Own(Collector):
        collect = staticmethod(lambda: fetch_metrics(fetchers))

    registry = CollectorRegistry()
    registry.register(Own())
    text = generate_latest(registry).decode()
    return {
        (sample.name, sample.labels.get("state", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels["fetch"] == "doubled" and "le" not in sample.labels
    }


def test_counts_of_fetches_are_shown() -> None:
    async def main() -> None:
        source = Source(keep_s=60.0)
        fetchers = Fetchers({"doubled": source.fetch})
        (fetcher,) = fetchers.of([DOUBLED], np.full((9, 1), 0.01))
        assert fetcher is not None
        began_s = time.monotonic()
        await ended(*(fetcher.ask((n,), FOREVER_S) for n in range(3)))
        took_s = time.monotonic() - began_s
        await asyncio.sleep(0)
        samples = shown(fetchers)
        assert samples["polydom_fetch_seconds_count", "came"] == 1
        assert 0 < samples["polydom_fetch_seconds_sum", "came"] <= took_s
        assert samples["polydom_fetch_seconds_count", "failed"] == 0
        assert samples["polydom_fetches_in_flight", ""] == 0
        assert samples["polydom_fetch_kept_total", ""] == 0
        assert samples["polydom_fetch_down", ""] == 0

        fetcher.ask((1,), FOREVER_S)
        source.error = ConnectionError("away")
        for n in range(FAILURES):
            await ended(fetcher.ask((10 + n,), FOREVER_S))
        fetcher.ask((20,), FOREVER_S)
        samples = shown(fetchers)
        assert samples["polydom_fetch_seconds_count", "failed"] == FAILURES
        assert samples["polydom_fetch_kept_total", ""] == 1
        assert samples["polydom_fetch_not_sent_total", ""] == 1
        assert samples["polydom_fetch_down", ""] == 1

        source.error = None
        source.is_open.clear()
        await until(lambda: fetcher.ask((30,), FOREVER_S).state == "waiting")
        await until(lambda: source.now)
        assert shown(fetchers)["polydom_fetches_in_flight", ""] == 1
        await fetchers.close()

    run(main)


def test_a_server_without_fetches_shows_no_samples() -> None:
    metrics = [*fetch_metrics(Fetchers({}))]
    assert [metric.name for metric in metrics] == [one.name for one in FETCH_FAMILIES]
    assert not any(metric.samples for metric in metrics)
