"""What the protocol says of a server and its models."""

import msgspec

from .oip_items import TensorFacts

EXTENSIONS = [
    "binary_tensor_data",
    "classification",
    "model_configuration",
    "model_repository",
    "schedule_policy",
    "statistics",
]
PLATFORM = "polydom"


class ServerFacts(msgspec.Struct):
    """Answer of a server metadata request."""

    name: str
    version: str
    extensions: list[str]


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
