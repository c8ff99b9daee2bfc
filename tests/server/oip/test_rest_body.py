"""Bodies of inference requests are read as the protocol says, or refused with why."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.server.oip import rest_body, tensors
from polydom.server.oip.rest_body import decode_infer
from polydom.server.oip.service import InferResponse
from polydom.server.oip.tensor_items import Requested
from polydom.server.oip.tensors import BYTES, Tensor
from tests.support.examples import few

AGE = {"name": "age", "shape": [2], "datatype": "FP32"}
RAW = struct.pack("<2f", 1.5, 2.5)


def decode(request: Any, tail: bytes | None = None) -> Any:
    head = json.dumps(request).encode()
    length = None if tail is None else len(head)
    return decode_infer("tiny", "", head + (tail or b""), length, 784)


def binary(size: Any, **facts: Any) -> dict[str, Any]:
    return {**AGE, "parameters": {"binary_data_size": size}, **facts}


def test_tensors_come_as_json_and_behind_it() -> None:
    text = {"name": "text", "shape": [1], "datatype": BYTES, "data": ["a"]}
    request = {
        "id": "7",
        "model_name": "tiny",
        "parameters": {"timeout": 5},
        "inputs": [binary(8), text, binary(8, name="b")],
        "outputs": [{"name": "scores", "parameters": {"classification": 2}}],
    }
    inference = decode(request, RAW + RAW[::-1]).inference
    assert (inference.model, inference.version, inference.id) == ("tiny", "", "7")
    assert inference.parameters == {"timeout": 5}
    assert list(inference.outputs) == [Requested("scores", 2)]
    first, second, third = inference.inputs
    assert first == Tensor("age", "FP32", (2,), [1.5, 2.5])
    assert second == Tensor("text", BYTES, (1,), ["a"])
    assert third.name == "b"
    assert third.values == list(struct.unpack("<2f", RAW[::-1]))


def test_tensor_of_no_values_needs_no_data() -> None:
    (tensor,) = decode({"inputs": [{**AGE, "shape": [0]}]}).inference.inputs
    assert tensor.values == []


@pytest.mark.parametrize(
    ("request_", "tail", "match"),
    [
        ({}, None, "'inputs' is missing"),
        ({"inputs": [], "budget_ms": 5}, None, "'budget_ms' is unknown"),
        ({"inputs": [AGE]}, None, "input 'age' has no 'data'"),
        ({"inputs": [binary(8)]}, None, "needs the header"),
        ({"inputs": [binary(8, data=[1])]}, RAW, "and no 'data'"),
        ({"inputs": [binary(9)]}, RAW, "is 9; 8 bytes are left"),
        ({"inputs": [binary(-1)]}, RAW, "is -1; 8 bytes are left"),
        ({"inputs": [binary("8")]}, RAW, "is '8'; 8 bytes are left"),
        ({"inputs": [binary(True)]}, RAW, "is True; 8 bytes are left"),
        ({"inputs": [binary(8)]}, RAW + b"!!", "2 bytes behind the JSON"),
        ({"inputs": [binary(4)]}, RAW[:4], "4 bytes of data"),
        (
            {"inputs": [{**AGE, "parameters": {"shared_memory_region": "r"}}]},
            None,
            "shared memory is not offered",
        ),
        (
            {
                "inputs": [],
                "outputs": [{"name": "a", "parameters": {"binary_data": 1}}],
            },
            None,
            "binary_data is no boolean",
        ),
        (
            {
                "inputs": [],
                "outputs": [{"name": "a", "parameters": {"classification": -1}}],
            },
            None,
            "classification is no number of classes",
        ),
        (
            {"inputs": [], "parameters": {"binary_data_output": 1}},
            None,
            "binary_data_output must be true or false",
        ),
        ({"inputs": [{**AGE, "shape": [-1]}]}, None, "has no 'data'"),
        ({"inputs": [{**AGE, "shape": [-1], "data": []}]}, None, "an axis of -1"),
        ({"inputs": [{**AGE, "shape": [1e99], "data": []}]}, None, "body: "),
    ],
)
def test_bodies_that_are_wrong_are_refused(
    request_: Any, tail: bytes | None, match: str
) -> None:
    with pytest.raises(BadInput, match=match):
        decode(request_, tail)


@pytest.mark.parametrize("length", [0, 3, 1 << 40])
def test_json_must_be_as_long_as_the_header_says(length: int) -> None:
    with pytest.raises(BadInput, match=f"is {length}; the body has 2 bytes"):
        decode_infer("tiny", "", b"{}", length, 784)


@given(st.binary(max_size=60), st.none() | st.integers(-2, 70))
def test_noise_is_refused_with_our_own_errors(body: bytes, length: int | None) -> None:
    with pytest.raises(BadInput):
        decode_infer("tiny", "", body, length, 784)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(BadInput, match="body"):
        decode_infer("tiny", "", b'{"inputs":' + b"[" * 100_000, None, 784)


def inferred(**changed: Any) -> InferResponse:
    outputs = [
        Tensor("label", BYTES, (1,), ["ham"]),
        Tensor("scores", "FP64", (1, 2), [0.25, 0.75]),
    ]
    facts: dict[str, Any] = {"id": "", "parameters": {}, "outputs": outputs}
    return InferResponse("tiny", "v", **{**facts, **changed}, served=None, answered=[])  # type: ignore[arg-type]


def test_answer_is_json_unless_binary_was_asked_for() -> None:
    body, length = decode({"inputs": []}).encode(inferred(id="7"))
    assert length is None
    assert json.loads(body) == {
        "model_name": "tiny",
        "model_version": "v",
        "id": "7",
        "parameters": {},
        "outputs": [
            {"name": "label", "datatype": "BYTES", "shape": [1], "data": ["ham"]},
            {
                "name": "scores",
                "datatype": "FP64",
                "shape": [1, 2],
                "data": [0.25, 0.75],
            },
        ],
    }


def test_answer_is_binary_for_all_outputs_but_those_that_say_otherwise() -> None:
    outputs = [{"name": "label", "parameters": {"binary_data": False}}]
    request = {"inputs": [], "parameters": {"binary_data_output": True}}
    body, length = decode({**request, "outputs": outputs}).encode(inferred())
    assert length is not None
    said = json.loads(body[:length])
    assert "id" not in said
    assert said["outputs"][0]["data"] == ["ham"]
    assert said["outputs"][1]["parameters"] == {"binary_data_size": 16}
    assert body[length:] == struct.pack("<2d", 0.25, 0.75)


numbers = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False)
)
shapes = st.sampled_from(
    [(3,), (3, 1), (2, 2), (1, 4), (4, 1), (1, 1), (2, 2, 1), (0,)]
)


@settings(max_examples=few(300), deadline=None)
@given(
    st.sampled_from(["FP64", "FP32", "INT8", "BOOL", "BYTES"]),
    shapes,
    st.one_of(
        st.lists(st.one_of(numbers, st.text(max_size=3)), max_size=5),
        st.lists(st.lists(numbers, max_size=4), max_size=4),
        st.lists(st.integers(-128, 127), min_size=4, max_size=4),
        st.lists(st.lists(st.floats(-1, 1), min_size=2, max_size=2), max_size=2),
        st.lists(st.lists(st.text(max_size=3), min_size=1, max_size=1), max_size=4),
        numbers,
    ),
    st.integers(0, 3),
)
def test_long_data_is_read_like_short(
    datatype: str, shape: tuple[int, ...], data: Any, space: int
) -> None:
    """In pieces of a byte, where the other way reads all at once."""
    encoded = json.dumps(data, indent=space or None)
    text = encoded.replace("Infinity", "1e400").encode()
    body = b'{"inputs":[{"name":"a","datatype":"%b","shape":%b,"data":%b}]}' % (
        datatype.encode(),
        json.dumps(shape).encode(),
        text,
    )

    def read() -> Any:
        try:
            (tensor,) = decode_infer("tiny", "", body, None, 4).inference.inputs
        except BadInput:
            return None
        return [*tensor[:3], list(map(repr, tensor.values))]

    short = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rest_body, "LARGE", 0)
        patch.setattr(tensors, "PIECE", 1)
        long = read()
    if len(shape) < 3:
        assert long == short
    else:
        assert long is None


def test_more_values_than_any_items_have_are_refused_unread() -> None:
    shape, data = [1024, 15], b",".join([b"[1]"] * 100_000)
    body = b'{"inputs":[{"name":"a","datatype":"FP64","shape":%b,"data":[%b]}]}'
    said = "up to 1,024 items of up to 14 values"
    with pytest.raises(BadInput, match=said):
        decode_infer("m", "", body % (json.dumps(shape).encode(), data), None, 14)
    with pytest.raises(BadInput, match="does not match 100,000 values"):
        decode_infer("m", "", body % (b"[1024, 14]", data), None, 14)
    with pytest.raises(BadInput, match="is not nested as its shape"):
        decode_infer("m", "", body % (b"[10, 10000]", data), None, 10_000)
    long = b"[" + b"1," * 99_999 + b"1]"
    with pytest.raises(BadInput, match="a shape of"):
        decode_infer("m", "", body % (long, b"1"), None, 14)


def test_long_texts_may_be_nested_whatever_signs_are_in_them() -> None:
    texts = ["[" * 40_000, ']\\"[' * 9_000]
    given = {"name": "text", "shape": [2, 1], "datatype": BYTES}
    given["data"] = [[text] for text in texts]
    (tensor,) = decode({"inputs": [given]}).inference.inputs
    assert tensor.values == texts
    many = {"name": "text", "shape": [1, 1], "datatype": BYTES}
    many["data"] = [[]] * (tensors.MAX_NESTED + 1)
    with pytest.raises(BadInput, match="send so many elements flat"):
        decode({"inputs": [many]})
