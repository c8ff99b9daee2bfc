"""A configuration says the same as the metadata, in words that clients know."""

from polydom.server.oip.items import Items
from polydom.server.oip.metadata import (
    CONFIG_TYPES,
    ModelMetadata,
    TensorFacts,
    config_of,
)
from tests.support.served import make_index


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
