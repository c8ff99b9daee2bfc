"""A model's configuration, as far as clients ask for it."""

from typing import Any

from .oip_items import TensorFacts
from .oip_metadata import ModelMetadata
from .tensors import BYTES

# Names and numbers of the datatypes in a configuration.
CONFIG_TYPES = {
    "BOOL": ("TYPE_BOOL", 1),
    "FP64": ("TYPE_FP64", 12),
    BYTES: ("TYPE_STRING", 13),
    "INT64": ("TYPE_INT64", 9),
}


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
