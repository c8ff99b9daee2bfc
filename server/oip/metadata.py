"""What the protocol says of a server and its models."""

from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

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
# Names of the datatypes in a configuration.
CONFIG_TYPES = {
    "BOOL": "TYPE_BOOL",
    "FP64": "TYPE_FP64",
    BYTES: "TYPE_STRING",
    "INT64": "TYPE_INT64",
}


class ServerFacts(msgspec.Struct):
    """Answer of a server metadata request."""

    name: str
    version: str
    extensions: list[str]


class Live(msgspec.Struct):
    """Answer of `/v2/health/live`."""

    live: bool


class Ready(msgspec.Struct):
    """Answer of `/v2/health/ready`; the specification says `live`, clients `ready`."""

    live: bool
    ready: bool
    error: str | UnsetType = UNSET


class ModelReady(msgspec.Struct):
    """Answer of a model's readiness."""

    name: str
    ready: bool
    error: str | UnsetType = UNSET


class TensorFacts(msgspec.Struct):
    """A tensor as a model's metadata describe it; -1 stands for any length."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(msgspec.Struct):
    """Answer of a model metadata request; `properties` say what has no other place."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorFacts]
    outputs: list[TensorFacts]
    properties: dict[str, str]


class ModelIndex(msgspec.Struct):
    """One model in a repository's index."""

    name: str
    version: str
    state: str
    reason: str


def server_facts() -> ServerFacts:
    """Say what this server is."""
    return ServerFacts("polydom", version("polydom"), EXTENSIONS)


def config_of(metadata: ModelMetadata) -> dict[str, Any]:
    """Lay a model's metadata out as a configuration.

    A batch of at most 0 items means that the first axis is in the shapes.
    """
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
