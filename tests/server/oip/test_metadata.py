"""Metadata, the configuration that says the same, and statistics."""

import math
import time

import pytest

from polydom.server.metrics.counts import Metrics, Timed
from polydom.server.oip.metadata import (
    CONFIG_TYPES,
    Duration,
    ModelMetadata,
    TensorFacts,
    config_of,
    statistics_of,
)
from polydom.server.oip.tensor_items import Items
from tests.support.indexes.served import make_index


def test_configuration_has_the_tensors_of_the_metadata() -> None:
    inputs = [TensorFacts("age", "FP64", [-1]), TensorFacts("job", "BYTES", [-1])]
    outputs = [TensorFacts("budget_met", "BOOL", [-1])]
    metadata = ModelMetadata("tiny", ["7"], "polydom", inputs, outputs, {})
    assert config_of(metadata) == {
        "name": "tiny",
        "platform": "polydom",
        "backend": "polydom",
        "max_batch_size": 0,
        "input": [
            {"name": "age", "data_type": "TYPE_FP64", "dims": [-1]},
            {"name": "job", "data_type": "TYPE_STRING", "dims": [-1]},
        ],
        "output": [{"name": "budget_met", "data_type": "TYPE_BOOL", "dims": [-1]}],
    }


def test_every_datatype_of_a_model_has_a_name() -> None:
    package = make_index().package
    assert package is not None
    items = Items(package)
    assert {f.datatype for f in (*items.inputs, *items.outputs)} <= CONFIG_TYPES.keys()


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
        metrics.answered(Timed((), None, 0.0, *times, math.inf, None), sent_s)
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
