"""What the protocol says of a server and its models."""

from typing import Any

import msgspec

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
# Names and numbers of the datatypes in a configuration.
CONFIG_TYPES = {
    "BOOL": ("TYPE_BOOL", 1),
    "FP64": ("TYPE_FP64", 12),
    BYTES: ("TYPE_STRING", 13),
    "INT64": ("TYPE_INT64", 9),
}


class ServerFacts(msgspec.Struct):
    """Answer of a server metadata request."""

    name: str
    version: str
    extensions: list[str]


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


def config_of(metadata: ModelMetadata) -> dict[str, Any]:
    """Lay a model's metadata out as a configuration.

    A batch of at most 0 items means that the first axis is in the shapes.
    """
    return {
        "name": metadata.name,
        "platform": metadata.platform,
        "backend": metadata.platform,
        "max_batch_size": 0,
        "input": [_tensor(facts) for facts in metadata.inputs],
        "output": [_tensor(facts) for facts in metadata.outputs],
    }


def _tensor(facts: TensorFacts) -> dict[str, Any]:
    name = CONFIG_TYPES[facts.datatype][0]
    return {"name": facts.name, "data_type": name, "dims": facts.shape}
