"""What was counted is said in nanoseconds, and its phases add up."""

import math
import time

import pytest

from polydom.server.metrics.counts import Metrics, Timed
from polydom.server.oip.statistics import Duration, statistics_of


def test_nothing_was_counted_yet() -> None:
    said = statistics_of("tiny", "7", Metrics())
    assert (said.name, said.version, said.inference_count) == ("tiny", "7", 0)
    assert (said.last_inference, said.batch_stats) == (0, [])
    assert said.inference_stats.success == Duration(0, 0)


def test_phases_add_up_to_the_whole() -> None:
    metrics, sent_s = Metrics(), time.monotonic()
    for scale in (1, 2):
        finished_s = sent_s - scale * 0.0005
        started_s = finished_s - scale * 0.004
        read_s, arrived_s = started_s - scale * 0.001, sent_s - scale * 0.01
        times = (arrived_s, read_s, started_s, finished_s)
        metrics.answered([Timed((), None, 0.0, *times, math.inf, None)], sent_s)
    metrics.errors["bad_input"] += 2
    metrics.failed_s = 0.25
    said = statistics_of("tiny", "7", metrics)
    phases = said.inference_stats
    assert said.inference_count == said.execution_count == 2
    assert said.last_inference == pytest.approx(time.time() * 1e3, abs=60_000)
    assert phases.fail == Duration(2, 250_000_000)
    for found, milliseconds in (
        (phases.success, 30),
        (phases.queue, 3),
        (phases.compute_infer, 12),
        (phases.compute_output, 1.5),
        (phases.compute_input, 13.5),
    ):
        assert found.count == 2
        assert found.ns == pytest.approx(milliseconds * 1e6)
    (batch,) = said.batch_stats
    assert (batch.batch_size, batch.compute_infer) == (1, phases.compute_infer)
