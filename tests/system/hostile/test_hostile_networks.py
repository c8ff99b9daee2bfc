"""Networks of index files made to hurt: refused at load or at the warm-up."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from msgspec import UNSET
from numpy.typing import NDArray
from onnx import helper

from polydom.features.errors import BadIndexFile, PolydomError
from polydom.features.fingerprint import fingerprint
from polydom.features.networks.network import Network
from polydom.features.networks.outside import needs_outside
from polydom.indexer.index.file.pdx_file import read_file
from polydom.indexer.index.index import Index
from polydom.server.runtime.warm_up import open_translator
from tests.support.edited_files.edits import sealed
from tests.support.indexes.with_networks import make_index, open_small
from tests.support.networks.small_networks import of_images, tokenizer


def replaced(struct: Any, path: str, value: Any) -> Any:
    """Return a struct with another value at a path, such as "pieces.0.axes"."""
    name, _, rest = path.partition(".")
    if isinstance(struct, list):
        own = [*struct]
        own[int(name)] = replaced(own[int(name)], rest, value) if rest else value
        return own
    inner = replaced(getattr(struct, name), rest, value) if rest else value
    return msgspec.structs.replace(struct, **{name: inner})


def saved(path: Path, network: Network) -> Path:
    """Write an index of another network, with the fingerprints of its features.

    The network is not run.
    """
    index = make_index(network.facts.kind, keeps=True)
    assert index.package is not None
    features = []
    for one in index.package.features:
        assert one.stage is not UNSET
        feature = network.feature(one.stage.variant, one.stage.piece)
        made_of = fingerprint(feature)
        features.append(msgspec.structs.replace(one, fingerprint=made_of))
    package = replace(index.package, features=tuple(features), networks=(network,))
    replace(index, package=package).save(path)
    return path


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("image", "name", "../../net"),
        ("image", "kind", "text"),
        ("image", "stages", ["1"]),
        ("image", "stages", ["1", "1"]),
        ("image", "image.sizes", [(32, 32), (1 << 16, 1 << 16)]),
        ("image", "image.sizes", [(0, 32), (32, 32)]),
        ("image", "image.sizes", []),
        ("image", "image.channels", 7),
        ("image", "image.dtype", "float640"),
        ("image", "image.factors", [1.0]),
        ("image", "image.factors", [np.nan] * 3),
        ("image", "image.offsets", [np.inf] * 3),
        ("image", "pieces.0.inputs", [1]),
        ("image", "pieces.0.inputs", [0, 0]),
        ("image", "pieces.0.inputs", []),
        ("image", "pieces.0.after", [0]),
        ("image", "pieces.1.after", [1]),
        ("image", "pieces.1.after", [-1]),
        ("image", "pieces.0.axes", [2]),
        ("image", "pieces.0.axes", [7, 7]),
        ("image", "pieces.0.of_tokens", "mean"),
        ("image", "pieces.0.width", 0),
        ("image", "pieces.0.width", 1 << 40),
        ("image", "pieces.0.work", np.nan),
        ("text", "pieces.0.axes", [1, 2]),
        ("text", "text.tokens", [8, 1 << 40]),
        ("text", "text.tokens", []),
        ("text", "text.inputs", ["mask", "types"]),
        ("text", "text.inputs", ["ids", "ids", "types"]),
        ("text", "text.inputs", ["ids", "mask", "types", "mask"]),
        ("text", "text.dtypes", ["int64"]),
        ("text", "image", open_small("image").facts.image),
    ],
)
def test_facts_that_no_network_has_are_refused_at_load(
    tmp_path: Path, kind: str, path: str, value: Any
) -> None:
    meta, arrays, _ = read_file(saved(tmp_path / "x.pdx", open_small(kind)))
    facts = replaced(open_small(kind).facts, path, value)
    meta["package"]["networks"] = [msgspec.to_builtins(facts)]
    (tmp_path / "x.pdx").write_bytes(sealed(meta, dict(arrays)))
    with pytest.raises(BadIndexFile, match=r"x\.pdx: damaged: "):
        Index.load(tmp_path / "x.pdx")


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("image", "image.channels_last", True),
        ("image", "image.dtype", "uint8"),
        ("image", "pieces.0.axes", []),
        ("image", "pieces.0.width", 5),
        ("image", "pieces.1.axes", [1, 2]),
        ("image", "pieces.1.of_tokens", "mean"),
        ("image", "providers", ("CUDAExecutionProvider",)),
        ("image", "providers", ("AzureExecutionProvider",)),
        ("text", "text.dtypes", ["int32"] * 3),
        ("text", "text.inputs", ["ids", "types", "mask"]),
        ("text", "text.padded", True),
        ("text", "pieces.0.of_tokens", None),
    ],
)
def test_facts_of_another_network_are_refused_at_the_warm_up(
    tmp_path: Path, kind: str, path: str, value: Any
) -> None:
    """Where they fit the models as well, they are another network, which is right."""
    facts = replaced(open_small(kind).facts, path, value)
    file = saved(tmp_path / "x.pdx", replace(open_small(kind), facts=facts))
    if path in ("text.inputs", "text.padded"):
        open_translator(file, [])
        return
    with pytest.raises(PolydomError, match="net") as caught:
        open_translator(file, [])
    assert len(str(caught.value)) < 300


def bytes_of(model: Any) -> NDArray[np.uint8]:
    content = model if isinstance(model, bytes) else model.SerializeToString()
    return np.frombuffer(content, np.uint8)


def changed(change: Callable[[Any], Any]) -> NDArray[np.uint8]:
    """Return the first piece of the network of images, parsed and changed."""
    model = onnx.load_model_from_string(open_small("image").models[0].tobytes())
    change(model)
    return bytes_of(model)


def outside(tensor: Any) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = tensor.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")


def outside_in_branch(model: Any) -> None:
    """Keep a weight in another file, in an attribute of a node of a branch."""
    tensor = helper.make_tensor("far", 1, [1], [0.0])
    outside(tensor)
    node = helper.make_node("Constant", [], ["far"])
    node.attribute.append(helper.make_attribute("value", tensor))
    inner = helper.make_graph([node], "inner", [], [])
    branches = {"then_branch": inner, "else_branch": inner}
    model.graph.node.append(helper.make_node("If", ["x"], ["y"], **branches))


def compiled(model: Any) -> None:
    made = helper.make_node("EPContext", [], ["y"], domain="com.microsoft")
    model.graph.node.append(made)


def outside_in_function(model: Any) -> None:
    tensor = helper.make_tensor("far", 1, [1], [0.0])
    outside(tensor)
    node = helper.make_node("Constant", [], ["y"])
    node.attribute.append(helper.make_attribute("value", tensor))
    made = helper.make_function("own", "Far", [], ["y"], [node], [])
    model.functions.append(made)


OUTSIDE: dict[str, Callable[[Any], Any]] = {
    "weight": lambda model: outside(model.graph.initializer[0]),
    "sparse": lambda model: outside(model.graph.sparse_initializer.add().values),
    "branch": outside_in_branch,
    "function": outside_in_function,
    "compiled": compiled,
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_model_that_needs_a_file_is_refused_before_a_library_reads_it(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = (changed(OUTSIDE[name]), *open_small("image").models[1:])
    file = saved(tmp_path / "x.pdx", replace(open_small("image"), models=models))
    monkeypatch.setattr("polydom.features.networks.session.import_library", None)
    with pytest.raises(BadIndexFile, match="piece 0 needs a file outside the index"):
        Index.load(file)


def test_words_of_a_model_are_no_files() -> None:
    """A vocabulary may have the word that names a file's key, as names may."""

    def with_words(model: Any) -> None:
        words = onnx.numpy_helper.from_array(np.array(["location", "EPContext"]), "w")
        model.graph.initializer.append(words)
        model.graph.node[0].name = "location"
        node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml")
        node.attribute.append(helper.make_attribute("keys_strings", ["location", "b"]))
        model.graph.node.append(node)

    assert not needs_outside(changed(with_words).tobytes())


def test_no_way_of_writing_hides_a_file() -> None:
    """Protobuf reads numbers that are written longer than they must be."""
    content = changed(OUTSIDE["weight"]).tobytes()
    key = b"\x0a\x08location"
    assert content.count(key) == 1
    for other in (b"\x0a\x88\x80\x00location", b"\x8a\x80\x00\x08location"):
        longer = content.replace(key, other)  # lengths around it are now wrong
        assert needs_outside(longer)
    assert needs_outside(b"location")
    assert needs_outside(b"\x3a\x7flocation")
    deep = b"EPContext"
    for _ in range(200):
        deep = b"\x0a" + _varint(len(deep) + 2) + b"\x2a" + _varint(len(deep)) + deep
    assert needs_outside(b"\x3a" + _varint(len(deep)) + deep)


def _varint(number: int) -> bytes:
    digits = []
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def wider(model: Any) -> None:
    """Let a piece give another number of columns."""
    node = helper.make_node("Concat", ["out", "out"], ["twice"], axis=1)
    model.graph.node.append(node)
    model.graph.output[0].name = "twice"


BAD_MODELS: dict[str, Callable[[], NDArray[np.uint8]]] = {
    "garbage": lambda: bytes_of(bytes(range(256)) * 4),
    "truncated": lambda: open_small("image").models[0][:-20],
    "page": lambda: bytes_of(b"<html>"),
    "whole": lambda: bytes_of(of_images()),
    "other": lambda: open_small("image").models[1],
    "wider": lambda: changed(wider),
    "strange": lambda: changed(
        lambda model: setattr(model.graph.node[0], "op_type", "Strange")
    ),
    "stranger": lambda: changed(
        lambda model: setattr(model.graph.node[0], "domain", "strange")
    ),
    "many": lambda: changed(lambda model: setattr(model, "ir_version", 99)),
}


@pytest.mark.parametrize("name", BAD_MODELS)
def test_another_model_is_refused_at_the_warm_up(
    tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    models = (BAD_MODELS[name](), *open_small("image").models[1:])
    file = saved(tmp_path / "x.pdx", replace(open_small("image"), models=models))
    Index.load(file)
    with pytest.raises(PolydomError, match="net") as caught:
        open_translator(file, [])
    assert len(str(caught.value)) < 400
    assert capfd.readouterr() == ("", "")


def without_specials() -> bytes:
    """Return a tokenizer on which the library panics, which is no Exception."""
    made = json.loads(tokenizer())
    made["post_processor"]["special_tokens"] = {}
    return json.dumps(made).encode()


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff\xfe", tokenizer()[:-9], without_specials()]
)
def test_another_tokenizer_is_refused_at_the_warm_up(
    tmp_path: Path, content: bytes
) -> None:
    own = replace(open_small("text"), tokenizer=np.frombuffer(content, np.uint8))
    file = saved(tmp_path / "x.pdx", own)
    with pytest.raises(PolydomError, match="net"):
        open_translator(file, [])


def test_a_changed_byte_is_refused_before_a_library_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = saved(tmp_path / "x.pdx", open_small("text"))
    monkeypatch.setattr("polydom.features.networks.session.import_library", None)
    monkeypatch.setattr("polydom.features.networks.inputs.import_library", None)
    content = file.read_bytes()
    for start in (b"[CLS]", open_small("text").models[0].tobytes()[:40]):
        at = content.index(start)
        file.write_bytes(content[:at] + b"\0" + content[at + 1 :])
        with pytest.raises(BadIndexFile, match="checksum"):
            Index.load(file)


def test_arrays_that_are_no_files_are_refused(tmp_path: Path) -> None:
    meta, arrays, _ = read_file(saved(tmp_path / "x.pdx", open_small("text")))
    own = "networks/0/0"
    for other in ({}, {own: arrays[own][np.newaxis]}, {own: arrays[own].view("|i1")}):
        kept = {name: array for name, array in arrays.items() if name != own}
        (tmp_path / "x.pdx").write_bytes(sealed(meta, kept | other))
        with pytest.raises(BadIndexFile, match=r"networks/0: "):
            Index.load(tmp_path / "x.pdx")
    (tmp_path / "x.pdx").write_bytes(
        sealed(meta, dict(arrays) | {own: arrays[own][:0]})
    )
    with pytest.raises(BadIndexFile, match="what computes feature"):
        Index.load(tmp_path / "x.pdx")
    more = {"networks/1/0": arrays[own]}
    (tmp_path / "x.pdx").write_bytes(sealed(meta, dict(arrays) | more))
    with pytest.raises(BadIndexFile, match="belongs to no network"):
        Index.load(tmp_path / "x.pdx")
