"""What was counted is said in nanoseconds, and its phases add up."""

import time
from typing import Any

import pytest

from polydom.server.oip.statistics import Duration, statistics_of
from polydom.server.runtime.metrics import Metrics


def test_nothing_was_counted_yet() -> None:
    said = statistics_of("tiny", "7", Metrics())
    assert (said.name, said.version, said.inference_count) == ("tiny", "7", 0)
    assert (said.last_inference, said.batch_stats) == (0, [])
    assert said.inference_stats.success == Duration(0, 0)


def test_phases_add_up_to_the_whole() -> None:
    metrics: Any = Metrics()
    for name, seconds in (
        ("request", (0.010, 0.020)),
        ("queue", (0.001, 0.002)),
        ("plan", (0.004, 0.008)),
        ("encode", (0.0005, 0.001)),
    ):
        for value in seconds:
            getattr(metrics, name).add(value)
    metrics.errors["bad_input"] += 2
    metrics.failed_s = 0.25
    metrics.answered_s = time.monotonic()
    said = statistics_of("tiny", "7", metrics)
    phases = said.inference_stats
    assert said.inference_count == said.execution_count == 2
    assert said.last_inference == pytest.approx(time.time() * 1e3, abs=60_000)
    assert phases.fail == Duration(2, 250_000_000)
    assert phases.success == Duration(2, 30_000_000)
    assert phases.queue == Duration(2, 3_000_000)
    assert phases.compute_infer == Duration(2, 12_000_000)
    assert phases.compute_output == Duration(2, 1_500_000)
    assert phases.compute_input == Duration(2, 13_500_000)
    (batch,) = said.batch_stats
    assert (batch.batch_size, batch.compute_infer) == (1, phases.compute_infer)
