"""Files and terms that are no features: each is refused with a sentence."""

import io
import re
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx.external_data_helper import convert_model_to_external_data

from polydom.features.errors import BadFeature
from polydom.features.networks.open_network import open_network
from polydom.features.networks.session import first_line
from polydom.features.networks.terms import network
from tests.support.networks.drafts import Draft, value
from tests.support.networks.small_networks import (
    INPUTS,
    of_columns,
    of_images,
    of_texts,
    tokenizer,
)

ABCD = ["a", "b", "c", "d"]
ROWS = ("float32", ("n", 4))


def refused(tmp_path: Path, model: Any, kind: str = "image", **terms: Any) -> str:
    """Return the message with which a network is refused; there is no other error."""
    file = tmp_path / "x.onnx"
    content = model if isinstance(model, bytes) else model.SerializeToString()
    file.write_bytes(content)
    if kind == "text":
        (tmp_path / "tokenizer.json").write_bytes(tokenizer())
        terms.setdefault("tokenizer", str(tmp_path / "tokenizer.json"))
    with pytest.raises(BadFeature) as caught:
        open_network(network("x", file, kind=kind, **terms), ABCD)
    message = str(caught.value)
    assert message.startswith("network 'x'")
    assert len(message) < 700
    return message


def archive(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        for name in names:
            zipped.writestr(name, "x")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"PK\x03\x04", "a zip archive"),
        (archive("m/data.pkl", "m/data/0"), "torch.save; torch.onnx.export"),
        (archive("m/data.pkl", "m/code/m.py"), "torch.jit.save; torch.onnx.export"),
        (archive("config.json", "model.weights.h5"), "Keras; the library tf2onnx"),
        (b"\x80\x02}q\x00.", "a pickle"),
        (b'\x08\0\0\0\0\0\0\0{"a": 1}', "safetensors"),
        (b"\n<!DOCTYPE html><html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "git lfs pull"),
        (b"\x1c\0\0\0TFL3\0\0\0\0", "TensorFlow Lite"),
        (b"\x1c\0\0\0ORTM\0\0\0\0", "ONNX Runtime optimised"),
        (b"\x89HDF\r\n\x1a\n", "Keras"),
        (b"GGUF\3\0\0\0", "GGUF"),
        (of_images().SerializeToString()[:-9], "cut off or damaged"),
        (b"\x0a\x01x", "torch.onnx.export"),
    ],
)
def test_a_file_that_is_no_onnx_file_is_named(
    tmp_path: Path, content: bytes, message: str
) -> None:
    said = refused(tmp_path, content)
    assert "x.onnx is no ONNX file" in said
    assert message in said


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, reason in ((tmp_path, "Is a directory"), (tmp_path / "no", "No such")):
        with pytest.raises(BadFeature, match=f"network 'x': .*{path.name}: {reason}"):
            open_network(network("x", path, kind="image"))


def changed(model: Any, change: Callable[[Any], None]) -> Any:
    change(model)
    return model


def _outside(model: Any) -> None:
    convert_model_to_external_data(model, size_threshold=0, location="weights.bin")


def _outside_in_function(model: Any) -> None:
    """Keep a weight inside of a local function in another file."""
    tensor = helper.make_tensor("far", 1, [1], [0.0])
    tensor.external_data.add(key="location", value="/etc/passwd")
    tensor.data_location = tensor.EXTERNAL
    inside = helper.make_node("Constant", [], ["y"])
    inside.attribute.append(helper.make_attribute("value", tensor))
    opsets = [helper.make_opsetid("", 17)]
    made = helper.make_function("own", "Far", [], ["y"], [inside], opsets)
    model.functions.append(made)
    model.graph.node.append(helper.make_node("Far", [], ["far"], domain="own"))
    model.opset_import.append(helper.make_opsetid("own", 1))


def _operator(name: str, domain: str) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        model.graph.node[1].op_type = name
        model.graph.node[1].domain = domain
        model.opset_import.append(helper.make_opsetid(domain or "x", 1))

    return change


def _weights(number: float) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        one = model.graph.initializer[0]
        array = np.full_like(numpy_helper.to_array(one), number)
        one.CopyFrom(numpy_helper.from_array(array, one.name))

    return change


def _first_axis(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 8


def _type(number: int) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        model.graph.input[0].type.tensor_type.elem_type = number

    return change


def _no_shape(model: Any) -> None:
    model.graph.input[0].type.tensor_type.ClearField("shape")


def _output(name: str) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        model.graph.output[0].name = name

    return change


def _twice(model: Any) -> None:
    model.graph.node[3].output[0] = model.graph.node[1].output[0]


def _newer(model: Any) -> None:
    model.ir_version = 99


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_outside, "keeps the weight 'weight_1' in another file"),
        (_outside_in_function, "in another file"),
        (_operator("Relu", "mine"), "needs the operator mine:Relu"),
        (_operator("Nope", ""), "Nope"),
        (_operator("EPContext", "com.microsoft"), "compiled for one device"),
        (_weights(np.nan), "is nan in column 0 for a white image of 128 x 128"),
        (_weights(1e38), "is (inf|nan) in column 0"),
        (_first_axis, r"pixels: float32 \(8, 3, n, n\).*open \(n\) or 1"),
        (_type(0), "of no type"),
        (_type(77), "of no type"),
        (_type(16), "bfloat16"),
        (_no_shape, "no shape"),
        (_output("nope"), r"Graph output \(nope\)"),
        (_output("pixels"), "has the outputs pixels: float32"),
        (_output("weight_1"), "has the outputs weight_1"),
        (_twice, "Duplicate definition"),
        (_newer, "Unsupported model IR version: 99"),
        (lambda model: model.graph.ClearField("input"), "has no input"),
        (lambda model: model.graph.ClearField("output"), "has the outputs none"),
    ],
)
def test_an_onnx_file_that_cannot_be_a_feature_is_refused(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    change: Callable[[Any], None],
    message: str,
) -> None:
    said = refused(tmp_path, changed(of_images(), change))
    assert re.search(message, said)
    assert ".cc:" not in said
    assert capfd.readouterr() == ("", "")  # ONNX Runtime would write there itself


def test_names_in_other_encodings_are_refused(tmp_path: Path) -> None:
    for name in (b"pixels", b"block_1", b"scores"):
        content = of_images().SerializeToString().replace(name, name[:-1] + b"\xff")
        assert "no UTF-8" in refused(tmp_path, content)


@pytest.mark.parametrize(
    ("model", "kind", "message"),
    [
        (of_texts(), "image", "has 3 inputs .*a network of images has one"),
        (of_columns(), "image", r"the input rows: float32 \(n, 4\); images need"),
        (of_images(), "text", r"whole numbers named like input_ids"),
        (of_columns(), "text", r"whole numbers named like input_ids"),
        (of_texts(inputs=(*INPUTS, "past_key")), "text", "past_key"),
        (of_texts(inputs=("mask", "types")), "text", "no input of numbers of tokens"),
        (of_texts(), "record", "no row has a column of that name"),
        (of_texts(words=6), "text", "knows 6 words, and its tokenizer has 9"),
    ],
)
def test_a_network_of_other_items_is_refused(
    tmp_path: Path, model: Any, kind: str, message: str
) -> None:
    assert re.search(message, refused(tmp_path, model, kind))


def test_a_tokenizer_of_far_fewer_words_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "x.onnx"
    (tmp_path / "tokenizer.json").write_bytes(tokenizer())
    for words, warned in ((10, False), (30, True)):
        file.write_bytes(of_texts(words=words).SerializeToString())
        told = str(tmp_path / "tokenizer.json")
        open_network(network("x", file, kind="text", tokenizer=told))
        assert ("knows 30 words, and its tokenizer has 9" in caplog.text) == warned


@pytest.mark.parametrize("content", [b"{}", b"\xff", b'{"model": 1}', b""])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "own.json").write_bytes(content)
    own = str(tmp_path / "own.json")
    said = refused(tmp_path, of_texts(), "text", tokenizer=own)
    assert "own.json is no file of the library tokenizers" in said


def fixed_places(side: int) -> Any:
    """Return a network that takes images of one side, and does not say so."""
    draft = Draft(np.random.default_rng(0))
    x = draft.add("Conv", "pixels", draft.weight(4, 3, 16, 16), strides=[16, 16])
    x = draft.add("Reshape", x, draft.constant(np.array([-1, 4, (side // 16) ** 2])))
    draft.add("ReduceMean", x, draft.constant(np.array([2])), keepdims=0)
    draft.nodes[-1].output[0] = "end"
    inputs = {"pixels": ("float32", ("n", 3, "h", "w"))}
    return draft.model(inputs, {"end": ("n", 4)}, 18)


def flat() -> Any:
    """Return a network whose columns are as many as the image has places."""
    draft = Draft(np.random.default_rng(0))
    x = draft.add("Conv", "pixels", draft.weight(1, 3, 8, 8), strides=[8, 8])
    draft.add("Flatten", x)
    draft.nodes[-1].output[0] = "end"
    inputs = {"pixels": ("float32", ("n", 3, "h", "w"))}
    return draft.model(inputs, {"end": ("n", "k")})


def test_each_side_is_tried(tmp_path: Path) -> None:
    said = refused(tmp_path, fixed_places(64), sides=[32, 64])
    assert "32 x 32 pixels: Reshape: " in said
    assert said.endswith("; sides = [64] is possible")
    assert "(1, 3, 48, 48): Reshape" in refused(tmp_path, fixed_places(64), sides=[48])
    said = refused(tmp_path, fixed_places(384))
    assert "(1, 3, 224, 224): Reshape" in said
    assert said.endswith("name that: sides = [384]")
    said = refused(tmp_path, flat(), sides=[32, 64])
    assert "returned 16 columns for a white image of 32 x 32 pixels" in said
    said = refused(tmp_path, of_images(size=(48, 48)), sides=[32])
    assert "takes 48 x 48 pixels only, and sides = [32]" in said


def test_sides_that_it_cannot_take_are_left_out_if_none_is_named(
    tmp_path: Path,
) -> None:
    """A transformer has a table of places, although its file may leave sides open."""
    (tmp_path / "x.onnx").write_bytes(fixed_places(224).SerializeToString())
    made = open_network(network("x", tmp_path / "x.onnx", kind="image"))
    assert made.facts.image is not None
    assert made.facts.image.sizes == [(224, 224)]
    assert made.facts.feature_name(0, 0) == "x_1"


def test_each_length_of_texts_is_tried(tmp_path: Path) -> None:
    """The table of places has 32 rows; only long texts would show it."""
    said = refused(tmp_path, with_places(32), "text", tokens=[16, 64])
    assert "a text of 64 tokens" in said
    assert said.endswith("; tokens = [16] is possible")
    said = refused(tmp_path, of_texts(tokens=16), "text", tokens=[32])
    assert "takes 16 tokens only, and tokens = [32]" in said


def with_places(most: int) -> Any:
    draft = Draft(np.random.default_rng(0))
    x = draft.add("Gather", draft.weight(9, 4), "input_ids")
    ones = draft.add("Mul", "input_ids", draft.constant(np.array(0)))
    one = draft.add("Add", ones, draft.constant(np.array(1)))
    places = draft.add("CumSum", one, draft.constant(np.array(1)), exclusive=1)
    more = draft.add("Gather", draft.weight(most, 4), places)
    draft.add("Add", x, more)
    draft.nodes[-1].output[0] = "end"
    return draft.model({"input_ids": ("int64", ("n", "t"))}, {"end": ("n", "t", 4)})


def rows(*nodes: Any, outputs: list[Any], weights: dict[str, Any] | None = None) -> Any:
    """Return a network of rows of four columns, X."""
    made = [numpy_helper.from_array(np.array(w), n) for n, w in (weights or {}).items()]
    graph = helper.make_graph(nodes, "rows", [value("X", *ROWS)], outputs, made)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def one_node(operator: str, *more: str, shape: Any, **attributes: Any) -> Any:
    """Return a network of one operator, whose other inputs are small weights."""
    weights = {"zero": [0], "one": [1], "half": np.float32(0.5), "true": True}
    dtype = {"Cast": "int64"}.get(operator, "float32")
    node = helper.make_node(operator, ["X", *more], ["end"], **attributes)
    return rows(node, outputs=[value("end", dtype, shape)], weights=weights)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (one_node("ReduceMean", shape=[], keepdims=0), r"end: float32 \(\)"),
        (one_node("Squeeze", shape=[4]), r"an output of the shape \(4,\) for one item"),
        (one_node("Transpose", shape=[4, "n"]), r"shape \(4, 1\) for one item"),
        (one_node("Cast", shape=["n", 4], to=7), r"end: int64 \(1, 4\)"),
        (one_node("Slice", "zero", "zero", "one", shape=["n", 0]), "gives 0 columns"),
        (one_node("Dropout", "half", "true", shape=["n", 4]), "Dropout in training"),
        (one_node("RandomNormalLike", shape=["n", 4]), "RandomNormalLike, which"),
        (one_node("Bernoulli", shape=["n", 4]), "model.eval"),
    ],
)
def test_outputs_that_are_no_columns_are_refused(
    tmp_path: Path, model: Any, message: str
) -> None:
    assert re.search(message, refused(tmp_path, model, "record", columns=ABCD))


def test_an_output_that_is_too_wide_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["X", "w"], ["end"])
    weights = {"w": np.ones((4, 5000), np.float32)}
    ends = [value("end", "float32", ["n", 5000])]
    model = rows(node, outputs=ends, weights=weights)
    said = refused(tmp_path, model, "record", columns=ABCD)
    assert "gives 5,000 columns; 1 to 4,096 are possible" in said


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"outputs": ["block_9"]}, r"no tensor 'block_9'; did you mean 'block_\d'"),
        ({"outputs": ["pixels"]}, "no tensor 'pixels'"),
        ({"outputs": ["weight_1"]}, "no tensor 'weight_1'"),
        ({"outputs": ["block_3", "block_1"]}, "are not in order"),
        ({"outputs": ["block_1", "scores", "block_2"]}, "are not in order"),
        ({"outputs": "end", "names": ["a", "b"]}, "1 pieces, and names = "),
        ({"providers": ["CUDAExecutionProvider"]}, "has no 'CUDAExecutionProvider'"),
        ({"providers": ["AzureExecutionProvider"]}, "there are CPUExecutionProvider"),
    ],
)
def test_terms_that_do_not_fit_the_file_are_refused(
    tmp_path: Path, terms: dict[str, Any], message: str
) -> None:
    assert re.search(message, refused(tmp_path, of_images(), sides=[32], **terms))


def test_a_map_of_scores_is_the_tensor_that_it_is_made_of(tmp_path: Path) -> None:
    """As skl2onnx writes a classifier, unless it is told otherwise."""
    kind = helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, None))
    ends = [
        value("label", "int64", ["n"]),
        helper.make_value_info("maps", helper.make_sequence_type_proto(kind)),
    ]
    nodes = [
        helper.make_node("MatMul", ["X", "w"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
        helper.make_node(
            "ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[0]
        ),
    ]
    weights = {"w": np.ones((4, 1), np.float32)}
    file = tmp_path / "x.onnx"
    made = rows(*nodes, outputs=ends, weights=weights)
    file.write_bytes(made.SerializeToString())
    network_of = open_network(network("x", file, kind="record", columns=ABCD), ABCD)
    assert [piece.width for piece in network_of.facts.pieces] == [1]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("[ONNXRuntimeError] : 1 : FAIL : a b", "a b"),
        (
            "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : /a/b.cc:5 f(int) No such.",
            "No such",
        ),
        (
            "[ONNXRuntimeError] : 6 : RUNTIME : Non-zero status code returned while "
            "running Gather node. Name:'' Status Message: /x/y.h:84 a::b(int) const "
            "x != 0 && (a % b) == 0 was false. Out of bounds\n\nmore",
            "Gather: Out of bounds",
        ),
        (
            "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Exception during "
            "initialization: /x/normalizer.cc:235 a::Locale(const b&) No locale.",
            "No locale",
        ),
        ("another error", "another error"),
        ("", ""),
    ],
)
def test_errors_are_told_without_where_they_come_from(raw: str, message: str) -> None:
    assert first_line(ValueError(raw)) == message


def test_a_network_without_end_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop may go on for ever; no budget is so long."""
    monkeypatch.setattr("polydom.features.networks.onnx_graph.MOST_S", 0.1)
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_on"], ["goes_on"]),
            helper.make_node("Tanh", ["carried"], ["next"]),
        ],
        "body",
        [value("k", "int64", []), value("go_on", "bool", []), value("carried", *ROWS)],
        [value("goes_on", "bool", []), value("next", *ROWS)],
    )
    node = helper.make_node("Loop", ["count", "", "X"], ["end"], body=body)
    weights = {"count": 1 << 60}
    model = rows(node, outputs=[value("end", *ROWS)], weights=weights)
    before = threading.active_count()
    said = refused(tmp_path, model, "record", columns=ABCD)
    assert "takes more than 0.1 s for one item" in said
    assert threading.active_count() <= before


def test_functions_that_cannot_be_written_out_are_told_of(tmp_path: Path) -> None:
    """The function is of other versions of operators, and calls what has no type."""
    inner = [helper.make_node("Nope", ["x"], ["y"])]
    old = [helper.make_opsetid("", 9)]
    made = helper.make_function("own", "Odd", ["x"], ["y"], inner, old)
    nodes = [
        helper.make_node("Strange", ["X"], ["z"], domain="own"),
        helper.make_node("Odd", ["z"], ["end"], domain="own"),
    ]
    model = rows(*nodes, outputs=[value("end", *ROWS)])
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(made)
    said = refused(tmp_path, model, "record", columns=ABCD)
    assert "functions that cannot be written out" in said, said


def test_nothing_is_printed_when_a_session_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """ONNX Runtime would try another provider, and print that to standard output."""
    content = of_images().SerializeToString()
    assert b"\x22\x04Relu" in content  # the operator of a node
    refused(tmp_path, content.replace(b"\x22\x04Relu", b"\x22\x04\xf1elu", 1))
    assert capfd.readouterr() == ("", "")
