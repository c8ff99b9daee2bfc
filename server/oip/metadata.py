"""Answers about a server and its models: metadata, readiness and statistics."""

import time
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ..metrics.counts import Histogram, Metrics
from .tensors import BYTES

EXTENSIONS = [
    "binary_tensor_data",
    "classification",
    "model_configuration",
    "model_repository",
    "schedule_policy",
    "statistics",
]
PLATFORM = "polydom"
# Names of the datatypes in Triton's model configuration.
CONFIG_TYPES = {
    "BOOL": "TYPE_BOOL",
    "FP64": "TYPE_FP64",
    BYTES: "TYPE_STRING",
    "INT64": "TYPE_INT64",
}


class ServerFacts(msgspec.Struct):
    """The answer to a server metadata request."""

    name: str
    version: str
    extensions: list[str]


class Live(msgspec.Struct):
    """The answer of `/v2/health/live`: whether the process runs."""

    live: bool


class Ready(msgspec.Struct):
    """The answer of `/v2/health/ready`: whether all models are ready.

    The specification names the field `live`, but clients read `ready`, so it has both.
    """

    live: bool
    ready: bool
    error: str | UnsetType = UNSET


class ModelReady(msgspec.Struct):
    """The answer to a readiness request for one model."""

    name: str
    ready: bool
    error: str | UnsetType = UNSET


class TensorFacts(msgspec.Struct):
    """One tensor in a model's metadata; -1 in the shape means any length."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(msgspec.Struct):
    """The answer to a model metadata request; `properties` has polydom's additions."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorFacts]
    outputs: list[TensorFacts]
    properties: dict[str, str]


class ModelIndex(msgspec.Struct):
    """One model's entry in the answer to a repository index request."""

    name: str
    version: str
    state: str
    reason: str


def server_facts() -> ServerFacts:
    """Return the name, version and extensions of this server."""
    return ServerFacts("polydom", version("polydom"), EXTENSIONS)


def config_of(metadata: ModelMetadata) -> dict[str, Any]:
    """Return a model's metadata as a Triton model configuration without batching."""
    return {
        "name": metadata.name,
        "platform": metadata.platform,
        "backend": metadata.platform,
        "max_batch_size": 0,
        "input": [_configured(facts) for facts in metadata.inputs],
        "output": [_configured(facts) for facts in metadata.outputs],
    }


def _configured(facts: TensorFacts) -> dict[str, Any]:
    datatype = CONFIG_TYPES[facts.datatype]
    return {"name": facts.name, "data_type": datatype, "dims": facts.shape}


class Duration(msgspec.Struct):
    """A count of events, and the sum of their durations in nanoseconds."""

    count: int
    ns: int


class InferenceStatistics(msgspec.Struct):
    """Total durations of each phase of inference; the cache counts are always 0."""

    success: Duration
    fail: Duration
    queue: Duration
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration
    cache_hit: Duration
    cache_miss: Duration


class BatchStatistics(msgspec.Struct):
    """Durations of each phase for one batch size, which is always 1."""

    batch_size: int
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration


class ModelStatistics(msgspec.Struct):
    """Statistics of a model; each answered item counts as one inference.

    `last_inference` is a Unix time in milliseconds.
    """

    name: str
    version: str
    last_inference: int
    inference_count: int
    execution_count: int
    inference_stats: InferenceStatistics
    batch_stats: list[BatchStatistics]


class ModelsStatistics(msgspec.Struct):
    """The answer to a statistics request."""

    model_stats: list[ModelStatistics]


def statistics_of(name: str, version: str, metrics: Metrics) -> ModelStatistics:
    """Return the statistics of a model, over all its versions and all routes.

    `compute_input` is the total time of all requests, except the time spent in the
    queue, in plans and in encoding.
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
    """Return the Unix time of the last answer in milliseconds; 0 before the first."""
    if not metrics.answered_s:
        return 0
    return round((time.time() - time.monotonic() + metrics.answered_s) * 1e3)
