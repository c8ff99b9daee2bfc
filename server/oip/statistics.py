"""What the server counts, in the form of the protocol's statistics extension."""

import time

import msgspec

from ..metrics.counts import Histogram, Metrics


class Duration(msgspec.Struct):
    """How often something happened, and nanoseconds that it took in all."""

    count: int
    ns: int


class InferenceStatistics(msgspec.Struct):
    """Phases of all inferences; nothing is cached here."""

    success: Duration
    fail: Duration
    queue: Duration
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration
    cache_hit: Duration
    cache_miss: Duration


class BatchStatistics(msgspec.Struct):
    """Phases by batch size: every item is computed by itself."""

    batch_size: int
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration


class ModelStatistics(msgspec.Struct):
    """One model's; an inference is one item. `last_inference` is Unix milliseconds."""

    name: str
    version: str
    last_inference: int
    inference_count: int
    execution_count: int
    inference_stats: InferenceStatistics
    batch_stats: list[BatchStatistics]


class ModelsStatistics(msgspec.Struct):
    """Answer of a statistics request."""

    model_stats: list[ModelStatistics]


def statistics_of(name: str, version: str, metrics: Metrics) -> ModelStatistics:
    """Say what was counted for a model, through all its versions and on all routes.

    `compute_input` is what remains of the whole time after queue, plan and encoding:
    receiving and reading requests.
    """
    names = ("request", "queue", "plan", "encode")
    whole, queue, plan, encode = (_duration(metrics.histogram(name)) for name in names)
    rest_ns = max(whole.ns - queue.ns - plan.ns - encode.ns, 0)
    read = Duration(whole.count, rest_ns)
    fail = Duration(metrics.errors.total(), round(metrics.failed_s * 1e9))
    none = Duration(0, 0)
    phases = InferenceStatistics(
        whole, fail, queue, read, plan, encode, cache_hit=none, cache_miss=none
    )
    batches = [BatchStatistics(1, read, plan, encode)] if whole.count else []
    return ModelStatistics(
        name, version, _unix_ms(metrics), whole.count, whole.count, phases, batches
    )


def _duration(histogram: Histogram) -> Duration:
    return Duration(int(histogram.counts.sum()), round(histogram.total * 1e9))


def _unix_ms(metrics: Metrics) -> int:
    """When the last answer was sent; 0 before the first."""
    if not metrics.answered_s:
        return 0
    return round((time.time() - time.monotonic() + metrics.answered_s) * 1e3)
