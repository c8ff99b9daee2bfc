"""Messages are those of the protocol, and say what was meant in either form."""

import struct
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2, service_pb2

from polydom.features.errors import BadInput
from polydom.server.oip.grpc_messages import (
    CONTENTS,
    FILE,
    MESSAGES,
    inference_of,
    message_of,
    parameters_of,
    response_of,
)
from polydom.server.oip.items import Requested
from polydom.server.oip.metadata import CONFIG_TYPES, ServerFacts
from polydom.server.oip.service import InferResponse
from polydom.server.oip.tensors import BYTES, DTYPES, Tensor
from tools.compile_proto import compile_proto

SAMPLES: dict[str, list[Any]] = {"BOOL": [True, False], BYTES: [b"a", b""]}


def test_descriptor_is_the_proto_compiled() -> None:
    assert compile_proto() == FileDescriptorProto.FromString(FILE)


def fields_of(file: Any) -> dict[str, tuple[Any, ...]]:
    """Number, type and label of every field, and the types of every method."""
    found: dict[str, tuple[Any, ...]] = {}

    def walk(prefix: str, message: Any) -> None:
        for field in message.field:
            kind = field.type_name.split(".")[-1]
            found[f"{prefix}{message.name}.{field.name}"] = (
                field.number,
                field.type,
                field.label,
                kind,
            )
        for inner in message.nested_type:
            walk(f"{prefix}{message.name}.", inner)

    for message in file.message_type:
        walk("", message)
    for service in file.service:
        for method in service.method:
            found[method.name] = (
                method.input_type,
                method.output_type,
                method.client_streaming,
            )
    for enum in file.enum_type:
        found |= {f"{enum.name}.{value.name}": (value.number,) for value in enum.value}
    return found


def test_numbers_are_those_of_triton() -> None:
    theirs: dict[str, tuple[Any, ...]] = {}
    for module in (service_pb2, model_config_pb2):
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        theirs |= fields_of(file)
    ours = fields_of(FileDescriptorProto.FromString(FILE))
    # the protocol's own, which Triton does not have
    properties = {name for name in ours if "roperties" in name}
    assert len(properties) == 3
    assert {name: theirs.get(name) for name in ours.keys() - properties} == {
        name: ours[name] for name in ours.keys() - properties
    }
    assert ours.keys() >= {f"DataType.{name}" for name in CONFIG_TYPES.values()}


def request_of(**fields: Any) -> Any:
    return MESSAGES["ModelInferRequest"](**fields)


def test_every_datatype_but_fp16_comes_typed() -> None:
    assert CONTENTS.keys() == {*DTYPES, BYTES} - {"FP16"}
    for datatype, field in CONTENTS.items():
        values = SAMPLES.get(datatype, [1, 2])
        tensor: dict[str, Any] = {"name": "x", "datatype": datatype, "shape": [2]}
        tensor["contents"] = {field: values}
        (read,) = inference_of(request_of(inputs=[tensor])).inputs
        assert read == Tensor("x", datatype, (2,), values)


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=9))
def test_raw_and_typed_say_the_same(values: list[float]) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [len(values)]}
    raw = struct.pack(f"<{len(values)}f", *values)
    as_raw = request_of(inputs=[tensor], raw_input_contents=[raw])
    typed = request_of(inputs=[{**tensor, "contents": {"fp32_contents": values}}])
    assert inference_of(as_raw).inputs == inference_of(typed).inputs


def test_request_is_read_whole() -> None:
    request = request_of(
        model_name="tiny",
        model_version="7",
        id="a",
        parameters={"timeout": {"uint64_param": 5}, "nothing": {}},
        outputs=[
            {"name": "label"},
            {"name": "scores", "parameters": {"classification": {"int64_param": 2}}},
        ],
    )
    read = inference_of(request)
    assert (read.model, read.version, read.id) == ("tiny", "7", "a")
    assert read.parameters == {"timeout": 5}
    assert read.outputs == [Requested("label"), Requested("scores", 2)]


TENSOR = {"name": "x", "datatype": "INT64", "shape": [1]}


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"inputs": [TENSOR], "raw_input_contents": [b"", b""]}, "2 raw_.* for 1 inp"),
        (
            {
                "inputs": [{**TENSOR, "contents": {"int64_contents": [1]}}],
                "raw_input_contents": [bytes(8)],
            },
            "'x' has contents, although raw_input_contents",
        ),
        (
            {"inputs": [{**TENSOR, "contents": {"int_contents": [1]}}]},
            "'INT64' belong in int64_contents, not in int_contents",
        ),
        (
            {
                "inputs": [
                    {**TENSOR, "datatype": "FP16", "contents": {"fp32_contents": [1]}}
                ]
            },
            "'FP16' belong in raw_input_contents",
        ),
        ({"inputs": [{**TENSOR, "shape": [-1]}]}, "an axis of -1"),
        ({"inputs": [{**TENSOR, "shape": [1 << 62, 4]}]}, "an axis of 46116860"),
        ({"inputs": [TENSOR]}, "does not match 0 values"),
        ({"inputs": [{**TENSOR, "datatype": "BF16"}]}, "datatype 'BF16' is none of"),
        (
            {
                "inputs": [
                    {
                        **TENSOR,
                        "parameters": {"shared_memory_region": {"string_param": "r"}},
                    }
                ]
            },
            "shared memory is not offered",
        ),
    ],
)
def test_requests_that_are_wrong_are_refused(fields: Any, match: str) -> None:
    with pytest.raises(BadInput, match=match):
        inference_of(request_of(**fields))


@pytest.mark.parametrize("raw", [True, False])
def test_response_says_the_same_raw_and_typed(raw: bool) -> None:
    outputs = [
        Tensor("label", BYTES, (1,), ["hä"]),
        Tensor("scores", "FP64", (1, 2), [0.25, 0.75]),
        Tensor("budget_met", "BOOL", (1,), [True]),
    ]
    parameters: dict[str, Any] = {"met": True, "n": 2, "us": 1.5, "features": "a,b"}
    inferred = InferResponse("tiny", "7", "a", parameters, outputs, None, [])  # type: ignore[arg-type]
    response = response_of(inferred, raw=raw)
    assert (response.model_name, response.model_version, response.id) == (
        "tiny",
        "7",
        "a",
    )
    assert parameters_of(response.parameters) == parameters
    assert [(o.name, o.datatype, list(o.shape)) for o in response.outputs] == [
        ("label", "BYTES", [1]),
        ("scores", "FP64", [1, 2]),
        ("budget_met", "BOOL", [1]),
    ]
    if raw:
        label, scores, met = response.raw_output_contents
        assert (label, scores) == (b"\3\0\0\0h\xc3\xa4", struct.pack("<2d", 0.25, 0.75))
        assert met == b"\1"
    else:
        label, scores, met = (output.contents for output in response.outputs)
        assert list(label.bytes_contents) == ["hä".encode()]
        assert list(scores.fp64_contents) == [0.25, 0.75]
        assert list(met.bool_contents) == [True]


def test_structs_fill_messages_of_the_same_names() -> None:
    facts = ServerFacts("polydom", "1", ["statistics"])
    message = message_of("ServerMetadataResponse", facts)
    assert (message.name, list(message.extensions)) == ("polydom", ["statistics"])
