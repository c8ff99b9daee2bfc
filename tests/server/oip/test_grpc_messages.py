"""Messages are those of the protocol, and say what was meant in either form."""

import struct
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2, service_pb2

from polydom.features.errors import BadInput
from polydom.server.errors import TooLarge
from polydom.server.oip.grpc_messages import (
    CONTENTS,
    FILES,
    MESSAGES,
    VALUE_BYTES,
    Asked,
    declared_in,
    inference_of,
    message_of,
    parameters_of,
    read_asked,
    read_short,
    response_of,
    size_of,
)
from polydom.server.oip.metadata import CONFIG_TYPES, ServerFacts
from polydom.server.oip.protobuf_wire import written
from polydom.server.oip.service import InferRequest, InferResponse
from polydom.server.oip.tensor_items import Requested
from polydom.server.oip.tensors import BYTES, DTYPES, Tensor
from polydom.server.schema.bounds import LARGE
from tools.compile_proto import PROTOS, compile_proto

SAMPLES: dict[str, list[Any]] = {"BOOL": [True, False], BYTES: [b"a", b""]}


@pytest.mark.parametrize("proto", PROTOS, ids=lambda proto: proto.stem)
def test_descriptor_is_the_proto_compiled(proto: Path) -> None:
    kept = FileDescriptorProto.FromString(FILES[proto.stem])
    assert compile_proto(proto) == kept


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
    ours = fields_of(FileDescriptorProto.FromString(FILES["inference"]))
    # the protocol's own, which Triton does not have
    properties = {name for name in ours if "roperties" in name}
    assert len(properties) == 3
    assert {name: theirs.get(name) for name in ours.keys() - properties} == {
        name: ours[name] for name in ours.keys() - properties
    }
    assert ours.keys() >= {f"DataType.{name}" for name in CONFIG_TYPES.values()}


def request_of(**fields: Any) -> Any:
    return MESSAGES["ModelInferRequest"](**fields)


def read_bytes(data: bytes) -> InferRequest:
    asked = read_asked(data)
    return inference_of(asked, declared_in(asked))


def read(request: Any) -> InferRequest:
    return read_bytes(request.SerializeToString())


def test_every_datatype_but_fp16_comes_typed() -> None:
    assert CONTENTS.keys() == {*DTYPES, BYTES} - {"FP16"}
    for datatype, field in CONTENTS.items():
        values = SAMPLES.get(datatype, [1, 2])
        tensor: dict[str, Any] = {"name": "x", "datatype": datatype, "shape": [2]}
        tensor["contents"] = {field: values}
        (came,) = read(request_of(inputs=[tensor])).inputs
        assert came == Tensor("x", datatype, (2,), values)


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=9))
def test_raw_and_typed_say_the_same(values: list[float]) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [len(values)]}
    raw = struct.pack(f"<{len(values)}f", *values)
    as_raw = request_of(inputs=[tensor], raw_input_contents=[raw])
    typed = request_of(inputs=[{**tensor, "contents": {"fp32_contents": values}}])
    assert read(as_raw).inputs == read(typed).inputs


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
    came = read(request)
    assert (came.model, came.version, came.id) == ("tiny", "7", "a")
    assert came.parameters == {"timeout": 5}
    assert came.outputs == [Requested("label"), Requested("scores", 2)]


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
        read(request_of(**fields))


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


def whole(data: bytes) -> Asked:
    """A request as protobuf alone decodes it."""
    message = MESSAGES["ModelInferRequest"].FromString(data)
    return Asked(message, {}, message.raw_input_contents, len(data))


LONG = "a" * (LARGE // 2)
TYPED: dict[str, Any] = {
    "BOOL": [True, False] * 40_000,
    "INT32": [-1, 5, 1 << 20] * 10_000,
    "UINT64": [1 << 63, 0] * 8_000,
    "FP32": [0.5, -1.0] * 10_000,
    "FP64": [1e300] * 10_000,
    BYTES: [LONG.encode(), b"", b"b" * 40_000],
}


@pytest.mark.parametrize("datatype", TYPED)
def test_long_request_says_what_protobuf_makes_of_it(datatype: str) -> None:
    values = TYPED[datatype]
    tensor = {
        "name": "x",
        "datatype": datatype,
        "shape": [len(values)],
        "parameters": {"p": {"int64_param": 1}},
        "contents": {CONTENTS[datatype]: values},
    }
    few = {"name": "y", "datatype": "INT8", "shape": [1]}
    data = request_of(
        model_name="tiny",
        id="7",
        parameters={"timeout": {"int64_param": 5}},
        inputs=[few | {"contents": {"int_contents": [3]}}, tensor],
        outputs=[{"name": "label"}],
    ).SerializeToString()
    assert len(data) > LARGE
    asked = read_asked(data)
    assert list(asked.typed) == [0, 1]
    twin = whole(data)
    assert declared_in(asked) == declared_in(twin)
    assert inference_of(asked, declared_in(asked)) == inference_of(
        twin, declared_in(twin)
    )


def test_long_request_with_raw_data_is_read() -> None:
    tensors = [
        {"name": "a", "datatype": BYTES, "shape": [2]},
        {"name": "b", "datatype": "FP64", "shape": [10_000]},
    ]
    element = struct.pack("<I", len(LONG)) + LONG.encode()
    data = request_of(
        inputs=tensors, raw_input_contents=[2 * element, bytes(80_000)]
    ).SerializeToString()
    asked, twin = read_asked(data), whole(data)
    assert list(map(bytes, asked.raw)) == list(twin.raw)
    assert inference_of(asked, declared_in(asked)) == inference_of(
        twin, declared_in(twin)
    )


def test_contents_in_several_parts_are_one() -> None:
    said = {"name": "x", "datatype": "FP64", "shape": [10_001]}
    tensor = MESSAGES["ModelInferRequest"].InferInputTensor(**said).SerializeToString()
    for count in (10_000, 1):
        contents = MESSAGES["InferTensorContents"](fp64_contents=[1.5] * count)
        tensor += written(5, contents.SerializeToString())
    asked = read_asked(written(5, tensor))
    (read,) = inference_of(asked, declared_in(asked)).inputs
    assert read.values == [1.5] * 10_001


def tensor_of(datatype: str, shape: list[int], contents: bytes) -> bytes:
    said = MESSAGES["ModelInferRequest"].InferInputTensor(
        name="x", datatype=datatype, shape=shape
    )
    return written(5, said.SerializeToString() + written(5, contents))


MILLION = 1 << 20
HOSTILE = {
    "inputs": (b"\x2a\x00" * MILLION, "more fields"),
    "small inputs": (tensor_of("BOOL", [0], b"") * 100_000, "more fields"),
    "outputs": (b"\x32\x00" * MILLION, "more fields"),
    "outputs in few bytes": (b"\x32\x00" * 30_000, "30,000 outputs are asked for"),
    "parameters": (b"\x22\x00" * MILLION, "more fields"),
    "one parameter": (written(4, b"\x0a\x00" * MILLION), "bytes beside its data"),
    "parameters of an input": (written(5, b"\x22\x00" * MILLION), "more fields"),
    "raw contents": (b"\x3a\x00" * MILLION, "more fields"),
    "names": (b"\x0a\x01a" * MILLION, "more fields"),
    "a long name": (written(1, bytes(MILLION)), "bytes beside its data"),
    "shape": (written(5, b"\x18\x01" * MILLION), "more fields"),
    "packed shape": (written(5, written(3, b"\x01" * MILLION)), "beside its data"),
    "contents": (written(5, b"\x2a\x00" * MILLION), "more fields"),
    "strings": (tensor_of(BYTES, [MILLION], b"\x42\x00" * MILLION), "strings, each of"),
    "more strings": (tensor_of(BYTES, [5], b"\x42\x00" * MILLION), r"\[5\] does not"),
    "more numbers": (
        tensor_of("INT32", [5], written(2, b"\x01" * MILLION)),
        "does not match 16,384 values",
    ),
    "numbers, unpacked": (
        tensor_of("INT32", [MILLION], b"\x10\x01" * MILLION),
        "numbers packed",
    ),
    "unknown contents": (tensor_of("INT32", [1], b"\x78\x01" * MILLION), "more fields"),
    "unknown fields": (b"\x78\x01" * MILLION, "more fields"),
    "groups": (b"\x7b\x7c" * MILLION, "no message"),
    "deep groups": (b"\x7b" * MILLION, "no message"),
    "no message": (b"\xff" * MILLION, "no message"),
    "all values": (
        tensor_of("INT8", [MILLION], b"") * 3,
        "hold 3,145,728 values; at most 2,097,152",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_too_much_is_refused_before_it_is_decoded(name: str) -> None:
    data, match = HOSTILE[name]
    with pytest.raises(BadInput, match=match):
        read_bytes(data)


def test_many_small_parts_weigh_as_much_as_a_long_request() -> None:
    few = read_asked(b"\x2a\x00" * 10)
    many = read_asked(b"\x2a\x00" * 2000)
    assert few.weight < LARGE < many.weight


def test_what_is_held_grows_with_bytes_and_values() -> None:
    asked = read_asked(tensor_of("FP64", [9000], bytes(72_000)))
    assert size_of(asked, declared_in(asked)) == 3 * asked.size + 9000 * VALUE_BYTES


def test_other_messages_are_short() -> None:
    assert read_short("ModelReadyRequest", b"\x0a\x04tiny").name == "tiny"
    with pytest.raises(TooLarge, match="at most 16,384"):
        read_short("ModelReadyRequest", b"\x78\x01" * 10_000)
